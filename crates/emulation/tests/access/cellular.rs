//! Checks of the cellular model: radio states, HARQ, the queue, handovers.

use experiment::resolved::{Access, Trace};
use experiment::rng::Generator;
use experiment::time::Nanos;

use crate::driver::{MILLISECOND, SECOND, plain, trace};
use crate::networks::{clear, lte, nsa};
use crate::path::{DOWN, Path, UP, assert_near, direction, quantiles};

const MEGABIT: u64 = 1_000_000;
const MS: f64 = 1e6;

/// Returns the quantiles p10, p50 and p90 in milliseconds of round trips that begin after silence.
/// Without silence they take 60 ms: 21.5 ms each way, and the uplink's grant.
fn after_silence(silence: Nanos, probes: usize) -> [f64; 3] {
    let mut path = Path::cellular(lte(), 7, 40 * MEGABIT, 21_500_000);
    let mut generator = Generator::new(1, "silence");
    let mut now = 0;
    let round_trips = (0..probes).map(|_| {
        now += silence + generator.below(3 * SECOND);
        let round_trip = path.ping(now, 100);
        now += round_trip;
        round_trip
    });
    quantiles(round_trips.collect(), [10, 50, 90]).map(|value| value / MS)
}

/// C1. Verizon's 4G after 2 to 9.9 s of silence: 90, 220 and 358 ms (RRC-Probe data of 2020 and
/// 2021, 144 to 445 probes).
#[test]
fn after_seconds_of_silence_the_network_waits_for_the_drx_cycle() {
    for (found, published) in after_silence(5 * SECOND, 2000)
        .into_iter()
        .zip([90.0, 220.0, 358.0])
    {
        assert_near(found, published, 0.08);
    }
}

/// C2. Six phones after 17 to 26 s: 400 to 522, 874 to 980, and 1420 to 1500 ms (same data).
#[test]
fn an_idle_device_is_paged_and_promoted() {
    let published = [(400.0, 522.0), (874.0, 980.0), (1420.0, 1500.0)];
    let found = after_silence(20 * SECOND, 2000);
    for (found, (least, most)) in found.into_iter().zip(published) {
        assert!((0.97 * least..=1.03 * most).contains(&found), "{found}");
    }
}

/// Verizon's 4G without silence: 52 to 77 ms (same data), which gave the 60 ms.
#[test]
fn an_active_device_answers_at_once() {
    let mut path = Path::cellular(lte(), 7, 40 * MEGABIT, 21_500_000);
    let times = (0..200u64).map(|probe| path.ping(1 + probe * 97 * MILLISECOND, 100));
    let [p50] = quantiles(times.collect(), [50]);
    assert_near(p50 / MS, 60.0, 0.1);
}

/// The uplink of a device that wakes itself up does not wait for the cycle.
#[test]
fn a_device_sends_without_waiting_for_its_cycle() {
    let mut path = Path::cellular(clear(), 7, 40 * MEGABIT, 0);
    for probe in 1..100 {
        let now = probe * 5 * SECOND;
        assert!(path.offer(UP, now, 100));
        let at = path.next(Nanos::MAX).expect("a delivery").at;
        // A request within 10 ms, its grant after 8 ms, at most two TTIs.
        assert!((8 * MILLISECOND..=20 * MILLISECOND).contains(&(at - now)));
    }
}

/// An idle device that sends asks for its connection at once. One that the network pages is idle
/// until it listens.
#[test]
fn the_state_of_a_radio_tells_idle_from_promotion() {
    for direction in [UP, DOWN] {
        let mut path = Path::cellular(lte(), 7, 40 * MEGABIT, 0);
        let start = 20 * SECOND;
        path.channel.advance(start);
        assert!(path.offer(direction, start, 100));
        let mut lengths = [0; 6];
        for tick in 0..2000 {
            path.drain(start + tick * MILLISECOND);
            path.channel.advance(start + tick * MILLISECOND);
            let counters = path.channel.access_counters(path.station(direction));
            lengths[usize::from(counters.expect("an access network").radio_state)] += 1;
        }
        let [_, _, idle, _, _, promotion] = lengths;
        assert!((259..=261).contains(&promotion), "{lengths:?}");
        assert_eq!(idle > 0, direction == DOWN, "{lengths:?}");
    }
}

/// C3. Blocks that wait, their mean and the 99th percentile, as computed from the error rates of
/// LTE. Nothing is lost, and the order is kept.
#[test]
fn a_block_that_failed_holds_those_behind_it() {
    let blocks = 200_000;
    let mut path = Path::new(
        &Access::Cellular(lte()),
        3,
        [&plain(Some(9 * MEGABIT)), &plain(Some(9 * MEGABIT))],
    );
    // A packet is as long as a TTI.
    for _ in 0..blocks {
        assert!(path.offer(DOWN, 0, 1125));
    }
    let left = path.drain(Nanos::MAX);
    let ids = left.iter().map(|one| one.packet.id);
    assert!(ids.eq(0..blocks), "all packets arrive, in order");
    let times = left
        .iter()
        .map(|one| one.at - (one.packet.id + 2) * MILLISECOND);
    let times: Vec<Nanos> = times.collect();
    let waiting = times.iter().filter(|time| **time > 0).count() as f64 / blocks as f64;
    assert_near(waiting, 0.57, 0.03);
    let mean = times.iter().sum::<Nanos>() as f64 / blocks as f64;
    assert_near(mean / MS, 3.0, 0.03);
    let [p95, p99] = quantiles(times, [95, 99]);
    assert_near(p95 / MS, 8.0, 0.03);
    assert_near(p99 / MS, 12.0, 0.03);
}

/// C4, of the queue alone: 70 ms and 1.5 MB at 9 Mbit/s are 1.4 s.
#[test]
fn a_full_queue_delays_by_its_bytes() {
    let mut path = Path::cellular(lte(), 3, 9 * MEGABIT, 35 * MILLISECOND);
    assert!((0..1000).all(|_| path.offer(DOWN, 0, 1500)));
    assert!(!path.offer(DOWN, 0, 1500), "the queue is full");
    let left = path.drain(Nanos::MAX);
    let last = left.last().expect("deliveries").at;
    assert_near((last + 35 * MILLISECOND) as f64 / MS, 1403.0, 0.05);
}

/// Returns the arrivals of packets every millisecond, with handovers at the given times.
fn arrivals(handovers: &[Nanos]) -> Vec<Nanos> {
    let mut path = Path::cellular(clear(), 3, 30 * MEGABIT, 20 * MILLISECOND);
    let mut left = Vec::new();
    for tick in 0..2000 {
        let now = tick * MILLISECOND;
        left.extend(path.drain(now));
        if handovers.contains(&now) {
            path.hand_over(now, 60 * MILLISECOND, true);
        }
        assert!(path.offer(DOWN, now, 1500));
        path.check_ledger();
    }
    left.extend(path.drain(Nanos::MAX));
    assert!(left.iter().all(|one| one.dropped.is_none()));
    left.into_iter().map(|one| one.at).collect()
}

/// C6. A packet every millisecond at two and a half times that rate: the packet at the handover
/// waits for its gap, and later ones for the gap and the backlog.
#[test]
fn a_handover_holds_packets_for_its_gap() {
    let (calm, moved) = (arrivals(&[]), arrivals(&[SECOND]));
    assert_eq!(calm.len(), 2000, "no packet is lost");
    assert_eq!(moved.len(), 2000, "no packet is lost");
    let late: Vec<Nanos> = calm.iter().zip(&moved).map(|(a, b)| b - a).collect();
    assert!(late[..1000].iter().all(|late| *late == 0));
    for (packet, late) in late[1000..].iter().enumerate() {
        // Two and a half packets a TTI.
        let sent = ((packet + 1) as u64 * 1500).div_ceil(3750) - 1;
        let backlog = (60 + sent).saturating_sub(packet as u64 + 1) * MILLISECOND;
        assert_eq!(*late, backlog, "packet {packet}");
    }
}

#[test]
fn a_handover_may_lose_the_queue_of_the_network() {
    let mut path = Path::cellular(clear(), 3, 9 * MEGABIT, 0);
    for station in [UP, DOWN] {
        assert!((0..100).all(|_| path.offer(station, 0, 1500)));
    }
    let mut left = path.drain(50 * MILLISECOND);
    path.hand_over(50 * MILLISECOND, 60 * MILLISECOND, false);
    path.check_ledger();
    left.extend(path.drain(Nanos::MAX));
    let lost = |station| {
        let of_station = left.iter().filter(move |one| one.station == station);
        of_station.filter(|one| one.dropped.is_some()).count()
    };
    assert_eq!(lost(UP), 0, "the device keeps its queue");
    assert!((60..65).contains(&lost(DOWN)), "{}", lost(DOWN));
    assert_eq!(left.len(), 200);
}

/// A trace gives the bytes of each TTI: 12 opportunities within 10 ms, again and again.
#[test]
fn grants_carry_the_opportunities_of_a_trace() {
    let instants = [0, 0, 0, 1, 1, 4, 4, 4, 4, 9, 9, 10].map(|ms| ms * MILLISECOND);
    let mut traced = plain(None);
    traced.trace = Some(Trace {
        opportunities_ns: instants.to_vec(),
        ..trace(10 * MILLISECOND)
    });
    let mut path = Path::new(&Access::Cellular(clear()), 3, [&traced, &traced]);
    assert!((0..1200).all(|_| path.offer(DOWN, 0, 1500)));
    let left = path.drain(Nanos::MAX);
    // What is offered at 0 is too late for the TTI that begins then.
    let first: Vec<Nanos> = left[..15].iter().map(|one| one.at / MILLISECOND).collect();
    assert_eq!(
        first,
        [2, 2, 5, 5, 5, 5, 10, 10, 11, 11, 11, 11, 12, 12, 15]
    );
    assert_eq!(left.last().map(|one| one.at), Some(1001 * MILLISECOND));
}

/// The mean of a fading rate is the rate.
#[test]
fn fading_keeps_the_mean_rate() {
    let mut cell = clear();
    cell.signal.fast_sd_mdb = 3000;
    cell.signal.slow_sd_mdb = 3000;
    cell.signal.slow_ns = SECOND;
    let rate = direction(8 * MEGABIT, 0, u64::MAX);
    let mut path = Path::new(&Access::Cellular(cell), 3, [&rate, &rate]);
    assert!((0..20_000).all(|_| path.offer(DOWN, 0, 60_000)));
    let last = path.drain(Nanos::MAX).last().expect("deliveries").at;
    assert_near(last as f64 / SECOND as f64, 1200.0, 0.03);
}

/// C7. Rates within 100 ms of a device that drives: the 5th percentile is 0 to 0.17 and the 95th is
/// 2.0 to 3.7 times the median in three traces of LTE (mahimahi: AT&T 2016 down, Verizon 2012).
#[test]
fn a_rate_varies_as_in_recorded_traces() {
    let mut cell = clear();
    cell.signal.fast_sd_mdb = 3000;
    cell.signal.slow_sd_mdb = 8000;
    // The quantiles are those of the usual 10 s, of which a run of this length sees too few.
    cell.signal.slow_ns = 2 * SECOND;
    let rate = direction(10 * MEGABIT, 0, u64::MAX);
    let mut path = Path::new(&Access::Cellular(cell), 3, [&rate, &rate]);
    let mut windows = vec![0; 30_000];
    for tick in 0..300_000 {
        let now = tick * 10 * MILLISECOND;
        for left in path.drain(now) {
            windows[(left.at / (100 * MILLISECOND)) as usize] += u64::from(left.packet.bytes);
        }
        while path.channel.queue_bytes(path.station(DOWN)) < 100_000 {
            assert!(path.offer(DOWN, now, 1500));
        }
    }
    let [p5, p50, p95] = quantiles(windows, [5, 50, 95]);
    let (low, high) = (p5 / p50, p95 / p50);
    assert!(low <= 0.17 && (2.0..=3.7).contains(&high), "{low} {high}");
}

/// C5. A full queue carries what the trace of AT&T's LTE (mahimahi, 2016) offers: payload of 1472 B
/// in each opportunity of 1500 B. Skipped without `MPTCPLAB_TRACES`, the folder of measured traces.
#[test]
fn a_full_queue_carries_a_recorded_trace() {
    let Ok(folder) = std::env::var("MPTCPLAB_TRACES") else {
        return;
    };
    let file = std::path::Path::new(&folder).join("mahimahi/ATT-LTE-driving-2016.down");
    let text = std::fs::read_to_string(&file).expect("the trace is in the folder");
    let instants = text.lines().map(|line| line.trim().parse::<Nanos>());
    let instants: Vec<Nanos> = instants
        .map(|ms| ms.expect("milliseconds") * MILLISECOND)
        .collect();
    let period_ns = *instants.last().expect("a line");
    let offered = instants.len() as f64 * 1472.0;
    let mut traced = plain(None);
    traced.trace = Some(Trace {
        opportunities_ns: instants,
        ..trace(period_ns)
    });
    let mut path = Path::new(&Access::Cellular(lte()), 3, [&traced, &traced]);
    let (mut now, mut payload) = (0, 0.0);
    while now < period_ns {
        while path.channel.queue_packets(path.station(DOWN)) < 100 {
            assert!(path.offer(DOWN, now, 1500));
        }
        payload += path.drain(now).len() as f64 * 1472.0;
        now += 5 * MILLISECOND;
    }
    assert_near(payload, offered, 0.01);
}

/// An NSA device has 5G half of the time, and a third of the rate at other times. Changes lose
/// nothing.
#[test]
fn a_device_adds_and_releases_its_leg_of_5g() {
    let mut cell = nsa();
    cell.harq.first_error_ppm = 0;
    let mut path = Path::cellular(cell, 3, 30 * MEGABIT, 0);
    let (seconds, mut states) = (2000, [0; 6]);
    let mut bytes = vec![0; seconds + 10];
    for tick in 0..100 * seconds as u64 {
        let now = tick * 10 * MILLISECOND;
        for left in path.drain(now) {
            assert_eq!(left.dropped, None);
            bytes[(left.at / SECOND) as usize] += u64::from(left.packet.bytes);
        }
        while path.channel.queue_bytes(path.station(DOWN)) < 100_000 {
            assert!(path.offer(DOWN, now, 1500));
        }
        path.channel.advance(now);
        let counters = path.channel.access_counters(path.station(DOWN));
        states[usize::from(counters.expect("an access network").radio_state)] += 1;
    }
    let rates = bytes.iter().map(|bytes| 8 * bytes / MEGABIT);
    let is_about = |rate: u64| rates.clone().filter(|one| one.abs_diff(rate) <= 1).count();
    let [with, without] = [30, 10].map(is_about);
    assert!(
        with > seconds / 3 && without > seconds / 3,
        "{with} and {without}"
    );
    let changes = path.channel.access_counters(path.station(DOWN));
    let changes = changes.expect("an access network").handovers;
    // One in 7.5 s and the gap of 77 ms on average.
    assert_near(changes as f64, seconds as f64 / 7.577, 0.15);
    let [active, drx, idle, between, on_4g, promotion] = states;
    assert_eq!((drx, idle, promotion), (0, 0, 0));
    assert!(between > 0);
    assert_near(active as f64, f64::from(on_4g), 0.25);
}
