//! Laws that hold for any Wi-Fi network, arrivals and outages.

use emulation::link::{Channel, Counters};
use experiment::resolved::{
    Access, ApQueue, Direction, HopDirection, Wifi, WifiBand, WifiNeighbours, WifiRate,
    WifiStandard,
};
use experiment::time::Nanos;
use proptest::prelude::*;

use crate::driver::{Datagram, Dropped, Link, drop_tail, plain};
use crate::networks::{fair_queue, fixed, mixed_network, network, one_queue};

const STATIONS: usize = 2;

fn standard() -> impl Strategy<Value = WifiStandard> {
    prop::sample::select(vec![
        WifiStandard::B,
        WifiStandard::G,
        WifiStandard::A,
        WifiStandard::N,
        WifiStandard::Ac,
        WifiStandard::Ax,
    ])
}

fn rate() -> impl Strategy<Value = WifiRate> {
    let some = [WifiRate::Auto {}, WifiRate::Ideal {}, fixed(0), fixed(3)];
    prop::sample::select(some.to_vec())
}

fn ap_queue() -> impl Strategy<Value = ApQueue> {
    prop::sample::select(vec![fair_queue(), one_queue()])
}

/// Returns a network whose second station has the oldest standard of the band, if `is_mixed`.
fn mixed(standard: WifiStandard, is_mixed: bool, rates: &[WifiRate; 2]) -> Wifi {
    if !is_mixed || !standard.bands().contains(&WifiBand::Ghz2) {
        return network(standard, rates);
    }
    let stations = [(standard, rates[0]), (WifiStandard::B, rates[1])];
    mixed_network(standard, &stations)
}

/// Networks with bad signals, so that much has to be sent again.
fn wifi() -> impl Strategy<Value = Wifi> {
    let signal = (-5000..20_000i64, 0..4000u64);
    let rates = [rate(), rate()];
    let neighbours = prop::option::of(100_000..20_000_000u64);
    let txop = prop_oneof![Just(0u64), 100_000..4_000_000u64];
    (
        standard(),
        rates,
        ap_queue(),
        signal,
        neighbours,
        (txop, 1..5u32),
        any::<bool>(),
    )
        .prop_map(
            |(
                standard,
                rates,
                ap_queue,
                (mean_mdb, sd_mdb),
                load,
                (txop_limit_ns, retry_limit),
                is_mixed,
            )| {
                let mut wifi = mixed(standard, is_mixed, &rates);
                for station in &mut wifi.stations {
                    (station.snr.means[0].mean_mdb, station.snr.sd_mdb) = (mean_mdb, sd_mdb);
                }
                wifi.stations[1].uplink = HopDirection::Backward;
                (wifi.ap_queue, wifi.retry_limit) = (ap_queue, retry_limit);
                let of_stations = wifi.stations.iter_mut().map(|station| &mut station.edca);
                wifi.edca
                    .iter_mut()
                    .chain(of_stations)
                    .for_each(|edca| edca.txop_limit_ns = txop_limit_ns);
                wifi.neighbours.extend(load.map(|load_bps| WifiNeighbours {
                    stations: 3,
                    load_bps,
                    rate_bps: 11_000_000,
                    packet_bytes: 1500,
                }));
                wifi
            },
        )
}

#[derive(Clone, Debug)]
enum Step {
    Offer { direction: usize, bytes: u32 },
    Burst { direction: usize },
    SetUp { direction: usize, up: bool },
    Limit { direction: usize, packets: u64 },
}

fn steps() -> impl Strategy<Value = Vec<(Nanos, Step)>> {
    let direction = 0..2 * STATIONS;
    let offer = (direction.clone(), 0..3000u32)
        .prop_map(|(direction, bytes)| Step::Offer { direction, bytes });
    let burst = direction
        .clone()
        .prop_map(|direction| Step::Burst { direction });
    let set_up = (direction.clone(), any::<bool>())
        .prop_map(|(direction, up)| Step::SetUp { direction, up });
    let limit =
        (direction, 1..30u64).prop_map(|(direction, packets)| Step::Limit { direction, packets });
    let step = prop_oneof![20 => offer, 4 => burst, 1 => set_up, 1 => limit];
    let gap = prop_oneof![Just(0), 0..300_000u64, 0..30_000_000u64];
    prop::collection::vec((gap, step), 1..60)
}

struct Run {
    link: Link,
    now: Nanos,
}

impl Run {
    fn new(wifi: &Wifi) -> Self {
        let directions = vec![direction(50); 2 * STATIONS];
        let channel = Channel::of_access(&Access::Wifi(wifi.clone()), 1);
        Self {
            link: Link::with_stations(channel, &directions),
            now: 0,
        }
    }

    fn take(&mut self, gap: Nanos, step: &Step) {
        self.now += gap;
        self.link.run_until(self.now);
        match *step {
            Step::Offer { direction, bytes } => {
                _ = self
                    .link
                    .offer_to(direction, self.now, bytes, direction as u64);
            }
            Step::Burst { direction } => {
                for _ in 0..40 {
                    _ = self
                        .link
                        .offer_to(direction, self.now, 1500, direction as u64);
                }
            }
            Step::SetUp { direction, up } => {
                let station = self.link.stations[direction];
                self.link.channel.set_up(self.now, station, up);
            }
            Step::Limit {
                direction: of,
                packets,
            } => {
                let (now, station) = (self.now, self.link.stations[of]);
                let changed = self
                    .link
                    .channel
                    .reconfigure(now, station, &direction(packets));
                changed.expect("a valid direction");
            }
        }
        self.link.run_until(self.now);
    }

    /// Checks that no packet is forgotten, and returns how many are inside.
    fn inside(&self) -> Result<u64, TestCaseError> {
        let channel = &self.link.channel;
        let mut all = 0;
        for id in &self.link.stations {
            let counters = channel.counters(*id);
            let inside = channel.queue_packets(*id) + channel.in_flight(*id);
            let outside = counters.delivered_packets + counters.dropped_in_all();
            prop_assert_eq!(counters.offered_packets, outside + inside);
            all += inside;
        }
        Ok(all)
    }

    fn counters(&self) -> Vec<Counters> {
        let stations = self.link.stations.iter();
        stations.map(|id| self.link.channel.counters(*id)).collect()
    }

    /// Runs to the end and returns what came out.
    fn outcome(mut self) -> (Vec<(Nanos, Datagram)>, Vec<Dropped>, Vec<Counters>) {
        self.link.run_to_end();
        let counters = self.counters();
        let (delivered, mut dropped) = (self.link.delivered, self.link.dropped);
        dropped.sort_by_key(|drop| (drop.at, drop.packet.id));
        (delivered, dropped, counters)
    }
}

fn direction(limit_packets: u64) -> Direction {
    Direction {
        queue: drop_tail(Some(limit_packets)),
        delay_ns: 1_000_000,
        ..plain(None)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_packet_is_delivered_or_dropped_or_inside(wifi in wifi(), steps in steps()) {
        let mut run = Run::new(&wifi);
        for (gap, step) in &steps {
            run.take(*gap, step);
            run.inside()?;
        }
        run.link.run_to_end();
        prop_assert_eq!(run.inside()?, 0);
    }

    #[test]
    fn retransmissions_keep_the_order_of_a_direction(wifi in wifi(), steps in steps()) {
        let mut run = Run::new(&wifi);
        steps.iter().for_each(|(gap, step)| run.take(*gap, step));
        let (delivered, ..) = run.outcome();
        for flow in 0..2 * STATIONS as u64 {
            let of_flow = delivered.iter().filter(|(_, packet)| packet.flow == flow);
            prop_assert!(of_flow.map(|(_, packet)| packet.id).is_sorted());
        }
    }

    #[test]
    fn extra_calls_change_nothing(wifi in wifi(), steps in steps()) {
        let outcome = |extra: bool| {
            let mut run = Run::new(&wifi);
            for (gap, step) in &steps {
                if extra {
                    run.link.run_until(run.now + gap / 2);
                    run.link.channel.advance(run.now + gap / 2 + gap / 4);
                }
                run.take(*gap, step);
            }
            run.outcome()
        };
        prop_assert_eq!(outcome(false), outcome(true));
    }

    #[test]
    fn a_reset_network_does_the_same_again(wifi in wifi(), steps in steps()) {
        let mut run = Run::new(&wifi);
        steps.iter().for_each(|(gap, step)| run.take(*gap, step));
        run.link.reset();
        run.now = 0;
        steps.iter().for_each(|(gap, step)| run.take(*gap, step));
        let mut fresh = Run::new(&wifi);
        steps.iter().for_each(|(gap, step)| fresh.take(*gap, step));
        prop_assert_eq!(run.outcome(), fresh.outcome());
    }
}
