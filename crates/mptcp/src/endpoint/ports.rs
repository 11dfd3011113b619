//! Where connections start from when no port is asked for.

/// The first of them, where nobody names others (RFC 6335, section 6).
const FIRST_EPHEMERAL_PORT: u16 = 49152;

/// Names further ports.
type More = Box<dyn FnMut() -> Vec<u16> + Send>;

/// Ports that are taken in turn. One may be in use towards many peers.
#[derive(Default)]
pub(super) struct Ports {
    /// Place of the one that is tried next.
    next: usize,
    /// `None` for all from 49152 on.
    named: Option<(Vec<u16>, More)>,
    /// Nobody had further ones to name when that was last asked.
    are_all_named: bool,
}

impl Ports {
    /// Those that `more` names.
    pub(super) fn from(more: More) -> Self {
        Self {
            named: Some((Vec::new(), more)),
            ..Self::default()
        }
    }

    /// The next one that is free; where none is, nor is there a further one, the next of those that
    /// may be used again.
    pub(super) fn next(
        &mut self,
        is_free: impl Fn(u16) -> bool,
        is_reusable: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        // Those in use are looked at once: whoever has run out of ports opens many connections.
        let has_run_out = self.named.is_none() || self.are_all_named;
        let known = match has_run_out {
            true => self.next_known(|port| is_free(port) || is_reusable(port)),
            false => self.next_known(&is_free),
        };
        known
            .or_else(|| self.further().filter(|port| is_free(*port)))
            .or_else(|| self.next_known(is_reusable))
    }

    fn next_known(&mut self, is_wanted: impl Fn(u16) -> bool) -> Option<u16> {
        let count = self.count();
        for _ in 0..count {
            let port = self.port(self.next);
            self.next = (self.next + 1) % count;
            if is_wanted(port) {
                return Some(port);
            }
        }
        None
    }

    /// The first of those that are named now.
    fn further(&mut self) -> Option<u16> {
        let (known, more) = self.named.as_mut()?;
        let count = known.len();
        known.extend(more());
        self.are_all_named = known.len() == count;
        let first = *known.get(count)?;
        self.next = (count + 1) % known.len();
        Some(first)
    }

    fn count(&self) -> usize {
        match &self.named {
            Some((known, _)) => known.len(),
            None => usize::from(u16::MAX - FIRST_EPHEMERAL_PORT) + 1,
        }
    }

    fn port(&self, place: usize) -> u16 {
        match &self.named {
            Some((known, _)) => known[place],
            None => FIRST_EPHEMERAL_PORT + place as u16,
        }
    }
}
