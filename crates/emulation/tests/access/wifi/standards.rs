//! Stations of an older standard than their network.

use experiment::resolved::{Wifi, WifiStandard};
use experiment::time::Nanos;

use super::cell::{Cell, DOWNLINK, UPLINK, saturated_uplinks};
use super::within;
use crate::driver::SECOND;
use crate::networks::{fixed, mixed_network};

const US: Nanos = 1000;

/// A station of `n` at 65 Mbit/s beside one of `g` at 54.
fn desktop_and_laptop() -> Wifi {
    let stations = [(WifiStandard::N, fixed(7)), (WifiStandard::G, fixed(7))];
    mixed_network(WifiStandard::N, &stations)
}

/// Returns how long one packet takes in an idle network, and the air time of its exchange.
fn single(wifi: &Wifi, direction: usize) -> (Nanos, Nanos) {
    let mut cell = Cell::plain(wifi);
    _ = cell.offer(direction, 1500);
    cell.run_until(SECOND);
    (cell.delays[direction][0], cell.access(direction).air_time)
}

/// A PPDU of `g` takes 20 us, 57 symbols of 216 bits and 6 us of silence, its acknowledgment 34 us
/// after 10 us. The CTS before it takes 192 us and 14 bytes at 2 Mbit/s, and 10 us follow.
#[test]
fn a_station_of_b_makes_stations_of_g_send_a_cts_first() {
    let alone = mixed_network(WifiStandard::G, &[(WifiStandard::G, fixed(7))]);
    assert_eq!(single(&alone, UPLINK), (254 * US, 298 * US));
    let stations = [(WifiStandard::G, fixed(7)), (WifiStandard::B, fixed(3))];
    let mut mixed = mixed_network(WifiStandard::G, &stations);
    for direction in [UPLINK, DOWNLINK] {
        assert_eq!(single(&mixed, direction), (512 * US, 556 * US));
    }
    // RTS and CTS take the place of the CTS to self: 20 and 14 bytes.
    mixed.rts_bytes = Some(1000);
    assert_eq!(single(&mixed, UPLINK).0, (272 + 10 + 248 + 10 + 254) * US);
    // 192 us and 1536 bytes at 11 Mbit/s.
    mixed.rts_bytes = None;
    assert_eq!(single(&mixed, 2 + UPLINK).0, 192 * US + 1_117_091);
}

/// The preamble of `n` tells stations of `g` how long its frame is.
#[test]
fn a_station_of_g_makes_those_of_n_send_nothing_first() {
    let alone = mixed_network(WifiStandard::N, &[(WifiStandard::N, fixed(7))]);
    assert_eq!(
        single(&alone, UPLINK),
        single(&desktop_and_laptop(), UPLINK)
    );
}

/// Two stations of `g` share the channel in turns. With one of `b`, whose slots are longer, a turn
/// is longer by the CTS and by the slots.
#[test]
fn a_cell_with_an_idle_station_of_b_carries_what_protection_leaves() {
    let of = |standards: &[WifiStandard]| {
        let stations: Vec<_> = standards.iter().map(|one| (*one, fixed(3))).collect();
        let mut wifi = mixed_network(WifiStandard::G, &stations);
        wifi.stations[0].rate = fixed(7);
        let mut cell = Cell::plain(&wifi);
        cell.keep_supplied(UPLINK, 10, 1500);
        cell.run_until(10 * SECOND);
        cell.mbps(UPLINK, 0)
    };
    // DIFS, half a window of slots, and the exchanges of the test above.
    let expected = |difs: f64, slot: f64, exchange: f64| 12_000.0 / (difs + 7.5 * slot + exchange);
    let alone = of(&[WifiStandard::G]);
    within(alone, expected(28.0, 9.0, 298.0), 0.01, "g alone");
    let mixed = of(&[WifiStandard::G, WifiStandard::B]);
    within(mixed, expected(50.0, 20.0, 556.0), 0.01, "g beside b");
}

/// Accesses are nearly equal, but one carries a packet and the other an aggregate.
#[test]
fn a_station_without_aggregates_gets_a_packet_where_another_gets_an_aggregate() {
    let cell = {
        let mut cell = Cell::plain(&desktop_and_laptop());
        (0..2).for_each(|station| cell.keep_supplied(2 * station + UPLINK, 100, 1500));
        cell.run_until(20 * SECOND);
        cell
    };
    let [desktop, laptop] = [0, 1].map(|station| cell.access(2 * station + UPLINK));
    let ratio = laptop.exchanges as f64 / desktop.exchanges as f64;
    // The backoff of `g` begins a slot earlier, because its AIFSN is 2 and not 3.
    assert!((1.0..1.4).contains(&ratio), "{ratio}");
    assert_eq!(laptop.aggregated_packets, laptop.exchanges);
    let of_desktop = desktop.aggregated_packets as f64 / desktop.exchanges as f64;
    assert!(of_desktop > 27.0, "{of_desktop}");
    let [fast, slow] = [0, 1].map(|station| cell.mbps(2 * station + UPLINK, 0));
    println!("{fast:.1} and {slow:.1} Mbit/s, {ratio:.2} accesses");
    assert!(fast > 15.0 * slow, "{fast} and {slow}");
}

/// A slow station slows one of a newer standard as one of its own (Heusse et al., INFOCOM 2003), as
/// long as the fast one sends a packet at a time.
#[test]
fn a_host_at_1_mbps_slows_one_of_g_below_1() {
    let stations = [(WifiStandard::G, fixed(7)), (WifiStandard::B, fixed(0))];
    let wifi = mixed_network(WifiStandard::G, &stations);
    let cell = saturated_uplinks(&wifi, 1500, 60 * SECOND);
    let each = [UPLINK, 2 + UPLINK].map(|direction| cell.mbps(direction, 0));
    println!("{each:?} Mbit/s");
    assert!(each[1] < 1.0, "{each:?}");
}
