//! Handling of received segments.

use super::lifecycle::LifecycleEvent;
use super::mappings::{Mapped, MappedChecksum, MappingError, ReceivedMapping};
use super::{Connection, Event, Mode};
use crate::payload::Payload;
use crate::pm::Role;
use crate::subflow::{Arrival, CloseReason};
use crate::time::Nanos;
use crate::wire::{
    Capable, DataNumber, Dss, InitialMapping, Mapping, MptcpOption, MptcpOptionV0, Packet,
    ResetReason, Segment, Version,
};

impl Connection {
    /// Handles `packet`, which arrived at `now` on one of the subflows. Ignores packets of other
    /// connections.
    pub fn handle_packet(&mut self, now: Nanos, packet: &Packet) {
        let segment = &packet.segment;
        let Some(subflow) = self.subflows.receiver_of(packet) else {
            return;
        };
        if self.is_too_early(segment) {
            return;
        }
        let waits_for_reader = self.config.behaviour.acks_wait_for_reader;
        let (tcp, mut control) = self.subflow_and_control(subflow);
        tcp.set_waits_for_reader(waits_for_reader);
        let arrival = tcp.handle_segment(now, segment, packet.ecn, &mut control);
        let subflow = self.settle_start(now, subflow, arrival);
        if arrival.is_acceptable {
            self.handle_acceptable(now, subflow, segment, arrival);
        }
        if arrival.closed == Some(CloseReason::Reset) {
            self.handle_reset(now, subflow, segment);
        }
        self.after_subflow(now, subflow);
        self.reap_closed(now);
        self.is_schedulable = true;
    }

    /// Returns whether the segment carries a DSS before the peer's key is known, which comes with
    /// the third packet or with the first data, and in version 0 with the SYN. Such a segment is
    /// treated as lost and is retransmitted.
    fn is_too_early(&self, segment: &Segment) -> bool {
        let is_acceptor = self.session.role == Role::Acceptor;
        let waits_for_key = self.session.mode == Mode::Negotiating && self.session.remote.is_none();
        is_acceptor && waits_for_key && segment.options.mptcp.iter().any(is_dss)
    }

    fn handle_acceptable(
        &mut self,
        now: Nanos,
        subflow: usize,
        segment: &Segment,
        arrival: Arrival,
    ) {
        self.record_sign_of_life(now, subflow);
        let context = &mut self.subflows[subflow];
        context.answer_suspicion(now, segment);
        if arrival.has_data {
            context.end_signal_row();
        }
        if arrival.established && context.is_initial {
            let event = LifecycleEvent::HandshakeCompleted { at: now };
            context.life.apply(event);
            // Until the first DATA_ACK, the window of the handshake counts from the first byte.
            let window = u64::from(context.tcp.send_window_bytes());
            self.send_edge = self.send_edge.max(window);
        }
        self.raise_receive_threshold(subflow, segment.payload.len());
        self.shake_hands(now, subflow, segment, arrival);
        self.fall_back_if_options_are_missing(subflow, segment, arrival);
        self.reset_if_data_acks_are_missing(subflow, segment, arrival);
        if self.session.mode == Mode::Multipath {
            for option in &segment.options.mptcp {
                self.handle_option(now, subflow, segment, option);
            }
        } else {
            self.handle_fallback_signals(subflow, segment);
        }
        self.read_subflow(now, subflow);
        self.acknowledge_arrival(subflow);
        if arrival.fin && self.session.mode == Mode::Plain {
            self.session.fins.end_remote(self.receive.next());
        } else if arrival.fin {
            self.follow_fin(now, subflow);
        }
        self.report_finish();
    }

    /// Reserves room for options on all subflows, after their size changed.
    pub(super) fn reserve_options(&mut self) {
        let bytes = self.session.reserved_bytes();
        for (context, window) in self.subflows.iter_mut() {
            context.tcp.reserve_options(bytes, window);
        }
    }

    fn handle_option(
        &mut self,
        now: Nanos,
        subflow: usize,
        segment: &Segment,
        option: &MptcpOption,
    ) {
        match option {
            MptcpOption::Dss(dss) => self.handle_dss(now, subflow, segment, dss),
            MptcpOption::Capable(Capable::Ack {
                data: Some(data), ..
            }) => self.handle_capable_data(subflow, *data),
            MptcpOption::AddAddress(address) if self.session.version == Version::One => {
                self.handle_announcement(now, subflow, address);
            }
            MptcpOption::Version0(option) if self.session.version == Version::Zero => {
                self.handle_version_0(now, option);
            }
            MptcpOption::RemoveAddress(ids) => self.handle_removal(now, ids),
            MptcpOption::Priority { backup } => self.subflows[subflow].is_backup_remote = *backup,
            MptcpOption::Fail { .. } => self.handle_fail(subflow),
            MptcpOption::FastClose { receiver_key } => self.handle_fast_close(*receiver_key),
            MptcpOption::AddAddress(_)
            | MptcpOption::Capable(_)
            | MptcpOption::Join(_)
            | MptcpOption::Reset(_)
            | MptcpOption::Version0(_) => {}
        }
    }

    /// Handles an option in a form that only version 0 has.
    fn handle_version_0(&mut self, now: Nanos, option: &MptcpOptionV0) {
        match *option {
            MptcpOptionV0::AddAddress { id, address, port } => {
                self.handle_unproved_announcement(now, id, address, port);
            }
            MptcpOptionV0::Priority {
                backup,
                address_id: Some(id),
            } => {
                for (context, _) in self.subflows.iter_mut() {
                    if context.remote_id == id {
                        context.is_backup_remote = backup;
                    }
                }
            }
            _ => {}
        }
    }

    fn handle_dss(&mut self, now: Nanos, subflow: usize, segment: &Segment, dss: &Dss) {
        let (data_ack, mapping) = (dss.data_ack(), dss.mapping());
        if data_ack.is_none() && mapping.is_none() {
            return;
        }
        self.session.has_seen_dss = true;
        self.record_fully_established(now);
        if let Some(number) = data_ack {
            let offset = self.session.offset(number, self.send.acked());
            if let Some(offset) = offset {
                let window_bytes = self.subflows[subflow].tcp.window_of(segment);
                self.handle_data_ack(now, offset, window_bytes);
            }
        }
        if let Some(mapping) = mapping {
            self.handle_mapping(subflow, &mapping, dss.data_fin());
        }
    }

    /// Handles a DATA_ACK: all data before `offset` has arrived. The DATA_FIN counts as one byte.
    /// Ignores a DATA_ACK for data that was never sent.
    ///
    /// The receive window of the same segment counts from `offset`, even if the subflow considers
    /// the segment old. The window of another segment would reach too far (RFC 8684, section
    /// 3.3.5).
    fn handle_data_ack(&mut self, now: Nanos, offset: u64, window_bytes: u32) {
        let has_fin =
            self.session.fins.local_to_send().is_some() || self.session.fins.is_local_acked();
        let sent = self.send.assigned() + u64::from(has_fin);
        if offset > sent {
            self.counters.get_or_insert_default().unbelievable_acks += 1;
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
            self.report_room();
        }
    }

    fn report_room(&mut self) {
        if self.send.reports_room() {
            self.events.push_back(Event::Writable);
        }
    }

    fn handle_capable_data(&mut self, subflow: usize, data: InitialMapping) {
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
        // MP_CAPABLE does not say how long the peer's DATA_ACKs are. Long ones are valid for both,
        // and Linux sends them.
        self.use_long_data_acks();
        self.add_mapping(subflow, &mapping, false);
    }

    fn use_long_data_acks(&mut self) {
        if !std::mem::replace(&mut self.session.has_long_acks, true) {
            self.reserve_options();
        }
    }

    fn handle_mapping(&mut self, subflow: usize, mapping: &Mapping, data_fin: bool) {
        if matches!(mapping.data_seq, DataNumber::Long(_)) {
            self.use_long_data_acks();
        }
        match mapping.len {
            0 => self.handle_infinite_mapping(subflow),
            _ => self.add_mapping(subflow, mapping, data_fin),
        }
    }

    /// Adds a mapping. It must have a checksum if, and only if, checksums were agreed on (RFC 8684,
    /// section 3.3).
    fn add_mapping(&mut self, subflow: usize, mapping: &Mapping, data_fin: bool) {
        let Some(offset) = self.session.remote_offset(mapping.data_seq) else {
            return;
        };
        let context = &mut self.subflows[subflow];
        if self.session.uses_checksums != mapping.checksum.is_some() {
            context.reset(ResetReason::MPTCP_ERROR);
            return;
        }
        let Some(position) = context.mappings.position_of(mapping.subflow_seq) else {
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
            context.mappings.add(received);
        }
        if data_fin {
            self.handle_data_fin(subflow, &received);
        }
    }

    /// Handles a DATA_FIN. One without data counts at once. One behind data counts only after the
    /// checksum that covers both.
    fn handle_data_fin(&mut self, subflow: usize, mapping: &ReceivedMapping) {
        // The peer learns only from an ACK whether the DATA_FIN has arrived.
        self.subflows[subflow].tcp.send_ack();
        match mapping.checksum {
            Some(_) if mapping.len > 0 => {}
            Some(checksum) if !checksum.is_right(&Payload::EMPTY) => {
                let (offset, payload) = (mapping.offset, Payload::EMPTY);
                self.outlives(subflow, MappingError::Checksum { offset, payload });
            }
            _ => {
                let end = mapping.offset + u64::from(mapping.len);
                self.session.fins.end_remote(end);
            }
        }
    }

    /// Moves data received on a subflow to its place in the stream.
    fn read_subflow(&mut self, now: Nanos, subflow: usize) {
        if self.session.mode == Mode::Negotiating {
            return;
        }
        let before = self.receive.next();
        let context = &self.subflows[subflow];
        let has_unmapped = context.mappings.unmapped_bytes() > 0;
        if has_unmapped || context.tcp.has_readable() {
            // A mapping may have arrived for data received before it.
            let mut lives = !has_unmapped || self.place(subflow, Payload::EMPTY);
            while lives && let Some(payload) = self.subflows[subflow].tcp.read() {
                lives = self.place(subflow, payload);
            }
            self.watch_unmapped(now, subflow);
        }
        self.session.receive_next = self.receive.next();
        if self.receive.next() > before {
            self.events.push_back(Event::Readable);
        }
    }

    /// Moves `payload` to its place in the stream. Returns whether the subflow survives.
    fn place(&mut self, subflow: usize, mut payload: Payload) -> bool {
        loop {
            let lives = match self.subflows[subflow].mappings.place(&mut payload) {
                Ok(mapped) => {
                    mapped.into_iter().for_each(|mapped| self.insert(mapped));
                    true
                }
                Err(error) => self.outlives(subflow, error),
            };
            if !lives || payload.is_empty() {
                return lives;
            }
        }
    }

    /// Resets a subflow whose data waits too long or in too great an amount for a mapping (RFC
    /// 8684, sections 3.3.1 and 3.7). The limits are one RTO and the receive window. A rest of the
    /// window below a full-sized segment counts as none, because the peer may not use it.
    fn watch_unmapped(&mut self, now: Nanos, subflow: usize) {
        let bytes = u64::from(self.subflows[subflow].mappings.unmapped_bytes());
        if bytes == 0 {
            self.subflows[subflow].unmapped_until = None;
            return;
        }
        let segment_bytes = u64::from(self.config.subflow.mss_bytes);
        let window = self.window_offered_on(subflow);
        let context = &mut self.subflows[subflow];
        if bytes + segment_bytes > window {
            context.reset(ResetReason::MIDDLEBOX);
        } else {
            let until = now + context.tcp.rto();
            context.unmapped_until.get_or_insert(until);
        }
    }

    pub(super) fn insert_plain(&mut self, offset: u64, payload: Payload) {
        self.insert(Mapped {
            offset,
            payload,
            ends_stream: false,
        });
    }

    fn insert(&mut self, mapped: Mapped) {
        let end = mapped.offset + u64::from(mapped.payload.len());
        let inserted = self.receive.insert(mapped.offset, mapped.payload);
        if inserted.duplicate_bytes + inserted.refused_bytes > 0 {
            let counters = self.counters.get_or_insert_default();
            counters.duplicate_bytes += inserted.duplicate_bytes;
            counters.refused_bytes += inserted.refused_bytes;
        }
        if mapped.ends_stream {
            self.session.fins.end_remote(end);
        }
    }

    fn report_finish(&mut self) {
        let is_reached = self.session.fins.is_remote_reached(self.receive.next());
        if is_reached && !self.peer_has_ended {
            self.peer_has_ended = true;
            self.events.push_back(Event::Finished);
            self.acknowledge_on_all_subflows();
        }
    }

    /// Sends an ACK on every subflow.
    pub(super) fn acknowledge_on_all_subflows(&mut self) {
        for (context, _) in self
            .subflows
            .iter_mut()
            .filter(|(context, _)| context.can_send())
        {
            context.tcp.send_ack();
        }
    }

    /// Updates the connection after a subflow has handled a segment or a timer.
    pub(super) fn after_subflow(&mut self, now: Nanos, subflow: usize) {
        if self.session.mode == Mode::Plain {
            self.acknowledge_plain(now, subflow);
        }
        self.record_timeouts(now, subflow);
        let (context, windows) = self.subflows.with_windows(subflow);
        if self.session.mode == Mode::Multipath {
            context.queue_timeout_reset();
        }
        windows[subflow].is_usable = context.is_healthy();
        if self.send.is_awaited() {
            context.tcp.grow_buffer(&windows[subflow]);
        }
        if self.subflows.has_come() || self.send.is_awaited() {
            let is_multipath = self.config.is_multipath;
            self.send.grow(self.subflows.buffers(is_multipath));
        }
        self.report_room();
        self.retire_subflows(now);
        self.start_subflows_if_due(now);
        self.advance_close(now);
    }

    /// Takes the data that the subflow has acknowledged as delivered, because plain TCP has no
    /// DATA_ACK.
    fn acknowledge_plain(&mut self, now: Nanos, subflow: usize) {
        let tcp = &self.subflows[subflow].tcp;
        let oldest = tcp.unacked().chain(tcp.queued()).next();
        let acked = oldest.map_or(self.send.assigned(), |range| range.start);
        self.send_edge = self
            .send_edge
            .max(acked + u64::from(tcp.send_window_bytes()));
        self.acknowledge_data(now, acked);
    }
}

pub(super) fn is_dss(option: &MptcpOption) -> bool {
    matches!(option, MptcpOption::Dss(_))
}
