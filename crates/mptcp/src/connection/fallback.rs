//! Back to TCP, or to fewer subflows, where the network does not let Multipath TCP through (RFC 8684, section 3.7).

use super::mappings::MappingError;
use super::path::{InfiniteMapping, Join};
use super::{Connection, Event, Fallback, Mode};
use crate::subflow::Arrival;
use crate::wire::{Flags, MptcpOption, ResetReason, Segment};

impl Connection {
    /// Plain TCP from the first byte on.
    pub(super) fn start_plain(&mut self) {
        self.session.mode = Mode::Plain;
        self.map_infinitely();
        self.reserve_options();
    }

    fn map_infinitely(&mut self) {
        // What waited for the rest of its mapping, to be summed, comes before.
        let payload = self.paths[0].mappings.take_held();
        self.insert_plain(self.receive.next(), payload);
        self.paths[0].mappings.map_infinitely(self.receive.next());
    }

    /// Plain TCP has no holes: there is one subflow, and what goes either way on it is next (RFC 8684, section 3.7).
    fn may_fall_back(&self, which: usize) -> bool {
        let is_contiguous = self.receive.out_of_order_bytes() == 0 && self.sends_in_order(which);
        self.config.fallback == Fallback::Rfc && self.paths.len() == 1 && is_contiguous
    }

    /// Whether all that was assigned and did not arrive is on that subflow in order.
    fn sends_in_order(&self, which: usize) -> bool {
        let subflow = &self.paths[which].subflow;
        let mut next = None;
        for range in subflow.unacked().chain(subflow.queued()) {
            if next.is_some_and(|next| next != range.start) {
                return false;
            }
            next = Some(range.start + range.len);
        }
        self.reinjections.front().is_none() && next.is_none_or(|next| next == self.send.assigned())
    }

    /// A peer, or a middlebox, that leaves the options out at the start gets plain TCP (RFC 8684, section 3.7).
    pub(super) fn fall_back_if_options_are_missing(
        &mut self,
        which: usize,
        segment: &Segment,
        arrival: Arrival,
    ) {
        let is_initial = self.paths[which].signals.join == Join::Initial;
        let may = self.session.mode == Mode::Multipath && !self.session.has_seen_dss && is_initial;
        let says_nothing = segment.options.mptcp.is_empty();
        let is_proof = !segment.payload.is_empty() || arrival.acked;
        if may
            && says_nothing
            && is_proof
            && self.paths.len() == 1
            && !segment.flags.contains(Flags::SYN)
        {
            // The peer may have seen our mappings, and has to learn that there are no more.
            let from = self.send.assigned();
            self.owe_infinite_mapping(which, from);
            self.fall_back();
        }
    }

    /// A joined subflow whose first data are acknowledged without a DATA_ACK does not bring options through (RFC 8684, section
    /// 3.7).
    pub(super) fn reset_if_data_acks_are_missing(
        &mut self,
        which: usize,
        segment: &Segment,
        arrival: Arrival,
    ) {
        let path = &mut self.paths[which];
        path.has_data_ack = path.has_data_ack || segment.options.mptcp.iter().any(has_data_ack);
        let is_joined = path.signals.join == Join::Done;
        let has_data_acked = arrival.acked && path.subflow.counters().acked_bytes > 0;
        if is_joined && has_data_acked && !path.has_data_ack {
            path.reset(ResetReason::MIDDLEBOX);
        }
    }

    /// The next new data say that everything from a byte on, perhaps one that was sent before, is plain TCP.
    fn owe_infinite_mapping(&mut self, which: usize, back_to: u64) {
        self.paths[which].signals.infinite = Some(Box::new(InfiniteMapping {
            said_at: self.send.assigned(),
            back_to,
        }));
        self.session.owes_infinite_mapping = true;
    }

    fn fall_back(&mut self) {
        self.start_plain();
        self.reinjections.clear();
        self.events.push_back(Event::FellBack);
    }

    /// From here on the peer speaks plain TCP, which it may only with one subflow (RFC 8684, section 3.7).
    pub(super) fn take_infinite_mapping(&mut self, which: usize) {
        if self.may_fall_back(which) {
            self.fall_back();
        } else {
            self.paths[which].reset(ResetReason::MPTCP_ERROR);
        }
    }

    /// What we sent did not arrive as it was. MP_FAIL goes back, and both sides go on as plain TCP, the data that are not known
    /// to have arrived among it (RFC 8684, section 3.7).
    pub(super) fn take_fail(&mut self, which: usize) {
        if !self.may_fall_back(which) {
            self.paths[which].reset(ResetReason::MIDDLEBOX);
            return;
        }
        self.owe_infinite_mapping(which, self.send.acked());
        self.fall_back();
        self.session.answers_fail = true;
        self.answer_fail(which);
    }

    fn answer_fail(&mut self, which: usize) {
        let path = &mut self.paths[which];
        path.signals.failed_from = self.session.remote_data_seq(self.receive.next());
        path.subflow.send_ack();
    }

    /// After a fallback for a wrong checksum nothing more is said than MP_FAIL: by who found it until there is an answer, and by
    /// the other in answer. Who found it gives DATA_ACKs until the peer maps no more.
    pub(super) fn take_farewell(&mut self, which: usize, segment: &Segment) {
        let options = &segment.options.mptcp;
        if options
            .iter()
            .any(|option| matches!(option, MptcpOption::Fail { .. }))
        {
            match self.session.answers_fail {
                true => self.answer_fail(which),
                false => self.paths[which].signals.failed_from = None,
            }
        }
        if !segment.payload.is_empty() && !options.iter().any(maps_some) {
            self.paths[which].signals.failed_from = None;
            self.session.awaits_infinite_mapping = false;
        }
    }

    /// Resets the path, or goes on as plain TCP after a wrong checksum: that is for the only path, as long as nothing is missing
    /// before the mapping (RFC 8684, section 3.7).
    pub(super) fn outlives(&mut self, which: usize, error: MappingError) -> bool {
        let MappingError::Checksum { offset, payload } = error else {
            self.paths[which].reset(ResetReason::MIDDLEBOX);
            return false;
        };
        self.counters.get_or_insert_default().failed_checksums += 1;
        self.paths[which].signals.failed_from = self.session.remote_data_seq(offset);
        if !self.may_fall_back(which) || offset != self.receive.next() {
            self.paths[which].reset(ResetReason::MIDDLEBOX);
            return false;
        }
        self.insert_plain(offset, payload);
        self.owe_infinite_mapping(which, self.send.acked());
        self.fall_back();
        self.session.awaits_infinite_mapping = true;
        self.paths[which].subflow.send_ack();
        true
    }
}

fn has_data_ack(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::Dss(dss) if dss.data_ack().is_some())
}

/// Whether it is a mapping with an end.
fn maps_some(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::Dss(dss) if dss.mapping().is_some_and(|mapping| mapping.len > 0))
}
