//! Capabilities of this machine in real time, and what an experiment asks for beyond them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use netlab::capabilities::{Capabilities, Capability, Missing};
use netlab::parameters::Kind;
use netlab::registry::Registry;
use netlab::resolved::{Action, Experiment};
use rustix::thread::{CapabilitySet, capabilities as capabilities_of};

use crate::congestion::{self, RunControls};
use crate::first_hop;
use crate::path_manager::PathManagers;
use crate::programs::Programs;
use crate::traffic::why_refused;
use crate::{Hosts, OwnStack};

const FOLLOWS_PATHS: &str =
    "routers have the routes of the flows' paths and choose none: use the simulator";

const FIXED: &[Capability] = &[
    Capability::has("transport udp"),
    Capability::has("transport tcp"),
    Capability::has("app cbr"),
    Capability::has("app probe"),
    Capability::has("app bulk"),
    Capability::has("app request_response"),
    Capability::has("app short_flows"),
    Capability::has("app streaming"),
    Capability::lacks(
        "app video",
        "the player is the simulator's: use streaming for a stream of one bit rate",
    ),
    Capability::has("app iperf3"),
    Capability::has("app command"),
    Capability::has("action interface_down"),
    Capability::has("action interface_up"),
    Capability::has("action link_down"),
    Capability::has("action link_up"),
    Capability::has("action set_link"),
    Capability::has("action address_add"),
    Capability::has("action address_remove"),
    Capability::has("action set_backup"),
    Capability::has("action exec"),
    Capability::has("queue drop_tail"),
    Capability::has("queue codel"),
    Capability::has("queue fq_codel"),
    Capability::has("queue red"),
    Capability::has("queue pie"),
    Capability::has("loss bernoulli"),
    Capability::has("loss gilbert_elliott"),
    Capability::has("loss list"),
    Capability::has("trace"),
    Capability::has("medium"),
    Capability::has("middlebox strip_options"),
    Capability::has("middlebox drop_options"),
    Capability::has("middlebox rewrite_sequence"),
    Capability::has("middlebox nat"),
    Capability::has("middlebox split"),
    Capability::has("middlebox coalesce"),
    Capability::has("middlebox change_bytes"),
    Capability::has("middlebox insert_bytes"),
    Capability::has("middlebox duplicate"),
    Capability::has("middlebox acknowledge_early"),
    Capability::has("captures"),
    Capability::lacks("next_hop ecmp_l3", FOLLOWS_PATHS),
    Capability::lacks("next_hop ecmp_l4", FOLLOWS_PATHS),
    Capability::lacks("next_hop random", FOLLOWS_PATHS),
    Capability::lacks("next_hop by_port", FOLLOWS_PATHS),
    Capability::has("stack backend"),
    Capability::has("stack kernel"),
    Capability::lacks(
        "stack userspace",
        "our stack in real time needs another back-end: use --on userspace",
    ),
    Capability::has("fallback rfc"),
    Capability::lacks(
        "fallback strict",
        "the kernel falls back as it does: use our own stack with --on userspace, or the simulator",
    ),
    Capability::has("host_jitter linux"),
    Capability::lacks("host_jitter none", TAKES_ITS_TIME),
    Capability::lacks("host_jitter quantiles", TAKES_ITS_TIME),
    Capability::has("first_hop network"),
    Capability::has("first_hop host"),
    Capability::lacks(
        "own class",
        "the kernel runs no classes in Python: use --on sim, or --on userspace where our stack sends",
    ),
    Capability::lacks(
        "own simulator",
        "only a simulator of your own has it: use --on PROGRAM",
    ),
    Capability::lacks(
        "handshake race",
        "the kernel opens a connection from one address: use the simulator",
    ),
    Capability::lacks(
        "one_at_a_time",
        "the kernel uses all subflows of a connection: set backup on some interfaces instead",
    ),
    Capability::has("behaviour mainline"),
    Capability::lacks(
        "behaviour oot",
        "reinjection and stale detection of the out-of-tree kernel are not in this one; as second choice: {preset: mainline, path_manager_delay: 500ms}",
    ),
    Capability::has("path_manager passive"),
    Capability::has("path_manager full_mesh"),
    Capability::has("path_manager n_diff_ports"),
    Capability::has("path_manager n_diff_ports subflows"),
    Capability::has("path_manager kernel_endpoints"),
    Capability::has("path_manager kernel_endpoints endpoints"),
    Capability::has("path_manager kernel_endpoints subflows"),
    Capability::has("path_manager kernel_endpoints add_addr_accepted"),
    Capability::lacks(
        "path_manager binder",
        "the kernel's path manager takes no source route: use the simulator",
    ),
];

const TAKES_ITS_TIME: &str = "hosts in real time take the time that this machine takes, which is host_jitter linux: use the simulator";

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
}

impl Kernel {
    /// Returns the features of the running kernel.
    pub fn of_this_machine() -> Self {
        Self {
            is_multipath: Path::new("/proc/sys/net/mptcp/enabled").exists(),
            congestion_controls: congestion::available(),
            takes_no_controls_because: congestion::why_not_registered(),
            takes_schedulers: *TAKES_SCHEDULERS,
        }
    }

    /// Returns the features of a current mainline kernel with everything relevant built in.
    pub fn of_mainline() -> Self {
        Self {
            is_multipath: true,
            congestion_controls: IN_TREE.iter().map(|name| (*name).to_owned()).collect(),
            takes_no_controls_because: None,
            takes_schedulers: false,
        }
    }

    /// Returns everything that a description can ask for, and whether this kernel has it.
    pub fn capabilities(&self) -> Vec<Capability> {
        let mut table = FIXED.to_vec();
        table.push(self.multipath());
        table.extend(self.congestion_controls());
        table.extend(self.schedulers());
        table.extend(parameters());
        table
    }

    /// Returns everything in a valid experiment that this kernel cannot do; empty if it can run it.
    pub fn check(&self, experiment: &Experiment) -> Vec<Missing> {
        let mut missing = Capabilities::new(&self.capabilities()).check(experiment);
        missing.extend(RunControls::check(experiment));
        missing.extend(check_plans(experiment));
        missing
    }

    fn multipath(&self) -> Capability {
        if self.is_multipath {
            return Capability::has("transport mptcp");
        }
        Capability::lacks(
            "transport mptcp",
            "this kernel has no Multipath TCP: it needs Linux 6.1 or newer with CONFIG_MPTCP",
        )
    }

    fn congestion_controls(&self) -> impl Iterator<Item = Capability> {
        let in_tree = IN_TREE.iter().map(|name| {
            let is_there = self.congestion_controls.iter().any(|there| there == name);
            let why = format!("this kernel does not have it now: try `modprobe tcp_{name}`");
            named("cc", name, (!is_there).then_some(why.into()))
        });
        let as_ebpf = congestion::shipped().map(|name| {
            let is_installed = self.congestion_controls.iter().any(|there| there == name);
            let why = self.takes_no_controls_because.filter(|_| !is_installed);
            named("cc", name, why.map(Cow::from))
        });
        let own = Capability {
            feature: "own object".into(),
            missing_because: self.takes_no_controls_because.map(Cow::from),
        };
        let engine = Kind::Control.algorithms().into_iter();
        let of_others = engine
            .filter(|one| !IN_TREE.contains(&one.name))
            .filter(|one| congestion::shipped().all(|shipped| shipped != one.name))
            .map(|one| {
                let why = "neither in the mainline kernel nor among our eBPF objects";
                named("cc", one.name, Some(why.into()))
            });
        in_tree.chain(as_ebpf).chain([own]).chain(of_others)
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
            named("scheduler", one.name, (!is_there).then_some(why.into()))
        })
    }
}

/// Returns what cannot be planned, whichever stack the hosts have.
pub(crate) fn check_plans(experiment: &Experiment) -> Vec<Missing> {
    let mut missing = PathManagers::check(experiment);
    missing.extend(Hosts::missing_settings(experiment));
    missing.extend(first_hop::check(experiment));
    missing.extend(experiment.flows.iter().filter_map(|flow| {
        Some(Missing {
            feature: format!("flows.{}.app: {}", flow.id, flow.app.kind()),
            why: why_refused(experiment, flow)?,
        })
    }));
    missing.extend(Hosts::check(experiment).err().map(|error| Missing {
        feature: "network".to_owned(),
        why: error.to_string(),
    }));
    missing
}

/// Returns the parameters that only the engine's algorithms take; [`FIXED`] has those that the
/// kernel's take.
fn parameters() -> impl Iterator<Item = Capability> {
    let why = "the kernel's own algorithms take no parameters of a description: use the simulator";
    let all = Kind::ALL.into_iter().flat_map(move |kind| {
        let algorithms = kind.algorithms().into_iter();
        algorithms.flat_map(move |algorithm| {
            let parameters = algorithm.parameters.into_iter();
            parameters.map(move |one| (kind, format!("{} {}", algorithm.name, one.name)))
        })
    });
    let lacking = all.map(move |(kind, name)| named(kind.field(), &name, Some(why.into())));
    lacking.filter(|one| FIXED.iter().all(|fixed| fixed.feature != one.feature))
}

/// Returns everything that a description can ask for, and whether this machine and this user have
/// it. With `own_stack`, includes the userspace stack with these algorithms.
pub fn capabilities(own_stack: Option<&Registry>) -> Vec<Capability> {
    let kernel = Kernel::of_this_machine();
    let mut table = match own_stack {
        Some(registry) => OwnStack(kernel).capabilities(registry),
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
        Some(registry) => OwnStack(kernel).check(experiment, registry),
        None => kernel.check(experiment),
    };
    let obstacle = obstacle().into_iter();
    obstacle
        .chain(missing)
        .chain(Programs::check(experiment))
        .collect()
}

/// Returns what cannot be done of an action that is injected during a run.
pub(crate) fn check_action(experiment: &Experiment, action: &Action) -> Vec<Missing> {
    let capabilities = Kernel::of_this_machine().capabilities();
    Capabilities::new(&capabilities).check_action(experiment, "action", action)
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
        why: "network namespaces and link emulation need root: use `sudo mptcplab run ..`, or --on sim"
            .to_owned(),
    })
}

fn named(kind: &str, name: &str, missing_because: Option<Cow<'static, str>>) -> Capability {
    Capability {
        feature: format!("{kind} {name}").into(),
        missing_because,
    }
}

/// Whether packet schedulers can be registered as struct_ops.
static TAKES_SCHEDULERS: LazyLock<bool> =
    LazyLock::new(|| congestion::has_types(&["bpf_struct_ops_mptcp_sched_ops"]));
