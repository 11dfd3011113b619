//! The interface by which a connection adds MPTCP options to the segments of a subflow.

use crate::payload::Payload;
use crate::wire::MptcpOptions;

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// The SYN of the opener.
    Syn,
    /// The SYN/ACK of the acceptor.
    SynAck,
    /// An acknowledgment without data. The third packet of the handshake is one of these.
    Ack,
    /// Data, with or without FIN.
    Data,
    /// A FIN without data.
    Fin,
    /// A RST.
    Reset,
}

/// Describes a segment that is about to be sent, for which [`Options`] supplies the MPTCP options.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// What the segment is for.
    pub kind: SegmentKind,
    /// The first sequence number of the segment, relative to the initial sequence number of the
    /// subflow.
    pub subflow_seq: u32,
    /// The position of the payload in the byte stream of the connection, in bytes; `None` without
    /// payload.
    pub offset: Option<u64>,
    /// The payload of the segment.
    pub payload: &'a Payload,
    /// Whether the segment was sent before on this subflow.
    pub is_retransmission: bool,
    /// The number of bytes left for MPTCP options. SACK blocks get what the MPTCP options leave.
    pub room_bytes: usize,
}

/// Supplies the MPTCP options of segments. The connection implements this for its subflows. The
/// options of a data segment must fit into the bytes reserved with
/// [`Subflow::reserve_options`](super::Subflow::reserve_options).
pub trait Options {
    /// Returns the MPTCP options of the segment `outgoing`, or an empty list for plain TCP. Called
    /// once for each segment, right before it is sent.
    fn for_segment(&mut self, outgoing: &Outgoing<'_>) -> MptcpOptions;
}

/// Supplies no MPTCP options. Use it for plain TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOptions;

impl Options for NoOptions {
    fn for_segment(&mut self, _outgoing: &Outgoing<'_>) -> MptcpOptions {
        MptcpOptions::new()
    }
}
