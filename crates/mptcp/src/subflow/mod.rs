//! A TCP connection (RFC 9293): a subflow of an MPTCP connection, or the whole of a plain TCP
//! connection.
//!
//! The connection decides which data a subflow carries and which MPTCP options its segments have
//! ([`Options`]). The subflow delivers the bytes. It numbers data with its own sequence numbers and
//! also remembers the offset of the bytes in the byte stream of the connection. Like a plain TCP
//! connection, a subflow retransmits the data that it has sent until the peer acknowledges it on
//! that subflow, even if other subflows have delivered it. A middlebox on the path therefore sees
//! ordinary TCP (RFC 8684, section 3.3.6).
//!
//! # Parts
//! | task | part |
//! |---|---|
//! | opening, closing, resets | handshake, states and reset validation of RFC 9293; RFC 5961 |
//! | loss detection | [`rack`] and [`tlp`] (RFC 8985), or duplicates ([`sack`], RFC 6675, 6582) |
//! | retransmission timeout | [`rtt`] (RFC 6298), with Linux's estimator or the RFC's |
//! | sending in recovery | proportional rate reduction ([`prr`], RFC 9937) |
//! | detection of spurious losses | timestamps and DSACK (RFC 3522, 2883), F-RTO (RFC 5682) |
//! | response to spurious losses | restoring the window (RFC 4015) |
//! | sending otherwise | [`crate::cc`] through [`Control`], within the peer's window (RFC 7323) |
//! | acknowledgments | each second segment, after a delay, or at once (RFC 5681, section 4.2) |
//! | congestion marks | ECN (RFC 3168) |
//! | path MTU | ICMP errors (RFC 1191, 8201), then retransmission in shorter segments |
//!
//! Three duplicate acknowledgments indicate a loss: by RFC 6675 with SACK, by RFC 6582 without.
//! RFC 5961 protects against blind attackers. [`Counters`] holds the statistics of a subflow.
//!
//! # Order of calls
//! Call [`Subflow::handle_segment`] or [`Subflow::handle_timeout`] when a segment arrives or a
//! timer expires. After each of them, call [`Subflow::poll_transmit`] until it returns `None`, then
//! [`Subflow::poll_timeout`]. If several segments arrive between polls, the subflow sends one
//! acknowledgment for all of them, and the peer counts fewer duplicates.

mod ack_policy;
mod acknowledgment;
mod arrival;
mod config;
mod control;
mod cwnd_usage;
mod delivery_rate;
mod ecn;
mod flight;
mod frto;
mod handshake;
mod offload;
mod options;
mod pacing;
mod path_mtu;
pub mod prr;
pub mod rack;
mod reassembly;
mod receive_rtt;
mod recovery;
mod rest;
pub mod rtt;
pub mod sack;
mod send_memory;
mod send_queue;
mod sent_data;
mod small_queue;
mod timeout;
mod timers;
mod timestamps;
pub mod tlp;
mod transmit;
mod windows;

pub use config::{
    Config, InitialWindow, Keepalive, RtoConfig, RtoEstimator, Segmentation, SynRetries,
};
pub use control::Control;
pub use options::{NoOptions, Options, Outgoing, SegmentKind};
pub use send_memory::segment_memory_bytes;

pub use ack_policy::Owed;
use ack_policy::{AckPolicy, Due};
use cwnd_usage::CwndUsage;
use delivery_rate::Deliveries;
use ecn::EcnState;
use flight::Flight;
use handshake::{Handshake, TIMESTAMPS_LEN};
use offload::Offload;
use pacing::Pacing;
use rack::Rack;
use reassembly::Reassembly;
use receive_rtt::ReceiveRtt;
use recovery::{Phase, Recovery};
use rest::Rest;
use rtt::Rtt;
use send_memory::SendMemory;
use send_queue::SendQueue;
use small_queue::SmallQueue;
use timers::Timers;
use timestamps::TimestampState;
use transmit::Output;
use windows::{PeerWindow, ReceiveWindow};

use std::sync::Arc;

use crate::cc::Window;
use crate::payload::Payload;
use crate::sched::Range;
use crate::seq::SeqNr;
use crate::time::Nanos;
use crate::wire::{Ecn, Flags, Segment};

/// The state of a TCP connection (RFC 9293, section 3.3.2). LISTEN is missing, because a listener
/// has no subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The local SYN was sent or waits to be sent.
    SynSent,
    /// Both SYNs have been sent, and the local SYN is not acknowledged.
    SynReceived,
    /// Both SYNs are acknowledged, and no FIN was sent or received.
    Established,
    /// The local host has sent its FIN, which is not acknowledged.
    FinWait1,
    /// The local FIN is acknowledged, and the peer's FIN has not arrived.
    FinWait2,
    /// The peer's FIN has arrived, and the local host has not sent its FIN.
    CloseWait,
    /// Both hosts sent a FIN at the same time, and the local FIN is not acknowledged.
    Closing,
    /// Both FINs were sent, the peer's first, and the local FIN is not acknowledged.
    LastAck,
    /// Both FINs are acknowledged. The subflow waits for late segments.
    TimeWait,
    /// The subflow has ended.
    Closed,
}

impl State {
    /// Returns the number that Linux uses for the state, as in `tcp_info` (`TCP_ESTABLISHED` and
    /// others, `include/net/tcp_states.h`).
    pub fn linux_number(self) -> u8 {
        match self {
            Self::Established => 1,
            Self::SynSent => 2,
            Self::SynReceived => 3,
            Self::FinWait1 => 4,
            Self::FinWait2 => 5,
            Self::TimeWait => 6,
            Self::Closed => 7,
            Self::CloseWait => 8,
            Self::LastAck => 9,
            Self::Closing => 11,
        }
    }
}

/// Why a subflow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both hosts sent a FIN, and both FINs were acknowledged.
    Finished,
    /// The peer sent a RST after the handshake.
    Reset,
    /// The handshake was refused: by a RST, or by an ICMP error in answer to the SYN.
    Refused,
    /// The peer did not answer the last retransmission or probe.
    TimedOut,
    /// The local host aborted the subflow, as with [`Subflow::abort`].
    Aborted,
}

/// The result of [`Subflow::handle_segment`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Whether the segment was in the window (RFC 9293, section 3.10.7.4) and was accepted. If not,
    /// its MPTCP options must be ignored.
    pub is_acceptable: bool,
    /// Whether the segment completed the handshake.
    pub established: bool,
    /// Whether the segment carried data and bytes can now be read with [`Subflow::read`].
    pub has_data: bool,
    /// Whether the segment contained only data. It acknowledged nothing new and did not widen the
    /// peer's window, so the subflow has nothing more to send than before, except an
    /// acknowledgment.
    pub is_all_data: bool,
    /// Whether the peer's FIN and all data before it have now arrived. No data will follow that can
    /// be read.
    pub fin: bool,
    /// Whether the segment acknowledged new data or the local FIN. This can free space in the send
    /// buffer.
    pub acked: bool,
    /// Why the segment ended the subflow; `None` if it did not.
    pub closed: Option<CloseReason>,
}

/// A part of the byte stream that a subflow carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The position of the first byte in the byte stream of the connection, in bytes from its
    /// start.
    pub offset: u64,
    /// The bytes of this part.
    pub payload: Payload,
}

/// Counts what a subflow has sent and received since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of payload sent for the first time.
    pub sent_bytes: u64,
    /// Bytes of payload that the peer has acknowledged.
    pub acked_bytes: u64,
    /// Bytes of payload in retransmissions.
    pub retransmitted_bytes: u64,
    /// Number of retransmitted segments.
    pub retransmitted_segments: u64,
    /// Number of retransmitted segments that the peer reported as duplicates (DSACK).
    pub spurious_retransmissions: u64,
    /// Number of expiries of the retransmission timer after the handshake.
    pub timeouts: u64,
    /// Bytes of payload received in order.
    pub received_bytes: u64,
    /// Number of segments sent, with or without payload.
    pub sent_segments: u64,
    /// Number of segments received, with or without payload.
    pub received_segments: u64,
}

impl Counters {
    /// Adds the counters `other` of another subflow to these.
    pub fn add(&mut self, other: &Self) {
        self.sent_bytes += other.sent_bytes;
        self.acked_bytes += other.acked_bytes;
        self.retransmitted_bytes += other.retransmitted_bytes;
        self.retransmitted_segments += other.retransmitted_segments;
        self.spurious_retransmissions += other.spurious_retransmissions;
        self.timeouts += other.timeouts;
        self.received_bytes += other.received_bytes;
        self.sent_segments += other.sent_segments;
        self.received_segments += other.received_segments;
    }
}

impl Chunk {
    /// Returns the position after the last byte in the byte stream of the connection.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.payload.len())
    }
}

/// State of the local FIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fin {
    #[default]
    None,
    Queued,
    Sent,
}

/// A TCP connection. It is a subflow of an MPTCP connection, or the whole of a plain TCP
/// connection.
#[derive(Debug)]
pub struct Subflow {
    config: Arc<Config>,
    state: State,
    closed: Option<CloseReason>,
    /// The local and the remote port.
    ports: (u16, u16),
    counters: Counters,
    timers: Timers,
    handshake: Handshake,

    // Negotiated with the SYNs.
    has_sack: bool,
    has_window_scale: bool,
    timestamps: TimestampState,
    ecn: EcnState,
    /// Payload and option bytes of a segment, from the MSS options of both hosts.
    mss: u16,
    /// Bytes of `mss` that MPTCP options take in data segments.
    reserved: u32,
    /// Payload bytes of a full-sized segment, from `mss`, `reserved` and timestamps.
    segment_bytes: u32,

    // Sending.
    iss: SeqNr,
    /// SND.UNA.
    una: SeqNr,
    /// SND.NXT.
    nxt: SeqNr,
    queue: SendQueue,
    send_memory: SendMemory,
    small_queue: SmallQueue,
    offload: Offload,
    flight: Flight,
    fin: Fin,
    peer_window: PeerWindow,
    pacing: Pacing,
    cwnd_usage: CwndUsage,
    last_sent_at: Nanos,

    // Loss detection and recovery.
    rtt: Rtt,
    rack: Rack,
    deliveries: Deliveries,
    recovery: Recovery,
    /// Consecutive expiries of the retransmission timer.
    backoff: u32,
    /// Consecutive expiries of the persist timer.
    persist_backoff: u32,
    probes_unanswered: u32,

    // Segments that are sent regardless of the windows.
    forced_retransmission: bool,
    loss_probe_due: bool,
    /// Whether to send a probe that the peer must answer: a window probe or a keepalive probe.
    probe_due: bool,
    /// Whether less than a full-sized segment may be sent, because the persist timer expired.
    sends_what_fits: bool,
    reset_due: bool,
    /// The sequence number of a reset that answers an acknowledgment of data that was never sent:
    /// the number that was acknowledged.
    reset_reply: Option<SeqNr>,
    rest: Rest,

    // Receiving.
    received: Option<Reassembly>,
    receive_rtt: ReceiveRtt,
    receive_window: ReceiveWindow,
    /// Whether the application waits for room in the send buffer
    /// ([`Subflow::set_writer_waits`]).
    writer_waits: bool,
    /// Whether acknowledgments that can wait are left to the owner
    /// ([`Subflow::set_waits_for_reader`]).
    waits_for_reader: bool,
    /// Whether the subflow sends window updates by itself ([`Subflow::is_window_update_due`]).
    sends_window_updates: bool,
    acks: AckPolicy,
    last_received_at: Nanos,
}

impl Subflow {
    /// Creates a subflow that opens a TCP connection from `local_port` to `remote_port` with the
    /// initial sequence number `iss`. The first [`Subflow::poll_transmit`] returns the SYN.
    pub fn connect(
        now: Nanos,
        config: impl Into<Arc<Config>>,
        local_port: u16,
        remote_port: u16,
        iss: SeqNr,
    ) -> Self {
        let ports = (local_port, remote_port);
        Self::new(now, config.into(), State::SynSent, ports, iss)
    }

    /// Creates a subflow that answers `syn`, a SYN received at `now`, with the initial sequence
    /// number `iss`. The first [`Subflow::poll_transmit`] returns the SYN/ACK.
    pub fn accept(now: Nanos, config: impl Into<Arc<Config>>, syn: &Segment, iss: SeqNr) -> Self {
        let ports = (syn.destination_port, syn.source_port);
        let mut subflow = Self::new(now, config.into(), State::SynReceived, ports, iss);
        subflow.negotiate(now, syn);
        subflow.peer_window.set(syn);
        subflow
    }

    fn new(now: Nanos, config: Arc<Config>, state: State, ports: (u16, u16), iss: SeqNr) -> Self {
        Self {
            state,
            closed: None,
            ports,
            counters: Counters::default(),
            timers: Timers::new(config.timer_wheel),
            handshake: Handshake::default(),
            has_sack: false,
            has_window_scale: false,
            timestamps: TimestampState::default(),
            ecn: EcnState::default(),
            mss: config.mss_bytes,
            reserved: 0,
            segment_bytes: u32::from(config.mss_bytes).max(1),
            iss,
            una: iss,
            nxt: iss + 1,
            queue: SendQueue::default(),
            send_memory: SendMemory::new(&config),
            small_queue: SmallQueue::default(),
            offload: Offload::default(),
            flight: Flight::default(),
            fin: Fin::default(),
            peer_window: PeerWindow::default(),
            pacing: Pacing::default(),
            cwnd_usage: CwndUsage::new(now, iss),
            last_sent_at: now,
            rtt: Rtt::new(&config, iss),
            rack: Rack::new(iss),
            deliveries: Deliveries::default(),
            recovery: Recovery::new(iss),
            backoff: 0,
            persist_backoff: 0,
            probes_unanswered: 0,
            forced_retransmission: false,
            loss_probe_due: false,
            probe_due: false,
            sends_what_fits: false,
            reset_due: false,
            reset_reply: None,
            rest: Rest::default(),
            received: None,
            receive_rtt: ReceiveRtt::default(),
            receive_window: ReceiveWindow::default(),
            writer_waits: false,
            waits_for_reader: false,
            sends_window_updates: true,
            acks: AckPolicy::new(config.quick_acks),
            last_received_at: now,
            config,
        }
    }

    /// Processes `segment`, which arrived at `now` in a packet with the ECN field `ecn`. Reports
    /// acknowledgments and losses to the congestion control through `control`. Poll the subflow
    /// afterwards.
    pub fn handle_segment(
        &mut self,
        now: Nanos,
        segment: &Segment,
        ecn: Ecn,
        control: &mut Control<'_>,
    ) -> Arrival {
        let mut arrival = Arrival::default();
        let before = self.closed;
        let rest = std::mem::take(&mut self.rest);
        self.counters.received_segments += 1;
        self.arrives(now, segment, ecn, control, &mut arrival);
        if arrival.is_all_data {
            self.rest = rest.without_acks();
        }
        arrival.closed = self.closed.filter(|_| before.is_none());
        arrival
    }

    /// Processes the timers that are due at `now`. Poll the subflow afterwards. It may have ended
    /// ([`Subflow::closed`]).
    pub fn handle_timeout(&mut self, now: Nanos, control: &mut Control<'_>) {
        self.rest = Rest::Unknown;
        while let Some(timer) = self.timers.take_expired(now) {
            self.expired(now, timer, control);
        }
        self.report_to(control.window_mut());
    }

    /// Appends `chunk` to the send queue. Has no effect after [`Subflow::close`].
    pub fn push(&mut self, chunk: Chunk) {
        self.rest = Rest::Unknown;
        if self.fin == Fin::None {
            self.queue.push(chunk);
        }
    }

    /// Forces a segment boundary after the first `bytes` bytes of the send queue, because a mapping
    /// ends there.
    pub fn end_segment_after(&mut self, bytes: u32) {
        self.queue.end_segment_after(bytes);
    }

    /// Queues a FIN after all data in the send queue. In SYN-SENT, ends the subflow instead, with
    /// [`CloseReason::Aborted`].
    pub fn close(&mut self) {
        if self.state == State::SynSent {
            self.end(CloseReason::Aborted);
        } else if self.fin == Fin::None {
            self.rest = Rest::Unknown;
            self.fin = Fin::Queued;
        }
    }

    /// Ends the subflow at once with [`CloseReason::Aborted`]. Queues a RST, except in SYN-SENT and
    /// TIME-WAIT. The RST carries MP_TCPRST with the reason if [`Options::for_segment`] supplies
    /// it.
    pub fn abort(&mut self) {
        if self.state == State::Closed {
            return;
        }
        self.rest = Rest::Unknown;
        self.reset_due = !matches!(self.state, State::SynSent | State::TimeWait);
        self.end(CloseReason::Aborted);
    }

    /// Treats the SYN as retransmitted, because the time at which it was sent is unknown. Only a
    /// timestamp then gives an RTT sample for the handshake.
    pub(crate) fn distrust_handshake(&mut self) {
        self.handshake.transmissions += 1;
    }

    /// Queues a RST even though the subflow is closed, because the peer may still hold state.
    pub fn owe_reset(&mut self) {
        self.rest = Rest::Unknown;
        self.reset_due = true;
    }

    /// Queues a keepalive probe, which the peer must acknowledge (RFC 9293, section 3.8.4).
    pub fn send_keepalive(&mut self) {
        self.rest = Rest::Unknown;
        self.probe_due = true;
    }

    /// Queues an acknowledgment without data, to carry the options that the connection has to send.
    /// This acknowledgment is the next segment, even if there is data to send.
    pub fn send_ack(&mut self) {
        self.rest = self.rest.without_acks();
        self.acks.request(Due::Alone);
    }

    /// Makes an acknowledgment due at once because the receive window grew. Data that can be sent
    /// carries it.
    pub fn receive_window_grew(&mut self) {
        self.rest = self.rest.without_acks();
        self.acks.window_grew();
    }

    /// Switches Nagle's algorithm on or off ([`Config::nagle`]), which holds short segments back
    /// while data is not acknowledged.
    pub fn set_nagle(&mut self, on: bool) {
        self.rest = Rest::Unknown;
        Arc::make_mut(&mut self.config).nagle = on;
    }

    /// Reserves `bytes`, rounded up to a multiple of four, for the MPTCP options of each data
    /// segment. Reduces the payload of full-sized segments accordingly, and stores it in `window`
    /// as `mss_bytes`. Raises cwnd to at least one such segment.
    pub fn reserve_options(&mut self, bytes: u32, window: &mut Window) {
        self.rest = Rest::Unknown;
        self.reserved = bytes.next_multiple_of(4);
        self.size_segments();
        window.mss_bytes = self.segment_bytes;
        // A window of one small segment could not hold a larger one.
        window.cwnd_bytes = window.cwnd_bytes.max(f64::from(window.mss_bytes));
    }

    /// Returns the next segment to send at `now`, or `None` if there is none. `control` gives
    /// access to the congestion window, and `options` supplies the MPTCP options of the segment.
    ///
    /// `receive_window_bytes` is what the connection can receive beyond what it has acknowledged.
    /// With scaling, the window on the wire may be up to 2^shift - 1 bytes larger, because rounding
    /// does not move the window back.
    #[inline]
    pub fn poll_transmit(
        &mut self,
        now: Nanos,
        receive_window_bytes: u64,
        control: &mut Control<'_>,
        options: &mut dyn Options,
    ) -> Option<Segment> {
        if self.rest.holds_with(receive_window_bytes) {
            return None;
        }
        self.transmit(&mut Output {
            now,
            available: receive_window_bytes,
            control,
            options,
        })
    }

    /// Returns the ECN field for the packet that carries the segment that
    /// [`Subflow::poll_transmit`] returned last.
    pub fn transmit_ecn(&self) -> Ecn {
        self.ecn.last_sent
    }

    /// Returns when to call [`Subflow::handle_timeout`] and then [`Subflow::poll_transmit`], or
    /// `None` if no timer runs. The time at which pacing allows the next segment counts as a timer.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.timers.next()
    }

    /// Returns whether a timer has expired at `now` ([`Subflow::poll_timeout`]).
    pub fn is_due(&self, now: Nanos) -> bool {
        self.poll_timeout().is_some_and(|at| at <= now)
    }

    /// Returns a receive window in bytes up to which [`Subflow::poll_transmit`] is known to return
    /// `None`, until a segment, a timeout or another call changes that. Returns `None` if no such
    /// window is known.
    pub fn rests_with(&self) -> Option<u64> {
        self.rest.receive_window_bytes()
    }

    /// Returns whether [`Subflow::read`] would return bytes.
    pub fn has_readable(&self) -> bool {
        self.received.as_ref().is_some_and(Reassembly::has_readable)
    }

    /// Removes and returns the next bytes that were received in order, or `None` if there are none.
    /// One call returns at most the data of one segment.
    pub fn read(&mut self) -> Option<Payload> {
        self.received.as_mut()?.read()
    }

    /// Returns the current state of the TCP connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns why the subflow ended, or `None` if it has not.
    pub fn closed(&self) -> Option<CloseReason> {
        self.closed
    }

    /// Returns whether a RST waits to be sent.
    pub fn owes_reset(&self) -> bool {
        self.reset_due
    }

    /// Returns the number of bytes in the send queue: assigned to the subflow and not yet sent.
    pub fn queued_bytes(&self) -> u32 {
        self.queue.bytes()
    }

    /// Returns the number of bytes in the send queue or sent and not acknowledged. SACKed bytes
    /// count too, and so does a FIN that was sent.
    pub fn unacked_bytes(&self) -> u32 {
        self.flight.outstanding_bytes() + self.queue.bytes()
    }

    /// Iterates over the stream ranges of the data that was sent and is not acknowledged. Each item
    /// is one segment, the oldest first.
    pub fn unacked(&self) -> impl Iterator<Item = Range> {
        self.flight.unacked()
    }

    /// Iterates over the stream ranges in the send queue. Each item is the unsent rest of one
    /// [`Chunk`], the oldest first.
    pub fn queued(&self) -> impl Iterator<Item = Range> {
        self.queue.ranges()
    }

    /// Returns the end of the segment that carried the byte at `offset` of the stream, or of the
    /// queued chunk that contains this byte, as an offset of the stream. Returns `None` if the
    /// subflow does not hold the byte, or if the byte is acknowledged.
    pub fn end_of_data_with(&self, offset: u64) -> Option<u64> {
        let sent = self.flight.end_of_record_with(offset);
        sent.or_else(|| self.queue.end_of_chunk_with(offset))
    }

    /// Returns the maximum number of bytes that can be assigned and unacknowledged at a time. The
    /// caller must not let [`Subflow::unacked_bytes`] exceed it.
    pub fn buffer_bytes(&self) -> u32 {
        self.send_memory.payload_bytes(self.segment_bytes)
    }

    /// Returns the memory granted to the send buffer, in bytes.
    pub fn send_memory_bytes(&self) -> u32 {
        self.send_memory.bytes()
    }

    /// Grows the memory of the send buffer to the size that Linux grants for the congestion window
    /// `window`. Call this when the application waits for room. The memory never shrinks.
    pub fn grow_buffer(&mut self, window: &Window) {
        self.send_memory.grow(window);
    }

    /// Returns the smoothed RTT measured from received data (Linux's `rcv_rtt_est`). Without such a
    /// sample, returns the smoothed RTT of sent data, if there is one.
    pub fn receive_rtt(&self) -> Option<Nanos> {
        self.receive_rtt.smoothed().or(self.rtt.srtt())
    }

    /// Returns the size of the window that the peer offered last, in bytes.
    pub fn send_window_bytes(&self) -> u32 {
        self.peer_window.bytes
    }

    /// Returns the size of the receive window that `segment` of the peer offers, in bytes, after
    /// window scaling.
    pub fn window_of(&self, segment: &Segment) -> u32 {
        self.peer_window.of(segment)
    }

    /// Returns how many bytes the peer may still send within the receive window that was offered
    /// last.
    pub fn offered_window_bytes(&self) -> u32 {
        let next = self.received.as_ref().map(Reassembly::next);
        next.map_or(0, |next| self.receive_window.remaining(next))
    }

    /// Returns a congestion window of the initial size ([`Config::initial_window`]).
    pub fn initial_window(&self) -> Window {
        let mss = self.segment_bytes;
        Window::new(mss, self.config.initial_window.bytes(mss))
    }

    /// Removes the data from the send queue and returns its stream ranges. If part of a mapping was
    /// already sent, keeps the rest of that mapping, because the mapping fixes the subflow sequence
    /// numbers of the rest and no other data may use them (RFC 8684, section 3.3.1).
    pub fn take_queue(&mut self) -> Vec<Range> {
        self.rest = Rest::Unknown;
        self.queue.take_back()
    }

    /// Returns when the last acceptable segment arrived, or when the subflow was created if none
    /// has.
    pub fn last_received_at(&self) -> Nanos {
        self.last_received_at
    }

    /// Returns the number of consecutive retransmission timeouts since the last acknowledgment of
    /// new data.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Returns the time to which the retransmission timer is set, or `None` if it does not run.
    /// With a [`Config::timer_wheel`], it expires later.
    pub fn retransmission_at(&self) -> Option<Nanos> {
        self.timers.retransmission_at()
    }

    /// Returns the RTO in nanoseconds, without back-off.
    pub fn rto(&self) -> Nanos {
        self.rtt.rto()
    }

    /// Returns the variation of the RTT in nanoseconds. With [`RtoEstimator::Linux`] this is the
    /// amount that the RTO adds to the smoothed RTT. With [`RtoEstimator::Rfc6298`] it is RTTVAR, a
    /// quarter of that amount.
    pub fn rttvar(&self) -> Nanos {
        self.rtt.rttvar()
    }

    /// Returns the pacing rate in bytes per second for `window`. If the congestion control does not
    /// pace, returns the rate that Linux computes anyway (`sk_pacing_rate`), which is infinite
    /// before the first RTT sample.
    pub fn pacing_rate(&self, window: &Window) -> f64 {
        self.pacing.rate(window)
    }

    /// Returns whether the subflow is recovering from a retransmission timeout.
    pub fn in_loss(&self) -> bool {
        self.recovery.phase == Phase::Loss
    }

    /// Returns the counters of the subflow.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the number of bytes in the out-of-order queue.
    pub fn out_of_order_bytes(&self) -> u32 {
        let received = self.received.as_ref();
        received.map_or(0, Reassembly::out_of_order_bytes)
    }

    /// Computes the payload of full-sized segments after `mss`, `reserved` or timestamps changed.
    fn size_segments(&mut self) {
        let timestamps = u32::from(self.timestamps.enabled) * TIMESTAMPS_LEN;
        self.segment_bytes = u32::from(self.mss)
            .saturating_sub(timestamps + self.reserved)
            .max(1);
    }

    fn is_fin_acked(&self) -> bool {
        self.fin == Fin::Sent && self.una == self.nxt
    }

    fn syn_ecn_flags(&mut self, is_answer: bool) -> Flags {
        if is_answer && self.ecn.enabled {
            Flags::ECE
        } else if !is_answer && self.config.ecn && self.handshake.transmissions == 0 {
            EcnState::OFFER
        } else {
            Flags::NONE
        }
    }

    /// Updates the measurements of this subflow in `window`.
    fn report_to(&self, window: &mut Window) {
        window.srtt = self.rtt.srtt();
        window.min_rtt = self.rtt.min();
        window.in_flight_bytes = self.pipe_bytes();
        window.in_recovery = self.recovery.phase != Phase::Open;
    }
}
