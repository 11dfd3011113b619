//! The known options of a TCP segment, and their layout.
//!
//! Options are emitted in Linux's order: MSS, SACK-permitted, timestamps, window scale, SACK
//! blocks, MPTCP options. Each ends on a multiple of four bytes. Padding comes before a TCP option
//! and after an MPTCP option:
//!
//! | segment | options |
//! |---|---|
//! | SYN | MSS, SACK-permitted, timestamps, NOP, window scale, MP_CAPABLE or MP_JOIN |
//! | data | NOP, NOP, timestamps, DSS, NOP, NOP |
//! | acknowledgment | NOP, NOP, timestamps, NOP, NOP, SACK, DSS |
//!
//! A received segment can have options that are packed more closely. To make sure that it can be
//! emitted again, options that do not fit with padding are emitted without.

use arrayvec::ArrayVec;

use super::MptcpOptions;
use super::fields::u32_at;
use super::mptcp_option::{self, MptcpOption, OptionError};
use super::options::{NO_OPERATION, OptionsIter};
use crate::seq::SeqNr;

/// The maximum length of a segment's options, in bytes.
pub const MAX_OPTIONS_LEN: usize = 40;

/// The options of a segment in serialized form.
pub type OptionBytes = ArrayVec<u8, MAX_OPTIONS_LEN>;

/// Maximum segment size (RFC 9293, section 3.2).
const MSS: u8 = 2;
/// Window scale (RFC 7323, section 2.2).
const WINDOW_SCALE: u8 = 3;
/// SACK-permitted (RFC 2018, section 2).
const SACK_PERMITTED: u8 = 4;
/// SACK (RFC 2018, section 3).
const SACK: u8 = 5;
/// Timestamps (RFC 7323, section 3.2).
const TIMESTAMPS: u8 = 8;

const MSS_LEN: usize = 4;
const WINDOW_SCALE_LEN: usize = 3;
const SACK_PERMITTED_LEN: usize = 2;
const TIMESTAMPS_LEN: usize = 10;
const SACK_BLOCK_LEN: usize = 8;
/// Options end on multiples of this many bytes.
const ALIGNMENT: usize = 4;

/// The timestamps option (RFC 7323, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the value of the sender's timestamp clock.
    pub value: u32,
    /// TSecr: the timestamp of the peer that the sender echoes.
    pub echo: u32,
}

/// A SACK block: received data from `start` up to but not including `end` (RFC 2018, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlock {
    /// The first sequence number of the block.
    pub start: SeqNr,
    /// The first sequence number after the block.
    pub end: SeqNr,
}

/// The SACK blocks of a segment. There are at most four, because the option space holds no more.
pub type SackBlocks = ArrayVec<SackBlock, 4>;

/// The TCP options of a segment, including those of MPTCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size that the sender accepts, in bytes (RFC 9293, section 3.7.1).
    pub mss: Option<u16>,
    /// Shift count of the window scale option, as received (RFC 7323, section 2.2).
    pub window_scale: Option<u8>,
    /// Whether the segment carries SACK-permitted: its sender can process SACK blocks (RFC 2018,
    /// section 2).
    pub sack_permitted: bool,
    /// Timestamps (RFC 7323, section 3.2).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks. The first block reports a duplicate (DSACK) if it is below the acknowledgment
    /// number or within the second block (RFC 2883).
    pub sack: SackBlocks,
    /// The MPTCP options.
    pub mptcp: MptcpOptions,
}

/// Counts the options of a received segment that were ignored, by reason.
///
/// RFC 9293, section 3.1, requires unknown options (MUST-6) and malformed options (MUST-7) to be
/// ignored; RFC 8684, section 3, requires the same for malformed MPTCP options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredOptions {
    /// Number of options with an unknown kind, or an unknown subtype of MPTCP.
    pub unknown: u8,
    /// Number of options with an invalid length or form. An option with an impossible length hides
    /// the options after it, which are lost and not counted.
    pub malformed: u8,
    /// Number of repeated TCP options, and of MPTCP options beyond the capacity of
    /// [`MptcpOptions`].
    pub surplus: u8,
}

impl IgnoredOptions {
    /// Returns whether no option was ignored.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl TcpOptions {
    /// Parses `options`. Returns the known options, and the numbers of ignored ones. If an option
    /// occurs more than once, the first occurrence is kept.
    pub fn parse(mut options: OptionsIter<'_>) -> (Self, IgnoredOptions) {
        let mut parsed = Self::default();
        let mut ignored = IgnoredOptions::default();
        for (kind, content) in options.by_ref() {
            match parsed.read_option(kind, content) {
                Ok(()) => {}
                Err(OptionError::Unknown) => ignored.unknown += 1,
                Err(OptionError::Malformed) => ignored.malformed += 1,
                Err(OptionError::Surplus) => ignored.surplus += 1,
            }
        }
        ignored.malformed += u8::from(options.is_malformed());
        (parsed, ignored)
    }

    fn read_option(&mut self, kind: u8, content: &[u8]) -> Result<(), OptionError> {
        match kind {
            MSS => set(&mut self.mss, exactly(content).map(u16::from_be_bytes)),
            WINDOW_SCALE => set(
                &mut self.window_scale,
                exactly(content).map(|[shift]| shift),
            ),
            TIMESTAMPS => set(
                &mut self.timestamps,
                exactly(content).map(Timestamps::of_octets),
            ),
            SACK_PERMITTED => {
                let mut permitted = self.sack_permitted.then_some(());
                set(&mut permitted, exactly(content).map(|[]| ()))?;
                self.sack_permitted = true;
                Ok(())
            }
            SACK => self.read_sack(content),
            mptcp_option::KIND => {
                let option = MptcpOption::parse(content)?;
                self.mptcp.try_push(option)
            }
            _ => Err(OptionError::Unknown),
        }
    }

    fn read_sack(&mut self, content: &[u8]) -> Result<(), OptionError> {
        let (blocks, rest) = content.as_chunks::<SACK_BLOCK_LEN>();
        if blocks.is_empty() || !rest.is_empty() {
            return Err(OptionError::Malformed);
        }
        if !self.sack.is_empty() {
            return Err(OptionError::Surplus);
        }
        for octets in blocks {
            // Four blocks fill the option space, so the list has room for all of them.
            self.sack.push(SackBlock::of_octets(*octets));
        }
        Ok(())
    }

    /// Returns the length of the options in bytes, with padding. Exceeds [`MAX_OPTIONS_LEN`] if the
    /// options do not fit.
    ///
    /// Senders that lay out options as Linux does use this length to check whether they fit.
    #[inline]
    pub fn aligned_len(&self) -> usize {
        let mss = if self.mss.is_some() { MSS_LEN } else { 0 };
        let window_scale = if self.window_scale.is_some() { 4 } else { 0 };
        // With timestamps, SACK-permitted takes the place of their padding.
        let timestamps = match (self.sack_permitted, self.timestamps) {
            (_, Some(_)) => 12,
            (true, None) => 4,
            (false, None) => 0,
        };
        let sack = match self.sack.len() {
            0 => 0,
            blocks => 4 + SACK_BLOCK_LEN * blocks,
        };
        let mptcp = self
            .mptcp
            .iter()
            .map(|option| option.wire_len().next_multiple_of(ALIGNMENT));
        mss + window_scale + timestamps + sack + mptcp.sum::<usize>()
    }

    /// Returns the length of the options in bytes, as [`TcpOptions::emit`] serializes them. Exceeds
    /// [`MAX_OPTIONS_LEN`] if the options do not fit.
    ///
    /// The length includes padding if the options fit with it. Otherwise the options are packed.
    #[inline]
    pub fn wire_len(&self) -> usize {
        match self.aligned_len() {
            len if len <= MAX_OPTIONS_LEN => len,
            _ => self.packed_len().next_multiple_of(ALIGNMENT),
        }
    }

    fn packed_len(&self) -> usize {
        let mss = if self.mss.is_some() { MSS_LEN } else { 0 };
        let window_scale = self.window_scale.map_or(0, |_| WINDOW_SCALE_LEN);
        let timestamps = self.timestamps.map_or(0, |_| TIMESTAMPS_LEN);
        let sack_permitted = SACK_PERMITTED_LEN * usize::from(self.sack_permitted);
        let sack = match self.sack.len() {
            0 => 0,
            blocks => 2 + SACK_BLOCK_LEN * blocks,
        };
        let mptcp = self.mptcp.iter().map(MptcpOption::wire_len);
        mss + window_scale + timestamps + sack_permitted + sack + mptcp.sum::<usize>()
    }

    /// Serializes the options. The length of the result is a multiple of four bytes.
    ///
    /// # Panics
    /// Panics if the options exceed [`MAX_OPTIONS_LEN`] bytes.
    pub fn emit(&self) -> OptionBytes {
        let mut to = OptionBytes::new();
        let is_aligned = self.aligned_len() <= MAX_OPTIONS_LEN;
        self.emit_tcp(is_aligned, &mut to);
        for option in &self.mptcp {
            option.emit(&mut to);
            if is_aligned {
                pad(0, &mut to);
            }
        }
        pad(0, &mut to);
        to
    }

    fn emit_tcp(&self, is_aligned: bool, to: &mut OptionBytes) {
        let pad_before = |len, to: &mut OptionBytes| {
            if is_aligned {
                pad(len, to);
            }
        };
        if let Some(mss) = self.mss {
            put(&[MSS, MSS_LEN as u8], to);
            put(&mss.to_be_bytes(), to);
        }
        if self.sack_permitted {
            if self.timestamps.is_none() {
                pad_before(SACK_PERMITTED_LEN, to);
            }
            put(&[SACK_PERMITTED, SACK_PERMITTED_LEN as u8], to);
        }
        if let Some(timestamps) = self.timestamps {
            pad_before(TIMESTAMPS_LEN, to);
            put(&[TIMESTAMPS, TIMESTAMPS_LEN as u8], to);
            put(&timestamps.octets(), to);
        }
        if let Some(shift) = self.window_scale {
            pad_before(WINDOW_SCALE_LEN, to);
            put(&[WINDOW_SCALE, WINDOW_SCALE_LEN as u8, shift], to);
        }
        if !self.sack.is_empty() {
            let len = 2 + SACK_BLOCK_LEN * self.sack.len();
            pad_before(len, to);
            put(&[SACK, len as u8], to);
            for block in &self.sack {
                put(&block.octets(), to);
            }
        }
    }
}

impl Timestamps {
    fn of_octets(octets: [u8; 8]) -> Self {
        Self {
            value: u32_at(&octets, 0),
            echo: u32_at(&octets, 4),
        }
    }

    fn octets(self) -> [u8; 8] {
        pair_octets(self.value, self.echo)
    }
}

impl SackBlock {
    fn of_octets(octets: [u8; SACK_BLOCK_LEN]) -> Self {
        Self {
            start: SeqNr(u32_at(&octets, 0)),
            end: SeqNr(u32_at(&octets, 4)),
        }
    }

    fn octets(self) -> [u8; SACK_BLOCK_LEN] {
        pair_octets(self.start.0, self.end.0)
    }
}

fn pair_octets(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) << 32 | u64::from(second)).to_be_bytes()
}

/// Returns the value of an option with a fixed length.
fn exactly<const LEN: usize>(content: &[u8]) -> Result<[u8; LEN], OptionError> {
    content.try_into().map_err(|_| OptionError::Malformed)
}

fn set<T>(field: &mut Option<T>, value: Result<T, OptionError>) -> Result<(), OptionError> {
    let value = value?;
    if field.is_some() {
        return Err(OptionError::Surplus);
    }
    *field = Some(value);
    Ok(())
}

/// Appends `bytes` of an option to `to`.
///
/// # Panics
/// Panics if `to` has no space for them.
#[inline]
pub(super) fn put(bytes: &[u8], to: &mut OptionBytes) {
    to.try_extend_from_slice(bytes)
        .expect("at most 40 bytes of options");
}

/// Pads so that an option of `len` bytes ends aligned.
fn pad(len: usize, to: &mut OptionBytes) {
    while !(to.len() + len).is_multiple_of(ALIGNMENT) {
        put(&[NO_OPERATION], to);
    }
}
