//! Stations that share a serializer.

use emulation::link::{Channel, DropReason, Enqueued};
use experiment::resolved::{Direction, Loss, LossPlace};

use crate::driver::{Link, MILLISECOND, plain};

fn medium(directions: &[Direction]) -> Link {
    let channel = Channel::medium(Some(12_000_000), 0).expect("a valid rate");
    Link::with_stations(channel, directions)
}

#[test]
fn saturated_stations_share_packet_by_packet() {
    let mut link = medium(&[plain(None), plain(None)]);
    for _ in 0..100 {
        assert_eq!(link.offer_to(0, 0, 1500, 0), Enqueued::Queued);
        assert_eq!(link.offer_to(1, 0, 500, 1), Enqueued::Queued);
    }
    let half = 100 * (MILLISECOND + MILLISECOND / 3) / 2;
    link.run_until(half);
    let of_first = link
        .delivered
        .iter()
        .filter(|(_, packet)| packet.flow == 0)
        .count();
    assert!(of_first.abs_diff(link.delivered.len() - of_first) <= 1);
    assert!(link.delivered.len() >= 98);
}

#[test]
fn a_station_alone_has_the_whole_medium() {
    let mut link = medium(&[plain(None), plain(None), plain(None)]);
    (0..10).for_each(|_| assert_eq!(link.offer_to(2, 0, 1500, 0), Enqueued::Queued));
    link.run_to_end();
    assert_eq!(link.arrivals().last(), Some(&(10 * MILLISECOND)));
}

#[test]
fn without_a_rate_of_its_own_each_station_keeps_its_rate() {
    let channel = Channel::medium(None, 0).expect("a medium");
    let directions = [plain(Some(12_000_000)), plain(Some(6_000_000))];
    let mut link = Link::with_stations(channel, &directions);
    assert_eq!(link.offer_to(0, 0, 1500, 0), Enqueued::Queued);
    assert_eq!(link.offer_to(1, 0, 1500, 0), Enqueued::Queued);
    link.run_to_end();
    assert_eq!(link.arrivals(), [MILLISECOND, 3 * MILLISECOND]);
}

#[test]
fn the_overhead_is_that_of_the_medium() {
    let channel = Channel::medium(Some(12_000_000), 500).expect("a valid rate");
    let mut link = Link::with_stations(
        channel,
        &[Direction {
            overhead_bytes: 9,
            ..plain(None)
        }],
    );
    assert_eq!(link.offer(0, 1000), Enqueued::Queued);
    link.run_to_end();
    assert_eq!(link.arrivals(), [MILLISECOND]);
}

#[test]
fn a_nearer_station_is_delivered_first_though_it_starts_later() {
    let far = Direction {
        delay_ns: 100 * MILLISECOND,
        ..plain(None)
    };
    let mut link = medium(&[far, plain(None)]);
    assert_eq!(link.offer_to(0, 0, 1500, 0), Enqueued::Queued);
    assert_eq!(link.offer_to(1, 0, 1500, 0), Enqueued::Queued);
    link.run_to_end();
    assert_eq!(link.arrivals(), [2 * MILLISECOND, 101 * MILLISECOND]);
}

#[test]
fn a_cut_station_frees_the_medium_at_once_and_only_its_packets_are_lost() {
    let lossy = Direction {
        loss: Loss::List { packets: vec![0] },
        loss_at: LossPlace::Egress,
        ..plain(None)
    };
    for first in [plain(None), lossy] {
        let mut link = medium(&[first, plain(None)]);
        assert_eq!(link.offer_to(0, 0, 1500, 0), Enqueued::Queued);
        assert_eq!(link.offer_to(1, 0, 1500, 0), Enqueued::Queued);
        link.channel
            .set_up(MILLISECOND / 4, link.stations[0], false);
        link.run_to_end();
        assert_eq!(link.arrivals(), [MILLISECOND + MILLISECOND / 4]);
        assert_eq!(link.dropped[0].reason, DropReason::LinkDown);
    }
}

#[test]
fn a_medium_of_rate_0_is_refused() {
    assert!(Channel::<crate::driver::Datagram>::medium(Some(0), 0).is_err());
}
