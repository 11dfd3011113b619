//! Subflows whose MP_CAPABLE or MP_JOIN is not in the capture: their data sequence numbers tell where they belong.
//!
//! A side's first data sequence number is the hash of its key: numbers near each other are those of one connection.

use mptcp::seq::DataSeq;
use mptcp::wire::Dss;

use super::subflow::Role;
use super::{Analysis, Side, Stamp, full};
use crate::trace::TcpPacket;

/// Subflows of a connection are not farther apart in its data than the largest windows.
const NEAR: u64 = 1 << 28;
/// Connections that are looked at, newest first.
const MOST_CANDIDATES: usize = 4096;

impl Analysis {
    /// A data sequence signal on a subflow of which nothing else is known.
    pub(super) fn adopt(&mut self, stamp: Stamp, index: usize, packet: &TcpPacket<'_>, dss: &Dss) {
        let own = self.subflows[index].connection;
        if !self.connections[own].is_blank() && self.connections[own].version.is_some() {
            self.begin_streams(index, packet, dss);
            return;
        }
        if self.subflows[index].role == Role::Plain {
            self.take_as_multipath(index);
        }
        let from = self.subflows[index].side_of(packet.source);
        let sent = dss.mapping().and_then(|mapping| full(mapping.data_seq));
        let acknowledged = dss.data_ack().and_then(full);
        let known = self.connections.len();
        let candidates = (0..known)
            .rev()
            .take(MOST_CANDIDATES)
            .filter(|other| *other != own);
        let found = candidates.filter_map(|other| {
            let side = self.side_by_data(other, sent, acknowledged)?;
            Some((other, side))
        });
        if let Some((other, side)) = { found }.next() {
            self.move_to(stamp, index, other, side != from);
        }
        self.begin_streams(index, packet, dss);
    }

    /// The side of that connection which would send and acknowledge such numbers.
    fn side_by_data(
        &self,
        connection: usize,
        sent: Option<DataSeq>,
        acknowledged: Option<DataSeq>,
    ) -> Option<Side> {
        let connection = &self.connections[connection];
        connection.version?;
        let is_near = |side: Side, number: Option<DataSeq>| {
            let distance = connection.streams[side as usize].distance_to(number?)?;
            Some(distance < NEAR)
        };
        [Side::Client, Side::Server].into_iter().find(|&side| {
            let signs = [is_near(side, sent), is_near(!side, acknowledged)];
            signs.contains(&Some(true)) && !signs.contains(&Some(false))
        })
    }

    fn move_to(&mut self, _stamp: Stamp, index: usize, to: usize, swap_sides: bool) {
        let subflow = &mut self.subflows[index];
        let from = std::mem::replace(&mut subflow.connection, to);
        if swap_sides {
            subflow.swap_sides();
        }
        if subflow.role == Role::Plain {
            subflow.role = Role::ByData;
        }
        self.connections[from].subflows.retain(|one| *one != index);
        self.connections[to].subflows.push(index);
        self.connections[to].subflows.sort_unstable();
        let earlier = self.connections[from].first_at;
        self.connections[to].first_at = self.connections[to].first_at.min(earlier);
        for event in std::mem::take(&mut self.connections[from].timeline).into_events() {
            let side = if swap_sides { !event.from } else { event.from };
            let timeline = &mut self.connections[to].timeline;
            timeline.note(event.stamp, event.subflow, side, event.kind, event.text);
        }
        for side in [Side::Client, Side::Server] {
            let token = self.connections[from].tokens[side as usize];
            let side = if swap_sides { !side } else { side };
            if let (Some(token), None) = (token, self.connections[to].tokens[side as usize]) {
                self.connections[to].tokens[side as usize] = Some(token);
                self.tokens.insert(token, (to, side));
            }
        }
    }

    /// Streams that were not seen to begin do so with the first full numbers.
    fn begin_streams(&mut self, index: usize, packet: &TcpPacket<'_>, dss: &Dss) {
        let subflow = &self.subflows[index];
        let from = subflow.side_of(packet.source);
        let streams = &mut self.connections[subflow.connection].streams;
        if let Some(sent) = dss.mapping().and_then(|mapping| full(mapping.data_seq)) {
            streams[from as usize].begin_at(sent);
        }
        if let Some(acknowledged) = dss.data_ack().and_then(full) {
            streams[!from as usize].begin_at(acknowledged);
        }
    }

    /// What was taken for plain TCP shows data sequence signals.
    fn take_as_multipath(&mut self, index: usize) {
        let subflow = &mut self.subflows[index];
        let connection = &mut self.connections[subflow.connection];
        connection.version = Some(1);
        connection.streams = Default::default();
        subflow.role = Role::ByData;
        for end in &mut subflow.ends {
            end.forget_places();
        }
    }
}
