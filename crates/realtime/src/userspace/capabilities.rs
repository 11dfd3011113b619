//! Capabilities of a machine in real time with the userspace stack, and what an experiment asks for
//! beyond them.

use experiment::addressing::host_at;
use experiment::algorithms::Registry;
use experiment::capabilities::{Capabilities, Capability, Missing};
use experiment::features::{BackEnd, Feature};
use experiment::resolved::{
    Application, BehaviourName, Experiment, Flow, FlowEnd, Handshake, Stack, Transport,
};
use experiment::traffic::stream_end;

use crate::Kernel;
use crate::applications::traffic::StreamEnd;
use crate::capabilities::check_plans;
use crate::kernel::congestion::RunControls;

/// The path manager that needs routers which follow source routes; the kernel's routers do not.
const SOURCE_ROUTES: &str = "path_manager binder";

/// A machine whose hosts run the userspace stack or the kernel's, as each host's description says.
#[derive(Clone, Debug)]
pub struct Userspace(pub Kernel);

impl Userspace {
    /// Returns everything that a description can ask for, with the algorithms of `registry`.
    /// Features that only the userspace stack has are included; [`Self::check`] names the flows
    /// that cannot use them.
    pub fn capabilities(&self, registry: &Registry) -> Vec<Capability> {
        let ours: Vec<_> = registry
            .capabilities()
            .filter(|one| !one.feature.starts_with(SOURCE_ROUTES))
            .collect();
        let is_ours = |one: &Capability| ours.iter().any(|our| our.feature == one.feature);
        let of_kernel = self.0.algorithms().filter(|one| !is_ours(one));
        let features = self.0.features(BackEnd::Userspace);
        let mut table: Vec<_> = features.chain(of_kernel).collect();
        table.extend(ours);
        table
    }

    /// Returns everything in a valid experiment that cannot be run; empty if it can be run.
    pub fn check(&self, experiment: &Experiment, registry: &Registry) -> Vec<Missing> {
        let mut missing = Capabilities::new(&self.capabilities(registry)).check(experiment);
        let of_kernel = Capabilities::new(&self.0.capabilities()).check(&kernel_part(experiment));
        missing.extend(of_kernel);
        for flow in &experiment.flows {
            let found = [program, object, race, behaviour].map(|judge| judge(experiment, flow));
            missing.extend(found.into_iter().flatten());
        }
        missing.extend(RunControls::check(&kernel_part(experiment)));
        missing.extend(check_plans(experiment));
        let mut known = Vec::new();
        missing.retain(|one| {
            let is_new = !known.contains(one);
            known.extend(is_new.then(|| one.clone()));
            is_new
        });
        missing
    }
}

fn is_ours(experiment: &Experiment, host: &str) -> bool {
    let mut hosts = experiment.hosts.iter();
    hosts.any(|one| one.id == host && one.stack == Stack::Userspace)
}

/// Returns the part of an experiment with the hosts of the kernel's stack and the flows whose data
/// they send.
pub(crate) fn kernel_part(experiment: &Experiment) -> Experiment {
    let mut part = experiment.clone();
    part.hosts.retain(|host| host.stack != Stack::Userspace);
    part.flows.retain(|flow| !is_ours(experiment, sender(flow)));
    part
}

/// Returns the host that sends the data of a flow.
fn sender(flow: &Flow) -> &str {
    match stream_end(&flow.app, FlowEnd::From) {
        StreamEnd::Sender => &flow.from,
        StreamEnd::Receiver => &flow.to,
    }
}

/// Refuses programs over the userspace stack, because programs use the kernel's sockets.
fn program(experiment: &Experiment, flow: &Flow) -> Option<Missing> {
    let is_program = matches!(
        flow.app,
        Application::Iperf3 { .. } | Application::Command { .. }
    );
    let ends = [&flow.from, &flow.to];
    let host = ends.into_iter().find(|host| is_ours(experiment, host))?;
    (is_program && flow.transport != Transport::Udp).then(|| Missing {
        feature: format!("flows.{}.app: {}", flow.id, flow.app.kind()),
        why: format!(
            "a program uses the kernel's sockets, and TCP of host {host} is our own stack's: give the host stack: kernel"
        ),
    })
}

/// Refuses eBPF objects over the userspace stack, which does not run eBPF.
fn object(experiment: &Experiment, flow: &Flow) -> Option<Missing> {
    let own = flow.cc.first().filter(|control| control.is_object())?;
    let host = sender(flow);
    is_ours(experiment, host).then(|| Missing {
        feature: format!("flows.{}.cc: {}", flow.id, own.name),
        why: format!(
            "an eBPF object is for the kernel, and TCP of host {host} is our own stack's: give the host stack: kernel"
        ),
    })
}

fn race(experiment: &Experiment, flow: &Flow) -> Option<Missing> {
    let opener = host_at(flow, flow.opened_by);
    let is_race = flow.transport == Transport::Mptcp && flow.handshake == Handshake::Race;
    (is_race && !is_ours(experiment, opener)).then(|| Missing {
        feature: format!("flows.{}.handshake: race", flow.id),
        why: format!("host {opener} opens it with the kernel's stack, which starts from one address: give the host stack: userspace"),
    })
}

/// Refuses behaviours other than `mainline` of senders with the kernel's stack. Receivers do not
/// need them, because they neither reinject nor give up subflows.
fn behaviour(experiment: &Experiment, flow: &Flow) -> Option<Missing> {
    let mut hosts = experiment.hosts.iter();
    let host = hosts.find(|host| host.id == sender(flow))?;
    let name = host.behaviour().name;
    let is_kernels = name == BehaviourName::Mainline;
    let is_asked = flow.transport == Transport::Mptcp && host.stack != Stack::Userspace;
    (is_asked && !is_kernels).then(|| Missing {
        feature: format!("hosts.{}.behaviour: {}", host.id, Feature::from(name).short_name()),
        why: format!(
            "host {} sends with the kernel's stack, whose reinjection and stale detection are its own: give the host stack: userspace",
            host.id
        ),
    })
}
