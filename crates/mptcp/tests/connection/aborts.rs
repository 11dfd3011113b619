//! A connection that one side aborts ends at the other, too.

use mptcp::connection::{Connection, Event};
use mptcp::subflow::CloseReason;

use crate::world::{CLIENT, Pair, PathModel, SERVER, Stack, seconds};

#[test]
fn an_abort_ends_the_other_side_at_once() {
    for side in [CLIENT, SERVER] {
        let paths = vec![PathModel::new(10, 10), PathModel::new(10, 20)];
        let mut pair = Pair::new(1, paths, &Stack::default());
        pair.transfer(1_000_000, 0);
        pair.run_for(seconds(1) / 4);
        let id = pair.sides[side].connection.expect("it is established");
        pair.sides[side].endpoint.command(id, Connection::abort);
        let reason = CloseReason::Reset;
        pair.run_until(seconds(1), |pair| {
            pair.sides[1 - side].has_seen(|event| *event == Event::Closed { reason })
        });
    }
}
