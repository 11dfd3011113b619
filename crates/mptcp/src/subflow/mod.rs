//! One TCP connection (RFC 9293): a subflow of a Multipath TCP connection, or all of a plain one.
//!
//! The connection above decides which data a subflow carries and which MPTCP options its segments have ([`Options`]); the
//! subflow brings the bytes across. It numbers data by two numbers: its own sequence number, and where the bytes belong in the
//! stream of the connection, which it only remembers. A middlebox that looks at it sees TCP, whatever happens to the other
//! subflows (RFC 8684, section 3.3.6): what was sent here is sent again here until it is acknowledged here.
//!
//! # What it is made of
//! | question | answer |
//! |---|---|
//! | How does it begin and end? | handshake, states and reset validation of RFC 9293; RFC 5961 against blind attackers |
//! | What is lost? | [`rack`] and [`tlp`] (RFC 8985), or three duplicates ([`sack`], RFC 6675; RFC 6582 without SACK) |
//! | When is it repeated without news? | at the retransmission timeout ([`rtt`], RFC 6298), Linux's estimator or the RFC's |
//! | How much may be sent in recovery? | proportional rate reduction ([`prr`], RFC 9937) |
//! | Was it a mistake? | timestamps and duplicate reports tell (RFC 3522, 2883), and what comes after a timeout (RFC 5682); then the window is given back (RFC 4015) |
//! | How much otherwise? | the congestion control says, [`crate::cc`], through [`Control`]; the peer's window (RFC 7323) bounds it |
//! | When is an acknowledgment sent? | for every second segment, after a delay, or at once (RFC 5681, section 4.2) |
//! | Did a router mark it? | ECN as of RFC 3168 |
//! | Was it too long for a link? | ICMP tells (RFC 1191, 8201); it goes again in shorter segments |
//!
//! What is measured of it is in [`Counters`].
//!
//! # The order of calls
//! [`Subflow::handle_segment`] or [`Subflow::handle_timeout`] when there is reason to, after each of them
//! [`Subflow::poll_transmit`] until it has nothing, then [`Subflow::poll_timeout`]. Who lets several segments arrive before it
//! polls gets one acknowledgment for them all, and the peer counts fewer duplicates.

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

pub use config::{Config, InitialWindow, Keepalive, RtoConfig, RtoEstimator, SynRetries};
pub use control::Control;
pub use options::{NoOptions, Options, Outgoing, SegmentKind};
pub use send_memory::segment_memory_bytes;

use ack_policy::{AckPolicy, Due};
use cwnd_usage::CwndUsage;
use delivery_rate::Deliveries;
use ecn::EcnState;
use flight::Flight;
use handshake::{Handshake, TIMESTAMPS_LEN};
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

/// States of a TCP connection (RFC 9293, section 3.3.2). LISTEN and CLOSED have no subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Our SYN is sent or to be sent.
    SynSent,
    /// Both SYNs are there, and ours is not acknowledged.
    SynReceived,
    /// Data flows.
    Established,
    /// We closed.
    FinWait1,
    /// We closed, and the peer knows.
    FinWait2,
    /// The peer closed.
    CloseWait,
    /// Both closed at once, and the peer does not know it of us.
    Closing,
    /// The peer closed, then we.
    LastAck,
    /// Both closed; late segments may come.
    TimeWait,
    /// It is over.
    Closed,
}

impl State {
    /// What Linux calls it in `tcp_info` and elsewhere (`TCP_ESTABLISHED` and so on, `include/net/tcp_states.h`).
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
    /// It brought data and nothing else: no word on ours, and no wider window.
    pub is_all_data: bool,
    /// The peer's FIN is next, after all data that can be read.
    pub fin: bool,
    /// Data was newly acknowledged, so that there is room in the send buffer.
    pub acked: bool,
    /// The subflow ended with it.
    pub closed: Option<CloseReason>,
}

/// Data of the stream that a subflow carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Where it starts in the stream, in bytes.
    pub offset: u64,
    /// The bytes.
    pub payload: Payload,
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
    /// The first byte of the stream after it.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.payload.len())
    }
}

/// Our FIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fin {
    #[default]
    None,
    Queued,
    Sent,
}

/// A TCP connection.
#[derive(Debug)]
pub struct Subflow {
    config: Arc<Config>,
    state: State,
    closed: Option<CloseReason>,
    /// Ours and the peer's.
    ports: (u16, u16),
    counters: Counters,
    timers: Timers,
    handshake: Handshake,

    // What SYNs negotiated.
    has_sack: bool,
    has_window_scale: bool,
    timestamps: TimestampState,
    ecn: EcnState,
    /// Bytes beyond the headers of IP and TCP without options, by both sides' MSS options.
    mss: u16,
    /// Bytes of it that MPTCP options take in data segments.
    reserved: u32,
    /// Bytes of payload in a full-sized segment, by `mss`, `reserved` and timestamps.
    segment_bytes: u32,

    // What we send.
    iss: SeqNr,
    /// SND.UNA.
    una: SeqNr,
    /// SND.NXT.
    nxt: SeqNr,
    queue: SendQueue,
    send_memory: SendMemory,
    small_queue: SmallQueue,
    flight: Flight,
    fin: Fin,
    peer_window: PeerWindow,
    pacing: Pacing,
    cwnd_usage: CwndUsage,
    last_sent_at: Nanos,

    // What tells of losses, and repairs them.
    rtt: Rtt,
    rack: Rack,
    deliveries: Deliveries,
    recovery: Recovery,
    /// Expiries of the retransmission timer in a row.
    backoff: u32,
    /// Expiries of the persist timer in a row.
    persist_backoff: u32,
    probes_unanswered: u32,

    // What is to be sent whatever the windows say.
    forced_retransmission: bool,
    loss_probe_due: bool,
    /// A segment that makes the peer answer: for a window, or a sign of life.
    probe_due: bool,
    /// Less than a full-sized segment may go, because the persist timer expired.
    sends_what_fits: bool,
    reset_due: bool,
    /// A reset for an impossible acknowledgment, which is its number.
    reset_reply: Option<SeqNr>,
    rest: Rest,

    // What we receive.
    received: Option<Reassembly>,
    receive_rtt: ReceiveRtt,
    receive_window: ReceiveWindow,
    /// Whether it tells of room by itself ([`Subflow::is_window_update_due`]).
    tells_of_room: bool,
    acks: AckPolicy,
    last_received_at: Nanos,
}

impl Subflow {
    /// Opens: the first [`Subflow::poll_transmit`] gives the SYN.
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

    /// Answers a SYN: the first [`Subflow::poll_transmit`] gives the SYN/ACK.
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
            tells_of_room: true,
            acks: AckPolicy::new(config.quick_acks),
            last_received_at: now,
            config,
        }
    }

    /// A segment of this connection arrived, in a packet with that ECN field.
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

    /// What is due at `now`; the subflow may have ended ([`Subflow::closed`]).
    pub fn handle_timeout(&mut self, now: Nanos, control: &mut Control<'_>) {
        self.rest = Rest::Unknown;
        while let Some(timer) = self.timers.take_expired(now) {
            self.expired(now, timer, control);
        }
        self.report_to(control.window_mut());
    }

    /// Data for the end of the queue. It is ignored after [`Subflow::close`].
    pub fn push(&mut self, chunk: Chunk) {
        self.rest = Rest::Unknown;
        if self.fin == Fin::None {
            self.queue.push(chunk);
        }
    }

    /// So many bytes of what is queued end with a segment: a mapping ends there.
    pub fn end_segment_after(&mut self, bytes: u32) {
        self.queue.end_segment_after(bytes);
    }

    /// A FIN after all that is queued. One that waits for the answer to its SYN is given up.
    pub fn close(&mut self) {
        if self.state == State::SynSent {
            self.end(CloseReason::Aborted);
        } else if self.fin == Fin::None {
            self.rest = Rest::Unknown;
            self.fin = Fin::Queued;
        }
    }

    /// A RST; with the reason in MP_TCPRST if the connection's options say so.
    pub fn abort(&mut self) {
        if self.state == State::Closed {
            return;
        }
        self.rest = Rest::Unknown;
        self.reset_due = !matches!(self.state, State::SynSent | State::TimeWait);
        self.end(CloseReason::Aborted);
    }

    /// When our SYN went out is not known: only a timestamp measures its round trip, as if it had gone out twice.
    pub(crate) fn distrust_handshake(&mut self) {
        self.handshake.transmissions += 1;
    }

    /// A RST though it has ended by itself, for a peer that may not know.
    pub fn owe_reset(&mut self) {
        self.rest = Rest::Unknown;
        self.reset_due = true;
    }

    /// A segment that makes a peer that lives answer (RFC 9293, section 3.8.4).
    pub fn send_keepalive(&mut self) {
        self.rest = Rest::Unknown;
        self.probe_due = true;
    }

    /// An acknowledgment is to be sent at once, with whatever options the connection has to send.
    pub fn send_ack(&mut self) {
        self.rest = self.rest.without_acks();
        self.acks.ask(Due::Alone);
    }

    /// What came let the receive window grow: it is acknowledged at once, with data if there is any to be sent.
    pub fn receive_window_grew(&mut self) {
        self.rest = self.rest.without_acks();
        self.acks.window_grew();
    }

    /// Whether short segments wait for more data ([`Config::nagle`]).
    pub fn set_nagle(&mut self, on: bool) {
        self.rest = Rest::Unknown;
        Arc::make_mut(&mut self.config).nagle = on;
    }

    /// Bytes of MPTCP options that a data segment will have; they come out of its payload.
    pub fn reserve_options(&mut self, bytes: u32, window: &mut Window) {
        self.rest = Rest::Unknown;
        self.reserved = bytes.next_multiple_of(4);
        self.size_segments();
        window.mss_bytes = self.segment_bytes;
        // A window of one small segment would hold no larger one.
        window.cwnd_bytes = window.cwnd_bytes.max(f64::from(window.mss_bytes));
    }

    /// The next segment, if there is one to be sent now. `receive_window_bytes` is what the connection can take beyond what it
    /// has acknowledged; scaling may offer up to 2^shift - 1 bytes more, because rounding does not move the window back.
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

    /// The ECN field of the packet for the segment that [`Subflow::poll_transmit`] gave last.
    pub fn transmit_ecn(&self) -> Ecn {
        self.ecn.last_sent
    }

    /// When [`Subflow::handle_timeout`] is to be called, or, if it paces, [`Subflow::poll_transmit`].
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.timers.next()
    }

    /// Whether it is time for that.
    pub fn is_due(&self, now: Nanos) -> bool {
        self.poll_timeout().is_some_and(|at| at <= now)
    }

    /// If nothing is to be sent as long as nothing happens: up to which receive window, in bytes, that holds.
    pub fn rests_with(&self) -> Option<u64> {
        self.rest.receive_window_bytes()
    }

    /// Whether there are bytes in order to be read.
    pub fn has_readable(&self) -> bool {
        self.received.as_ref().is_some_and(Reassembly::has_readable)
    }

    /// The next bytes in order.
    pub fn read(&mut self) -> Option<Payload> {
        self.received.as_mut()?.read()
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Why it ended, if it has.
    pub fn closed(&self) -> Option<CloseReason> {
        self.closed
    }

    /// Whether a reset is still to be sent, though it has ended.
    pub fn owes_reset(&self) -> bool {
        self.reset_due
    }

    /// Bytes assigned and not yet sent.
    pub fn queued_bytes(&self) -> u32 {
        self.queue.bytes()
    }

    /// Bytes sent or assigned and not yet acknowledged.
    pub fn unacked_bytes(&self) -> u32 {
        self.flight.outstanding_bytes() + self.queue.bytes()
    }

    /// Data sent and not acknowledged, segment by segment, oldest first.
    pub fn unacked(&self) -> impl Iterator<Item = Range> {
        self.flight.unacked()
    }

    /// Data assigned and not sent, as it was assigned, oldest first.
    pub fn queued(&self) -> impl Iterator<Item = Range> {
        self.queue.ranges()
    }

    /// Where the data ends that it was given together with that byte of the stream, or sent in one segment; nothing if it does
    /// not have the byte, or the byte is acknowledged.
    pub fn end_of_data_with(&self, offset: u64) -> Option<u64> {
        let sent = self.flight.end_of_record_with(offset);
        sent.or_else(|| self.queue.end_of_chunk_with(offset))
    }

    /// The most that [`Subflow::unacked_bytes`] is to become.
    pub fn buffer_bytes(&self) -> u32 {
        self.send_memory.bytes()
    }

    /// Somebody waits for room to write: what is right for the window is granted.
    pub fn grow_buffer(&mut self, window: &Window) {
        self.send_memory.grow(window);
    }

    /// The round-trip time by the data that was received, or without timestamps by what was sent.
    pub fn receive_rtt(&self) -> Option<Nanos> {
        self.receive_rtt.smoothed().or(self.rtt.srtt())
    }

    /// The window that the peer told last, in bytes.
    pub fn send_window_bytes(&self) -> u32 {
        self.peer_window.bytes
    }

    /// The window that a segment offers, in bytes.
    pub fn window_of(&self, segment: &Segment) -> u32 {
        self.peer_window.of(segment)
    }

    /// The window that we told last, in bytes beyond what was received then or since.
    pub fn offered_window_bytes(&self) -> u32 {
        let next = self.received.as_ref().map(Reassembly::next);
        next.map_or(0, |next| self.receive_window.remaining(next))
    }

    /// The window that it starts with.
    pub fn initial_window(&self) -> Window {
        let mss = self.segment_bytes;
        Window::new(mss, self.config.initial_window.bytes(mss))
    }

    /// Takes back what was assigned and never sent, but for the rest of a mapping that was: that has its place in the subflow,
    /// and no other data may take it (RFC 8684, section 3.3.1).
    pub fn take_queue(&mut self) -> Vec<Range> {
        self.rest = Rest::Unknown;
        self.queue.take_back()
    }

    /// When the last acceptable segment came.
    pub fn last_received_at(&self) -> Nanos {
        self.last_received_at
    }

    /// Retransmission timeouts in a row, without an acknowledgment between them.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// To what the retransmission timer is set, if it runs; with a [`Config::timer_wheel`] it expires later.
    pub fn retransmission_at(&self) -> Option<Nanos> {
        self.timers.retransmission_at()
    }

    /// The retransmission timeout, without back-off.
    pub fn rto(&self) -> Nanos {
        self.rtt.rto()
    }

    /// The variation of the round-trip time, as the estimator counts it.
    pub fn rttvar(&self) -> Nanos {
        self.rtt.rttvar()
    }

    /// Bytes per second at which it sends, or would (sk_pacing_rate of Linux).
    pub fn pacing_rate(&self, window: &Window) -> f64 {
        self.pacing.rate(window)
    }

    /// Whether it repairs what a timeout left.
    pub fn in_loss(&self) -> bool {
        self.recovery.phase == Phase::Loss
    }

    /// What happened since it began.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes received out of order that wait in the subflow.
    pub fn out_of_order_bytes(&self) -> u32 {
        let received = self.received.as_ref();
        received.map_or(0, Reassembly::out_of_order_bytes)
    }

    /// Works out how long full-sized segments are, after something changed of which that depends.
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

    /// Brings the window's view of this subflow up to date.
    fn report_to(&self, window: &mut Window) {
        window.srtt = self.rtt.srtt();
        window.min_rtt = self.rtt.min();
        window.in_flight_bytes = self.pipe_bytes();
        window.in_recovery = self.recovery.phase != Phase::Open;
    }
}
