//! A Multipath TCP connection (RFC 8684): several subflows that carry one byte stream each way.
//!
//! Plain TCP is a connection that never negotiated MPTCP, or that fell back. It has one subflow,
//! whose data is the byte stream.
//!
//! # Life of a connection
//! All sections are those of RFC 8684.
//!
//! 1. **Keys** (section 3.1). MP_CAPABLE in the handshake of the initial subflow gives each host
//!    the key of the other. The keys determine the tokens that identify the connection, the first
//!    DSN of each stream, and every later HMAC ([`keys`]). The acceptor learns the key of its peer
//!    with the third packet or with the first data. Until then it is in [`Mode::Negotiating`]. The
//!    opener may join once the peer has answered with a DSS ([`Connection::is_fully_established`]).
//! 2. **Data** (section 3.3). Each segment says where its bytes belong in the stream (a mapping)
//!    and how much of the other stream has arrived (DATA_ACK). A subflow delivers in its own order,
//!    and the mappings restore the order of the stream. Written data is kept until its DATA_ACK, so
//!    that it can be reinjected on another subflow (section 3.3.6, [`crate::failure`]).
//! 3. **Further subflows** (section 3.2). The path manager requests them. [`Connection::poll_join`]
//!    returns the request, because the caller has to choose a port, and [`Connection::join`]
//!    carries it out. Both hosts prove with HMACs that they know the keys, and no data is sent
//!    before the fourth packet. Options announce and withdraw addresses (section 3.4).
//! 4. **Fallback** (section 3.7). If the options do not get through at the start, the connection
//!    continues as plain TCP. Later, a subflow whose options cannot be understood is reset. If it
//!    is the only subflow, [`Fallback`] determines whether the connection continues as plain TCP.
//! 5. **End** (section 3.3.3). DATA_FIN ends a stream and takes one DSN. When both hosts have the
//!    DATA_ACK of their DATA_FIN, the subflows are closed as in TCP. [`Connection::abort`] ends all
//!    of them at once (MP_FASTCLOSE, section 3.5). A connection that lost its last subflow waits
//!    for a join for [`Config::lifetime_without_subflows`] (break before make). If the peer is
//!    gone, the connection ends by timeout: with unacknowledged data, after the retries of its
//!    subflows; with an unacknowledged DATA_FIN, after [`Config::close_timeout`].
//!
//! # One receive window, several subflows
//! Congestion windows belong to subflows. The receive window belongs to the connection (section
//! 3.3.5). It counts from the DATA_ACK, and its right edge is the furthest one received on any
//! subflow. A slow subflow can therefore block the others. The engine then calls the scheduler with
//! the reason of the call ([`crate::sched::Reason`]), and the scheduler decides how to react.
//!
//! # Files
//! - `config`: parameters at the start; `application`: settings that can change later; `event`:
//!   events for the application; `telemetry`: state and counters.
//! - `start`: choice of the address pair; `handshake`: from SYN to keys on both hosts; [`keys`]:
//!   values derived from the keys; `session`: sequence numbers and the options that carry them;
//!   `fallback`: what happens when options do not get through.
//! - `subflow_context`: a subflow and its state; `subflows`: all of them, with cached values;
//!   `lifecycle`: the phases of a subflow and the transitions between them; `delivery`: whether it
//!   seems to deliver.
//! - `input`: handling of the peer's options; `icmp`: messages of routers; `sending`: assignment of
//!   data to subflows; `reinjection`: data to be sent again; `addresses`: announcement, withdrawal
//!   and join requests; `retirement`: subflows that close while others stay; `closing`: end of the
//!   connection; `fin`: ends of the streams.
//! - `send_buffer`, `receive_buffer`, `mappings`: the data; `receive_tuning`: size of the receive
//!   window.
//!
//! # Order of calls
//! After any input or command, call [`Connection::poll_transmit`] until it returns nothing, then
//! [`Connection::poll_join`] and [`Connection::poll_event`] likewise, then
//! [`Connection::poll_timeout`]. An [`Endpoint`](crate::endpoint::Endpoint) does this.

mod addresses;
mod application;
mod closing;
mod config;
mod delivery;
mod event;
mod fallback;
mod fin;
mod handshake;
mod icmp;
mod input;
pub mod keys;
mod lifecycle;
mod mappings;
mod receive_buffer;
mod receive_tuning;
mod reinjection;
mod retirement;
mod send_buffer;
mod sending;
mod session;
mod start;
mod subflow_context;
mod subflows;
mod telemetry;

use std::collections::VecDeque;
use std::sync::Arc;

use rand_core::Rng;

use addresses::Announcements;
pub use addresses::JoinRequest;
pub use config::{Algorithms, Buffer, Config, Fallback, SubflowStart};
pub use event::Event;
use fin::FinTimer;
use keys::Nonces;
use lifecycle::{Lifecycle, Phase};
use receive_buffer::{ReceiveBuffer, Rules};
use receive_tuning::Threshold;
use reinjection::Reinjections;
use send_buffer::SendBuffer;
pub use session::Mode;
use session::Session;
pub use start::Start;
use start::Way;
use subflow_context::SubflowContext;
use subflows::Subflows;
pub use telemetry::{Counters, SubflowState};

use crate::cc::CongestionControl;
use crate::payload::Payload;
use crate::pm::{self, FourTuple, PathManager, Role};
use crate::sched::Scheduler;
use crate::seq::SeqNr;
use crate::subflow::{CloseReason, Control, Subflow};
use crate::time::{Nanos, SECOND, earliest};
use crate::wire::{AddressId, Join as JoinOption, Key, ResetReason, Segment, Token};

/// How long the path manager keeps opening subflows and announcing addresses after the peer was
/// last heard. About as long as data is retransmitted to it (RFC 9293, section 3.8.3, R2; 924 s
/// with `net.ipv4.tcp_retries2` of 15).
const LONGEST_SILENCE: Nanos = 900 * SECOND;

/// An MPTCP connection, or a TCP connection if MPTCP is not negotiated.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    session: Session,
    /// Addresses and ports of the initial subflow.
    initial: FourTuple,
    /// Other address pairs on which to start, until one is answered.
    ways: Vec<Way>,
    subflows: Subflows,
    congestion_control: Box<dyn CongestionControl>,
    scheduler: Box<dyn Scheduler>,
    path_manager: Box<dyn PathManager>,
    send: SendBuffer,
    /// Right edge of the peer's receive window: the first byte beyond it.
    send_edge: u64,
    receive: ReceiveBuffer,
    /// Receive threshold of all subflows together, if they share one.
    receive_threshold: Threshold,
    reinjections: Reinjections,
    announcements: Announcements,
    join_requests: VecDeque<JoinRequest>,
    events: VecDeque<Event>,
    /// Allocated lazily, because most connections never count any of these.
    counters: Option<Box<Counters>>,
    /// Whether the application has closed its stream.
    is_ending: bool,
    /// Whether [`Event::Connected`] was reported.
    is_connected: bool,
    /// Whether [`Event::Finished`] was reported.
    peer_has_ended: bool,
    /// When both hosts knew the keys.
    established_at: Option<Nanos>,
    /// Whether the path manager was notified that it may open further subflows.
    has_subflow_start: bool,
    /// When a connection without subflows is closed.
    abandoned_at: Option<Nanos>,
    /// Bytes delivered in both directions when the connection last lost all its subflows.
    passed_when_abandoned: u64,
    /// Runs while the peer has acknowledged all data but not the DATA_FIN.
    fin_timer: Option<FinTimer>,
    /// When the last segment of the peer arrived.
    last_arrival_at: Nanos,
    /// When subflows that are still open after the end of both streams are reset.
    lingers_until: Option<Nanos>,
    closed: Option<CloseReason>,
    next_subflow_id: u32,
    /// Subflow that is polled first for a segment.
    next_to_transmit: usize,
    /// Whether a subflow is to be closed with FIN as soon as the connection can do without it.
    has_retiring: bool,
    /// Whether something changed since the scheduler last had nothing to do.
    is_schedulable: bool,
}

impl Connection {
    /// Opens a connection at `now` as opener, with the parameters `config` and the algorithms
    /// `algorithms`. Its first segment, which [`Connection::poll_transmit`] returns, is a SYN.
    ///
    /// `four` are the addresses and ports of the initial subflow. `key` is the key of this host.
    /// `rng` chooses the initial sequence number.
    pub fn open(
        now: Nanos,
        config: Arc<Config>,
        algorithms: Algorithms,
        four: FourTuple,
        key: Key,
        rng: &mut dyn Rng,
    ) -> Self {
        let mut connection = Self::new(config, algorithms, Role::Opener, four, key);
        connection.start_on(now, four, SeqNr(rng.next_u32()));
        connection
    }

    /// Accepts a connection at `now` as acceptor, with the parameters `config` and the algorithms
    /// `algorithms`. Its first segment, which [`Connection::poll_transmit`] returns, is a SYN/ACK
    /// with the sequence number `iss`.
    ///
    /// `syn` is the SYN of the peer. `four` are the addresses and ports of the initial subflow, as
    /// this host sees them. `key` is the key of this host.
    pub fn accept(
        now: Nanos,
        config: Arc<Config>,
        algorithms: Algorithms,
        four: FourTuple,
        syn: &Segment,
        key: Key,
        iss: SeqNr,
    ) -> Self {
        let mut connection = Self::new(config, algorithms, Role::Acceptor, four, key);
        connection.handle_syn(syn);
        let tcp = Subflow::accept(now, Arc::clone(&connection.config.subflow), syn, iss);
        connection.add_subflow(now, four, (0, 0), tcp, Lifecycle::connecting());
        connection
    }

    /// Treats the SYN/ACK as sent at an unknown earlier time.
    pub(crate) fn assume_answered(&mut self, now: Nanos) {
        let _syn_ack = self.poll_transmit(now);
        self.subflows
            .iter_mut()
            .for_each(|(context, _)| context.tcp.distrust_handshake());
    }

    fn new(
        config: Arc<Config>,
        algorithms: Algorithms,
        role: Role,
        initial: FourTuple,
        key: Key,
    ) -> Self {
        let mut session = Session::new(role, key, &config);
        if !config.is_multipath {
            session.mode = Mode::Plain;
        }
        Self {
            session,
            initial,
            ways: Vec::new(),
            subflows: Subflows::default(),
            congestion_control: algorithms.congestion_control,
            scheduler: algorithms.scheduler,
            path_manager: algorithms.path_manager,
            send: SendBuffer::new(config.send_buffer),
            send_edge: 0,
            receive: ReceiveBuffer::new(
                config.receive_buffer,
                Rules {
                    counts_out_of_order: config.behaviour.counts_out_of_order,
                    prunes_out_of_order: config.behaviour.prunes_out_of_order,
                },
            ),
            receive_threshold: Threshold::new(config.receive_buffer, 0),
            reinjections: Reinjections::default(),
            announcements: Announcements::default(),
            join_requests: VecDeque::new(),
            // Nearly always only one event is queued.
            events: VecDeque::with_capacity(1),
            counters: None,
            is_ending: false,
            is_connected: false,
            peer_has_ended: false,
            established_at: None,
            has_subflow_start: false,
            abandoned_at: None,
            passed_when_abandoned: 0,
            fin_timer: None,
            last_arrival_at: 0,
            lingers_until: None,
            closed: None,
            next_subflow_id: 0,
            next_to_transmit: 0,
            has_retiring: false,
            is_schedulable: true,
            config: config.with_offerable_window(),
        }
    }

    /// Opens the subflow of `request` at `now`, from the port `local_port`. `rng` chooses the nonce
    /// and the initial sequence number. Refuses the request ([`Connection::refuse_join`]) if the
    /// connection can have no further subflow.
    pub fn join(&mut self, now: Nanos, request: &JoinRequest, local_port: u16, rng: &mut dyn Rng) {
        let Some(remote) = self.session.remote.filter(|_| self.takes_more_subflows()) else {
            self.refuse_join(now, request);
            return;
        };
        let four = request.four(local_port);
        let config = Arc::clone(&self.config.subflow);
        let iss = SeqNr(rng.next_u32());
        let tcp = Subflow::connect(now, config, local_port, four.remote.port(), iss);
        let nonces = Nonces {
            local: rng.next_u32(),
            remote: 0,
        };
        let life = Lifecycle::opening(request.local_id, nonces, remote.token);
        self.add_subflow(now, four, (request.local_id, 0), tcp, life);
        let context = self.subflows.last_mut();
        context.signals.is_backup_local = request.backup;
        context.via = (!request.via.is_empty()).then(|| Box::new(request.via.clone()));
    }

    /// Accepts `syn`, a SYN with MP_JOIN whose token is this connection's, at `now`, and adds the
    /// subflow with the addresses and ports `four`. `local_id` becomes the ID of the local address
    /// if the path manager assigns none. `rng` chooses the nonce and the initial sequence number.
    ///
    /// # Errors
    /// Returns the reason code of MP_TCPRST (RFC 8684, section 3.6) with which the caller must send
    /// a RST.
    pub fn accept_join(
        &mut self,
        now: Nanos,
        four: FourTuple,
        local_id: AddressId,
        syn: &Segment,
        rng: &mut dyn Rng,
    ) -> Result<(), u8> {
        let Some(JoinOption::Syn {
            backup,
            address_id,
            nonce,
            ..
        }) = join_of(syn)
        else {
            return Err(ResetReason::MPTCP_ERROR);
        };
        if self.session.mode != Mode::Multipath || self.closed.is_some() {
            return Err(ResetReason::MPTCP_ERROR);
        }
        if !self.takes_more_subflows() || self.half_open_joins() >= self.config.max_half_open_joins
        {
            return Err(ResetReason::LACK_OF_RESOURCES);
        }
        if !self.config.allows_joins_to_initial && four.local == self.initial.local {
            return Err(ResetReason::PROHIBITED);
        }
        let local = four.local.ip();
        let local_id = match local == self.initial.local.ip() {
            // The address of the initial subflow has ID 0 (RFC 8684, section 3.2).
            true => 0,
            false => self.path_manager.local_id(four.local).unwrap_or(local_id),
        };
        let iss = SeqNr(rng.next_u32());
        let tcp = Subflow::accept(now, Arc::clone(&self.config.subflow), syn, iss);
        let nonces = Nonces {
            local: rng.next_u32(),
            remote: nonce,
        };
        let life = Lifecycle::accepting(local_id, nonces);
        self.add_subflow(now, four, (local_id, address_id), tcp, life);
        let context = self.subflows.last_mut();
        context.is_backup_remote = backup;
        Ok(())
    }

    /// Returns the number of accepted joins whose peer has not yet proved that it knows the keys.
    fn half_open_joins(&self) -> usize {
        let is_half_open =
            |context: &&SubflowContext| matches!(*context.life, Phase::Accepting { .. });
        self.subflows.iter().filter(is_half_open).count()
    }

    fn takes_more_subflows(&self) -> bool {
        let is_multipath = self.session.mode == Mode::Multipath;
        is_multipath && self.closed.is_none() && self.subflows.len() < self.config.max_subflows
    }

    fn add_subflow(
        &mut self,
        now: Nanos,
        four: FourTuple,
        ids: (AddressId, AddressId),
        mut tcp: Subflow,
        life: Lifecycle,
    ) {
        let mut window = tcp.initial_window();
        window.is_usable = false;
        tcp.reserve_options(self.session.reserved_bytes(), &mut window);
        let threshold = Threshold::new(self.config.receive_buffer, self.config.subflow.mss_bytes);
        let context = SubflowContext::new(self.next_subflow_id, four, ids, tcp, threshold, life);
        self.next_subflow_id += 1;
        self.subflows.push(context, window);
        let subflow = self.subflows.len() - 1;
        let mut context =
            crate::cc::Context::new(now, self.subflows.with_windows(subflow).1, subflow);
        self.congestion_control.subflow_added(&mut context);
    }

    /// Writes as much of `payload` as fits into the send buffer, and returns the number of bytes
    /// written. Writes nothing after [`Connection::close`] or after the connection has closed.
    pub fn send(&mut self, payload: &Payload) -> u32 {
        if self.is_ending || self.closed.is_some() {
            return 0;
        }
        let taken = self.send.write(payload);
        self.is_schedulable |= taken > 0;
        taken
    }

    /// Returns how many further bytes fit into the send buffer now, even if the application has
    /// closed its stream ([`Connection::close`]) and can no longer write.
    pub fn send_capacity(&self) -> u64 {
        self.send.free_bytes()
    }

    /// Removes the next bytes of the peer's stream from the receive buffer and returns them, in
    /// order. Returns `None` if there is nothing to read. If this reopens a closed or nearly closed
    /// receive window, the connection sends a window update.
    pub fn recv(&mut self) -> Option<Payload> {
        if self.tells_doubled_window() {
            return self.receive.read();
        }
        let before = self.receive.window_bytes();
        let payload = self.receive.read()?;
        self.announce_opened_window(before);
        Some(payload)
    }

    /// Announces at once that a closed or nearly closed window has opened (RFC 9293, section
    /// 3.8.6.2.2).
    fn announce_opened_window(&mut self, before_bytes: u64) {
        let quarter = self.receive.capacity_bytes() / 4;
        if before_bytes < quarter && self.receive.window_bytes() >= quarter {
            self.acknowledge_on_all_subflows();
        }
    }

    /// Removes the next event from the queue and returns it, or `None` if there is none.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Removes the next request for a further subflow from the queue and returns it. Carry it out
    /// with [`Connection::join`] from a free port. There is no request before the peer has answered
    /// with a DSS (RFC 8684, section 3.1) or before [`Config::subflow_start`] allows one.
    pub fn poll_join(&mut self) -> Option<JoinRequest> {
        if !self.has_subflow_start {
            return None;
        }
        let request = self.join_requests.pop_front()?;
        if self.join_requests.is_empty() {
            self.join_requests = VecDeque::new();
        }
        Some(request)
    }

    /// Returns when to call [`Connection::handle_timeout`] next, or `None` if no timeout is
    /// pending.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        earliest([
            self.abandoned_at,
            self.fin_timer.as_ref().map(FinTimer::next),
            self.lingers_until,
            self.subflow_start_at(),
            self.path_manager_timeout(),
            self.announcements
                .poll_timeout()
                .filter(|_| self.closed.is_none()),
            self.subflows.poll_timeout(),
            self.reinjections.poll_timeout(),
        ])
    }

    /// Returns when the path manager has something to do. It retries failed subflows and unused
    /// addresses, but not if the peer is gone or the connection is closed.
    fn path_manager_timeout(&self) -> Option<Nanos> {
        let at = self.path_manager.poll_timeout()?;
        let is_hoped_for = at <= self.last_arrival_at.saturating_add(LONGEST_SILENCE);
        (is_hoped_for && self.closed.is_none()).then_some(at)
    }

    /// Handles all timeouts that are due at `now`: those of the subflows, of the path manager, of
    /// announcements, and of the connection itself. Then call [`Connection::poll_transmit`].
    pub fn handle_timeout(&mut self, now: Nanos) {
        for subflow in 0..self.subflows.len() {
            if self.subflows.is_due(subflow, now) && self.subflows[subflow].tcp.is_due(now) {
                let (tcp, mut control) = self.subflow_and_control(subflow);
                tcp.handle_timeout(now, &mut control);
                self.after_subflow(now, subflow);
            }
        }
        self.handle_data_fin_timeout(now);
        self.handle_linger_timeout(now);
        self.reap_closed(now);
        if self.path_manager_timeout().is_some_and(|at| at <= now) {
            let mut commands = Vec::new();
            self.path_manager.handle_timeout(now, &mut commands);
            self.carry_out(now, &commands);
        }
        self.start_subflows_if_due(now);
        self.repeat_announcements(now);
        for subflow in 0..self.subflows.len() {
            if self.subflows.is_due(subflow, now) {
                self.subflows[subflow].handle_timeout(now);
            }
        }
        self.handle_reinjection_timeout(now);
        if self.abandoned_at.is_some_and(|at| at <= now) {
            self.reset_all_subflows();
            self.end(CloseReason::TimedOut);
        }
        self.is_schedulable = true;
    }

    fn subflow_and_control(&mut self, subflow: usize) -> (&mut Subflow, Control<'_>) {
        let (context, windows) = self.subflows.with_windows(subflow);
        let control = Control::new(self.congestion_control.as_mut(), windows, subflow);
        (&mut context.tcp, control)
    }

    /// Passes an event to the path manager and carries out its commands.
    fn manage(&mut self, now: Nanos, event: &pm::Event) {
        let mut commands = Vec::new();
        self.path_manager.handle(now, event, &mut commands);
        self.carry_out(now, &commands);
    }

    /// Returns the protocol that the connection uses now.
    pub fn mode(&self) -> Mode {
        self.session.mode
    }

    /// Returns whether the local host knows that both hosts have the keys, so that further subflows
    /// can join the connection (RFC 8684, section 3.1).
    pub fn is_fully_established(&self) -> bool {
        self.session.is_fully_established
    }

    /// Returns the addresses and ports of the initial subflow.
    pub fn initial(&self) -> FourTuple {
        self.initial
    }

    /// Returns the token of this host, with which the peer identifies the connection in a join (RFC
    /// 8684, section 3.2).
    pub fn local_token(&self) -> Token {
        self.session.local_token()
    }

    /// Returns whether the initial subflow was established, so that data can be written. Stays true
    /// after the connection has closed.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Returns whether the peer has ended its stream and all data before the end has arrived. Some
    /// of it may still wait to be read.
    pub fn peer_has_ended(&self) -> bool {
        self.peer_has_ended
    }

    /// Returns whether the connection has closed and its last subflow has ended. Keep the
    /// connection until then, because its subflows still answer segments that arrive late.
    pub fn is_over(&self) -> bool {
        self.closed.is_some() && self.subflows.is_empty()
    }

    /// Returns the reason why the connection closed, or `None` if it has not closed.
    pub fn closed(&self) -> Option<CloseReason> {
        self.closed
    }
}

/// Returns the MP_JOIN option of a segment.
fn join_of(segment: &Segment) -> Option<JoinOption> {
    segment
        .options
        .mptcp
        .iter()
        .find_map(|option| match option {
            crate::wire::MptcpOption::Join(join) => Some(*join),
            _ => None,
        })
}
