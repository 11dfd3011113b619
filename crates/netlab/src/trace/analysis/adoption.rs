//! Subflows whose MP_CAPABLE or MP_JOIN is not in the capture: their data sequence numbers tell where they belong.
//!
//! A side's first data sequence number is the hash of its key: numbers near each other are those of one connection.

use mptcp::seq::DataSeq;

use super::subflow::Role;
use super::{Analysis, Arrival, Side, Teller, full};

/// Subflows of a connection are not farther apart in its data than the largest windows.
const NEAR: u64 = 1 << 28;
/// Connections that are looked at, newest first.
const MOST_CANDIDATES: usize = 4096;

impl Analysis {
    /// A data sequence signal may be all that tells whose a subflow is.
    pub(super) fn adopt(&mut self, arrival: &Arrival<'_>) {
        let Some(dss) = arrival.options.dss() else {
            return;
        };
        let index = arrival.subflow;
        let sent = dss.mapping().and_then(|mapping| full(mapping.data_seq));
        let acknowledged = dss.data_ack().and_then(full);
        let own = self.subflows[index].connection;
        if self.connections[own].is_blank() || self.connections[own].version.is_none() {
            if self.subflows[index].role == Role::Plain {
                self.take_as_multipath(index);
            }
            let (_, _, Teller { from, .. }) = self.places_of(arrival);
            if let Some((other, side)) = self.owner_of(own, sent, acknowledged) {
                self.move_to(index, other, side != from);
            }
        }
        // Streams that were not seen to begin do so with the first full numbers.
        let (_, connection, Teller { from, .. }) = self.places_of(arrival);
        if let Some(sent) = sent {
            connection.streams[from as usize].begin_at(sent);
        }
        if let Some(acknowledged) = acknowledged {
            connection.streams[!from as usize].begin_at(acknowledged);
        }
    }

    /// The newest connection, not `own`, to whose data such numbers belong, and which side of it would tell them.
    fn owner_of(
        &self,
        own: usize,
        sent: Option<DataSeq>,
        acknowledged: Option<DataSeq>,
    ) -> Option<(usize, Side)> {
        let newest_first = (0..self.connections.len()).rev().take(MOST_CANDIDATES);
        let mut others = newest_first.filter(|other| *other != own);
        others.find_map(|other| Some((other, self.side_by_data(other, sent, acknowledged)?)))
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

    fn move_to(&mut self, index: usize, to: usize, swap_sides: bool) {
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
            let by = match swap_sides {
                true => event.by.on_the_other_side(),
                false => event.by,
            };
            self.connections[to].note(by, event.kind, event.text);
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
