//! The DSS option (RFC 8684, section 3.3). Almost every segment carries it, so its value is packed.

use super::emit::put_checksum;
use super::parse::unless_empty;
use super::two_if;
use crate::seq::DataSeq;
use crate::wire::fields::Reader;
use crate::wire::tcp_options::{OptionBytes, put};

/// Flags of a DSS (RFC 8684, section 3.3).
const ACK_PRESENT: u8 = 0x01;
const ACK_LONG: u8 = 0x02;
const MAPPING_PRESENT: u8 = 0x04;
const SEQ_LONG: u8 = 0x08;
const FIN: u8 = 0x10;

/// The DSS option: a DATA_ACK, the mapping of the segment's payload, or both (RFC 8684, section
/// 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dss {
    /// `data_ack` and the fields of the mapping are zero if their form is `Absent`.
    data_ack: u64,
    data_seq: u64,
    subflow_seq: u32,
    len: u16,
    checksum: u16,
    ack_form: Form,
    mapping_form: Form,
    has_checksum: bool,
    data_fin: bool,
}

/// The encoding of a DSN or a DATA_ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Absent,
    Short,
    Long,
}

/// A DSN or a DATA_ACK as sent in a DSS: its lower 32 bits, or all 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataNumber {
    /// The lower 32 bits.
    Short(u32),
    /// All 64 bits.
    Long(DataSeq),
}

/// Maps bytes of a subflow to the byte stream of the connection (RFC 8684, section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// DSN of the first byte.
    pub data_seq: DataNumber,
    /// SSN of the first byte, relative to the initial sequence number of the subflow: the first
    /// byte after the SYN is 1. It is 0 if only a DATA_FIN is mapped.
    pub subflow_seq: u32,
    /// Length in bytes, including the DATA_FIN. 0 is the infinite mapping (RFC 8684, section 3.7).
    pub len: u16,
    /// Checksum of the mapping, if the connection uses checksums.
    pub checksum: Option<u16>,
}

impl Dss {
    /// Sets the DATA_ACK, or removes it with `None`.
    #[inline]
    pub fn with_data_ack(mut self, data_ack: Option<DataNumber>) -> Self {
        (self.ack_form, self.data_ack) = Form::split(data_ack);
        self
    }

    /// Sets the mapping, or removes it with `None`.
    #[inline]
    pub fn with_mapping(mut self, mapping: Option<Mapping>) -> Self {
        (self.mapping_form, self.data_seq) = Form::split(mapping.map(|mapping| mapping.data_seq));
        self.subflow_seq = mapping.map_or(0, |mapping| mapping.subflow_seq);
        self.len = mapping.map_or(0, |mapping| mapping.len);
        let checksum = mapping.and_then(|mapping| mapping.checksum);
        self.has_checksum = checksum.is_some();
        self.checksum = checksum.unwrap_or(0);
        self
    }

    /// Sets or clears the flag DATA_FIN. If the flag is set, the mapping covers the end of the byte
    /// stream.
    #[inline]
    pub fn with_data_fin(mut self, data_fin: bool) -> Self {
        self.data_fin = data_fin;
        self
    }

    /// Returns whether the flag DATA_FIN is set.
    #[inline]
    pub fn data_fin(&self) -> bool {
        self.data_fin
    }

    /// Returns the DATA_ACK, or `None` if the option has none.
    #[inline]
    pub fn data_ack(&self) -> Option<DataNumber> {
        self.ack_form.join(self.data_ack)
    }

    /// Returns the mapping, or `None` if the option has none.
    #[inline]
    pub fn mapping(&self) -> Option<Mapping> {
        let data_seq = self.mapping_form.join(self.data_seq)?;
        Some(Mapping {
            data_seq,
            subflow_seq: self.subflow_seq,
            len: self.len,
            checksum: self.has_checksum.then_some(self.checksum),
        })
    }

    pub(in crate::wire) fn wire_len(&self) -> usize {
        let mapping = match self.mapping_form {
            Form::Absent => 0,
            form => form.wire_len() + 6 + two_if(self.has_checksum),
        };
        4 + self.ack_form.wire_len() + mapping
    }

    /// Parses the bytes after the subtype.
    #[inline]
    pub(in crate::wire) fn parse(body: &mut Reader<'_>) -> Option<Self> {
        let flags = body.u8()?;
        let has = |flag| flags & flag != 0;
        let mut signal = Self::default().with_data_fin(has(FIN));
        if has(ACK_PRESENT) {
            signal = signal.with_data_ack(Some(DataNumber::parse(has(ACK_LONG), body)?));
        }
        if has(MAPPING_PRESENT) {
            signal = signal.with_mapping(Some(Mapping::parse(has(SEQ_LONG), body)?));
        }
        Some(signal)
    }

    /// Appends the bytes after the subtype.
    #[inline]
    pub(in crate::wire) fn emit(&self, to: &mut OptionBytes) {
        put(&[self.flags()], to);
        self.ack_form.emit(self.data_ack, to);
        if self.mapping_form == Form::Absent {
            return;
        }
        self.mapping_form.emit(self.data_seq, to);
        let [a, b, c, d] = self.subflow_seq.to_be_bytes();
        let [e, f] = self.len.to_be_bytes();
        put(&[a, b, c, d, e, f], to);
        put_checksum(self.has_checksum.then_some(self.checksum), to);
    }

    fn flags(&self) -> u8 {
        let ack = match self.ack_form {
            Form::Absent => 0,
            Form::Short => ACK_PRESENT,
            Form::Long => ACK_PRESENT | ACK_LONG,
        };
        let mapping = match self.mapping_form {
            Form::Absent => 0,
            Form::Short => MAPPING_PRESENT,
            Form::Long => MAPPING_PRESENT | SEQ_LONG,
        };
        ack | mapping | if self.data_fin { FIN } else { 0 }
    }
}

impl Form {
    #[inline]
    fn split(number: Option<DataNumber>) -> (Self, u64) {
        match number {
            None => (Self::Absent, 0),
            Some(DataNumber::Short(low)) => (Self::Short, u64::from(low)),
            Some(DataNumber::Long(number)) => (Self::Long, number.0),
        }
    }

    #[inline]
    fn join(self, number: u64) -> Option<DataNumber> {
        match self {
            Self::Absent => None,
            Self::Short => Some(DataNumber::Short(number as u32)),
            Self::Long => Some(DataNumber::Long(DataSeq(number))),
        }
    }

    fn wire_len(self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Short => 4,
            Self::Long => 8,
        }
    }

    #[inline]
    fn emit(self, number: u64, to: &mut OptionBytes) {
        match self {
            Self::Absent => {}
            Self::Short => put(&(number as u32).to_be_bytes(), to),
            Self::Long => put(&number.to_be_bytes(), to),
        }
    }
}

impl Mapping {
    #[inline]
    fn parse(is_long: bool, body: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            data_seq: DataNumber::parse(is_long, body)?,
            subflow_seq: body.u32()?,
            len: body.u16()?,
            checksum: unless_empty(body, Reader::u16)?,
        })
    }
}

impl DataNumber {
    #[inline]
    fn parse(is_long: bool, body: &mut Reader<'_>) -> Option<Self> {
        if is_long {
            body.u64().map(|number| Self::Long(DataSeq(number)))
        } else {
            body.u32().map(Self::Short)
        }
    }

    /// Returns the full 64-bit number. For a short form, this is the number closest to `near` with
    /// the same lower 32 bits.
    pub fn expand(self, near: DataSeq) -> DataSeq {
        match self {
            Self::Short(low) => near.expand(low),
            Self::Long(number) => number,
        }
    }
}
