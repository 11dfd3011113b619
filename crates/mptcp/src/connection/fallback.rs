//! Fallback to plain TCP, or to fewer subflows, where the network does not let MPTCP through (RFC
//! 8684, section 3.7).

use super::mappings::MappingError;
use super::subflow_context::InfiniteMapping;
use super::{Connection, Event, Fallback, Mode};
use crate::subflow::Arrival;
use crate::wire::{Flags, MptcpOption, ResetReason, Segment};

impl Connection {
    /// Makes the connection plain TCP from the next byte on.
    pub(super) fn start_plain(&mut self) {
        self.session.mode = Mode::Plain;
        self.map_infinitely();
        self.reserve_options();
    }

    fn map_infinitely(&mut self) {
        // Data that waited for the rest of its mapping, for the checksum, comes first.
        let payload = self.subflows[0].mappings.take_held();
        self.insert_plain(self.receive.next(), payload);
        self.subflows[0]
            .mappings
            .map_infinitely(self.receive.next());
    }

    /// Returns whether the connection can continue as plain TCP. Plain TCP has no gaps: there must
    /// be one subflow, whose data in both directions comes next in the stream (RFC 8684, section
    /// 3.7).
    fn may_fall_back(&self, subflow: usize) -> bool {
        let is_contiguous = self.receive.out_of_order_bytes() == 0 && self.sends_in_order(subflow);
        self.config.fallback == Fallback::Rfc && self.subflows.len() == 1 && is_contiguous
    }

    /// Returns whether all data that was assigned and has not arrived is on this subflow in order.
    fn sends_in_order(&self, subflow: usize) -> bool {
        let tcp = &self.subflows[subflow].tcp;
        let mut next = None;
        for range in tcp.unacked().chain(tcp.queued()) {
            if next.is_some_and(|next| next != range.start) {
                return false;
            }
            next = Some(range.start + range.len);
        }
        self.reinjections.front().is_none() && next.is_none_or(|next| next == self.send.assigned())
    }

    /// Falls back to plain TCP if the peer or a middlebox leaves out the options at the start (RFC
    /// 8684, section 3.7).
    pub(super) fn fall_back_if_options_are_missing(
        &mut self,
        subflow: usize,
        segment: &Segment,
        arrival: Arrival,
    ) {
        let is_initial = self.subflows[subflow].is_initial;
        let may = self.session.mode == Mode::Multipath && !self.session.has_seen_dss && is_initial;
        let has_no_options = segment.options.mptcp.is_empty();
        let is_proof = !segment.payload.is_empty() || arrival.acked;
        if may
            && has_no_options
            && is_proof
            && self.subflows.len() == 1
            && !segment.flags.contains(Flags::SYN)
        {
            // The peer may have received mappings, and has to learn that no more follow.
            let from = self.send.assigned();
            self.owe_infinite_mapping(subflow, from);
            self.fall_back();
        }
    }

    /// Resets a joined subflow whose first data is acknowledged without a DATA_ACK, because options
    /// do not get through on it (RFC 8684, section 3.7).
    pub(super) fn reset_if_data_acks_are_missing(
        &mut self,
        subflow: usize,
        segment: &Segment,
        arrival: Arrival,
    ) {
        let context = &mut self.subflows[subflow];
        context.has_data_ack =
            context.has_data_ack || segment.options.mptcp.iter().any(has_data_ack);
        let is_joined = !context.is_initial && context.life.is_established();
        let has_data_acked = arrival.acked && context.tcp.counters().acked_bytes > 0;
        if is_joined && has_data_acked && !context.has_data_ack {
            context.reset(ResetReason::MIDDLEBOX);
        }
    }

    /// Queues an infinite mapping for the next new data. It covers all data from `back_to` on,
    /// which may already have been sent.
    fn owe_infinite_mapping(&mut self, subflow: usize, back_to: u64) {
        self.subflows[subflow].signals.infinite = Some(Box::new(InfiniteMapping {
            sent_with: self.send.assigned(),
            back_to,
        }));
        self.session.owes_infinite_mapping = true;
    }

    fn fall_back(&mut self) {
        // One segment can carry both an infinite mapping and MP_FAIL.
        if self.session.mode != Mode::Plain {
            self.events.push_back(Event::FellBack);
        }
        self.start_plain();
        self.reinjections.clear();
    }

    /// Handles an infinite mapping, after which the peer sends plain TCP. It may do so only with
    /// one subflow (RFC 8684, section 3.7).
    pub(super) fn handle_infinite_mapping(&mut self, subflow: usize) {
        if self.may_fall_back(subflow) {
            self.fall_back();
        } else {
            self.subflows[subflow].reset(ResetReason::MPTCP_ERROR);
        }
    }

    /// Handles MP_FAIL: the local data arrived changed. Answers with MP_FAIL, and both hosts
    /// continue as plain TCP, including the data that is not known to have arrived (RFC 8684,
    /// section 3.7).
    pub(super) fn handle_fail(&mut self, subflow: usize) {
        if !self.may_fall_back(subflow) {
            self.subflows[subflow].reset(ResetReason::MIDDLEBOX);
            return;
        }
        self.owe_infinite_mapping(subflow, self.send.acked());
        self.fall_back();
        self.session.answers_fail = true;
        self.answer_fail(subflow);
    }

    fn answer_fail(&mut self, subflow: usize) {
        let context = &mut self.subflows[subflow];
        context.signals.failed_from = self.session.remote_data_seq(self.receive.next());
        context.tcp.send_ack();
    }

    /// Handles MP_FAIL and the last mappings after a fallback for a wrong checksum.
    ///
    /// The host that found the wrong checksum repeats MP_FAIL until it is answered, and sends
    /// DATA_ACKs until the peer stops sending mappings. The other host answers each MP_FAIL.
    pub(super) fn handle_fallback_signals(&mut self, subflow: usize, segment: &Segment) {
        let options = &segment.options.mptcp;
        if options
            .iter()
            .any(|option| matches!(option, MptcpOption::Fail { .. }))
        {
            match self.session.answers_fail {
                true => self.answer_fail(subflow),
                false => self.subflows[subflow].signals.failed_from = None,
            }
        }
        if !segment.payload.is_empty() && !options.iter().any(maps_some) {
            self.subflows[subflow].signals.failed_from = None;
            self.session.awaits_infinite_mapping = false;
        }
    }

    /// Resets the subflow, or falls back to plain TCP after a wrong checksum. Returns whether the
    /// subflow survives. A fallback is possible only with one subflow and without a gap before the
    /// mapping (RFC 8684, section 3.7).
    pub(super) fn outlives(&mut self, subflow: usize, error: MappingError) -> bool {
        let MappingError::Checksum { offset, payload } = error else {
            self.subflows[subflow].reset(ResetReason::MIDDLEBOX);
            return false;
        };
        self.counters.get_or_insert_default().failed_checksums += 1;
        self.subflows[subflow].signals.failed_from = self.session.remote_data_seq(offset);
        if !self.may_fall_back(subflow) || offset != self.receive.next() {
            self.subflows[subflow].reset(ResetReason::MIDDLEBOX);
            return false;
        }
        self.insert_plain(offset, payload);
        self.owe_infinite_mapping(subflow, self.send.acked());
        self.fall_back();
        self.session.awaits_infinite_mapping = true;
        self.subflows[subflow].tcp.send_ack();
        true
    }
}

fn has_data_ack(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::Dss(dss) if dss.data_ack().is_some())
}

/// Returns whether the option is a mapping that is not infinite.
fn maps_some(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::Dss(dss) if dss.mapping().is_some_and(|mapping| mapping.len > 0))
}
