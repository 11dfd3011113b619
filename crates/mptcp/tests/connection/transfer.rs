//! Streams arrive, over one path and over several.

use mptcp::connection::{Event, Mode};

use crate::world::{CLIENT, Pair, PathModel, SERVER, Stack, seconds};

fn two_paths() -> Vec<PathModel> {
    vec![PathModel::new(10, 10), PathModel::new(10, 20)]
}

#[test]
fn both_streams_arrive_over_one_path() {
    let mut pair = Pair::new(1, vec![PathModel::new(10, 10)], &Stack::default());
    pair.transfer(1_000_000, 300_000);
    pair.run_to_the_end(seconds(5));
    assert!(pair.sides[CLIENT].has_seen(|event| *event
        == Event::Connected {
            mode: Mode::Multipath
        }));
}

#[test]
fn two_paths_carry_more_than_one() {
    let mut pair = Pair::new(1, two_paths(), &Stack::default());
    pair.transfer(5_000_000, 0);
    pair.run_to_the_end(seconds(4));
    for path in [0, 1] {
        let share = pair.sent_bytes(CLIENT, path);
        assert!(share > 1_500_000, "path {path} carried {share} bytes");
    }
    assert_eq!(pair.sides[SERVER].received, 5_000_000);
}

#[test]
fn plain_tcp_is_spoken_where_multipath_is_not_wanted() {
    let stack = Stack::plain();
    let mut pair = Pair::new(1, two_paths(), &stack);
    pair.transfer(500_000, 500_000);
    pair.run_to_the_end(seconds(5));
    assert!(pair.sides[SERVER].has_seen(|event| *event == Event::Connected { mode: Mode::Plain }));
    assert!(
        pair.log
            .iter()
            .all(|(_, _, packet)| packet.segment.options.mptcp.is_empty())
    );
}
