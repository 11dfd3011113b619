//! Loss models: which packets, how many, and where.

use emulation::link::{DropReason, Enqueued};
use experiment::resolved::{Direction, GilbertElliott, Loss, LossPlace};

use crate::driver::{Link, MILLISECOND, plain};

const PACKETS: u64 = 1_000_000;

/// Returns for each packet in turn whether it was lost at ingress.
fn losses(loss: Loss, packets: u64) -> Vec<bool> {
    let mut link = Link::new(&Direction {
        loss,
        ..plain(None)
    });
    let lost = Enqueued::Dropped(DropReason::Loss);
    (0..packets)
        .map(|now| link.offer(now, 1500) == lost)
        .collect()
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
}

#[test]
fn bernoulli_has_its_rate_and_no_memory() {
    let lost = losses(Loss::Bernoulli { probability: 0.1 }, PACKETS);
    assert!((share(&lost) - 0.1).abs() < 0.002);
    let after_loss: Vec<bool> = lost
        .windows(2)
        .filter(|pair| pair[0])
        .map(|pair| pair[1])
        .collect();
    assert!((share(&after_loss) - 0.1).abs() < 0.005);
}

#[test]
fn probabilities_0_and_1_are_never_and_always() {
    assert_eq!(
        share(&losses(Loss::Bernoulli { probability: 0.0 }, 1000)),
        0.0
    );
    assert_eq!(
        share(&losses(Loss::Bernoulli { probability: 1.0 }, 1000)),
        1.0
    );
}

#[test]
fn gilbert_elliott_has_its_stationary_loss_and_burst_length() {
    let chain = GilbertElliott {
        good_to_bad: 0.01,
        bad_to_good: 0.25,
        loss_good: 0.0,
        loss_bad: 1.0,
    };
    let lost = losses(Loss::GilbertElliott(chain), PACKETS);
    let stationary = 0.01 / 0.26;
    assert!((share(&lost) / stationary - 1.0).abs() < 0.03);
    let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let mean_burst = share(&lost) * PACKETS as f64 / bursts as f64;
    assert!((mean_burst / 4.0 - 1.0).abs() < 0.03, "{mean_burst}");
}

#[test]
fn gilbert_elliott_loses_in_both_states() {
    let chain = GilbertElliott {
        good_to_bad: 0.1,
        bad_to_good: 0.3,
        loss_good: 0.02,
        loss_bad: 0.5,
    };
    let expected = 0.75 * 0.02 + 0.25 * 0.5;
    let measured = share(&losses(Loss::GilbertElliott(chain), PACKETS));
    assert!((measured / expected - 1.0).abs() < 0.03, "{measured}");
}

#[test]
fn a_list_loses_exactly_its_packets() {
    let lost = losses(
        Loss::List {
            packets: vec![7, 3, 3, 0],
        },
        10,
    );
    let indices: Vec<usize> = (0..10).filter(|index| lost[*index]).collect();
    assert_eq!(indices, [0, 3, 7]);
}

#[test]
fn loss_at_egress_uses_the_link_and_loss_at_ingress_does_not() {
    let direction = |loss_at| Direction {
        loss: Loss::List { packets: vec![0] },
        loss_at,
        delay_ns: 5,
        ..plain(Some(12_000_000))
    };
    let second_arrival = |loss_at| {
        let mut link = Link::new(&direction(loss_at));
        (0..2).for_each(|_| _ = link.offer(0, 1500));
        link.run_to_end();
        (
            link.arrivals(),
            link.dropped[0].at,
            link.counters().wire_packets,
        )
    };
    assert_eq!(
        second_arrival(LossPlace::Ingress),
        (vec![MILLISECOND + 5], 0, 1)
    );
    assert_eq!(
        second_arrival(LossPlace::Egress),
        (vec![2 * MILLISECOND + 5], MILLISECOND, 2)
    );
}

#[test]
fn an_unchanged_loss_model_goes_on_over_a_change_of_the_link() {
    let loss = Loss::List { packets: vec![2] };
    let mut link = Link::new(&Direction {
        loss: loss.clone(),
        ..plain(None)
    });
    (0..2).for_each(|now| assert_eq!(link.offer(now, 100), Enqueued::Queued));
    let slower = Direction {
        loss,
        delay_ns: 9,
        ..plain(Some(1_000_000))
    };
    link.channel
        .reconfigure(2, link.stations[0], &slower)
        .expect("a valid direction");
    assert_eq!(link.offer(3, 100), Enqueued::Dropped(DropReason::Loss));
    assert_eq!(link.offer(4, 100), Enqueued::Queued);
}
