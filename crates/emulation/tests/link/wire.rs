//! The delay line, and changes of the link while packets are on it.

use emulation::link::{DropReason, Enqueued};
use experiment::resolved::{Direction, Loss};

use crate::driver::{Link, MILLISECOND, drop_tail, plain};

fn ids_in_order_of_arrival(reorder: bool) -> Vec<u64> {
    let jittery = Direction {
        delay_ns: 1000,
        jitter_ns: 10_000,
        reorder,
        ..plain(None)
    };
    let mut link = Link::new(&jittery);
    (0..1000).for_each(|now| assert_eq!(link.offer(now * 100, 1500), Enqueued::Queued));
    link.run_to_end();
    let in_range = |at, sent| (1000..11_000).contains(&(at - sent));
    assert!(
        link.delivered
            .iter()
            .all(|(at, packet)| in_range(*at, packet.sent))
    );
    link.delivered.iter().map(|(_, packet)| packet.id).collect()
}

#[test]
fn jitter_keeps_the_order_unless_it_may_reorder() {
    assert!(ids_in_order_of_arrival(false).is_sorted());
    let reordered = ids_in_order_of_arrival(true);
    let overtaken = reordered
        .windows(2)
        .filter(|pair| pair[0] > pair[1])
        .count();
    assert!(overtaken > 200, "{overtaken} of 1000");
}

#[test]
fn what_is_on_the_wire_survives_a_change_and_is_not_overtaken() {
    let mut link = Link::new(&Direction {
        delay_ns: 100,
        ..plain(None)
    });
    assert_eq!(link.offer(0, 1500), Enqueued::Queued);
    link.channel
        .reconfigure(10, link.stations[0], &plain(None))
        .expect("a valid direction");
    assert_eq!(link.offer(20, 1500), Enqueued::Queued);
    assert_eq!(link.offer(200, 1500), Enqueued::Queued);
    link.run_to_end();
    assert_eq!(link.arrivals(), [100, 100, 200]);
}

#[test]
fn a_packet_in_service_ends_at_its_old_rate_and_the_next_starts_at_the_new() {
    let mut link = Link::new(&plain(Some(12_000_000)));
    (0..2).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    let faster = plain(Some(120_000_000));
    link.channel
        .reconfigure(MILLISECOND / 2, link.stations[0], &faster)
        .expect("valid");
    link.run_to_end();
    assert_eq!(
        link.arrivals(),
        [MILLISECOND, MILLISECOND + MILLISECOND / 10]
    );
}

#[test]
fn a_smaller_limit_drops_from_the_tail() {
    let mut link = Link::new(&plain(Some(12_000_000)));
    (0..6).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    let shorter = Direction {
        queue: drop_tail(Some(2)),
        ..plain(Some(12_000_000))
    };
    link.channel
        .reconfigure(1, link.stations[0], &shorter)
        .expect("a valid direction");
    link.run_to_end();
    let dropped: Vec<_> = link
        .dropped
        .iter()
        .map(|drop| (drop.packet.id, drop.reason))
        .collect();
    let full = DropReason::QueueFull;
    assert_eq!(dropped, [(5, full), (4, full), (3, full)]);
    assert_eq!(link.delivered.len(), 3);
}

#[test]
fn an_invalid_change_changes_nothing() {
    let mut link = Link::new(&plain(Some(12_000_000)));
    let refused = link
        .channel
        .reconfigure(0, link.stations[0], &plain(Some(0)));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "rate_bps: found 0, allowed is null or at least 1"
    );
    assert_eq!(link.offer(0, 1500), Enqueued::Queued);
    link.run_to_end();
    assert_eq!(link.arrivals(), [MILLISECOND]);
}

#[test]
fn a_cut_drops_everything_inside_and_all_that_is_offered() {
    let long = Direction {
        delay_ns: 10 * MILLISECOND,
        ..plain(Some(12_000_000))
    };
    let mut link = Link::new(&long);
    (0..5).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    let cut = 2 * MILLISECOND + 1;
    link.run_until(cut);
    link.channel.set_up(cut, link.stations[0], false);
    assert_eq!(
        link.offer(cut + 1, 1500),
        Enqueued::Dropped(DropReason::LinkDown)
    );
    link.run_until(cut + 2);
    let ids: Vec<_> = link
        .dropped
        .iter()
        .map(|drop| (drop.packet.id, drop.at))
        .collect();
    let at_cut = |id| (id, cut);
    assert_eq!(
        ids,
        [
            at_cut(0),
            at_cut(1),
            at_cut(2),
            at_cut(3),
            at_cut(4),
            (5, cut + 1)
        ]
    );
    assert!(
        link.dropped
            .iter()
            .all(|drop| drop.reason == DropReason::LinkDown)
    );
    assert_eq!(link.counters().wire_packets, 2);
}

#[test]
fn a_mended_link_owes_nothing_to_its_past() {
    let mut link = Link::new(&Direction {
        delay_ns: 1000 * MILLISECOND,
        ..plain(Some(12_000))
    });
    (0..5).for_each(|_| assert_eq!(link.offer(0, 1500), Enqueued::Queued));
    link.channel.set_up(1, link.stations[0], false);
    link.channel
        .reconfigure(2, link.stations[0], &plain(Some(12_000_000)))
        .expect("valid");
    link.channel.set_up(3, link.stations[0], true);
    assert_eq!(link.offer(4, 1500), Enqueued::Queued);
    link.run_to_end();
    assert_eq!(link.arrivals(), [MILLISECOND + 4]);
}

#[test]
fn a_reset_link_repeats_its_run() {
    let loss = Loss::Bernoulli { probability: 0.3 };
    let direction = Direction {
        jitter_ns: 5000,
        loss,
        ..plain(Some(12_000_000))
    };
    let mut link = Link::new(&direction);
    let run = |link: &mut Link| {
        (0..100).for_each(|now| _ = link.offer(now * 1000, 1500));
        link.run_to_end();
        (
            link.delivered.clone(),
            link.dropped.clone(),
            link.counters(),
        )
    };
    let first = run(&mut link);
    link.channel.set_up(u64::MAX, link.stations[0], false);
    link.reset();
    assert_eq!(link.counters().offered_packets, 0);
    assert_eq!(run(&mut link), first);
}
