//! The interface by which a connection adds MPTCP options to the segments of a subflow.

use crate::payload::Payload;
use crate::wire::MptcpOptions;

/// The purpose of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// The SYN of the opener.
    Syn,
    /// The SYN/ACK of the acceptor.
    SynAck,
    /// An acknowledgment without data, also the third packet of the handshake.
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
    /// The purpose of the segment.
    pub kind: SegmentKind,
    /// The first sequence number of the segment, relative to the initial one.
    pub subflow_seq: u32,
    /// The offset of the payload in the byte stream of the connection; `None` without payload.
    pub offset: Option<u64>,
    /// The payload.
    pub payload: &'a Payload,
    /// Whether the segment was sent before.
    pub is_retransmission: bool,
    /// Bytes left for MPTCP options. SACK blocks get what the MPTCP options leave.
    pub room_bytes: usize,
}

/// Supplies the MPTCP options of segments. The options of a data segment must fit into the reserved
/// bytes ([`Subflow::reserve_options`](super::Subflow::reserve_options)).
pub trait Options {
    /// Returns the options of a segment, or none for plain TCP.
    fn for_segment(&mut self, outgoing: &Outgoing<'_>) -> MptcpOptions;
}

/// Supplies no options, for plain TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOptions;

impl Options for NoOptions {
    fn for_segment(&mut self, _outgoing: &Outgoing<'_>) -> MptcpOptions {
        MptcpOptions::new()
    }
}
