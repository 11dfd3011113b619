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
}

impl Ports {
    /// Those that `more` names.
    pub(super) fn from(more: More) -> Self {
        Self {
            next: 0,
            named: Some((Vec::new(), more)),
        }
    }

    /// The next one that is free, if any is.
    pub(super) fn next(&mut self, is_free: impl Fn(u16) -> bool) -> Option<u16> {
        let count = self.count();
        for _ in 0..count {
            let port = self.port(self.next);
            self.next = (self.next + 1) % count;
            if is_free(port) {
                return Some(port);
            }
        }
        let (known, more) = self.named.as_mut()?;
        known.extend(more());
        let first = *known.get(count)?;
        self.next = (count + 1) % known.len();
        is_free(first).then_some(first)
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
