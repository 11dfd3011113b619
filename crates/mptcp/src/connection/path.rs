//! A subflow of a connection, with what the connection knows of it beyond TCP.

use std::collections::VecDeque;

use super::keys::Nonces;
use super::mappings::Mappings;
use super::receive_tuning::Threshold;
use super::retirement::Suspicion;
use super::session::{Mode, Session};
use crate::failure::StaleDetector;
use crate::pm::FourTuple;
use crate::sched::Range;
use crate::seq::DataSeq;
use crate::subflow::{CloseReason, State, Subflow};
use crate::time::{Nanos, SECOND, earliest};
use crate::wire::{AddressId, Hops, MptcpOption, Packet, ResetReason, Token};

/// The longest wait for the fourth packet of a join; what would take longer is given up.
const LONGEST_JOIN_WAIT: Nanos = 60 * SECOND;

/// Duplicate acknowledgments in a row that only say an option; a third could be taken for the sign of a loss (RFC 8684, section
/// 3).
const MAX_SIGNALS_IN_A_ROW: u32 = 2;

/// Options that wait for their acknowledgment, beyond which echoes are left out.
const MAX_WAITING_ANSWERS: usize = 16;

/// How far the handshake of MP_JOIN is (RFC 8684, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// It is the initial subflow.
    Initial,
    /// We sent the SYN.
    Opening {
        address_id: AddressId,
        nonces: Nonces,
        token: Token,
    },
    /// We sent the third packet and wait for the fourth; until then no data goes out.
    Confirming {
        nonces: Nonces,
        /// When the third packet is repeated, and how long the last wait was.
        repeat_at: Nanos,
        wait: Nanos,
    },
    /// We sent the SYN/ACK.
    Accepting {
        address_id: AddressId,
        nonces: Nonces,
    },
    /// Both sides have proved that they know the keys.
    Done,
}

/// What is to be said on a path.
#[derive(Debug)]
pub(super) struct PathSignals {
    pub(super) join: Join,
    /// SYNs that were sent with MP_CAPABLE, or would have been.
    pub(super) capable_syns: u32,
    /// Whether we asked the peer not to send here while others do.
    pub(super) is_backup_local: bool,
    /// Options for the next acknowledgments, one in each.
    pub(super) pending: VecDeque<MptcpOption>,
    /// Acknowledgments with one of them since data came.
    pub(super) said_in_a_row: u32,
    /// When more of them may follow, if as many as may be were said.
    pub(super) resume_at: Option<Nanos>,
    /// The next acknowledgment has the DATA_FIN.
    pub(super) says_fin: bool,
    /// The keys were said, after which a DATA_FIN may follow.
    pub(super) has_said_keys: bool,
    /// A reset is a MP_FASTCLOSE.
    pub(super) closes_fast: bool,
    /// A reset has this reason.
    pub(super) reset_reason: Option<ResetReason>,
    /// MP_FAIL is to be said, with this number.
    pub(super) failed_from: Option<DataSeq>,
    /// Plain TCP begins.
    pub(super) infinite: Option<Box<InfiniteMapping>>,
}

/// The mapping that turns a stream into plain TCP (RFC 8684, section 3.7), in offsets of our stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InfiniteMapping {
    /// The first new byte: the mapping goes with it.
    pub(super) said_at: u64,
    /// The byte from which it holds.
    pub(super) back_to: u64,
}

/// A subflow of a connection.
#[derive(Debug)]
pub(super) struct Path {
    /// Never used again.
    pub(super) id: u32,
    pub(super) four: FourTuple,
    pub(super) local_id: AddressId,
    pub(super) remote_id: AddressId,
    /// Routers that its packets have to pass, if any.
    pub(super) via: Option<Box<Hops>>,
    pub(super) subflow: Subflow,
    pub(super) mappings: Mappings,
    /// Its own, where it has one.
    pub(super) receive_threshold: Threshold,
    pub(super) signals: PathSignals,
    /// Whether the peer asked us not to send here while others do.
    pub(super) is_backup_remote: bool,
    /// It was given up at a timeout, until something arrives on it.
    pub(super) has_failed: bool,
    pub(super) stale: StaleDetector,
    /// When its handshake was complete.
    pub(super) established_at: Option<Nanos>,
    /// When data without a mapping have waited long enough, if there are any.
    pub(super) unmapped_until: Option<Nanos>,
    /// A middlebox was on it, so that what the subflow acknowledged may not have reached the stream.
    pub(super) may_have_lost_acked: bool,
    /// An address of it was removed, and it is asked whether it lives.
    pub(super) suspicion: Option<Box<Suspicion>>,
    /// The peer was told that its local address is gone.
    pub(super) has_lost_address: bool,
    /// It is to be closed by FIN while others stay.
    pub(super) is_retiring: bool,
    /// When it is given up, once its FIN is queued for that.
    pub(super) retired_until: Option<Nanos>,
    /// It was reset for a reason that stays (RFC 8684, section 3.6).
    pub(super) is_unfit: bool,
    /// Whether a DATA_ACK has come on it.
    pub(super) has_data_ack: bool,
    /// Back-off of its retransmission timer when it was last looked at.
    pub(super) seen_backoff: u32,
}

impl Path {
    pub(super) fn new(
        id: u32,
        four: FourTuple,
        ids: (AddressId, AddressId),
        subflow: Subflow,
        receive_threshold: Threshold,
        join: Join,
    ) -> Self {
        Self {
            id,
            four,
            local_id: ids.0,
            remote_id: ids.1,
            via: None,
            subflow,
            mappings: Mappings::new(),
            receive_threshold,
            signals: PathSignals::new(join),
            is_backup_remote: false,
            has_failed: false,
            stale: StaleDetector::default(),
            established_at: None,
            unmapped_until: None,
            may_have_lost_acked: false,
            suspicion: None,
            has_lost_address: false,
            is_retiring: false,
            retired_until: None,
            is_unfit: false,
            has_data_ack: false,
            seen_backoff: 0,
        }
    }

    /// When something is due: a timer of its subflow, the third packet of a join once more, the end of what has waited too long,
    /// a keepalive, an option.
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        let repeat_at = match self.signals.join {
            Join::Confirming { repeat_at, .. } => Some(repeat_at),
            _ => None,
        };
        earliest([
            self.subflow.poll_timeout(),
            repeat_at,
            self.unmapped_until,
            self.retirement_timeout(),
            self.signals.resume_at,
        ])
    }

    /// What is due besides the timers of its subflow.
    pub(super) fn handle_timeout(&mut self, now: Nanos) {
        self.repeat_join_ack(now);
        // A mapping that has not come is lost.
        if self.unmapped_until.take_if(|at| *at <= now).is_some() {
            self.reset(ResetReason::MIDDLEBOX);
        }
        self.handle_retirement_timeout(now);
        self.resume_signals(now);
    }

    /// Repeats the third packet of the join if it is time; twice as long is waited after each (RFC 8684, section 3.2), and
    /// in the end it is given up.
    fn repeat_join_ack(&mut self, now: Nanos) {
        if let Join::Confirming {
            repeat_at, wait, ..
        } = &mut self.signals.join
            && *repeat_at <= now
        {
            *wait *= 2;
            *repeat_at = now + *wait;
            match *wait > LONGEST_JOIN_WAIT {
                true => self.reset(ResetReason::UNSPECIFIED),
                false => self.subflow.send_ack(),
            }
        }
    }

    /// Whether a packet came to its ends.
    pub(super) fn receives(&self, packet: &Packet) -> bool {
        let (local, remote) = (self.four.local, self.four.remote);
        local.port() == packet.segment.destination_port
            && remote.port() == packet.segment.source_port
            && local.ip() == packet.destination
            && remote.ip() == packet.source
    }

    /// Whether data may go out on it.
    pub(super) fn can_send(&self) -> bool {
        let is_joined = matches!(self.signals.join, Join::Initial | Join::Done);
        let is_open = matches!(self.subflow.state(), State::Established | State::CloseWait);
        is_joined && is_open && self.established_at.is_some() && self.retired_until.is_none()
    }

    pub(super) fn is_backup(&self) -> bool {
        self.signals.is_backup_local || self.is_backup_remote
    }

    /// Whether nothing seems to arrive on it.
    pub(super) fn is_stale(&self) -> bool {
        self.has_failed || self.suspicion.is_some() || self.stale.is_stale()
    }

    /// Why it has ended, if it has and its reset is sent.
    pub(super) fn ended(&self) -> Option<CloseReason> {
        self.subflow.closed().filter(|_| !self.subflow.owes_reset())
    }

    /// Whether it is the choice for what has to arrive.
    pub(super) fn is_healthy(&self) -> bool {
        self.can_send() && !self.is_stale()
    }

    /// Says an option with an acknowledgment of its own.
    pub(super) fn signal(&mut self, option: MptcpOption) {
        self.signals.pending.push_back(option);
        self.ask_for_signal();
    }

    /// The same of an answer that is asked for again if it does not come: a storm of questions does not fill the memory.
    pub(super) fn answer(&mut self, option: MptcpOption) {
        if self.signals.pending.len() < MAX_WAITING_ANSWERS {
            self.signal(option);
        }
    }

    /// Says our DATA_FIN with an acknowledgment of its own.
    pub(super) fn say_data_fin(&mut self) {
        self.signals.says_fin = true;
        self.subflow.send_ack();
    }

    fn ask_for_signal(&mut self) {
        let is_free = self.signals.said_in_a_row < MAX_SIGNALS_IN_A_ROW;
        if is_free && !self.signals.pending.is_empty() {
            self.subflow.send_ack();
        }
    }

    /// After a segment: the next option follows at once, or, after as many duplicates in a row as may be, after a timeout.
    pub(super) fn keep_signalling(&mut self, now: Nanos) {
        self.ask_for_signal();
        if self.signals.said_in_a_row >= MAX_SIGNALS_IN_A_ROW {
            let at = now + self.subflow.rto();
            self.signals.resume_at.get_or_insert(at);
        }
    }

    /// What is acknowledged next is no duplicate.
    pub(super) fn end_signal_row(&mut self) {
        self.signals.said_in_a_row = 0;
        self.signals.resume_at = None;
    }

    fn resume_signals(&mut self, now: Nanos) {
        if self.signals.resume_at.is_some_and(|at| at <= now) {
            self.end_signal_row();
            self.ask_for_signal();
        }
    }

    /// Ends it at once with a reset.
    pub(super) fn reset(&mut self, code: u8) {
        let reason = ResetReason::of(code);
        self.signals.reset_reason = Some(reason);
        self.note_reset(reason);
        self.subflow.abort();
    }

    /// After as many timeouts as it takes to give it up, the peer may still hold it (RFC 8684, section 3.3.6).
    pub(super) fn say_why_it_timed_out(&mut self) {
        if self.established_at.is_some() && self.subflow.closed() == Some(CloseReason::TimedOut) {
            self.signals.reset_reason = Some(ResetReason::of(ResetReason::BAD_PERFORMANCE));
            self.subflow.owe_reset();
        }
    }

    /// Why either side resets it.
    pub(super) fn note_reset(&mut self, reason: ResetReason) {
        self.may_have_lost_acked |= reason.code == ResetReason::MIDDLEBOX;
        self.is_unfit |= !reason.is_transient();
    }

    /// Whether the first byte of a range was sent on it, or waits in its queue, and is not acknowledged there.
    pub(super) fn holds(&self, range: Range) -> bool {
        self.subflow.end_of_data_with(range.start).is_some()
    }

    /// The same of every byte of a range.
    pub(super) fn holds_all(&self, range: Range) -> bool {
        let end = range.start + range.len;
        let mut held_until = Some(range.start);
        while let Some(at) = held_until.filter(|at| *at < end) {
            held_until = self.subflow.end_of_data_with(at);
        }
        held_until.is_some()
    }
}

impl PathSignals {
    /// Whether the next acknowledgment is to have the DATA_FIN of a stream without a byte. Behind data it waits for them: they
    /// bring the DSS with which all can be said.
    pub(super) fn owes_bare_fin(&self, session: &Session) -> bool {
        let is_said = self.says_fin && session.mode == Mode::Multipath;
        is_said && session.fins.local_to_send() == Some(0)
    }

    /// The next option for an acknowledgment, unless too many in a row have had one.
    pub(super) fn take_pending(&mut self) -> Option<MptcpOption> {
        if self.said_in_a_row >= MAX_SIGNALS_IN_A_ROW {
            return None;
        }
        let signal = self.pending.pop_front()?;
        self.said_in_a_row += 1;
        Some(signal)
    }

    fn new(join: Join) -> Self {
        Self {
            join,
            capable_syns: 0,
            is_backup_local: false,
            pending: VecDeque::new(),
            said_in_a_row: 0,
            resume_at: None,
            says_fin: false,
            has_said_keys: false,
            closes_fast: false,
            reset_reason: None,
            failed_from: None,
            infinite: None,
        }
    }
}
