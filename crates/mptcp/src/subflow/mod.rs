//! One TCP connection (RFC 9293): a subflow of a Multipath TCP connection, or all of a plain one.
//!
//! The connection above decides which data a subflow carries and which MPTCP options its segments have; the subflow brings the
//! bytes across. It numbers data by two numbers: its own sequence number, and where the bytes belong in the stream of the
//! connection, which it only remembers.
//!
//! The order of calls: [`Subflow::handle_segment`] and [`Subflow::handle_timeout`] whenever there is reason to, then
//! [`Subflow::poll_transmit`] until it has nothing, then [`Subflow::poll_timeout`].

mod config;
mod control;
mod options;

pub use config::{Config, Keepalive, RtoConfig, RtoEstimator, SynRetries};
pub use control::Control;
pub use options::{NoOptions, Options, Outgoing, SegmentKind};

use crate::cc::Window;
use crate::payload::Payload;
use crate::seq::SeqNr;
use crate::time::Nanos;
use crate::wire::{ResetReason, Segment};

/// States of a TCP connection (RFC 9293, section 3.3.2). LISTEN and CLOSED have no subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

/// Why a subflow ended before both sides had closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides closed it.
    Finished,
    /// The peer reset it.
    Reset,
    /// The peer refused it: a reset answered the SYN.
    Refused,
    /// The peer answered no more.
    TimedOut,
    /// [`Subflow::abort`].
    Aborted,
}

/// What a segment brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// It belonged to the window (RFC 9293, section 3.10.7.4) and was taken; only then do its MPTCP options count.
    pub is_acceptable: bool,
    /// The handshake is complete with it.
    pub established: bool,
    /// There is data to [`Subflow::read`].
    pub has_data: bool,
    /// The peer's FIN is next, after all data that can be read.
    pub fin: bool,
    /// Data was newly acknowledged, so that there is room in the send buffer.
    pub acked: bool,
    /// The subflow ended with it.
    pub closed: Option<CloseReason>,
}

/// Data of the stream that a subflow carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where it starts in the stream, in bytes.
    pub offset: u64,
    /// The bytes.
    pub payload: Payload,
}

impl Chunk {
    /// The first byte of the stream after it.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.payload.len())
    }
}

/// What happened on a subflow since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Payload sent for the first time, in bytes.
    pub sent_bytes: u64,
    /// Payload acknowledged, in bytes.
    pub acked_bytes: u64,
    /// Payload sent again, in bytes.
    pub retransmitted_bytes: u64,
    /// Segments sent again.
    pub retransmitted_segments: u64,
    /// Retransmissions that the peer reported as needless (DSACK), in segments.
    pub spurious_retransmissions: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Payload received in order, in bytes.
    pub received_bytes: u64,
    /// Segments sent, all.
    pub sent_segments: u64,
    /// Segments received, all.
    pub received_segments: u64,
}

impl Counters {
    /// Adds those of another subflow.
    pub fn add(&mut self, _other: &Self) {}
}

/// A TCP connection.
#[derive(Debug)]
pub struct Subflow {}

#[allow(unused_variables, missing_docs)]
impl Subflow {
    /// Opens: the first [`Subflow::poll_transmit`] gives the SYN.
    pub fn connect(
        now: Nanos,
        config: Config,
        local_port: u16,
        remote_port: u16,
        iss: SeqNr,
    ) -> Self {
        todo!()
    }
    /// Answers a SYN: the first [`Subflow::poll_transmit`] gives the SYN/ACK.
    pub fn accept(now: Nanos, config: Config, syn: &Segment, iss: SeqNr) -> Self {
        todo!()
    }

    // Inputs.
    pub fn handle_segment(
        &mut self,
        now: Nanos,
        segment: &Segment,
        control: &mut Control<'_>,
    ) -> Arrival {
        todo!()
    }
    /// What is due at `now`; the subflow may have ended ([`Subflow::closed`]).
    pub fn handle_timeout(&mut self, now: Nanos, control: &mut Control<'_>) {
        todo!()
    }

    // Commands.
    /// Data for the end of the queue.
    pub fn push(&mut self, chunk: Chunk) {
        todo!()
    }
    /// A FIN after all that is queued.
    pub fn close(&mut self) {
        todo!()
    }
    /// A RST; with the reason in MP_TCPRST if the connection's options say so.
    pub fn abort(&mut self) {
        todo!()
    }
    /// An acknowledgment is to be sent at once, with whatever options the connection has to send.
    pub fn send_ack(&mut self) {
        todo!()
    }
    /// Bytes of MPTCP options that a data segment will have; they come out of its payload.
    pub fn reserve_options(&mut self, bytes: u32, window: &mut Window) {
        todo!()
    }

    // Outputs.
    /// The next segment, if there is one to be sent now. `receive_window_bytes` is what the connection can take beyond what it has acknowledged.
    pub fn poll_transmit(
        &mut self,
        now: Nanos,
        receive_window_bytes: u64,
        control: &mut Control<'_>,
        options: &mut dyn Options,
    ) -> Option<Segment> {
        todo!()
    }
    /// When [`Subflow::handle_timeout`] is to be called, or, if it paces, [`Subflow::poll_transmit`].
    pub fn poll_timeout(&self) -> Option<Nanos> {
        todo!()
    }
    /// The next data in order.
    pub fn read(&mut self) -> Option<Payload> {
        todo!()
    }

    // Getters.
    pub fn state(&self) -> State {
        todo!()
    }
    pub fn closed(&self) -> Option<CloseReason> {
        todo!()
    }
    /// Bytes assigned and not yet sent.
    pub fn queued_bytes(&self) -> u32 {
        todo!()
    }
    /// Bytes sent or assigned and not yet acknowledged.
    pub fn unacked_bytes(&self) -> u32 {
        todo!()
    }
    /// Data sent and not acknowledged, oldest first.
    pub fn unacked(&self) -> impl Iterator<Item = &Chunk> {
        std::iter::empty()
    }
    /// Data assigned and not sent, oldest first.
    pub fn queued(&self) -> impl Iterator<Item = &Chunk> {
        std::iter::empty()
    }
    /// The most that [`Subflow::unacked_bytes`] is to become.
    pub fn buffer_bytes(&self) -> u32 {
        todo!()
    }
    /// The window that the peer last told, in bytes.
    pub fn send_window_bytes(&self) -> u64 {
        todo!()
    }
    /// The window that it starts with.
    pub fn initial_window(&self) -> Window {
        todo!()
    }
    /// Takes back what was assigned and never sent.
    pub fn take_queue(&mut self) -> Vec<Chunk> {
        todo!()
    }
    /// When the last acceptable segment came.
    pub fn last_received_at(&self) -> Nanos {
        todo!()
    }
    /// Retransmission timeouts in a row, without an acknowledgment between them.
    pub fn backoff(&self) -> u32 {
        todo!()
    }
    /// When the retransmission timer expires, if it runs.
    pub fn retransmission_at(&self) -> Option<Nanos> {
        todo!()
    }
    /// The retransmission timeout, without back-off.
    pub fn rto(&self) -> Nanos {
        todo!()
    }
    pub fn rttvar(&self) -> Nanos {
        todo!()
    }
    /// Bytes per second at which it sends, or would (sk_pacing_rate of Linux).
    pub fn pacing_rate(&self, window: &Window) -> f64 {
        todo!()
    }
    /// Whether it repairs what a timeout left.
    pub fn in_loss(&self) -> bool {
        todo!()
    }
    /// Initial sequence numbers: ours and the peer's.
    pub fn initial_seqs(&self) -> (SeqNr, Option<SeqNr>) {
        todo!()
    }
    /// Numbers, relative to the initial one, that the peer has acknowledged.
    pub fn acked_seq(&self) -> u32 {
        todo!()
    }
    pub fn counters(&self) -> &Counters {
        todo!()
    }
    /// Bytes received out of order that wait in the subflow.
    pub fn out_of_order_bytes(&self) -> u32 {
        todo!()
    }
}

/// Why [`Subflow::abort`] was called, for MP_TCPRST.
pub type AbortReason = ResetReason;
