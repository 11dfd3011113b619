//! The applications of an experiment.

use std::collections::BTreeSet;

use super::apps::{App, Behaviour, Cbr, Datagrams, Probe, Timing};
use super::network::Network;
use crate::resolved::{Application, Experiment, Flow, Path};
use crate::rng::Generator;
use crate::time::Nanos;

/// Payload of the probes that `measure` asks for.
const PROBE_BYTES: u32 = 64;

/// Applications, those of the flows first, and the entity names of those that are probes.
pub(super) struct Applications {
    pub(super) apps: Vec<App>,
    pub(super) probe_names: Vec<Option<String>>,
}

impl Applications {
    /// The applications of an experiment that `check` accepts.
    pub(super) fn new(experiment: &Experiment, seed: u64, network: &mut Network) -> Self {
        let mut applications = Self {
            apps: Vec::new(),
            probe_names: Vec::new(),
        };
        for flow in &experiment.flows {
            applications.add_flow(experiment, seed, network, flow);
        }
        if let Some(every) = experiment.measure.probe_rtt_ns {
            applications.add_probes(experiment, network, every);
        }
        applications
    }

    fn add_flow(&mut self, experiment: &Experiment, seed: u64, network: &mut Network, flow: &Flow) {
        let (behaviour, size_bytes, duration) = match flow.app {
            Application::Cbr {
                rate_bps,
                size_bytes,
                duration_ns,
            } => (Behaviour::Cbr(Cbr { rate_bps }), size_bytes, duration_ns),
            Application::Probe {
                every_ns,
                size_bytes,
                duration_ns,
            } => (
                Behaviour::Probe(Probe::new(every_ns)),
                size_bytes,
                duration_ns,
            ),
            _ => unreachable!("refused by check"),
        };
        let later =
            Generator::new(seed, &format!("start/{}", flow.id)).below(experiment.vary.start_ns);
        let timing = Timing {
            start: flow.start_ns + later,
            duration,
        };
        let name = matches!(behaviour, Behaviour::Probe(_)).then(|| format!("probes.{}", flow.id));
        self.add(network, &flow.paths[0], size_bytes, timing, behaviour, name);
    }

    /// One probe for each path, however many flows use it.
    fn add_probes(&mut self, experiment: &Experiment, network: &mut Network, every: Nanos) {
        let mut probed = BTreeSet::new();
        for path in experiment.flows.iter().flat_map(|flow| &flow.paths) {
            if probed.insert((&path.local, &path.remote)) {
                let timing = Timing {
                    start: 0,
                    duration: None,
                };
                let name = format!("probes.{}-{}", path.local, path.remote);
                self.add(
                    network,
                    path,
                    PROBE_BYTES,
                    timing,
                    Behaviour::Probe(Probe::new(every)),
                    Some(name),
                );
            }
        }
    }

    fn add(
        &mut self,
        network: &mut Network,
        path: &Path,
        size_bytes: u32,
        timing: Timing,
        behaviour: Behaviour,
        probe_name: Option<String>,
    ) {
        let datagrams = Datagrams {
            application: self.apps.len() as u32,
            route: network.add_path(path),
            size_bytes,
        };
        self.apps.push(App::new(datagrams, timing, behaviour));
        self.probe_names.push(probe_name);
    }
}
