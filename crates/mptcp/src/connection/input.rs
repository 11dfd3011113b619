//! What segments of the peer do to a connection.

use super::keys::{self, Nonces};
use super::mappings::{Mapped, MappedChecksum, MappingError, ReceivedMapping};
use super::path::{InfiniteMapping, Join};
use super::{Connection, Event, Fallback, Mode, join_of};
use crate::payload::Payload;
use crate::pm::{self, Role};
use crate::subflow::{Arrival, CloseReason};
use crate::time::Nanos;
use crate::wire::{
    Capable, DataNumber, Dss, Flags, InitialMapping, Join as JoinOption, Mapping, MptcpOption,
    Packet, ResetReason, Segment,
};

impl Connection {
    /// Takes a packet of one of its subflows; one of another is ignored.
    pub fn handle_packet(&mut self, now: Nanos, packet: &Packet) {
        let segment = &packet.segment;
        let Some(which) = self.paths.iter().position(|path| path.receives(packet)) else {
            return;
        };
        if self.is_too_early(segment) {
            return;
        }
        let (subflow, mut control) = self.subflow_and_control(which);
        let arrival = subflow.handle_segment(now, segment, packet.ecn, &mut control);
        let which = self.settle_start(now, which, arrival);
        if arrival.is_acceptable {
            self.take_acceptable(now, which, segment, arrival);
        }
        if arrival.closed == Some(CloseReason::Reset) {
            self.take_reset(which, segment);
        }
        self.after_subflow(now, which);
        self.reap_closed(now);
        self.is_schedulable = true;
    }

    /// Before the keys have come, with the third packet or with the first data, a mapping says nothing. Such a segment counts as
    /// lost: it comes again.
    fn is_too_early(&self, segment: &Segment) -> bool {
        let waits_for_key =
            self.session.role == Role::Acceptor && self.session.mode == Mode::Negotiating;
        let mut options = segment.options.mptcp.iter();
        waits_for_key && options.any(|option| matches!(option, MptcpOption::Dss(_)))
    }

    fn take_acceptable(&mut self, now: Nanos, which: usize, segment: &Segment, arrival: Arrival) {
        self.note_sign_of_life(now, which);
        let path = &mut self.paths[which];
        path.answer_suspicion(now, segment);
        if arrival.has_data {
            path.end_signal_row();
        }
        if arrival.established {
            path.established_at = Some(now);
        }
        if arrival.established && path.signals.join == Join::Initial {
            // Until the first DATA_ACK, the window of the handshake counts from the first byte.
            let window = u64::from(path.subflow.send_window_bytes());
            self.send_edge = self.send_edge.max(window);
        }
        self.shake_hands(now, which, segment, arrival);
        self.fall_back_if_options_are_missing(which, segment, arrival);
        self.reset_if_data_acks_are_missing(which, segment, arrival);
        if self.session.mode == Mode::Multipath {
            for option in &segment.options.mptcp {
                self.take_option(now, which, segment, option);
            }
        } else {
            self.take_farewell(which, segment);
        }
        self.read_path(now, which);
        if arrival.fin && self.session.mode == Mode::Plain {
            self.session.fins.end_remote(self.receive.next());
        } else if arrival.fin {
            self.follow_fin(now, which);
        }
        self.tell_finish();
    }

    /// The version and the flags of a SYN that asks for Multipath TCP. What is not understood gets plain TCP.
    pub(super) fn take_syn(&mut self, syn: &Segment) {
        let asked = capable_of(syn).and_then(|capable| match capable {
            Capable::Syn { version, flags } if version >= 1 => Some(flags),
            _ => None,
        });
        match asked.filter(|flags| is_understood(*flags)) {
            Some(flags) if self.config.is_multipath => self.take_capable_flags(flags),
            _ => self.session.mode = Mode::Plain,
        }
    }

    /// If either side requires checksums, both use them (RFC 8684, section 3.1).
    fn take_capable_flags(&mut self, flags: u8) {
        self.session.uses_checksums |= flags & Capable::CHECKSUM_REQUIRED != 0;
        self.session.may_join_initial &= flags & Capable::NO_JOIN_TO_INITIAL == 0;
    }

    fn shake_hands(&mut self, now: Nanos, which: usize, segment: &Segment, arrival: Arrival) {
        match (self.paths[which].signals.join, self.session.role) {
            (Join::Initial, Role::Opener) if arrival.established => self.agree_as_opener(segment),
            (Join::Initial, Role::Acceptor) => self.agree_as_acceptor(now, segment, arrival),
            (Join::Opening { nonces, .. }, _) if arrival.established => {
                self.check_join_syn_ack(now, which, segment, nonces);
            }
            (Join::Confirming { .. }, _) if !segment.flags.contains(Flags::SYN) => {
                self.finish_join(now, which);
            }
            (Join::Accepting { nonces, .. }, _) if arrival.established => {
                self.check_join_ack(now, which, segment, nonces);
            }
            // The fourth packet was lost, as the third is repeated.
            (Join::Done, _) if matches!(join_of(segment), Some(JoinOption::Ack { .. })) => {
                self.paths[which].subflow.send_ack();
            }
            _ => {}
        }
    }

    fn agree_as_opener(&mut self, segment: &Segment) {
        let agreed = match capable_of(segment) {
            Some(Capable::SynAck {
                version: 1,
                flags,
                sender_key,
            }) if self.session.mode == Mode::Negotiating && is_understood(flags) => {
                Some((flags, sender_key))
            }
            _ => None,
        };
        match agreed {
            Some((flags, key)) => {
                self.take_capable_flags(flags);
                self.session.set_remote_key(key);
                self.session.mode = Mode::Multipath;
                self.reserve_options();
            }
            None => self.start_plain(),
        }
        let mode = self.session.mode;
        self.events.push_back(Event::Connected { mode });
    }

    fn agree_as_acceptor(&mut self, now: Nanos, segment: &Segment, arrival: Arrival) {
        match self.session.mode {
            Mode::Plain if arrival.established => self.start_plain(),
            Mode::Negotiating if self.paths[0].established_at.is_some() => self.learn_key(segment),
            _ => return,
        }
        let mode = self.session.mode;
        if mode != Mode::Negotiating {
            self.events.push_back(Event::Connected { mode });
        }
        if mode == Mode::Multipath {
            self.established_at = Some(now);
            self.start_subflows_if_due(now);
        }
    }

    /// The keys come with the third packet, or with the first data if that was lost.
    fn learn_key(&mut self, segment: &Segment) {
        match capable_of(segment) {
            Some(Capable::Ack { version, flags, .. }) if version != 1 || !is_understood(flags) => {
                self.start_plain();
            }
            // Whoever did not hear our SYN/ACK does not know our key.
            Some(Capable::Ack { receiver_key, .. }) if receiver_key != self.session.local_key() => {
                self.paths[0].reset(ResetReason::MPTCP_ERROR);
            }
            Some(Capable::Ack { sender_key, .. }) => {
                self.session.set_remote_key(sender_key);
                self.session.mode = Mode::Multipath;
                self.session.is_fully_established = true;
                self.reserve_options();
            }
            _ if segment.options.mptcp.is_empty() => self.start_plain(),
            _ => {}
        }
    }

    fn check_join_syn_ack(&mut self, now: Nanos, which: usize, segment: &Segment, nonces: Nonces) {
        let Some(keys) = self.session.keys() else {
            return;
        };
        let path = &mut self.paths[which];
        if let Some(JoinOption::SynAck {
            backup,
            address_id,
            truncated_hmac,
            nonce,
        }) = join_of(segment)
        {
            let nonces = Nonces {
                remote: nonce,
                ..nonces
            };
            if keys::first_64_bits(&keys.peer_join_hmac(nonces)) == truncated_hmac {
                let wait = path.subflow.rto();
                path.signals.join = Join::Confirming {
                    nonces,
                    repeat_at: now + wait,
                    wait,
                };
                path.is_backup_remote = backup;
                path.remote_id = address_id;
                return;
            }
        }
        self.counters.refused_joins += 1;
        path.reset(ResetReason::MPTCP_ERROR);
    }

    fn check_join_ack(&mut self, now: Nanos, which: usize, segment: &Segment, nonces: Nonces) {
        let Some(keys) = self.session.keys() else {
            return;
        };
        let expected = keys::first_160_bits(&keys.peer_join_hmac(nonces));
        match join_of(segment) {
            Some(JoinOption::Ack { hmac }) if hmac == expected => {
                // The fourth packet: only with it may the opener send (RFC 8684, section 3.2).
                self.paths[which].subflow.send_ack();
                self.finish_join(now, which);
            }
            _ => {
                self.counters.refused_joins += 1;
                self.paths[which].reset(ResetReason::MPTCP_ERROR);
            }
        }
    }

    fn finish_join(&mut self, now: Nanos, which: usize) {
        let path = &mut self.paths[which];
        path.signals.join = Join::Done;
        self.abandoned_at = None;
        let event = pm::Event::SubflowEstablished {
            subflow: path.four,
            local_id: path.local_id,
            remote_id: path.remote_id,
        };
        self.events.push_back(Event::SubflowEstablished {
            id: path.id,
            four: path.four,
        });
        path.signals.says_fin = true;
        self.manage(now, &event);
    }

    /// Plain TCP from the first byte on.
    fn start_plain(&mut self) {
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
    fn fall_back_if_options_are_missing(
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
    fn reset_if_data_acks_are_missing(
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

    /// New sizes of options for all paths.
    pub(super) fn reserve_options(&mut self) {
        let bytes = self.session.reserved_bytes();
        for (path, window) in self.paths.iter_mut() {
            path.subflow.reserve_options(bytes, window);
        }
    }

    fn take_option(&mut self, now: Nanos, which: usize, segment: &Segment, option: &MptcpOption) {
        match option {
            MptcpOption::Dss(dss) => self.take_dss(now, which, segment, dss),
            MptcpOption::Capable(Capable::Ack {
                data: Some(data), ..
            }) => self.take_capable_data(which, *data),
            MptcpOption::AddAddress(address) => self.take_announcement(now, which, address),
            MptcpOption::RemoveAddress(ids) => self.take_removal(now, ids),
            MptcpOption::Priority { backup } => self.paths[which].is_backup_remote = *backup,
            MptcpOption::Fail { .. } => self.take_fail(which),
            MptcpOption::FastClose { receiver_key } => self.take_fast_close(*receiver_key),
            MptcpOption::Capable(_) | MptcpOption::Join(_) | MptcpOption::Reset(_) => {}
        }
    }

    fn take_dss(&mut self, now: Nanos, which: usize, segment: &Segment, dss: &Dss) {
        let (data_ack, mapping) = (dss.data_ack(), dss.mapping());
        if data_ack.is_none() && mapping.is_none() {
            return;
        }
        self.session.has_seen_dss = true;
        self.note_fully_established(now);
        if let Some(number) = data_ack {
            let offset = self.session.offset(number, self.send.acked());
            if let Some(offset) = offset {
                let window_bytes = self.paths[which].subflow.window_of(segment);
                self.take_data_ack(now, offset, window_bytes);
            }
        }
        if let Some(mapping) = mapping {
            self.take_mapping(which, &mapping, dss.data_fin());
        }
    }

    /// The peer has answered with what only who knows the keys can say (RFC 8684, section 3.1).
    pub(super) fn note_fully_established(&mut self, now: Nanos) {
        if !self.session.is_fully_established {
            self.session.is_fully_established = true;
            self.established_at = Some(now);
            self.start_subflows_if_due(now);
        }
    }

    /// Everything before `offset` has arrived, DATA_FIN counted as a byte. What was never sent is not believed. The window of the
    /// same segment counts from there, whatever the subflow thinks of its age: that of another would go too far (RFC 8684,
    /// section 3.3.5).
    fn take_data_ack(&mut self, now: Nanos, offset: u64, window_bytes: u32) {
        let has_fin =
            self.session.fins.local_to_send().is_some() || self.session.fins.is_local_acked();
        let sent = self.send.assigned() + u64::from(has_fin);
        if offset > sent {
            self.counters.unbelievable_acks += 1;
            return;
        }
        self.send_edge = self.send_edge.max(offset + u64::from(window_bytes));
        self.session.fins.acknowledge_local(offset);
        self.acknowledge_data(now, offset.min(self.send.assigned()));
    }

    fn acknowledge_data(&mut self, now: Nanos, offset: u64) {
        if self.send.acknowledge(offset) {
            self.reinjections.discard_before(offset);
            self.reinjections.progressed(now);
            self.tell_of_room();
        }
    }

    fn tell_of_room(&mut self) {
        if self.send.tells_of_room() {
            self.events.push_back(Event::Writable);
        }
    }

    fn take_capable_data(&mut self, which: usize, data: InitialMapping) {
        let Some(first) = self.session.remote_data_seq(0) else {
            return;
        };
        let mapping = Mapping {
            data_seq: DataNumber::Long(first),
            subflow_seq: 1,
            len: data.len,
            checksum: data.checksum,
        };
        self.session.has_seen_dss = true;
        // It does not say how long its numbers are: the long ones are right for both, and are what Linux says.
        self.speak_long_acks();
        self.add_mapping(which, &mapping, false);
    }

    fn speak_long_acks(&mut self) {
        if !std::mem::replace(&mut self.session.has_long_acks, true) {
            self.reserve_options();
        }
    }

    fn take_mapping(&mut self, which: usize, mapping: &Mapping, data_fin: bool) {
        if matches!(mapping.data_seq, DataNumber::Long(_)) {
            self.speak_long_acks();
        }
        match mapping.len {
            0 => self.take_infinite_mapping(which),
            _ => self.add_mapping(which, mapping, data_fin),
        }
    }

    /// A mapping has a checksum if, and only if, that was agreed on (RFC 8684, section 3.3).
    fn add_mapping(&mut self, which: usize, mapping: &Mapping, data_fin: bool) {
        let Some(offset) = self.session.remote_offset(mapping.data_seq) else {
            return;
        };
        let path = &mut self.paths[which];
        if self.session.uses_checksums != mapping.checksum.is_some() {
            path.reset(ResetReason::MPTCP_ERROR);
            return;
        }
        let Some(position) = path.mappings.position_of(mapping.subflow_seq) else {
            return;
        };
        let data_seq = self.session.remote_data_seq(offset).unwrap_or_default();
        let len = u32::from(mapping.len) - u32::from(data_fin);
        let received = ReceivedMapping {
            position,
            offset,
            len,
            checksum: mapping.checksum.map(|value| MappedChecksum {
                data_seq,
                subflow_seq: mapping.subflow_seq,
                len: mapping.len,
                value,
            }),
            is_infinite: false,
        };
        if len > 0 {
            path.mappings.add(received);
        }
        if data_fin {
            self.take_data_fin(which, &received);
        }
    }

    /// A DATA_FIN counts at once, or, behind data, with the checksum that covers both.
    fn take_data_fin(&mut self, which: usize, mapping: &ReceivedMapping) {
        // What was received is known again only with the answer.
        self.paths[which].subflow.send_ack();
        match mapping.checksum {
            Some(_) if mapping.len > 0 => {}
            Some(checksum) if !checksum.is_right(&Payload::EMPTY) => {
                let (offset, payload) = (mapping.offset, Payload::EMPTY);
                self.outlives(which, MappingError::Checksum { offset, payload });
            }
            _ => {
                let end = mapping.offset + u64::from(mapping.len);
                self.session.fins.end_remote(end);
            }
        }
    }

    /// From here on the peer speaks plain TCP, which it may only with one subflow (RFC 8684, section 3.7).
    fn take_infinite_mapping(&mut self, which: usize) {
        if self.may_fall_back(which) {
            self.fall_back();
        } else {
            self.paths[which].reset(ResetReason::MPTCP_ERROR);
        }
    }

    /// What we sent did not arrive as it was. MP_FAIL goes back, and both sides go on as plain TCP, the data that are not known
    /// to have arrived among it (RFC 8684, section 3.7).
    fn take_fail(&mut self, which: usize) {
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
    /// the other in answer.
    fn take_farewell(&mut self, which: usize, segment: &Segment) {
        for option in &segment.options.mptcp {
            let is_fail = matches!(option, MptcpOption::Fail { .. });
            match option {
                _ if is_fail && self.session.answers_fail => self.answer_fail(which),
                MptcpOption::Fail { .. } => self.paths[which].signals.failed_from = None,
                MptcpOption::Dss(dss) if dss.mapping().is_some_and(|mapping| mapping.len == 0) => {
                    self.paths[which].signals.failed_from = None;
                }
                _ => {}
            }
        }
    }

    /// Brings what arrived on a path to its place in the stream.
    fn read_path(&mut self, now: Nanos, which: usize) {
        if self.session.mode == Mode::Negotiating {
            return;
        }
        let before = self.receive.next();
        let path = &self.paths[which];
        let has_unmapped = path.mappings.unmapped_bytes() > 0;
        if has_unmapped || path.subflow.has_readable() {
            // A mapping may have come for what arrived before it.
            let mut lives = !has_unmapped || self.place(which, Payload::EMPTY);
            while lives && let Some(payload) = self.paths[which].subflow.read() {
                lives = self.place(which, payload);
            }
            self.watch_unmapped(now, which);
        }
        self.session.receive_next = self.receive.next();
        if self.receive.next() > before {
            self.events.push_back(Event::Readable);
        }
    }

    /// Brings bytes of a path to their places; whether the path outlives it.
    fn place(&mut self, which: usize, mut payload: Payload) -> bool {
        loop {
            let lives = match self.paths[which].mappings.place(&mut payload) {
                Ok(mapped) => {
                    mapped.into_iter().for_each(|mapped| self.insert(mapped));
                    true
                }
                Err(error) => self.outlives(which, error),
            };
            if !lives || payload.is_empty() {
                return lives;
            }
        }
    }

    /// Data may wait for their mapping for a retransmission timeout, and up to a receive window of them; less than a full-sized
    /// segment of it is none, as the peer may not use that (RFC 8684, sections 3.3.1 and 3.7).
    fn watch_unmapped(&mut self, now: Nanos, which: usize) {
        let segment_bytes = u64::from(self.config.subflow.mss_bytes);
        let window = self.receive.window_bytes();
        let path = &mut self.paths[which];
        let bytes = u64::from(path.mappings.unmapped_bytes());
        if bytes == 0 {
            path.unmapped_until = None;
        } else if bytes + segment_bytes > window {
            path.reset(ResetReason::MIDDLEBOX);
        } else {
            let until = now + path.subflow.rto();
            path.unmapped_until.get_or_insert(until);
        }
    }

    fn insert_plain(&mut self, offset: u64, payload: Payload) {
        self.insert(Mapped {
            offset,
            payload,
            ends_stream: false,
        });
    }

    fn insert(&mut self, mapped: Mapped) {
        let end = mapped.offset + u64::from(mapped.payload.len());
        let inserted = self.receive.insert(mapped.offset, mapped.payload);
        self.counters.duplicate_bytes += inserted.duplicate_bytes;
        self.counters.refused_bytes += inserted.refused_bytes;
        if mapped.ends_stream {
            self.session.fins.end_remote(end);
        }
    }

    /// Resets the path, or goes on as plain TCP after a wrong checksum: that is for the only path, as long as nothing is missing
    /// before the mapping (RFC 8684, section 3.7).
    fn outlives(&mut self, which: usize, error: MappingError) -> bool {
        let MappingError::Checksum { offset, payload } = error else {
            self.paths[which].reset(ResetReason::MIDDLEBOX);
            return false;
        };
        self.counters.failed_checksums += 1;
        self.paths[which].signals.failed_from = self.session.remote_data_seq(offset);
        if !self.may_fall_back(which) || offset != self.receive.next() {
            self.paths[which].reset(ResetReason::MIDDLEBOX);
            return false;
        }
        self.insert_plain(offset, payload);
        self.owe_infinite_mapping(which, self.send.acked());
        self.fall_back();
        self.paths[which].subflow.send_ack();
        true
    }

    fn tell_finish(&mut self) {
        let is_reached = self.session.fins.is_remote_reached(self.receive.next());
        if is_reached && !self.has_told_finish {
            self.has_told_finish = true;
            self.events.push_back(Event::Finished);
            self.say_on_all_paths();
        }
    }

    /// An acknowledgment on every path.
    pub(super) fn say_on_all_paths(&mut self) {
        for (path, _) in self.paths.iter_mut().filter(|(path, _)| path.can_send()) {
            path.subflow.send_ack();
        }
    }

    /// What a subflow brought about by itself, through a segment or a timer.
    pub(super) fn after_subflow(&mut self, now: Nanos, which: usize) {
        if self.session.mode == Mode::Plain {
            self.acknowledge_plain(now, which);
        }
        self.note_timeouts(now, which);
        let (path, windows) = self.paths.with_windows(which);
        if self.session.mode == Mode::Multipath {
            path.say_why_it_timed_out();
        }
        windows[which].is_usable = path.is_healthy();
        if self.send.is_awaited() {
            path.subflow.grow_buffer(&windows[which]);
        }
        self.send.grow(self.paths.buffers());
        self.tell_of_room();
        self.retire_paths(now);
        self.start_subflows_if_due(now);
        self.advance_close(now);
    }

    /// Without DATA_ACK, what the subflow has acknowledged is what has arrived.
    fn acknowledge_plain(&mut self, now: Nanos, which: usize) {
        let subflow = &self.paths[which].subflow;
        let oldest = subflow.unacked().chain(subflow.queued()).next();
        let acked = oldest.map_or(self.send.assigned(), |range| range.start);
        self.send_edge = self
            .send_edge
            .max(acked + u64::from(subflow.send_window_bytes()));
        self.acknowledge_data(now, acked);
    }
}

/// MP_CAPABLE is ignored with flag B set, and unless its flags name the one algorithm there is (RFC 8684, section 3.1).
fn is_understood(flags: u8) -> bool {
    flags & Capable::EXTENSIBILITY == 0 && flags & Capable::HMAC_SHA256 != 0
}

fn has_data_ack(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::Dss(dss) if dss.data_ack().is_some())
}

fn capable_of(segment: &Segment) -> Option<Capable> {
    segment
        .options
        .mptcp
        .iter()
        .find_map(|option| match option {
            MptcpOption::Capable(capable) => Some(*capable),
            _ => None,
        })
}
