//! Stations that sleep, scan, or hear the access point less well, and frames protected by RTS.

use emulation::link::{Disturbance, DropReason};
use experiment::resolved::{BEACON_INTERVAL_NS, Scan, Wifi, WifiRate, WifiStandard};
use experiment::time::Nanos;

use super::cell::{Cell, DOWNLINK, UPLINK, saturated_uplinks};
use crate::driver::{MILLISECOND, SECOND};
use crate::networks::{fixed, network};

/// A packet of 100 bytes at 6 Mbit/s takes less than this, with its acknowledgment.
const EXCHANGE: Nanos = MILLISECOND;

fn one_station(change: impl FnOnce(&mut Wifi)) -> Cell {
    let mut wifi = network(WifiStandard::A, &[fixed(0)]);
    change(&mut wifi);
    Cell::plain(&wifi)
}

/// Runs until `at`, offers a packet in a direction and returns how long it takes.
fn delay(cell: &mut Cell, at: Nanos, direction: usize) -> Nanos {
    cell.run_until(at);
    let before = cell.delays[direction].len();
    _ = cell.offer(direction, 100);
    cell.run_until(at + 300 * MILLISECOND);
    assert_eq!(cell.delays[direction].len(), before + 1);
    cell.delays[direction][before]
}

#[test]
fn a_packet_for_a_station_that_sleeps_waits_for_a_beacon() {
    let mut cell = one_station(|wifi| wifi.stations[0].power_save_after_ns = Some(100_000_000));
    let mut beacons = Vec::new();
    let mut waits = Vec::new();
    for number in 1..=200 {
        // Steps that pass through all phases of the beacons.
        let at = number * (SECOND + 7_300_000);
        let delay = delay(&mut cell, at, DOWNLINK);
        assert!(delay <= BEACON_INTERVAL_NS + EXCHANGE, "{delay}");
        waits.push(delay);
        beacons.push((at + delay) % BEACON_INTERVAL_NS);
    }
    assert!(beacons.iter().all(|offset| *offset == beacons[0]));
    let mean = waits.iter().sum::<Nanos>() / waits.len() as Nanos;
    assert!(
        mean.abs_diff(BEACON_INTERVAL_NS / 2) < 5 * MILLISECOND,
        "{mean}"
    );
}

#[test]
fn a_station_that_sends_or_has_just_received_does_not_sleep() {
    let mut cell = one_station(|wifi| wifi.stations[0].power_save_after_ns = Some(100_000_000));
    assert!(delay(&mut cell, 5 * SECOND, UPLINK) < EXCHANGE);
    // It wakes up to send, and packets for it come at once.
    cell.run_until(6 * SECOND);
    _ = cell.offer(UPLINK, 100);
    assert!(delay(&mut cell, 6 * SECOND + 99 * MILLISECOND, DOWNLINK) < EXCHANGE);
}

#[test]
fn a_station_that_scans_neither_sends_nor_receives() {
    let scan = Scan {
        every_ns: SECOND,
        shortest_ns: 50 * MILLISECOND,
        longest_ns: 150 * MILLISECOND,
    };
    let mut cell = one_station(|wifi| wifi.stations[0].scan = Some(scan));
    let packets = 60_000;
    for tick in 0..packets {
        cell.run_until(tick * MILLISECOND);
        _ = cell.offer((tick % 2) as usize, 100);
    }
    cell.run_until(cell.now + SECOND);
    for direction in [UPLINK, DOWNLINK] {
        let delays = &cell.delays[direction];
        assert_eq!(delays.len() as u64, packets / 2, "a scan loses nothing");
        // The packet that waits longest came just after the station had left.
        let is_later = |pair: &&[Nanos]| pair[1] > pair[0] + 40 * MILLISECOND;
        let absences: Vec<Nanos> = delays
            .windows(2)
            .filter(is_later)
            .map(|pair| pair[1])
            .collect();
        assert!((59..=61).contains(&absences.len()), "{}", absences.len());
        // Contention with the backlog of the other direction comes after the absence.
        let longest = scan.longest_ns + 100 * MILLISECOND;
        let shortest = scan.shortest_ns - 2 * MILLISECOND;
        assert!(
            absences
                .iter()
                .all(|one| (shortest..=longest).contains(one)),
            "{absences:?}"
        );
    }
}

/// Long frames collide for as long as they are; their RTS are short.
#[test]
fn rts_shortens_the_collisions_of_frames_above_its_size() {
    let goodput = |rts_bytes: Option<u32>| {
        let mut wifi = network(WifiStandard::A, &[fixed(0); 20]);
        wifi.rts_bytes = rts_bytes;
        let cell = saturated_uplinks(&wifi, 1500, 10 * SECOND);
        (0..20)
            .map(|station| cell.mbps(2 * station + UPLINK, 0))
            .sum::<f64>()
    };
    let [without, above, all] = [None, Some(2000), Some(500)].map(goodput);
    assert_eq!(without, above, "shorter frames have no RTS");
    // A collision costs 2 ms with data, and 0.1 ms with RTS, and one round in four collides.
    assert!(all > 1.1 * without, "{all} and {without} Mbit/s");
}

#[test]
fn an_event_changes_the_signal_of_a_station() {
    let mut cell = Cell::plain(&network(WifiStandard::N, &[WifiRate::Ideal {}]));
    let received_until = |cell: &mut Cell, end: Nanos| {
        let before = cell.arrived_bytes[UPLINK];
        while cell.now < end {
            _ = cell.offer(UPLINK, 1500);
            cell.run_until(cell.now + MILLISECOND / 10);
        }
        8 * (cell.arrived_bytes[UPLINK] - before) / 1_000_000
    };
    let set = |cell: &mut Cell, mean_mdb| {
        let signal = Disturbance::Signal { mean_mdb };
        cell.channel.disturb(cell.now, cell.stations[0], signal);
    };
    let good = received_until(&mut cell, SECOND);
    set(&mut cell, 4000);
    let poor = received_until(&mut cell, 2 * SECOND);
    set(&mut cell, -20_000);
    received_until(&mut cell, 2 * SECOND + 200 * MILLISECOND);
    let none = received_until(&mut cell, 3 * SECOND);
    set(&mut cell, 60_000);
    received_until(&mut cell, 3 * SECOND + 200 * MILLISECOND);
    let back = received_until(&mut cell, 4 * SECOND);
    assert!(good > 40 && back > 30, "{good} and {back} Mbit");
    assert!((3..=6).contains(&poor), "MCS 0 carries {poor} Mbit");
    assert_eq!(none, 0);
    let counters = cell.channel.counters(cell.stations[UPLINK]);
    assert!(counters.dropped(DropReason::Retries) > 0);
}
