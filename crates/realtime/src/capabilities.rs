//! Capabilities of this machine in real time, and what an experiment asks for beyond them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use experiment::algorithms::Registry;
use experiment::algorithms::parameters::Kind;
use experiment::capabilities::{Capabilities, Capability, Missing};
use experiment::features::{BackEnd, Feature};
use experiment::resolved::{Action, Experiment};
use rustix::thread::{CapabilitySet, capabilities as capabilities_of};

use crate::applications::programs::Programs;
use crate::applications::traffic::why_refused;
use crate::kernel::congestion::{self, RunControls};
use crate::kernel::path_manager::PathManagers;
use crate::machines;
use crate::network::first_hop;
use crate::switches::{self, daemons, load};
use crate::{Hosts, Userspace};

/// The path managers that a program can be over netlink, and their parameters.
const PATH_MANAGERS: &[&str] = &[
    "passive",
    "full_mesh",
    "n_diff_ports",
    "n_diff_ports subflows",
    "kernel_endpoints",
    "kernel_endpoints endpoints",
    "kernel_endpoints subflows",
    "kernel_endpoints add_addr_accepted",
];

/// The packet scheduler of Linux.
const IN_TREE_SCHEDULER: &str = "kernel_default";

/// Congestion controls in Linux's tree.
const IN_TREE: &[&str] = &["reno", "cubic", "bbr"];

/// The features in which kernels differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Whether it supports MPTCP.
    pub is_multipath: bool,
    /// The congestion controls that it has now.
    pub congestion_controls: Vec<String>,
    /// Why congestion controls cannot be registered as eBPF; `None` if they can.
    pub takes_no_controls_because: Option<&'static str>,
    /// Whether packet schedulers can be registered as eBPF.
    pub takes_schedulers: bool,
    /// Whether Open vSwitch is installed beside it.
    pub has_open_vswitch: bool,
}

impl Kernel {
    /// Returns the features of the running kernel.
    pub fn of_this_machine() -> Self {
        Self {
            is_multipath: Path::new("/proc/sys/net/mptcp/enabled").exists(),
            congestion_controls: congestion::available(),
            takes_no_controls_because: congestion::why_not_registered(),
            takes_schedulers: *TAKES_SCHEDULERS,
            has_open_vswitch: daemons::are_installed(),
        }
    }

    /// Returns the features of a current mainline kernel with everything relevant built in.
    pub fn of_mainline() -> Self {
        Self {
            is_multipath: true,
            congestion_controls: IN_TREE.iter().map(|name| (*name).to_owned()).collect(),
            takes_no_controls_because: None,
            takes_schedulers: false,
            has_open_vswitch: true,
        }
    }

    /// Returns everything that a description can ask for, and whether this kernel has it.
    pub fn capabilities(&self) -> Vec<Capability> {
        let features = self.features(BackEnd::Kernel);
        features.chain(self.algorithms()).collect()
    }

    /// Returns all features, and whether a back-end with this kernel has them.
    pub(crate) fn features(&self, on: BackEnd) -> impl Iterator<Item = Capability> {
        let features = Feature::ALL.iter();
        features.map(move |feature| {
            let lacking = feature.lacking(on).or_else(|| self.lacking(*feature));
            Capability::of(*feature, lacking)
        })
    }

    /// Returns why this kernel lacks a feature that others have.
    fn lacking(&self, feature: Feature) -> Option<&'static str> {
        match feature {
            Feature::TransportMptcp => (!self.is_multipath).then_some(
                "this kernel has no Multipath TCP: it needs Linux 6.1 or newer with CONFIG_MPTCP",
            ),
            Feature::Openflow => (!self.has_open_vswitch).then_some(daemons::NOT_INSTALLED),
            Feature::OwnObject => self.takes_no_controls_because,
            _ => None,
        }
    }

    /// Returns all algorithms and parameters, and whether this kernel has them.
    pub(crate) fn algorithms(&self) -> impl Iterator<Item = Capability> {
        let controls = self.congestion_controls().chain(self.schedulers());
        controls.chain(path_managers()).chain(parameters())
    }

    /// Returns everything in a valid experiment that this kernel cannot do; empty if it can run it.
    pub fn check(&self, experiment: &Experiment) -> Vec<Missing> {
        let mut missing = Capabilities::new(&self.capabilities()).check(experiment);
        missing.extend(RunControls::check(experiment));
        missing.extend(check_plans(experiment));
        missing
    }

    fn congestion_controls(&self) -> impl Iterator<Item = Capability> {
        let in_tree = IN_TREE.iter().map(|name| {
            let is_there = self.congestion_controls.iter().any(|there| there == name);
            let why = format!("this kernel does not have it now: try `modprobe tcp_{name}`");
            Capability::of_algorithm(Kind::Control, name, (!is_there).then_some(why.into()))
        });
        let as_ebpf = congestion::shipped().map(|name| {
            let is_installed = self.congestion_controls.iter().any(|there| there == name);
            let why = self.takes_no_controls_because.filter(|_| !is_installed);
            Capability::of_algorithm(Kind::Control, name, why.map(Cow::from))
        });
        let engine = Kind::Control.algorithms().into_iter();
        let of_others = engine
            .filter(|one| !IN_TREE.contains(&one.name))
            .filter(|one| congestion::shipped().all(|shipped| shipped != one.name))
            .map(|one| {
                let why = "neither in the mainline kernel nor among our eBPF objects";
                Capability::of_algorithm(Kind::Control, one.name, Some(why.into()))
            });
        in_tree.chain(as_ebpf).chain(of_others)
    }

    fn schedulers(&self) -> impl Iterator<Item = Capability> {
        let why = if self.takes_schedulers {
            "this kernel takes schedulers written in eBPF, and there is none of that name yet"
        } else {
            "the kernel's only packet scheduler is kernel_default, and this one takes none in eBPF"
        };
        let engine = Kind::Scheduler.algorithms().into_iter();
        engine.map(move |one| {
            let is_there = one.name == IN_TREE_SCHEDULER;
            let why = (!is_there).then_some(why.into());
            Capability::of_algorithm(Kind::Scheduler, one.name, why)
        })
    }
}

/// Returns what cannot be planned, whichever stack the hosts have.
pub(crate) fn check_plans(experiment: &Experiment) -> Vec<Missing> {
    let mut missing = PathManagers::check(experiment);
    missing.extend(Hosts::missing_settings(experiment));
    missing.extend(first_hop::check(experiment));
    missing.extend(machines::check(experiment));
    missing.extend(experiment.flows.iter().filter_map(|flow| {
        Some(Missing {
            feature: format!("flows.{}.app: {}", flow.id, flow.app.kind()),
            why: why_refused(experiment, flow)?,
        })
    }));
    missing.extend(experiment.events.iter().filter_map(|event| {
        let place = format!("events.{}", event.id);
        switches::check_action(experiment, &place, &event.action)
    }));
    missing.extend(Hosts::check(experiment).err().map(|error| Missing {
        feature: "network".to_owned(),
        why: error.to_string(),
    }));
    missing
}

/// Returns all path managers, and whether a program can be each of them.
fn path_managers() -> impl Iterator<Item = Capability> {
    let why = "the kernel's path manager takes no source route: use the simulator";
    let engine = Kind::PathManager.algorithms().into_iter();
    let of_engine = engine.filter(|one| !PATH_MANAGERS.contains(&one.name));
    let lacking = of_engine
        .map(move |one| Capability::of_algorithm(Kind::PathManager, one.name, Some(why.into())));
    let had = PATH_MANAGERS.iter();
    had.map(|name| Capability::of_algorithm(Kind::PathManager, name, None))
        .chain(lacking)
}

/// Returns the parameters that only the engine's algorithms take; [`PATH_MANAGERS`] has those that
/// the kernel's take.
fn parameters() -> impl Iterator<Item = Capability> {
    let why = "the kernel's own algorithms take no parameters of a description: use the simulator";
    let all = Kind::ALL.into_iter().flat_map(move |kind| {
        let algorithms = kind.algorithms().into_iter();
        algorithms.flat_map(move |algorithm| {
            let parameters = algorithm.parameters.into_iter();
            parameters.map(move |one| (kind, format!("{} {}", algorithm.name, one.name)))
        })
    });
    let lacking = all.filter(|(kind, name)| {
        *kind != Kind::PathManager || !PATH_MANAGERS.contains(&name.as_str())
    });
    lacking.map(move |(kind, name)| Capability::of_algorithm(kind, &name, Some(why.into())))
}

/// Returns everything that a description can ask for, and whether this machine and this user have
/// it. With `own_stack`, includes the userspace stack with these algorithms.
pub fn capabilities(own_stack: Option<&Registry>) -> Vec<Capability> {
    let kernel = Kernel::of_this_machine();
    let mut table = match own_stack {
        Some(registry) => Userspace(kernel).capabilities(registry),
        None => kernel.capabilities(),
    };
    let privileges = obstacle().map(|missing| missing.why.into());
    table.push(Capability {
        feature: "privileges".into(),
        missing_because: privileges,
    });
    table
}

/// Returns everything in a valid experiment that cannot be run on this machine; empty if it can be
/// run.
pub fn check(experiment: &Experiment, own_stack: Option<&Registry>) -> Vec<Missing> {
    let kernel = Kernel::of_this_machine();
    let missing = match own_stack {
        Some(registry) => Userspace(kernel).check(experiment, registry),
        None => kernel.check(experiment),
    };
    let obstacle = obstacle().into_iter();
    obstacle
        .chain(missing)
        .chain(Programs::check(experiment))
        .chain(load::check(experiment))
        .collect()
}

/// Returns what cannot be done of an action that is injected during a run.
pub(crate) fn check_action(experiment: &Experiment, action: &Action) -> Vec<Missing> {
    let capabilities = Kernel::of_this_machine().capabilities();
    let mut missing = Capabilities::new(&capabilities).check_action(experiment, "action", action);
    missing.extend(switches::check_action(experiment, "action", action));
    missing
}

/// Returns whether this thread has all of these capabilities.
pub(crate) fn has_capabilities(needed: CapabilitySet) -> bool {
    let effective = capabilities_of(None).map(|sets| sets.effective);
    effective.is_ok_and(|effective| effective.contains(needed))
}

/// Returns what prevents any run.
fn obstacle() -> Option<Missing> {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    (!has_capabilities(needed)).then(|| Missing {
        feature: "privileges".to_owned(),
        why: "network namespaces need rights that this process lacks: use sudo, or --on sim"
            .to_owned(),
    })
}

/// Whether packet schedulers can be registered as struct_ops.
static TAKES_SCHEDULERS: LazyLock<bool> =
    LazyLock::new(|| congestion::has_types(&["bpf_struct_ops_mptcp_sched_ops"]));
