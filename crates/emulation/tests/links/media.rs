//! Experiments of two links, one for each way in which a link can carry packets.

use experiment::features::Feature;
use experiment::resolved::{
    Access, Cellular, DelayStep, Direction, Experiment, Gaps, Handovers, Loss, LossStep, Medium,
    NrLeg, RateStep, Scan, Trace, Train, Trains, Wifi, WifiNeighbours, WifiRate, WifiStandard,
};
use serde_json::json;

use crate::complete;
use crate::driver::{MILLISECOND, SECOND, drop_tail, plain, trace};
use crate::networks::{cable, fair_queue, fixed, leo, lte, network, nsa, one_queue, sa};

const MEGABIT: u64 = 1_000_000;
pub const LINKS: [&str; 2] = ["one", "two"];

/// A way in which links carry packets.
pub struct Carried {
    pub by: String,
    pub experiment: Experiment,
}

/// Returns plain links, and links for each registered feature that carries packets in another way.
pub fn all() -> Vec<Carried> {
    let of_carriers = Feature::ALL.iter().filter(|one| {
        let kind = one.name().split(' ').next();
        matches!(kind, Some("access" | "medium" | "trace"))
    });
    let mut all = vec![carried("a rate", |_| ()), carried("losses", with_losses)];
    for feature in of_carriers {
        all.extend(match feature {
            Feature::Wifi => wifi(),
            Feature::Cellular => cellular(),
            Feature::Leo => vec![carried("leo", in_orbit)],
            Feature::Cable => vec![carried("cable", over_cable)],
            Feature::Medium => vec![carried("turns", in_turns)],
            Feature::Trace => traces(),
            other => panic!("{} carries nothing here", other.name()),
        });
    }
    all
}

fn carried(by: impl ToString, change: impl FnOnce(&mut Experiment)) -> Carried {
    let interfaces = LINKS.iter().flat_map(|link| {
        ["client", "server"].map(|host| json!({"id": format!("{host}.{link}"), "link": link}))
    });
    let links = LINKS.map(
        |link| json!({"id": link, "a": format!("client.{link}"), "b": format!("server.{link}")}),
    );
    let whole = complete::whole(json!({
        "hosts": [{"id": "client"}, {"id": "server"}], "links": links,
        "interfaces": interfaces.collect::<Vec<_>>(),
        "subnets": [{"id": 0, "ipv4": "10.1.1.0/24", "ipv6": "fd00:1:1::/64"}],
    }));
    let mut experiment: Experiment = serde_json::from_value(whole).expect("an experiment");
    for link in &mut experiment.links {
        link.forward = Direction {
            delay_ns: 5 * MILLISECOND,
            queue: drop_tail(Some(60)),
            ..plain(Some(20 * MEGABIT))
        };
        link.backward = Direction {
            rate_bps: Some(60 * MEGABIT),
            ..link.forward.clone()
        };
    }
    change(&mut experiment);
    let by = by.to_string();
    Carried { by, experiment }
}

fn directions(experiment: &mut Experiment) -> impl Iterator<Item = &mut Direction> {
    let links = experiment.links.iter_mut();
    links.flat_map(|link| [&mut link.forward, &mut link.backward])
}

fn with_losses(experiment: &mut Experiment) {
    for direction in directions(experiment) {
        direction.loss = Loss::Bernoulli { probability: 0.05 };
        direction.jitter_ns = 3 * MILLISECOND;
    }
}

fn in_turns(experiment: &mut Experiment) {
    let medium = Medium {
        id: "air".to_owned(),
        rate_bps: Some(30 * MEGABIT),
        overhead_bytes: 38,
    };
    experiment.media.push(medium);
    on_air(experiment);
}

fn on_air(experiment: &mut Experiment) {
    for link in &mut experiment.links {
        link.medium = Some("air".to_owned());
    }
}

/// Returns networks of each standard, with each queue of the access point, of stations that fade,
/// sleep, scan and have neighbours.
fn wifi() -> Vec<Carried> {
    use WifiStandard::{A, Ac, Ax, B, G, N};
    let of_standard = |standard: WifiStandard| {
        [fair_queue(), one_queue()].map(|queue| {
            let mut air = network(standard, &[WifiRate::Auto {}, fixed(1)]);
            air.ap_queue = queue;
            air.rts_bytes = Some(1000);
            with_all_absences(&mut air);
            let by = format!("wifi {} {queue:?}", standard.name());
            carried(by, |experiment| in_air(experiment, air))
        })
    };
    [B, G, A, N, Ac, Ax]
        .into_iter()
        .flat_map(of_standard)
        .collect()
}

fn with_all_absences(air: &mut Wifi) {
    for (station, link) in air.stations.iter_mut().zip(LINKS) {
        link.clone_into(&mut station.link);
        station.snr.means[0].mean_mdb = 15_000;
        station.snr.sd_mdb = 3000;
    }
    air.stations[0].power_save_after_ns = Some(20 * MILLISECOND);
    air.stations[1].scan = Some(Scan {
        every_ns: 300 * MILLISECOND,
        shortest_ns: 10 * MILLISECOND,
        longest_ns: 50 * MILLISECOND,
    });
    air.neighbours = vec![WifiNeighbours {
        stations: 2,
        load_bps: 2 * MEGABIT,
        rate_bps: 11 * MEGABIT,
        packet_bytes: 1500,
    }];
}

fn in_air(experiment: &mut Experiment, air: Wifi) {
    in_turns(experiment);
    experiment.media[0].rate_bps = None;
    experiment.access.push(Access::Wifi(air));
}

/// Returns each generation, in a device that drives.
fn cellular() -> Vec<Carried> {
    let generations = [("lte", lte()), ("nsa", nsa()), ("sa", sa())];
    generations
        .map(|(name, cell)| carried(name, |experiment| driving(experiment, cell)))
        .into()
}

fn driving(experiment: &mut Experiment, cell: Cellular) {
    for link in LINKS {
        let mut cell = cell.clone();
        link.clone_into(&mut cell.link);
        (cell.signal.fast_sd_mdb, cell.signal.slow_sd_mdb) = (3000, 8000);
        cell.neighbours.mean_ppm = 500_000;
        cell.rrc.drx_after_ns = 10 * MILLISECOND;
        cell.rrc.inactivity_ns = 60 * MILLISECOND;
        let gaps = Gaps {
            interval_ns: 700 * MILLISECOND,
            gap_median_ns: 60 * MILLISECOND,
            gap_sd_ppm: 700_000,
        };
        cell.handovers = Some(Handovers {
            gaps,
            forward_queue: link == LINKS[0],
        });
        cell.nr_leg = cell.nr_leg.map(|leg| NrLeg { gaps, ..leg });
        experiment.access.push(Access::Cellular(cell));
    }
}

fn in_orbit(experiment: &mut Experiment) {
    for link in LINKS {
        let mut dish = leo(link);
        dish.slot_ns = 400 * MILLISECOND;
        dish.phase_ns = None;
        dish.loss.interval_ns = 50 * MILLISECOND;
        experiment.access.push(Access::Leo(dish));
    }
}

fn over_cable(experiment: &mut Experiment) {
    experiment
        .access
        .extend(LINKS.map(|link| Access::Cable(cable(link))));
}

/// Returns traces of opportunities, on a plain link and on a cellular one, and of rates, delays and
/// losses.
fn traces() -> Vec<Carried> {
    let opportunities = Trace {
        opportunities_ns: [0, 0, 1, 2, 2, 9, 14].map(|ms| ms * MILLISECOND).to_vec(),
        ..trace(20 * MILLISECOND)
    };
    let step = |from_ms: u64| from_ms * MILLISECOND;
    let rate = |(from, mbps): (u64, u64)| RateStep {
        from_ns: step(from),
        rate_bps: mbps * MEGABIT,
    };
    let delay = |(from, ms): (u64, u64)| DelayStep {
        from_ns: step(from),
        delay_ns: ms * MILLISECOND,
    };
    let loss = |(from, probability): (u64, f64)| LossStep {
        from_ns: step(from),
        probability,
    };
    let rates = Trace {
        rates: [(0, 10), (100, 0), (150, 40)].map(rate).to_vec(),
        delays: [(0, 3), (120, 30)].map(delay).to_vec(),
        losses: [(0, 0.0), (80, 0.3)].map(loss).to_vec(),
        ..trace(SECOND / 5)
    };
    let traced = |trace: &Trace| {
        let trace = trace.clone();
        move |experiment: &mut Experiment| {
            for direction in directions(experiment) {
                (direction.rate_bps, direction.trace) = (None, Some(trace.clone()));
            }
        }
    };
    let train = |(at_ms, spacing_ms): (u64, u64)| Train {
        at_ns: step(at_ms),
        opportunities_ns: (0..6).map(|one| step(one * spacing_ms)).collect(),
    };
    let trains = Trace {
        delays: [(0, 5), (12, 25)].map(delay).to_vec(),
        trains: Some(Trains {
            pause_ns: step(15),
            probes: [(0, 1), (12, 3)].map(train).to_vec(),
        }),
        ..opportunities.clone()
    };
    vec![
        carried("opportunities", traced(&opportunities)),
        carried("trains", traced(&trains)),
        carried("rates, delays and losses", traced(&rates)),
        carried("opportunities of a cell", |experiment| {
            driving(experiment, lte());
            traced(&opportunities)(experiment);
        }),
    ]
}
