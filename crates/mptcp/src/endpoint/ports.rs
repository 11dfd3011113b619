//! The choice of local ports for connections that ask for none.

/// The first port if the driver supplies no ports (RFC 6335, section 6).
const FIRST_EPHEMERAL_PORT: u16 = 49152;

/// Supplies further ports.
type More = Box<dyn FnMut() -> Vec<u16> + Send>;

/// Assigns local ports in turn. A port can be in use towards several peers.
#[derive(Default)]
pub(super) struct Ports {
    /// Index of the port that is tried next.
    next: usize,
    /// The ports of the driver, or `None` for all ports from 49152 up.
    named: Option<(Vec<u16>, More)>,
    /// Whether the last call to `More` returned no ports.
    are_all_named: bool,
}

impl Ports {
    /// Creates a source of ports that calls `more` for its ports.
    pub(super) fn from(more: More) -> Self {
        Self {
            named: Some((Vec::new(), more)),
            ..Self::default()
        }
    }

    /// Returns the next port for which `is_free` returns true. If there is none and `More` supplies
    /// no free one either, returns the next port for which `is_reusable` returns true. Returns
    /// `None` if there is none of these.
    pub(super) fn next(
        &mut self,
        is_free: impl Fn(u16) -> bool,
        is_reusable: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        // If all ports are known, reusable ports count as free at once. This saves a second search
        // per connection, because a host that has run out of ports opens many connections.
        let has_run_out = self.named.is_none() || self.are_all_named;
        let known = match has_run_out {
            true => self.next_known(|port| is_free(port) || is_reusable(port)),
            false => self.next_known(&is_free),
        };
        known
            .or_else(|| self.add_more().then(|| self.next_known(&is_free)).flatten())
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

    /// Adds the ports that `More` supplies now, to be tried next. Returns whether there are any.
    fn add_more(&mut self) -> bool {
        let Some((known, more)) = &mut self.named else {
            return false;
        };
        let count = known.len();
        known.extend(more());
        self.are_all_named = known.len() == count;
        if !self.are_all_named {
            self.next = count;
        }
        !self.are_all_named
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
