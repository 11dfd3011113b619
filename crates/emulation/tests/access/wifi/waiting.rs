//! How long a packet waits beside neighbours, against a loop that steps from slot to slot.

use experiment::resolved::{WifiNeighbours, WifiStandard};
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::cell::{Cell, UPLINK};
use crate::networks::{fixed, network};

const SLOT: Nanos = 9_000;
const AIFS: Nanos = 34_000;
/// PPDU of 1500 bytes at 24 Mbit/s, and with its acknowledgment: 20 us and 129 symbols of 96 bits,
/// SIFS, 20 us and 2 symbols.
const PPDU: Nanos = 536_000;
const EXCHANGE: Nanos = PPDU + 16_000 + 28_000;
const STATIONS: usize = 3;
/// Mean time between packets of the station, and between frames of each neighbour. Together the
/// neighbours occupy half of the channel.
const GAP: Nanos = 10_000_000;
const NEIGHBOUR_GAP: Nanos = 2 * EXCHANGE * STATIONS as u64;

/// A sender of the loop.
struct Sender {
    gap: Nanos,
    arrivals: Generator,
    /// The first frame that is not sent.
    next: Nanos,
    cw: u64,
    backoff: u64,
    /// Whether the backoff has run since the last frame.
    may_start: bool,
}

/// Returns the mean time from the arrival to the start of the frames of the first sender.
fn mean_wait(frames: u64) -> f64 {
    let gaps = [&[GAP][..], &[NEIGHBOUR_GAP; STATIONS]].concat();
    let sender = |(index, gap): (usize, Nanos)| Sender {
        gap,
        arrivals: Generator::new(9, &format!("arrivals/{index}")),
        next: gap * index as u64 / 7,
        cw: 15,
        backoff: 0,
        may_start: true,
    };
    let mut senders: Vec<_> = gaps.into_iter().enumerate().map(sender).collect();
    let mut draws = Generator::new(9, "backoff");
    let (mut now, mut waited, mut sent) = (0, 0, 0);
    while sent < frames {
        // The channel has been idle for AIFS at `now`. Backoffs of 0 may start.
        let mut starts = Vec::new();
        for (index, one) in senders.iter_mut().enumerate() {
            one.may_start |= one.backoff == 0;
            if one.next < now + SLOT && one.may_start {
                starts.push((one.next.max(now), index));
            }
        }
        let Some(start) = starts.iter().map(|(at, _)| *at).min() else {
            senders
                .iter_mut()
                .for_each(|one| one.backoff = one.backoff.saturating_sub(1));
            now += SLOT;
            continue;
        };
        starts.retain(|(at, _)| *at == start);
        let collide = starts.len() > 1;
        for (_, index) in &starts {
            let one = &mut senders[*index];
            if *index == 0 && !collide {
                waited += start - one.next;
                sent += 1;
            }
            one.cw = if collide {
                (2 * one.cw + 1).min(1023)
            } else {
                15
            };
            if !collide {
                one.next += one.arrivals.exponential(one.gap);
            }
            one.backoff = draws.below(one.cw + 1);
            one.may_start = false;
        }
        now = start + EXCHANGE + AIFS;
        for (index, one) in senders.iter_mut().enumerate() {
            let is_starter = starts.iter().any(|(_, starter)| *starter == index);
            // A frame that comes while the channel is busy draws a backoff.
            if !is_starter && one.may_start && one.next < now {
                one.backoff = draws.below(one.cw + 1);
                one.may_start = false;
            }
        }
    }
    waited as f64 / sent as f64
}

/// W10. Neighbours that occupy half of the channel.
#[test]
fn wait_beside_neighbours_is_that_of_a_loop_over_slots() {
    let mut wifi = network(WifiStandard::A, &[fixed(4)]);
    let bits = 8 * 1500 * STATIONS as u64;
    wifi.neighbours = vec![WifiNeighbours {
        stations: STATIONS as u32,
        load_bps: bits * 1_000_000_000 / NEIGHBOUR_GAP,
        rate_bps: 24_000_000,
        packet_bytes: 1500,
    }];
    let mut cell = Cell::plain(&wifi);
    let mut gaps = Generator::new(2, "packets");
    let packets = 20_000;
    for _ in 0..packets {
        let at = cell.now + gaps.exponential(GAP);
        cell.run_until(at);
        _ = cell.offer(UPLINK, 1500);
    }
    cell.run_until(cell.now + 100 * GAP);
    let delays: u64 = cell.delays[UPLINK].iter().sum();
    assert_eq!(cell.delays[UPLINK].len(), packets);
    let found = delays as f64 / packets as f64 - PPDU as f64;
    let reference = mean_wait(50_000);
    let error = (found - reference).abs() / reference;
    assert!(error < 0.1, "{found:.0} ns, the loop {reference:.0} ns");
}
