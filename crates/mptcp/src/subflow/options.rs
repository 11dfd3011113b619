//! What the connection says about the segments of a subflow.

use crate::payload::Payload;
use crate::wire::MptcpOptions;

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// The first packet of the opener.
    Syn,
    /// The answer to it.
    SynAck,
    /// Nothing but an acknowledgment: the third packet too.
    Ack,
    /// Data, with or without FIN.
    Data,
    /// FIN without data.
    Fin,
    /// RST.
    Reset,
}

/// A segment that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// What it is for.
    pub kind: SegmentKind,
    /// Its first sequence number, relative to the initial one.
    pub subflow_seq: u32,
    /// Where its payload belongs in the stream of the connection; nothing without payload.
    pub offset: Option<u64>,
    /// Its payload.
    pub payload: &'a Payload,
    /// Whether it was sent before.
    pub is_retransmission: bool,
    /// Bytes left for MPTCP options; acknowledged blocks (SACK) get what is left of them.
    pub room_bytes: usize,
}

/// Gives segments their MPTCP options; those of a data segment take what was reserved, at most.
pub trait Options {
    /// The options of that segment. None for plain TCP.
    fn for_segment(&mut self, outgoing: &Outgoing<'_>) -> MptcpOptions;
}

/// Plain TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOptions;

impl Options for NoOptions {
    fn for_segment(&mut self, _outgoing: &Outgoing<'_>) -> MptcpOptions {
        MptcpOptions::new()
    }
}
