//! The payload of connections, apart from the headers of units. Every byte follows from its offset,
//! so bytes that are lost, duplicated or misplaced are detected.

/// Bytes offered to or requested from a connection in one call.
pub(super) const BYTES_PER_CALL: u64 = 128 * 1024;

/// A prime, so that no displacement by a power of two stays hidden.
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

/// Returns `len` bytes, up to [`BYTES_PER_CALL`], from `offset` of a stream.
pub(super) fn pattern(offset: u64, len: usize) -> &'static [u8] {
    let first = (offset % PERIOD as u64) as usize;
    &BYTES[first..first + len]
}
