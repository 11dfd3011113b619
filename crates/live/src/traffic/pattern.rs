//! What connections carry besides the headers of units: every byte follows from its place, so that one that is lost, doubled or
//! put elsewhere is seen.

/// Offered to a connection, or asked of it, in one call.
pub(super) const BYTES_PER_CALL: u64 = 128 * 1024;

/// A prime, so that no power of two hides a displacement.
const PERIOD: usize = 251;

static BYTES: [u8; BYTES_PER_CALL as usize + PERIOD] = {
    let mut bytes = [0; BYTES_PER_CALL as usize + PERIOD];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (at % PERIOD) as u8;
        at += 1;
    }
    bytes
};

/// Up to [`BYTES_PER_CALL`] bytes from `offset` of a stream.
pub(super) fn pattern(offset: u64, len: usize) -> &'static [u8] {
    let first = (offset % PERIOD as u64) as usize;
    &BYTES[first..first + len]
}
