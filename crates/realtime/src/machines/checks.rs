//! What hosts on other machines cannot do.

use experiment::capabilities::Missing;
use experiment::resolved::{Action, Application, Experiment, Flow, Stack, Transport};

/// Returns what an experiment asks of hosts on other machines that they cannot do.
pub(crate) fn check(experiment: &Experiment) -> Vec<Missing> {
    if experiment.machines().is_empty() {
        return Vec::new();
    }
    let hosts = experiment
        .hosts
        .iter()
        .filter(|host| host.machine.is_some());
    let own_stack = hosts
        .filter(|host| host.stack == Stack::Userspace)
        .map(|host| Missing {
            feature: format!("hosts.{}.stack: userspace", host.id),
            why:
                "on another machine a host has the stack of that machine's kernel: leave stack out"
                    .to_owned(),
        });
    let flows = experiment.flows.iter();
    let flows = flows.filter_map(|flow| {
        Some(Missing {
            feature: format!("flows.{}.app: {}", flow.id, flow.app.kind()),
            why: why_not_split(experiment, flow)?.to_owned(),
        })
    });
    let programs = experiment
        .events
        .iter()
        .filter_map(|event| match &event.action {
            Action::Exec { host, .. } if experiment.machine_of(host).is_some() => Some(Missing {
                feature: format!("events.{}.exec: {host}", event.id),
                why: "programs are started only in hosts of this machine".to_owned(),
            }),
            _ => None,
        });
    let control = experiment.control.as_ref().map(|_| Missing {
        feature: "control".to_owned(),
        why: "controlled switches connect only hosts of this machine".to_owned(),
    });
    own_stack
        .chain(flows)
        .chain(programs)
        .chain(control)
        .collect()
}

/// Returns why a flow cannot have an end on another machine; `None` if it can, or has none there.
fn why_not_split(experiment: &Experiment, flow: &Flow) -> Option<&'static str> {
    let ends = [&flow.from, &flow.to].map(|host| experiment.machine_of(host));
    match flow.app {
        Application::Iperf3 { .. } | Application::Command { .. } if ends != [None, None] => {
            Some("programs are started only in hosts of this machine: use bulk")
        }
        Application::Cbr {
            duration_ns: Some(_),
            ..
        } if flow.transport == Transport::Udp && ends[0] != ends[1] => Some(
            "a receiver on another machine cannot tell when all datagrams were sent: leave the duration out",
        ),
        _ => None,
    }
}
