//! What the flows of an experiment can ask of Open vSwitch, of which one thread forwards for all
//! switches of a run.

use std::collections::BTreeMap;

use experiment::addressing::Lookup;
use experiment::capabilities::Missing;
use experiment::resolved::{Application, Experiment, HopDirection, NodeKind, Path};

/// Packets a second that the thread forwards, over all switches together.
const MOST_PACKETS_PER_SECOND: f64 = 200_000.0;
/// The size of a packet of a stream.
const FULL_PACKET_BYTES: u32 = 1500;

/// A load on one direction of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    bps: f64,
    packets_per_second: f64,
}

/// Returns why the switches of an experiment cannot forward what its flows send at most.
pub(crate) fn check(experiment: &Experiment) -> Option<Missing> {
    let lookup = Lookup::new(experiment);
    let mut loads: BTreeMap<(&str, bool), Load> = BTreeMap::new();
    for flow in &experiment.flows {
        let paths = flow.paths.iter();
        for (path, load) in paths.filter_map(|path| Some((path, most_of(&flow.app, path)?))) {
            for hop in &path.hops {
                let is_forward = hop.direction == HopDirection::Forward;
                let sum = loads.entry((&hop.link, is_forward)).or_default();
                sum.bps += load.bps;
                sum.packets_per_second += load.packets_per_second;
            }
        }
    }
    let at_switches = loads.into_iter().filter_map(|((link, is_forward), load)| {
        let link = experiment.links.iter().find(|one| one.id == link)?;
        let (way, end) = match is_forward {
            true => (&link.forward, &link.b),
            false => (&link.backward, &link.a),
        };
        let node = &lookup.interface(end)?.node;
        let node = experiment.nodes.iter().find(|one| one.id == *node)?;
        let share = way.rate_bps.map_or(1.0, |rate| rate as f64 / load.bps);
        (node.kind == NodeKind::Openflow).then_some((load, share.min(1.0)))
    });
    let (bps, packets) = at_switches.fold((0.0, 0.0), |(bps, packets), (load, share)| {
        (
            bps + share * load.bps,
            packets + share * load.packets_per_second,
        )
    });
    (packets > MOST_PACKETS_PER_SECOND).then(|| Missing {
        feature: "flows".to_owned(),
        why: format!(
            "the switches would forward up to {:.2} Gbit/s in {:.0} packets a second, summed over all hops, and Open vSwitch forwards about {MOST_PACKETS_PER_SECOND:.0}: lower the rates, or use the simulator",
            bps / 1e9,
            packets
        ),
    })
}

/// Returns the most that an application sends over a path, as far as its description or the links
/// limit it.
fn most_of(app: &Application, path: &Path) -> Option<Load> {
    let (rate, bytes) = match *app {
        Application::Cbr {
            rate_bps,
            size_bytes,
            ..
        } => (Some(rate_bps), size_bytes),
        Application::Streaming { bitrate_bps, .. } => (Some(bitrate_bps), FULL_PACKET_BYTES),
        Application::Bulk { .. } | Application::Iperf3 { .. } => (None, FULL_PACKET_BYTES),
        _ => return None,
    };
    let limits = rate.into_iter().chain(path.rate_bps);
    let bps = limits.min()? as f64;
    Some(Load {
        bps,
        packets_per_second: bps / (8.0 * f64::from(bytes.max(1))),
    })
}
