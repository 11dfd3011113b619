//! Peers without SACK, timestamps or window scaling, with a small MSS, and with everything. Options
//! that only one host supports are not used.

use mptcp::subflow::Config;
use mptcp::time::SECOND;

use crate::pair::Pair;
use crate::pair::tcp::Tcp;
use crate::wires;

/// Sends a megabyte from an opener with all options to a listener with `theirs`.
fn transfer(theirs: Config) -> Pair<Tcp> {
    let opener = Tcp::opening(Config::default(), 1);
    let listener = Tcp::listening(theirs, 2);
    let mut pair = Pair::new([opener, listener], wires());
    pair.ends[0].write(1_000_000);
    pair.run_for(20 * SECOND);
    assert!(pair.ends[1].has_all_of(&pair.ends[0]));
    pair
}

#[test]
fn without_timestamps_segments_are_twelve_bytes_longer() {
    let pair = transfer(Config {
        timestamps: false,
        ..Config::default()
    });
    let first = pair.wires[0].data().next().expect("data");
    assert_eq!(first.segment.payload.len(), 1460);
    let has_timestamps = |wire: usize| {
        let mut after_syn = pair.wires[wire].log.iter().skip(1);
        after_syn.any(|sent| sent.segment.options.timestamps.is_some())
    };
    assert!(!has_timestamps(0) && !has_timestamps(1));
}

#[test]
fn without_window_scaling_no_more_than_64_kib_are_in_flight() {
    let pair = transfer(Config {
        window_scale: None,
        ..Config::default()
    });
    let windows = pair.wires[1].log.iter().map(|sent| sent.segment.window);
    assert_eq!(windows.max(), Some(u16::MAX));
    let answer = &pair.wires[1].log[0].segment;
    assert_eq!(answer.options.window_scale, None);
}

#[test]
fn window_scaling_offers_the_whole_buffer() {
    let pair = transfer(Config::default());
    let last = &pair.wires[1].log.last().expect("sent").segment;
    // Updates of less than a segment are not sent.
    let missing = pair.ends[1].buffer - (u64::from(last.window) << 7);
    assert!(missing < 1448, "{missing}");
}

#[test]
fn the_smaller_mss_counts() {
    let pair = transfer(Config {
        mss_bytes: 1000,
        ..Config::default()
    });
    let longest = pair.wires[0].data().map(|sent| sent.segment.payload.len());
    assert_eq!(longest.max(), Some(988));
}

#[test]
fn without_sack_none_is_sent() {
    let pair = transfer(Config {
        sack: false,
        ..Config::default()
    });
    assert!(!pair.wires[1].log[0].segment.options.sack_permitted);
}
