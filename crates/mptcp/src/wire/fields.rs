//! Big-endian fields of headers and options.

/// Returns the octets of the field at offset `at`. Headers are arrays and offsets are constants, so
/// the index is never out of bounds.
pub(super) fn octets_at<const LEN: usize, const HEADER_LEN: usize>(
    header: &[u8; HEADER_LEN],
    at: usize,
) -> [u8; LEN] {
    std::array::from_fn(|index| header[at + index])
}

pub(super) fn u16_at<const HEADER_LEN: usize>(header: &[u8; HEADER_LEN], at: usize) -> u16 {
    u16::from_be_bytes(octets_at(header, at))
}

pub(super) fn u32_at<const HEADER_LEN: usize>(header: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_be_bytes(octets_at(header, at))
}

/// Reads fields from the front of a byte slice, such as the body of an option. Reading returns
/// `None` if too few bytes are left.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn octets<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        let (octets, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*octets)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.octets().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.octets().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.octets().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.octets().map(u64::from_be_bytes)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
