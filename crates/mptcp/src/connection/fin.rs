//! The ends of both streams: DATA_FIN (RFC 8684, section 3.3.3). It takes one number, after the last byte.

/// Where the streams end, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fins {
    local: Option<u64>,
    is_local_acked: bool,
    remote: Option<u64>,
}

impl Fins {
    /// Our stream ends before `offset`.
    pub(super) fn end_local(&mut self, offset: u64) {
        self.local.get_or_insert(offset);
    }

    /// Our DATA_FIN, as long as the peer has not acknowledged it.
    pub(super) fn local_to_send(&self) -> Option<u64> {
        self.local.filter(|_| !self.is_local_acked)
    }

    pub(super) fn is_local_acked(&self) -> bool {
        self.is_local_acked
    }

    /// The peer has everything before `offset`, DATA_FIN counted; whether it is news that it has the DATA_FIN.
    pub(super) fn acknowledge_local(&mut self, offset: u64) -> bool {
        let is_acked = self.local.is_some_and(|fin| offset == fin + 1);
        let is_new = is_acked && !self.is_local_acked;
        self.is_local_acked |= is_acked;
        is_new
    }

    /// The peer's stream ends before `offset`. The first that says so is believed.
    pub(super) fn end_remote(&mut self, offset: u64) {
        self.remote.get_or_insert(offset);
    }

    /// Whether all of the peer's stream is there, given the first byte that is missing.
    pub(super) fn is_remote_reached(&self, receive_next: u64) -> bool {
        self.remote.is_some_and(|fin| receive_next >= fin)
    }
}
