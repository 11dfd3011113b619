//! Assigns subflows whose MP_CAPABLE or MP_JOIN is not in the capture, by their data sequence
//! numbers.
//!
//! The first DSN of a side is a hash of its key. DSNs close to each other therefore belong to one
//! connection.

use mptcp::seq::DataSeq;

use super::subflow::Role;
use super::{Analysis, Arrival, Side, Teller, full};

/// The largest distance, in bytes of a connection's data, that is assumed between its subflows.
const NEAR: u64 = 1 << 28;
/// The most connections that are examined, newest first.
const MOST_CANDIDATES: usize = 4096;

impl Analysis {
    /// Assigns a subflow by its DSS option, which may be all that identifies its connection.
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
                self.become_multipath(index);
            }
            let (_, _, Teller { from, .. }) = self.places_of(arrival);
            if let Some((other, side)) = self.owner_of(own, sent, acknowledged) {
                self.move_to(index, other, side != from);
            }
        }
        // A stream whose start was not captured begins with its first full number.
        let (_, connection, Teller { from, .. }) = self.places_of(arrival);
        if let Some(sent) = sent {
            connection.streams[from as usize].begin_at(sent);
        }
        if let Some(acknowledged) = acknowledged {
            connection.streams[!from as usize].begin_at(acknowledged);
        }
    }

    /// Returns the newest connection, other than `own`, to whose data the numbers belong, and the
    /// side that sends them.
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

    /// Returns the side of a connection whose stream is close to `sent` and whose peer's stream is
    /// close to `acknowledged`.
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

    /// Turns a subflow that was taken for plain TCP into MPTCP, because it carries DSS options.
    fn become_multipath(&mut self, index: usize) {
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
