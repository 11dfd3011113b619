//! Random worlds with outages, handovers and new rates: every packet is accounted for, and late
//! calls change nothing.

use emulation::link::{AccessCounters, Counters};
use experiment::resolved::{
    Access, Direction, Gaps, Handovers, Loss, NrLeg, WifiNeighbours, WifiRate, WifiStandard,
};
use experiment::rng::Generator;
use experiment::time::Nanos;

use crate::driver::{MILLISECOND, SECOND};
use crate::networks::{leo, lte, network as wifi_network, nsa, sa};
use crate::path::{DOWN, Left, Path, UP, direction};

const MEGABIT: u64 = 1_000_000;

/// Returns a random access network.
fn network(generator: &mut Generator) -> Access {
    if generator.chance(0.3) {
        let mut dish = leo("dish");
        dish.slot_ns = 100 * MILLISECOND + generator.below(SECOND);
        dish.phase_ns = None;
        dish.stall.max_ns = dish.stall.min_ns + generator.below(50 * MILLISECOND);
        dish.loss.interval_ns = MILLISECOND + generator.below(SECOND);
        return Access::Leo(dish);
    }
    let generations = [lte, nsa, sa];
    let mut cell = generations[generator.below(3) as usize]();
    cell.signal.fast_sd_mdb = generator.below(8_000) as u32;
    cell.neighbours.mean_ppm = generator.below(3_000_000) as u32;
    cell.rrc.drx_after_ns = generator.below(20 * MILLISECOND);
    cell.rrc.inactivity_ns = cell.rrc.drx_after_ns + generator.below(50 * MILLISECOND);
    cell.harq.first_error_ppm = generator.below(500_000) as u32;
    cell.handovers = generator.chance(0.5).then(|| Handovers {
        gaps: gaps(generator),
        forward_queue: generator.chance(0.5),
    });
    cell.nr_leg = generator.chance(0.5).then(|| NrLeg {
        gaps: gaps(generator),
        rate_without_ppm: 1 + generator.below(1_000_000) as u32,
    });
    Access::Cellular(cell)
}

/// Returns a Wi-Fi network with a station and busy neighbours.
fn wifi_beside_neighbours() -> Access {
    let mut wifi = wifi_network(WifiStandard::Ac, &[WifiRate::Auto {}]);
    wifi.neighbours.push(WifiNeighbours {
        stations: 3,
        load_bps: 4 * MEGABIT,
        rate_bps: 24 * MEGABIT,
        packet_bytes: 1500,
    });
    Access::Wifi(wifi)
}

fn gaps(generator: &mut Generator) -> Gaps {
    Gaps {
        interval_ns: MILLISECOND + generator.below(SECOND),
        gap_median_ns: generator.below(100 * MILLISECOND),
        gap_sd_ppm: 500_000,
    }
}

/// What a world makes of its packets, and what it reports of both directions after each step.
#[derive(Default)]
struct Played {
    left: Vec<Left>,
    reports: Vec<Report>,
}

impl Played {
    /// Returns the packets that left, in the order in which they were offered.
    fn sorted(mut self) -> Vec<Left> {
        self.left.sort_by_key(|left| (left.packet.id, left.at));
        self.left
    }
}

type Report = (Counters, [u64; 3], Option<AccessCounters>);

/// Returns what a station reports, without the state of the radio: a stall is known earlier if
/// packets are computed ahead.
fn report(path: &Path, station: usize) -> Report {
    let (channel, station) = (&path.channel, path.station(station));
    let gauges = [
        channel.queue_packets(station),
        channel.queue_bytes(station),
        channel.in_flight(station),
    ];
    let access = channel.access_counters(station);
    let access = access.map(|access| AccessCounters {
        radio_state: 0,
        ..access
    });
    (channel.counters(station), gauges, access)
}

/// Plays a world that `seed` draws, whose links have `loss`. If `is_lazy`, packets are taken out
/// only now and then.
fn play(seed: u64, is_lazy: bool, loss: &Loss) -> Played {
    let mut generator = Generator::new(seed, "world");
    let access = network(&mut generator);
    let rate = (1 + generator.below(100)) * MEGABIT;
    let both = Direction {
        loss: loss.clone(),
        ..direction(rate, generator.below(20 * MILLISECOND), 100_000)
    };
    let mut path = Path::new(&access, seed, [&both, &both]);
    let mut played = Played::default();
    let (mut now, mut is_up) = (0, true);
    for step in 0..600 {
        now += [
            0,
            generator.below(2 * MILLISECOND),
            generator.below(80 * MILLISECOND),
        ][generator.below(3) as usize];
        if !is_lazy || step % 50 == 0 {
            played.left.extend(path.drain(now));
        }
        match generator.below(40) {
            0 => {
                // A cut drops what has arrived and was not taken out.
                played.left.extend(path.drain(now));
                is_up = !is_up;
                for station in 0..2 {
                    let station = path.station(station);
                    path.channel.set_up(now, station, is_up);
                }
            }
            1 => path.hand_over(
                now,
                generator.below(100 * MILLISECOND),
                generator.chance(0.5),
            ),
            2 => {
                let rate = (1 + generator.below(100)) * MEGABIT;
                let limit_bytes = 20_000 + generator.below(100_000);
                let new = Direction {
                    loss: loss.clone(),
                    ..direction(rate, both.delay_ns, limit_bytes)
                };
                let station = path.station(generator.below(2) as usize);
                let set = path.channel.reconfigure(now, station, &new);
                set.expect("a valid direction");
            }
            _ => {
                let bytes = 40 + generator.below(1460) as u32;
                path.offer(generator.below(2) as usize, now, bytes);
            }
        }
        path.check_ledger();
        if !is_lazy {
            played.left.extend(path.drain(now));
            path.channel.advance(now);
            let both = [UP, DOWN].into_iter();
            played
                .reports
                .extend(both.map(|station| report(&path, station)));
        }
    }
    played.left.extend(path.drain(Nanos::MAX));
    path.check_ledger();
    played
}

#[test]
fn every_packet_is_accounted_for_and_late_calls_change_nothing() {
    for seed in 0..150 {
        let played = |is_lazy| play(seed, is_lazy, &Loss::None {});
        let (prompt, lazy) = (played(false), played(true));
        assert_eq!(prompt.sorted(), lazy.sorted(), "seed {seed}");
    }
}

/// A loss model without losses lets a link of a dish send its packets step by step.
#[test]
fn packets_computed_ahead_have_the_fates_of_those_sent_step_by_step() {
    let no_loss = Loss::Bernoulli { probability: 0.0 };
    for seed in 0..150 {
        let ahead = play(seed, false, &Loss::None {});
        let stepwise = play(seed, false, &no_loss);
        for (step, (one, other)) in ahead.reports.iter().zip(&stepwise.reports).enumerate() {
            assert_eq!(one, other, "seed {seed}, step {step}");
        }
        assert_eq!(ahead.sorted(), stepwise.sorted(), "seed {seed}");
    }
}

/// A link without packets asks for no call.
#[test]
fn nothing_happens_while_nothing_waits() {
    let drawn = (0..20).map(|seed| network(&mut Generator::new(seed, "world")));
    for (seed, access) in (0..).zip(drawn.chain([wifi_beside_neighbours()])) {
        let both = direction(10 * MEGABIT, 0, 100_000);
        let mut path = Path::new(&access, seed, [&both, &both]);
        assert_eq!(path.channel.next_departure(), None);
        path.channel.advance(3600 * SECOND);
        assert_eq!(path.channel.next_departure(), None);
        path.offer(0, 3600 * SECOND, 1000);
        path.drain(Nanos::MAX);
        assert_eq!(path.channel.next_departure(), None);
    }
}
