//! A subflow, with the state that its connection keeps for it beyond TCP.

use std::collections::VecDeque;

use super::delivery::Delivery;
use super::lifecycle::{Lifecycle, LifecycleEvent, Phase};
use super::mappings::Mappings;
use super::receive_tuning::Threshold;
use super::session::{Mode, Session};
use crate::pm::FourTuple;
use crate::sched::Range;
use crate::seq::DataSeq;
use crate::subflow::{CloseReason, State, Subflow};
use crate::time::{Nanos, SECOND, earliest};
use crate::wire::{AddressId, Hops, MptcpOption, Packet, ResetReason};

/// Longest wait for the fourth packet of a join. Beyond it, the subflow is reset.
const LONGEST_JOIN_WAIT: Nanos = 60 * SECOND;

/// Maximum number of duplicate ACKs in a row that only carry an option. A third could be taken for
/// a sign of loss (RFC 8684, section 3).
const MAX_SIGNALS_IN_A_ROW: u32 = 2;

/// Number of queued options from which on no further echo is queued.
const MAX_WAITING_ANSWERS: usize = 16;

/// Options and flags to send on a subflow.
#[derive(Debug, Default)]
pub(super) struct SubflowSignals {
    /// Number of SYNs sent on the subflow, with MP_CAPABLE as long as it is allowed.
    pub(super) capable_syns: u32,
    /// Whether this host marked the subflow as backup.
    pub(super) is_backup_local: bool,
    /// Options for the next ACKs, one in each.
    pub(super) pending: VecDeque<MptcpOption>,
    /// Number of ACKs with such an option since data last arrived.
    pub(super) sent_in_a_row: u32,
    /// When further options may follow, if the limit of ACKs in a row is reached.
    pub(super) resume_at: Option<Nanos>,
    /// Whether the next ACK carries the DATA_FIN.
    pub(super) sends_data_fin: bool,
    /// Whether the keys were sent, so that a DATA_FIN may follow.
    pub(super) has_sent_keys: bool,
    /// Whether a RST carries MP_FASTCLOSE.
    pub(super) closes_fast: bool,
    /// The reason that a RST carries.
    pub(super) reset_reason: Option<ResetReason>,
    /// The DSN of an MP_FAIL to send.
    pub(super) failed_from: Option<DataSeq>,
    /// An infinite mapping to send.
    pub(super) infinite: Option<Box<InfiniteMapping>>,
}

/// The mapping that turns the local stream into plain TCP (RFC 8684, section 3.7), in offsets of
/// the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InfiniteMapping {
    /// The first new byte. The mapping is sent with it.
    pub(super) sent_with: u64,
    /// The first byte that the mapping covers.
    pub(super) back_to: u64,
}

/// A subflow of a connection.
#[derive(Debug)]
pub(super) struct SubflowContext {
    /// Number of the subflow, never used again.
    pub(super) id: u32,
    pub(super) four: FourTuple,
    pub(super) local_id: AddressId,
    pub(super) remote_id: AddressId,
    /// The gateway list of the subflow, if it has one.
    pub(super) via: Option<Box<Hops>>,
    pub(super) tcp: Subflow,
    pub(super) mappings: Mappings,
    /// Receive threshold of the subflow, if each has its own.
    pub(super) receive_threshold: Threshold,
    pub(super) signals: SubflowSignals,
    /// Whether its SYN carries MP_CAPABLE, not MP_JOIN.
    pub(super) is_initial: bool,
    /// Where in its life the subflow is.
    pub(super) life: Lifecycle,
    pub(super) delivery: Delivery,
    /// Whether the peer marked the subflow as backup.
    pub(super) is_backup_remote: bool,
    /// When the subflow is reset because data without a mapping has waited too long; `None` without
    /// such data.
    pub(super) unmapped_until: Option<Nanos>,
    /// Whether its local address was withdrawn.
    pub(super) has_lost_address: bool,
    /// Whether a DATA_ACK has arrived on it.
    pub(super) has_data_ack: bool,
    /// Back-off of its RTO when it was last checked.
    pub(super) seen_backoff: u32,
}

impl SubflowContext {
    pub(super) fn new(
        id: u32,
        four: FourTuple,
        ids: (AddressId, AddressId),
        tcp: Subflow,
        receive_threshold: Threshold,
        life: Lifecycle,
    ) -> Self {
        Self {
            id,
            four,
            local_id: ids.0,
            remote_id: ids.1,
            via: None,
            tcp,
            mappings: Mappings::new(),
            receive_threshold,
            signals: SubflowSignals::default(),
            is_initial: matches!(*life, Phase::Connecting),
            life,
            delivery: Delivery::default(),
            is_backup_remote: false,
            unmapped_until: None,
            has_lost_address: false,
            has_data_ack: false,
            seen_backoff: 0,
        }
    }

    /// Returns when something is due: a timer of the TCP subflow, a repetition of the third packet
    /// of a join, the end of a wait, a keepalive probe, or an option.
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        earliest([
            self.tcp.poll_timeout(),
            self.life.confirmation().map(|its| its.repeat_at),
            self.unmapped_until,
            self.retirement_timeout(),
            self.signals.resume_at,
        ])
    }

    /// Does what is due, except for the timers of the TCP subflow.
    pub(super) fn handle_timeout(&mut self, now: Nanos) {
        self.repeat_join_ack(now);
        // A mapping that has not arrived by now is lost.
        if self.unmapped_until.take_if(|at| *at <= now).is_some() {
            self.reset(ResetReason::MIDDLEBOX);
        }
        self.handle_retirement_timeout(now);
        self.resume_signals(now);
    }

    /// Repeats the third packet of a join when it is due. The wait doubles each time (RFC 8684,
    /// section 3.2), and the subflow is reset in the end.
    fn repeat_join_ack(&mut self, now: Nanos) {
        let confirmation = self.life.confirmation();
        let Some(due) = confirmation.filter(|its| its.repeat_at <= now) else {
            return;
        };
        if due.next_wait() > LONGEST_JOIN_WAIT {
            self.reset(ResetReason::UNSPECIFIED);
        } else {
            self.life.apply(LifecycleEvent::AckRepeated { now });
            self.tcp.send_ack();
        }
    }

    /// Returns whether a packet belongs to this subflow.
    pub(super) fn receives(&self, packet: &Packet) -> bool {
        let (local, remote) = (self.four.local, self.four.remote);
        local.port() == packet.segment.destination_port
            && remote.port() == packet.segment.source_port
            && local.ip() == packet.destination
            && remote.ip() == packet.source
    }

    /// Returns whether the subflow can carry data.
    pub(super) fn can_send(&self) -> bool {
        let is_open = matches!(self.tcp.state(), State::Established | State::CloseWait);
        is_open && self.life.takes_data()
    }

    pub(super) fn is_backup(&self) -> bool {
        self.signals.is_backup_local || self.is_backup_remote
    }

    /// Returns whether the subflow seems to deliver nothing.
    pub(super) fn is_stale(&self) -> bool {
        self.delivery.is_stale() || self.life.suspicion().is_some()
    }

    /// Returns why the subflow ended, once it has and its RST is sent.
    pub(super) fn ended(&self) -> Option<CloseReason> {
        self.tcp.closed().filter(|_| !self.tcp.owes_reset())
    }

    /// Returns whether the subflow can carry data and seems to deliver it.
    pub(super) fn is_healthy(&self) -> bool {
        self.can_send() && !self.is_stale()
    }

    /// Queues an option, which gets an ACK of its own.
    pub(super) fn signal(&mut self, option: MptcpOption) {
        self.signals.pending.push_back(option);
        self.request_signal();
    }

    /// Queues an answer that the peer will request again if it is missing. Drops it if too many
    /// wait, because a flood of requests must not fill the memory.
    pub(super) fn answer(&mut self, option: MptcpOption) {
        if self.signals.pending.len() < MAX_WAITING_ANSWERS {
            self.signal(option);
        }
    }

    /// Sends the DATA_FIN with an ACK of its own.
    pub(super) fn queue_data_fin(&mut self) {
        self.signals.sends_data_fin = true;
        self.tcp.send_ack();
    }

    fn request_signal(&mut self) {
        let is_free = self.signals.sent_in_a_row < MAX_SIGNALS_IN_A_ROW;
        if is_free && !self.signals.pending.is_empty() {
            self.tcp.send_ack();
        }
    }

    /// Continues with the next option after an ACK has carried one. After the largest number of
    /// duplicates in a row, the next option waits for one RTO.
    pub(super) fn keep_signalling(&mut self, now: Nanos) {
        self.request_signal();
        if self.signals.sent_in_a_row >= MAX_SIGNALS_IN_A_ROW {
            let at = now + self.tcp.rto();
            self.signals.resume_at.get_or_insert(at);
        }
    }

    /// Ends the row of duplicate ACKs, because the next ACK acknowledges something new.
    pub(super) fn end_signal_row(&mut self) {
        self.signals.sent_in_a_row = 0;
        self.signals.resume_at = None;
    }

    fn resume_signals(&mut self, now: Nanos) {
        if self.signals.resume_at.is_some_and(|at| at <= now) {
            self.end_signal_row();
            self.request_signal();
        }
    }

    /// Closes the subflow at once with a RST.
    pub(super) fn reset(&mut self, code: u8) {
        let reason = ResetReason::of(code);
        self.signals.reset_reason = Some(reason);
        self.record_reset(reason);
        self.tcp.abort();
    }

    /// Queues a RST with a reason after the subflow timed out, because the peer may still hold
    /// state (RFC 8684, section 3.3.6).
    pub(super) fn queue_timeout_reset(&mut self) {
        let has_timed_out = self.tcp.closed() == Some(CloseReason::TimedOut);
        if has_timed_out && self.life.established_at().is_some() {
            self.signals.reset_reason = Some(ResetReason::of(ResetReason::BAD_PERFORMANCE));
            self.tcp.owe_reset();
        }
    }

    /// Records the reason of a RST of either host.
    pub(super) fn record_reset(&mut self, reason: ResetReason) {
        self.life.apply(LifecycleEvent::Reset(reason));
    }

    /// Returns whether the subflow holds the first byte of a range, sent or queued, without an
    /// acknowledgment.
    pub(super) fn holds(&self, range: Range) -> bool {
        self.tcp.end_of_data_with(range.start).is_some()
    }

    /// Returns the same for every byte of a range.
    pub(super) fn holds_all(&self, range: Range) -> bool {
        let end = range.start + range.len;
        let mut held_until = Some(range.start);
        while let Some(at) = held_until.filter(|at| *at < end) {
            held_until = self.tcp.end_of_data_with(at);
        }
        held_until.is_some()
    }
}

impl SubflowSignals {
    /// Returns whether the next ACK has to carry the DATA_FIN of an empty stream. A DATA_FIN behind
    /// data waits, because the peer answers the data with a DSS, and ACKs then no longer carry the
    /// keys.
    pub(super) fn owes_bare_fin(&self, session: &Session) -> bool {
        let is_sent = self.sends_data_fin && session.mode == Mode::Multipath;
        is_sent && session.fins.local_to_send() == Some(0)
    }

    /// Returns the next option for an ACK, unless too many ACKs in a row have carried one.
    pub(super) fn take_pending(&mut self) -> Option<MptcpOption> {
        if self.sent_in_a_row >= MAX_SIGNALS_IN_A_ROW {
            return None;
        }
        let signal = self.pending.pop_front()?;
        self.sent_in_a_row += 1;
        Some(signal)
    }
}
