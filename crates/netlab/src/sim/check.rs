//! What an experiment asks for and the simulator cannot do, each with the reason.

use super::capabilities::missing_because;
use super::packet::UDP_HEADER_BYTES;
use crate::resolved::{
    Action, Application, Direction, Experiment, Flow, Host, Link, LinkDownBy, Loss, Path, Transport,
};

/// A feature that an experiment asks for and the simulator does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Where it is asked for, and what.
    pub feature: String,
    /// Why it is not there.
    pub why: String,
}

impl Missing {
    fn new(feature: String, why: impl Into<String>) -> Self {
        Self {
            feature,
            why: why.into(),
        }
    }

    /// The feature `kind name`, asked for at `place`, if the simulator does not have it.
    fn unless_there(place: String, kind: &str, name: &str) -> Option<Self> {
        let why = missing_because(&format!("{kind} {name}"))?;
        Some(Self::new(format!("{place}: {name}"), why))
    }
}

/// Everything in a valid experiment that the simulator cannot do; empty if it can run it.
pub fn check(experiment: &Experiment) -> Vec<Missing> {
    let hosts = experiment.hosts.iter().flat_map(check_host);
    let media = experiment.media.iter().filter_map(|medium| {
        let why = missing_because("medium")?;
        Some(Missing::new(format!("media.{}", medium.id), why))
    });
    let links = experiment.links.iter().flat_map(check_link);
    let flows = experiment.flows.iter();
    let flows = flows.flat_map(|flow| check_flow(experiment, flow));
    let events = experiment.events.iter();
    let events = events
        .flat_map(|event| check_action(experiment, &format!("events.{}", event.id), &event.action));
    let captures = experiment.measure.captures.iter().filter_map(|id| {
        let why = missing_because("captures")?;
        Some(Missing::new(format!("measure.captures: {id}"), why))
    });
    hosts
        .chain(media)
        .chain(links)
        .chain(flows)
        .chain(events)
        .chain(captures)
        .collect()
}

fn check_host(host: &Host) -> Vec<Missing> {
    let place = format!("hosts.{}", host.id);
    let stack = Missing::unless_there(format!("{place}.stack"), "stack", host.stack.name());
    let first_hop = host.first_hop.name();
    let first_hop = Missing::unless_there(format!("{place}.first_hop"), "first_hop", first_hop);
    stack.into_iter().chain(first_hop).collect()
}

fn check_link(link: &Link) -> Vec<Missing> {
    [("forward", &link.forward), ("backward", &link.backward)]
        .into_iter()
        .flat_map(|(name, direction)| {
            check_direction(&format!("links.{}.{name}", link.id), direction)
        })
        .collect()
}

fn check_direction(place: &str, direction: &Direction) -> Vec<Missing> {
    let queue = Missing::unless_there(format!("{place}.queue"), "queue", direction.queue.kind());
    let loss = match &direction.loss {
        Loss::None {} => None,
        loss => Missing::unless_there(format!("{place}.loss"), "loss", loss.kind()),
    };
    let trace = direction.trace.as_ref().and_then(|_| {
        let why = missing_because("trace")?;
        Some(Missing::new(format!("{place}.trace"), why))
    });
    queue.into_iter().chain(loss).chain(trace).collect()
}

fn check_flow(experiment: &Experiment, flow: &Flow) -> Vec<Missing> {
    let place = format!("flows.{}", flow.id);
    let transport = flow.transport.name();
    let transport = Missing::unless_there(format!("{place}.transport"), "transport", transport);
    let app = Missing::unless_there(format!("{place}.app"), "app", flow.app.kind());
    let size = check_size(experiment, flow);
    transport.into_iter().chain(app).chain(size).collect()
}

/// A datagram is one packet: it must fit the smallest MTU of its path.
fn check_size(experiment: &Experiment, flow: &Flow) -> Option<Missing> {
    let size_bytes = match flow.app {
        Application::Cbr { size_bytes, .. } | Application::Probe { size_bytes, .. }
            if flow.transport == Transport::Udp =>
        {
            size_bytes
        }
        _ => return None,
    };
    let mtu_bytes = path_mtu_bytes(experiment, flow.paths.first()?)?;
    (size_bytes + UDP_HEADER_BYTES > mtu_bytes).then(|| {
        let why = format!(
            "with {UDP_HEADER_BYTES} bytes of headers it exceeds the path's MTU of {mtu_bytes} bytes, and the simulator does not fragment"
        );
        Missing::new(format!("flows.{}.app.size_bytes: {size_bytes}", flow.id), why)
    })
}

fn path_mtu_bytes(experiment: &Experiment, path: &Path) -> Option<u32> {
    let is_on_path = |link: &String| path.hops.iter().any(|hop| hop.link == *link);
    let interfaces = experiment
        .interfaces
        .iter()
        .filter(|interface| is_on_path(&interface.link));
    interfaces.map(|interface| interface.mtu_bytes).min()
}

/// What the simulator lacks to carry out an action that stands at `place`.
pub(super) fn check_action(experiment: &Experiment, place: &str, action: &Action) -> Vec<Missing> {
    let place = place.to_owned();
    let kind = Missing::unless_there(place.clone(), "action", action.kind());
    let details = match action {
        Action::LinkDown { link, by } | Action::LinkUp { link, by } => {
            check_port(experiment, place, link, *by)
                .into_iter()
                .collect()
        }
        Action::SetLink {
            forward, backward, ..
        } => {
            let forward = check_direction(&format!("{place}.forward"), forward);
            let backward = check_direction(&format!("{place}.backward"), backward);
            forward.into_iter().chain(backward).collect()
        }
        _ => Vec::new(),
    };
    kind.into_iter().chain(details).collect()
}

/// Between two hosts there is no port that could go down.
fn check_port(
    experiment: &Experiment,
    place: String,
    link: &str,
    by: LinkDownBy,
) -> Option<Missing> {
    let is_host = |node: &String| experiment.hosts.iter().any(|host| host.id == *node);
    let mut ends = experiment
        .interfaces
        .iter()
        .filter(|interface| interface.link == link);
    let has_port = ends.any(|end| !is_host(&end.node));
    (by == LinkDownBy::PortDown && !has_port).then(|| {
        let why = format!(
            "{link} joins two hosts, and only routers, switches and access points have ports: use cut or drop_rule"
        );
        Missing::new(format!("{place}: port_down"), why)
    })
}
