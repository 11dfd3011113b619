//! Payload of segments: bytes in memory, or bytes of a generated stream that can be computed at any
//! offset.
//!
//! The simulator sends [`Payload::stream`]. Nothing is stored or copied, but every byte has a
//! defined value. Payload can therefore be checksummed, changed on the path, written to a capture
//! and checked for corruption.

use std::ops::Range;
use std::sync::Arc;

/// A sequence of bytes that is cheap to clone and to slice. Payloads are equal if their bytes are.
#[derive(Clone, Debug)]
pub struct Payload(Rope);

/// The maximum length of a payload in bytes.
pub const MAX_LEN: usize = u32::MAX as usize;

/// Limits of an out-of-order queue: a base number of pieces, plus one piece per this many bytes of
/// the window.
const MIN_PIECES: u64 = 256;
const WINDOW_BYTES_PER_PIECE: u64 = 256;

/// Returns how many pieces an out-of-order queue holds for a window of `window_bytes`. The limit
/// keeps tiny pieces from using much more memory than full segments.
pub(crate) fn most_pieces(window_bytes: u64) -> usize {
    (MIN_PIECES + window_bytes / WINDOW_BYTES_PER_PIECE) as usize
}

/// Bytes of a stream that are generated at once.
const STREAM_CHUNK_LEN: usize = 512;

#[derive(Clone, Debug)]
enum Rope {
    One(Piece),
    /// At least two pieces, none of them empty.
    Many(Vec<Piece>),
}

#[derive(Clone, Debug)]
enum Piece {
    Stream {
        offset: u64,
        seed: u32,
        len: u32,
    },
    Literal {
        bytes: Arc<[u8]>,
        start: u32,
        len: u32,
    },
}

impl Payload {
    /// A payload without bytes.
    pub const EMPTY: Self = Self(Rope::One(Piece::Stream {
        offset: 0,
        seed: 0,
        len: 0,
    }));

    /// Creates a payload of `len` bytes that are computed from `seed`: the bytes from `offset` of
    /// an endless stream. The same `seed` and `offset` always give the same bytes.
    pub fn stream(seed: u32, offset: u64, len: u32) -> Self {
        Self(Rope::One(Piece::Stream { offset, seed, len }))
    }

    /// Creates a payload that holds `bytes` in memory.
    ///
    /// # Panics
    /// Panics if `bytes` is longer than [`MAX_LEN`].
    pub fn literal(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let all = 0..bytes.len();
        Self::shared(&bytes, all)
    }

    /// Creates a payload that shares `range` of `bytes` without copying. An empty payload keeps no
    /// reference to `bytes`.
    ///
    /// # Panics
    /// Panics if the range is out of bounds or ends beyond [`MAX_LEN`].
    pub fn shared(bytes: &Arc<[u8]>, range: Range<usize>) -> Self {
        let len = bytes[range.clone()].len() as u32;
        assert!(range.end <= MAX_LEN, "at most MAX_LEN bytes");
        if len == 0 {
            return Self::EMPTY;
        }
        let start = range.start as u32;
        let bytes = Arc::clone(bytes);
        Self(Rope::One(Piece::Literal { bytes, start, len }))
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u32 {
        match &self.0 {
            Rope::One(piece) => piece.len(),
            Rope::Many(pieces) => pieces.iter().map(Piece::len).sum(),
        }
    }

    /// Returns whether the payload has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the part of the payload in `range`, in bytes from its start. No bytes are copied.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
    pub fn slice(&self, range: Range<u32>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        let len = range.end - range.start;
        match &self.0 {
            _ if len == 0 => Self::EMPTY,
            Rope::One(piece) => Self(Rope::One(piece.slice(range.start, len))),
            Rope::Many(pieces) => Self::slice_of_many(pieces, range.start, len),
        }
    }

    fn slice_of_many(pieces: &[Piece], mut skip: u32, mut left: u32) -> Self {
        let mut taken = Self::EMPTY;
        for piece in pieces {
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let len = left.min(piece.len() - skip);
            taken.push(piece.slice(skip, len));
            (skip, left) = (0, left - len);
            if left == 0 {
                break;
            }
        }
        taken
    }

    /// Removes the first `bytes` bytes.
    ///
    /// # Panics
    /// Panics if the payload is shorter than `bytes`.
    pub fn cut_front(&mut self, bytes: u32) {
        match &mut self.0 {
            Rope::One(piece) => piece.cut_front(bytes),
            Rope::Many(_) => *self = self.slice(bytes..self.len()),
        }
    }

    /// Appends `next` if that needs no memory: if both are adjacent parts of the same stream or of
    /// the same memory. Returns whether `next` was appended.
    pub(crate) fn extend_in_place(&mut self, next: &Self) -> bool {
        match (&mut self.0, &next.0) {
            (Rope::One(piece), Rope::One(next)) => piece.extend(next),
            _ => false,
        }
    }

    /// Appends `next`. If the two are not adjacent, the bytes of both are copied into new memory,
    /// because many small pieces would use far more memory than their bytes.
    pub(crate) fn unite(&mut self, next: &Self) {
        if !self.extend_in_place(next) {
            let mut bytes = self.to_vec();
            next.append_to(&mut bytes);
            *self = Self::literal(bytes);
        }
    }

    /// Appends the bytes of `other` without copying them. Adjacent pieces are merged.
    pub fn append(&mut self, other: Self) {
        match other.0 {
            Rope::One(piece) => self.push(piece),
            Rope::Many(pieces) => pieces.into_iter().for_each(|piece| self.push(piece)),
        }
    }

    /// Returns the byte at `index`.
    ///
    /// # Panics
    /// Panics if `index` is out of bounds.
    pub fn byte(&self, index: u32) -> u8 {
        let mut byte = [0];
        self.slice(index..index + 1).copy_to(&mut byte);
        byte[0]
    }

    /// Copies all bytes to `to`.
    ///
    /// # Panics
    /// Panics if `to` is not [`Payload::len`] bytes long.
    pub fn copy_to(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.len() as usize, "as long as the payload");
        let mut rest = to;
        for piece in self.pieces() {
            let (to, behind) = rest.split_at_mut(piece.len() as usize);
            piece.copy_to(to);
            rest = behind;
        }
    }

    /// Calls `take` with consecutive parts of the payload until all bytes have been passed. Bytes
    /// in memory are not copied. Bytes of a generated stream come in parts of at most 512 bytes.
    pub fn for_each_chunk(&self, mut take: impl FnMut(&[u8])) {
        for piece in self.pieces() {
            piece.for_each_chunk(&mut take);
        }
    }

    /// Appends all bytes to `to`.
    pub fn append_to(&self, to: &mut Vec<u8>) {
        let len = self.len() as usize;
        if len == 0 {
            return;
        }
        to.reserve(len);
        for piece in self.pieces() {
            piece.append_to(to);
        }
    }

    /// Returns a copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }

    fn pieces(&self) -> &[Piece] {
        match &self.0 {
            Rope::One(piece) => std::slice::from_ref(piece),
            Rope::Many(pieces) => pieces,
        }
    }

    fn push(&mut self, piece: Piece) {
        if piece.len() == 0 {
            return;
        }
        let last = match &mut self.0 {
            Rope::One(last) => last,
            Rope::Many(pieces) => pieces.last_mut().expect("at least two pieces"),
        };
        if last.len() == 0 {
            *last = piece;
        } else if !last.extend(&piece) {
            match &mut self.0 {
                Rope::One(last) => self.0 = Rope::Many(vec![last.clone(), piece]),
                Rope::Many(pieces) => pieces.push(piece),
            }
        }
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Rope::One(one), Rope::One(another)) if one.is_same(another) => true,
            _ => self.len() == other.len() && self.to_vec() == other.to_vec(),
        }
    }
}

impl Eq for Payload {}

impl Piece {
    fn len(&self) -> u32 {
        match self {
            Self::Stream { len, .. } | Self::Literal { len, .. } => *len,
        }
    }

    fn slice(&self, from: u32, len: u32) -> Self {
        match self {
            Self::Stream { offset, seed, .. } => Self::Stream {
                offset: offset + u64::from(from),
                seed: *seed,
                len,
            },
            Self::Literal { bytes, start, .. } => Self::Literal {
                bytes: Arc::clone(bytes),
                start: start + from,
                len,
            },
        }
    }

    fn cut_front(&mut self, bytes: u32) {
        assert!(bytes <= self.len(), "at most all of it");
        match self {
            Self::Stream { offset, len, .. } => {
                *offset += u64::from(bytes);
                *len -= bytes;
            }
            Self::Literal { start, len, .. } => {
                *start += bytes;
                *len -= bytes;
            }
        }
    }

    /// Appends the following piece if it is adjacent. Returns whether it was appended.
    fn extend(&mut self, next: &Self) -> bool {
        match (self, next) {
            (
                Self::Stream { offset, seed, len },
                Self::Stream {
                    offset: next_offset,
                    seed: next_seed,
                    len: next_len,
                },
            ) if seed == next_seed && *offset + u64::from(*len) == *next_offset => {
                match len.checked_add(*next_len) {
                    Some(sum) => *len = sum,
                    None => return false,
                }
                true
            }
            (
                Self::Literal { bytes, start, len },
                Self::Literal {
                    bytes: next_bytes,
                    start: next_start,
                    len: next_len,
                },
            ) if Arc::ptr_eq(bytes, next_bytes) && *start + *len == *next_start => {
                *len += next_len;
                true
            }
            _ => false,
        }
    }

    /// Returns whether both are the same range of the same stream or memory.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Stream { offset, seed, len },
                Self::Stream {
                    offset: other_offset,
                    seed: other_seed,
                    len: other_len,
                },
            ) => (offset, seed, len) == (other_offset, other_seed, other_len),
            (
                Self::Literal { bytes, start, len },
                Self::Literal {
                    bytes: other_bytes,
                    start: other_start,
                    len: other_len,
                },
            ) => Arc::ptr_eq(bytes, other_bytes) && (start, len) == (other_start, other_len),
            _ => false,
        }
    }

    fn copy_to(&self, to: &mut [u8]) {
        match self {
            Self::Stream { offset, seed, .. } => fill_from_stream(*seed, *offset, to),
            Self::Literal { .. } => to.copy_from_slice(self.literal()),
        }
    }

    fn append_to(&self, to: &mut Vec<u8>) {
        match self {
            Self::Stream { len, .. } => {
                let start = to.len();
                to.resize(start + *len as usize, 0);
                self.copy_to(&mut to[start..]);
            }
            Self::Literal { .. } => to.extend_from_slice(self.literal()),
        }
    }

    /// Returns the bytes in memory; none if the piece belongs to a stream.
    fn literal(&self) -> &[u8] {
        match self {
            Self::Stream { .. } => &[],
            Self::Literal { bytes, start, len } => {
                &bytes[*start as usize..(*start + *len) as usize]
            }
        }
    }

    fn for_each_chunk(&self, take: &mut impl FnMut(&[u8])) {
        match self {
            Self::Stream { len: 0, .. } => {}
            Self::Stream { offset, seed, len } => {
                let mut chunk = [0; STREAM_CHUNK_LEN];
                for done in (0..*len).step_by(STREAM_CHUNK_LEN) {
                    let chunk = &mut chunk[..STREAM_CHUNK_LEN.min((len - done) as usize)];
                    fill_from_stream(*seed, offset + u64::from(done), chunk);
                    take(chunk);
                }
            }
            Self::Literal { .. } => take(self.literal()),
        }
    }
}

/// Writes the bytes from `offset` of the stream with `seed` to `to`.
fn fill_from_stream(seed: u32, offset: u64, to: &mut [u8]) {
    let before = (offset.wrapping_neg() % 8) as usize;
    let (first, rest) = to.split_at_mut(before.min(to.len()));
    let (words, last) = rest.as_chunks_mut();
    let mut index = offset / 8;
    if !first.is_empty() {
        let from = (offset % 8) as usize;
        first.copy_from_slice(&stream_word(seed, index)[from..from + first.len()]);
        index += 1;
    }
    for word in words {
        *word = stream_word(seed, index);
        index += 1;
    }
    last.copy_from_slice(&stream_word(seed, index)[..last.len()]);
}

/// Returns eight bytes of a stream: the output function of SplitMix64 (Steele, Lea and Flood,
/// OOPSLA 2014).
fn stream_word(seed: u32, index: u64) -> [u8; 8] {
    let counter = index.wrapping_add(u64::from(seed) << 32);
    let mut word = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn payload() -> impl Strategy<Value = Payload> {
        let stream = (any::<u32>(), 0..1_000_000u64, 0..40u32)
            .prop_map(|(seed, offset, len)| Payload::stream(seed, offset, len));
        let literal = proptest::collection::vec(any::<u8>(), 0..40).prop_map(Payload::literal);
        proptest::collection::vec(prop_oneof![stream, literal], 0..5).prop_map(|parts| {
            let mut whole = Payload::EMPTY;
            parts.into_iter().for_each(|part| whole.append(part));
            whole
        })
    }

    proptest! {
        #[test]
        fn slices_show_the_same_bytes(whole in payload(), from in 0..200u32, len in 0..200u32) {
            let from = from.min(whole.len());
            let to = (from + len).min(whole.len());
            let bytes = whole.to_vec();
            prop_assert_eq!(whole.slice(from..to).to_vec(), &bytes[from as usize..to as usize]);
            prop_assert_eq!(&Payload::literal(bytes), &whole);
        }

        #[test]
        fn parts_put_together_again_are_the_whole(whole in payload(), at in 0..200u32) {
            let at = at.min(whole.len());
            let mut parts = whole.slice(0..at);
            parts.append(whole.slice(at..whole.len()));
            prop_assert_eq!(&parts, &whole);
            prop_assert_eq!(parts.pieces().len(), whole.pieces().len());
        }
    }

    #[test]
    fn a_payload_is_small() {
        assert!(size_of::<Payload>() <= 32);
    }
}
