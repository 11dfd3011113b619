//! Validation beyond the types of the resolved experiment: ids refer to something, numbers are in
//! their range.

mod access;
mod real_links;

use std::collections::HashMap;

use thiserror::Error;

use super::{
    Access, Action, Algorithm, Application, Behaviour, Direction, Element, Experiment, FirstHop,
    Flow, Hop, HopDirection, HostJitter, InvalidDirection, JitterQuantiles, Layer, Link, Middlebox,
    MiddleboxDirection, Node, NodeKind, Path, SCHEMA, Snr, Video, validate_overhead,
};
use crate::addressing::{flow_at_port, pairs_of};
use crate::algorithms::parameters::{self, Kind};

/// The largest time, size or rate: 2^53, which every JSON reader represents exactly. In nanoseconds
/// it is over 100 days.
pub const LARGEST: u64 = 1 << 53;

/// Largest UDP payload over IPv4.
const LARGEST_DATAGRAM_BYTES: u32 = 65_507;

/// Why a JSON text is not a valid resolved experiment.
#[derive(Debug, Error)]
pub enum ResolvedError {
    /// Malformed JSON, or a key or type that the schema does not have.
    #[error("not a resolved experiment: {0}")]
    Json(#[from] serde_json::Error),
    /// A value out of range, or an id that refers to nothing.
    #[error("{place}: found {found}, allowed is {allowed}")]
    Invalid {
        /// Path within the experiment, such as `links.wifi.forward.rate_bps`.
        place: String,
        /// The value found.
        found: String,
        /// The values allowed.
        allowed: String,
    },
}

impl ResolvedError {
    fn of_direction(place: &str, error: InvalidDirection) -> Self {
        Self::Invalid {
            place: format!("{place}.{}", error.field),
            found: error.found,
            allowed: error.allowed.into_owned(),
        }
    }
}

/// Payload that fits into an IP packet beside the longest headers.
const MOST_COALESCED_BYTES: u32 = 65_000;

/// Number of bytes for which every packet has room.
const MOST_INSERTED_BYTES: u32 = 400;

type Validity = Result<(), ResolvedError>;

fn refuse<T>(
    place: impl ToString,
    found: impl ToString,
    allowed: impl ToString,
) -> Result<T, ResolvedError> {
    Err(ResolvedError::Invalid {
        place: place.to_string(),
        found: found.to_string(),
        allowed: allowed.to_string(),
    })
}

fn in_range(place: impl ToString, value: u64, smallest: u64) -> Validity {
    if (smallest..=LARGEST).contains(&value) {
        return Ok(());
    }
    refuse(place, value, format!("{smallest} to {LARGEST}"))
}

/// How many ids an error lists.
const MOST_SHOWN: usize = 8;

/// The ids of one kind, each with its index in the list of declarations.
struct Ids<'a> {
    kind: &'static str,
    indices: HashMap<&'a str, usize>,
}

impl<'a> Ids<'a> {
    fn new(
        kind: &'static str,
        ids: impl Iterator<Item = &'a String>,
    ) -> Result<Self, ResolvedError> {
        let mut indices = HashMap::new();
        for (index, id) in ids.enumerate() {
            if indices.insert(id.as_str(), index).is_some() {
                return refuse(kind, format!("{id:?} twice"), "ids that are unique");
            }
        }
        Ok(Self { kind, indices })
    }

    fn find(&self, place: impl ToString, id: &str) -> Result<usize, ResolvedError> {
        match self.indices.get(id) {
            Some(index) => Ok(*index),
            None => refuse(place, format!("{id:?}"), self.first_few()),
        }
    }

    /// Returns the kind and its first ids, for an error.
    fn first_few(&self) -> String {
        let mut ids: Vec<_> = self
            .indices
            .iter()
            .map(|(id, index)| (index, *id))
            .collect();
        ids.sort_unstable();
        let shown: Vec<_> = ids.iter().take(MOST_SHOWN).map(|(_, id)| *id).collect();
        let more = if ids.len() > MOST_SHOWN { ", .." } else { "" };
        format!("one of the {}: {}{more}", self.kind, shown.join(", "))
    }
}

/// All ids that can be referred to.
struct Declared<'a> {
    experiment: &'a Experiment,
    hosts: Ids<'a>,
    hosts_and_nodes: Ids<'a>,
    interfaces: Ids<'a>,
    media: Ids<'a>,
    links: Ids<'a>,
    flows: Ids<'a>,
}

fn validate_behaviours(place: &str, behaviours: &[Behaviour]) -> Validity {
    if behaviours.is_empty() {
        return refuse(place, "none", "at least one behaviour");
    }
    for behaviour in behaviours {
        if behaviour.mptcp_version > 1 {
            let place = format!("{place}.mptcp_version");
            return refuse(place, behaviour.mptcp_version, "0 or 1");
        }
        let longest = behaviour.recreation_longest_ns;
        if !(1..=longest).contains(&behaviour.recreation_first_ns) {
            let place = format!("{place}.recreation_first_ns");
            let allowed = format!("1 to recreation_longest_ns, which is {longest}");
            return refuse(place, behaviour.recreation_first_ns, allowed);
        }
    }
    Ok(())
}

fn validate_jitter(place: &str, jitter: HostJitter) -> Validity {
    let Some(quantiles) = jitter.quantiles() else {
        return Ok(());
    };
    let [.., longest] = quantiles.ascending();
    if !quantiles.ascending().is_sorted() || longest > JitterQuantiles::LONGEST_NS {
        let found = format!("{:?}", quantiles.ascending());
        return refuse(place, found, "quantiles that ascend, up to a second");
    }
    Ok(())
}

fn validate_machines(experiment: &Experiment) -> Validity {
    for host in &experiment.hosts {
        let Some(machine) = &host.machine else {
            continue;
        };
        if experiment
            .machines()
            .iter()
            .any(|one| one.id == machine.id && *one != machine)
        {
            let place = format!("hosts.{}.machine", host.id);
            return refuse(
                place,
                format!("another machine {:?}", machine.id),
                "one machine of a name",
            );
        }
    }
    Ok(())
}

pub(super) fn validate(experiment: &Experiment) -> Validity {
    if experiment.schema != SCHEMA {
        return refuse("schema", &experiment.schema, SCHEMA);
    }
    let declared = Declared::new(experiment)?;
    declared.validate_times()?;
    for host in &experiment.hosts {
        validate_behaviours(&format!("hosts.{}.behaviour", host.id), &host.behaviour)?;
        validate_jitter(&format!("hosts.{}.host_jitter", host.id), host.host_jitter)?;
    }
    validate_machines(experiment)?;
    declared.validate_interfaces()?;
    declared.validate_links()?;
    declared.validate_attachments()?;
    for (index, middlebox) in experiment.middleboxes.iter().enumerate() {
        declared.validate_middlebox(&format!("middleboxes.{index}"), middlebox)?;
    }
    for flow in &experiment.flows {
        declared.validate_flow(flow)?;
    }
    declared.validate_control()?;
    declared.validate_events()
}

impl Action {
    /// Checks an action that is not part of the description, as [`Experiment::from_json`] checks
    /// actions of the description.
    ///
    /// # Errors
    /// Fails if an id does not exist in the experiment or a value is out of its range.
    pub fn validate(&self, experiment: &Experiment) -> Validity {
        Declared::new(experiment)?.validate_action("action", self)
    }
}

impl<'a> Declared<'a> {
    fn new(experiment: &'a Experiment) -> Result<Self, ResolvedError> {
        let hosts = || experiment.hosts.iter().map(|host| &host.id);
        let nodes = experiment.nodes.iter().map(|node| &node.id);
        Ids::new("events", experiment.events.iter().map(|event| &event.id))?;
        Ok(Self {
            experiment,
            hosts: Ids::new("hosts", hosts())?,
            hosts_and_nodes: Ids::new("hosts and nodes", hosts().chain(nodes))?,
            interfaces: Ids::new("interfaces", experiment.interfaces.iter().map(|i| &i.id))?,
            media: Ids::new("media", experiment.media.iter().map(|medium| &medium.id))?,
            links: Ids::new("links", experiment.links.iter().map(|link| &link.id))?,
            flows: Ids::new("flows", experiment.flows.iter().map(|flow| &flow.id))?,
        })
    }

    fn validate_times(&self) -> Validity {
        let measure = &self.experiment.measure;
        in_range("duration_ns", self.experiment.duration_ns, 1)?;
        in_range("vary.start_ns", self.experiment.vary.start_ns, 0)?;
        let vary = self.experiment.vary;
        for (field, found) in [
            ("vary.rtt_ppm", vary.rtt_ppm),
            ("vary.events_ppm", vary.events_ppm),
        ] {
            if found > 1_000_000 {
                return refuse(field, found, "0 to 1000000");
            }
        }
        in_range("measure.every_ns", measure.every_ns, 1)?;
        in_range("measure.probe_rtt_ns", measure.probe_rtt_ns.unwrap_or(1), 1)?;
        for id in &measure.captures {
            let captured = self.interfaces.find("measure.captures", id)?;
            let link = &self.experiment.interfaces[captured].link;
            self.validate_emulated("measure.captures", link)?;
        }
        Ok(())
    }

    fn validate_interfaces(&self) -> Validity {
        for interface in &self.experiment.interfaces {
            let place = format!("interfaces.{}", interface.id);
            let nodes = &self.hosts_and_nodes;
            nodes.find(format!("{place}.node"), &interface.node)?;
            self.links.find(format!("{place}.link"), &interface.link)?;
        }
        Ok(())
    }

    /// Checks that each interface is an end of the link that it names.
    fn validate_attachments(&self) -> Validity {
        for interface in &self.experiment.interfaces {
            let place = format!("interfaces.{}.link", interface.id);
            let link = &self.experiment.links[self.links.find(&place, &interface.link)?];
            if link.a != interface.id && link.b != interface.id {
                let ends = format!(
                    "a link with that end; {} joins {} and {}",
                    link.id, link.a, link.b
                );
                return refuse(place, &interface.link, ends);
            }
        }
        Ok(())
    }

    fn validate_links(&self) -> Validity {
        for medium in &self.experiment.media {
            let place = format!("media.{}", medium.id);
            in_range(format!("{place}.rate_bps"), medium.rate_bps.unwrap_or(1), 1)?;
            validate_overhead(medium.overhead_bytes)
                .map_err(|error| ResolvedError::of_direction(&place, error))?;
        }
        for link in &self.experiment.links {
            self.validate_link(link)?;
        }
        for (index, access) in self.experiment.access.iter().enumerate() {
            self.validate_access(&format!("access.{index}"), access)?;
        }
        Ok(())
    }

    fn validate_link(&self, link: &Link) -> Validity {
        let place = format!("links.{}", link.id);
        for (name, end) in [("a", &link.a), ("b", &link.b)] {
            let end = self.interfaces.find(format!("{place}.{name}"), end)?;
            let interface = &self.experiment.interfaces[end];
            if interface.link != link.id {
                let other = format!(
                    "an interface of this link; {} is on {}",
                    interface.id, interface.link
                );
                return refuse(format!("{place}.{name}"), &interface.id, other);
            }
        }
        if link.a == link.b {
            return refuse(format!("{place}.b"), &link.b, "another interface than a");
        }
        if let Some(medium) = &link.medium {
            self.media.find(format!("{place}.medium"), medium)?;
        }
        self.validate_devices(&place, link)?;
        self.validate_directions(&place, link, [&link.forward, &link.backward])
    }

    /// Checks both directions of a link, as described or as set by an event.
    fn validate_directions(&self, place: &str, link: &Link, both: [&Direction; 2]) -> Validity {
        for (side, direction) in HopDirection::BOTH.into_iter().zip(both) {
            let place = format!("{place}.{}", side.name());
            validate_direction(&place, direction)?;
            self.validate_access_direction(&place, link, direction)?;
            if self.begins_in_host(link, side) {
                let valid = direction.validate_behind_host();
                valid.map_err(|error| ResolvedError::of_direction(&place, error))?;
            }
        }
        Ok(())
    }

    /// Returns whether packets for a direction of a link wait in a host.
    fn begins_in_host(&self, link: &Link, side: HopDirection) -> bool {
        let interface = self.interfaces.indices.get(link.beginning(side));
        let node = interface.map(|index| self.experiment.interfaces[*index].node.as_str());
        let host = node.and_then(|node| self.hosts.indices.get(node));
        host.is_some_and(|host| self.experiment.hosts[*host].first_hop == FirstHop::Host)
    }

    fn validate_middlebox(&self, place: &str, middlebox: &Middlebox) -> Validity {
        let at = self.interfaces.find(format!("{place}.at"), &middlebox.at)?;
        self.validate_emulated(format!("{place}.at"), &self.experiment.interfaces[at].link)?;
        if let Element::Nat(_) = middlebox.element {
            self.validate_nat(place, middlebox)?;
        }
        validate_element(&format!("{place}.element"), &middlebox.element)
    }

    /// Checks a NAT. It must hide one interface of a host on the same link, and that link must not
    /// need link-layer address resolution.
    fn validate_nat(&self, place: &str, middlebox: &Middlebox) -> Validity {
        if middlebox.direction == MiddleboxDirection::Both {
            let found = middlebox.direction.name();
            return refuse(format!("{place}.direction"), found, "leaving or arriving");
        }
        let hidden = self.experiment.hidden(middlebox);
        let hidden = hidden.map(|(index, _)| &self.experiment.interfaces[index]);
        let allowed = "a NAT on the link of a host that it hides, without a switch";
        let Some(hidden) = hidden.filter(|one| self.hosts.indices.contains_key(&*one.node)) else {
            return refuse(format!("{place}.at"), &middlebox.at, allowed);
        };
        let link = &self.experiment.links[self.links.find(place, &hidden.link)?];
        match link.layer {
            Layer::Three => Ok(()),
            Layer::Two => refuse(format!("{place}.at"), &middlebox.at, allowed),
        }
    }

    fn validate_flow(&self, flow: &Flow) -> Validity {
        let place = format!("flows.{}", flow.id);
        self.hosts.find(format!("{place}.from"), &flow.from)?;
        self.hosts.find(format!("{place}.to"), &flow.to)?;
        in_range(format!("{place}.start_ns"), flow.start_ns, 0)?;
        for id in flow.via.iter().flatten() {
            self.interfaces.find(format!("{place}.via"), id)?;
        }
        validate_application(&format!("{place}.app"), &flow.app)?;
        if flow.paths.is_empty() {
            return refuse(format!("{place}.paths"), "none", "at least one path");
        }
        for (index, path) in flow.paths.iter().enumerate() {
            self.validate_path(&format!("{place}.paths.{index}"), flow, path)?;
        }
        validate_parameters(&place, flow)?;
        for manager in &flow.path_manager {
            self.validate_names(&format!("{place}.path_manager.{}", manager.name), manager)?;
        }
        Ok(())
    }

    /// Checks the interfaces and routers that a path manager names.
    fn validate_names(&self, place: &str, manager: &Algorithm) -> Validity {
        let (interfaces, routers) = parameters::names_in(manager);
        for id in interfaces {
            self.interfaces.find(format!("{place}.endpoints"), id)?;
        }
        for port in parameters::ports_in(manager) {
            self.validate_announced_port(format!("{place}.endpoints"), port)?;
        }
        for id in routers {
            if parameters::router_address(self.experiment, id).is_none() {
                let allowed = "a router, which has an IPv4 address";
                return refuse(format!("{place}.gateways"), format!("{id:?}"), allowed);
            }
        }
        Ok(())
    }

    /// Checks that an announced port is not used by a flow or a probe. Flows and then probes are
    /// accepted at ports of their own.
    fn validate_announced_port(&self, place: String, port: u16) -> Validity {
        let flows = &self.experiment.flows;
        let probes = self.experiment.measure.probe_rtt_ns.map_or(0, |_| {
            flows.iter().map(|flow| flow.paths.len()).sum::<usize>()
        });
        let taken = flows.len() + probes;
        match flow_at_port(port).filter(|index| *index < taken) {
            Some(_) => refuse(
                place,
                port,
                "a port at which no flow and no probe is accepted",
            ),
            None => Ok(()),
        }
    }

    fn validate_path(&self, place: &str, flow: &Flow, path: &Path) -> Validity {
        for (name, id, host) in [
            ("local", &path.local, &flow.from),
            ("remote", &path.remote, &flow.to),
        ] {
            let interface = self.interfaces.find(format!("{place}.{name}"), id)?;
            if self.experiment.interfaces[interface].node != *host {
                return refuse(
                    format!("{place}.{name}"),
                    id,
                    format!("an interface of {host}"),
                );
            }
        }
        self.validate_families(place, path)?;
        let place = format!("{place}.hops");
        if path.routed && path.hops.len() != 2 {
            let allowed = "the first and the last, between which routers choose";
            return refuse(place, path.hops.len(), allowed);
        }
        self.validate_hops(&place, &path.hops, [&path.local, &path.remote], path.routed)
    }

    fn validate_families(&self, place: &str, path: &Path) -> Validity {
        let addresses = |id: &String| -> Result<_, ResolvedError> {
            let interface = self.interfaces.find(place, id)?;
            Ok(self.experiment.interfaces[interface].addresses())
        };
        if pairs_of(&addresses(&path.local)?, &addresses(&path.remote)?).is_empty() {
            let ends = format!("{} and {}", path.local, path.remote);
            return refuse(place, ends, "ends with addresses of one family");
        }
        Ok(())
    }

    /// Checks that hops lead from the first interface through forwarding nodes to the host of the
    /// second. They may end at another interface of that host, because a host accepts packets for
    /// all its addresses (RFC 1122, section 3.3.4.2: weak end system).
    fn validate_hops(
        &self,
        place: &str,
        hops: &[Hop],
        [first, last]: [&String; 2],
        routed: bool,
    ) -> Validity {
        let mut reached: Option<&String> = None;
        for hop in hops {
            let link = &self.experiment.links[self.links.find(place, &hop.link)?];
            let (near, far) = match hop.direction {
                HopDirection::Forward => (&link.a, &link.b),
                HopDirection::Backward => (&link.b, &link.a),
            };
            let goes_on = match reached {
                None => near == first,
                Some(_) if routed => true,
                Some(end) => self.is_forwarded(end, near),
            };
            if !goes_on {
                let allowed = "a link that goes on where the one before ends, and not at a host";
                return refuse(place, &hop.link, allowed);
            }
            reached = Some(far);
        }
        match reached {
            Some(end) if self.node_of(end) == self.node_of(last) => Ok(()),
            end => {
                let end = end.map_or("no hops", |end| end.as_str());
                let allowed = format!("links up to {last} or to its host");
                refuse(place, end, allowed)
            }
        }
    }

    fn is_forwarded(&self, from: &str, to: &str) -> bool {
        let node = self.node_of(from);
        node == self.node_of(to) && node.is_some_and(|node| !self.hosts.indices.contains_key(node))
    }

    fn node_of(&self, interface: &str) -> Option<&str> {
        let index = *self.interfaces.indices.get(interface)?;
        Some(&self.experiment.interfaces[index].node)
    }

    fn validate_events(&self) -> Validity {
        let mut latest = 0;
        let end = self.experiment.duration_ns;
        for event in &self.experiment.events {
            let place = format!("events.{}", event.id);
            if !(latest..end).contains(&event.at_ns) {
                let allowed =
                    format!("{latest}, that of the event before, up to but not {end}, the end");
                return refuse(format!("{place}.at_ns"), event.at_ns, allowed);
            }
            latest = event.at_ns;
            self.validate_action(&format!("{place}.action"), &event.action)?;
        }
        Ok(())
    }

    fn validate_action(&self, place: &str, action: &Action) -> Validity {
        match action {
            Action::InterfaceDown { interface }
            | Action::InterfaceUp { interface }
            | Action::SetBackup { interface, .. } => {
                self.interfaces
                    .find(format!("{place}.interface"), interface)?;
            }
            Action::AddressAdd { interface } | Action::AddressRemove { interface } => {
                self.validate_address(&format!("{place}.interface"), interface)?;
            }
            Action::LinkDown { link, .. } | Action::LinkUp { link, .. } => {
                self.validate_emulated(format!("{place}.link"), link)?;
            }
            Action::SetLink {
                link,
                forward,
                backward,
            } => {
                self.validate_emulated(format!("{place}.link"), link)?;
                let index = self.links.find(format!("{place}.link"), link)?;
                let link = &self.experiment.links[index];
                self.validate_directions(place, link, [forward, backward])?;
            }
            Action::Handover { link, .. } => {
                let is_cellular = |access: &Access| matches!(access, Access::Cellular(_));
                self.validate_access_link(
                    place,
                    link,
                    is_cellular,
                    "the link of a cellular device",
                )?;
            }
            Action::Roam { link, .. } => self.validate_wifi_link(place, link)?,
            Action::SetSignal { link, mean_mdb } => {
                self.validate_wifi_link(place, link)?;
                let valid = Snr::validate_mean("mean_mdb", *mean_mdb);
                valid.map_err(|error| ResolvedError::of_direction(place, error))?;
            }
            Action::Reroute {
                flow,
                path,
                there,
                back,
                ..
            } => self.validate_reroute(place, flow, *path, [there, back])?,
            Action::SetRecovery { strategy } => {
                if self.experiment.control.is_none() {
                    let allowed = "nothing: no switches are under control";
                    return refuse(format!("{place}.strategy"), strategy, allowed);
                }
            }
            Action::Exec { host, .. } => {
                self.hosts.find(format!("{place}.host"), host)?;
            }
        }
        Ok(())
    }

    fn validate_reroute(
        &self,
        place: &str,
        flow: &str,
        path: u32,
        [there, back]: [&Vec<Hop>; 2],
    ) -> Validity {
        let flow = &self.experiment.flows[self.flows.find(format!("{place}.flow"), flow)?];
        let Some(path) = flow.paths.get(path as usize) else {
            let allowed = format!("less than {}, the number of paths", flow.paths.len());
            return refuse(format!("{place}.path"), path, allowed);
        };
        if path.routed {
            let allowed = "a path whose links the description lists";
            return refuse(
                format!("{place}.path"),
                "one with routers that choose",
                allowed,
            );
        }
        let ends = [&path.local, &path.remote];
        self.validate_hops(&format!("{place}.there"), there, ends, false)?;
        let [local, remote] = ends;
        self.validate_hops(&format!("{place}.back"), back, [remote, local], false)
    }

    /// Checks the control of switches, which are there if and only if there is control.
    fn validate_control(&self) -> Validity {
        let is_switch = |node: &Node| node.kind == NodeKind::Openflow;
        let switches = self.experiment.nodes.iter().filter(|node| is_switch(node));
        let Some(control) = &self.experiment.control else {
            return match switches.map(|node| &node.id).next() {
                Some(id) => refuse(format!("nodes.{id}.kind"), "openflow", "with control"),
                None => Ok(()),
            };
        };
        in_range("control.statistics_ns", control.statistics_ns, 1)?;
        let detect_ns = control.recovery.detect_ns.unwrap_or(0);
        in_range("control.recovery.detect_ns", detect_ns, 0)?;
        for cost in &control.costs {
            self.links.find("control.costs", &cost.link)?;
            in_range(format!("control.costs.{}", cost.link), cost.cost, 0)?;
        }
        Ids::new("groups", control.srlg.iter().map(|group| &group.id))?;
        for group in &control.srlg {
            for link in &group.links {
                self.links
                    .find(format!("control.srlg.{}", group.id), link)?;
            }
        }
        Ok(())
    }

    fn validate_address(&self, place: &str, id: &str) -> Validity {
        let interface = &self.experiment.interfaces[self.interfaces.find(place, id)?];
        match (&interface.ipv4, &interface.ipv6) {
            (None, None) => refuse(place, id, "an interface that was given an address"),
            _ => Ok(()),
        }
    }
}

fn validate_parameters(place: &str, flow: &Flow) -> Validity {
    for kind in Kind::ALL {
        for algorithm in flow.algorithms(kind) {
            if let Err(refusal) = parameters::check(kind, algorithm) {
                let place = format!("{place}.{}.{}", kind.field(), algorithm.name);
                let place = format!("{place}.{}", refusal.parameter);
                return refuse(place, refusal.found, refusal.allowed);
            }
        }
    }
    Ok(())
}

fn validate_direction(place: &str, direction: &Direction) -> Validity {
    direction
        .validate()
        .map_err(|error| ResolvedError::of_direction(place, error))?;
    in_range(
        format!("{place}.rate_bps"),
        direction.rate_bps.unwrap_or(1),
        1,
    )?;
    in_range(format!("{place}.delay_ns"), direction.delay_ns, 0)?;
    in_range(format!("{place}.jitter_ns"), direction.jitter_ns, 0)?;
    let Some(trace) = &direction.trace else {
        return Ok(());
    };
    in_range(format!("{place}.trace.period_ns"), trace.period_ns, 1)?;
    for step in &trace.rates {
        in_range(format!("{place}.trace.rates"), step.rate_bps, 0)?;
    }
    for step in &trace.delays {
        in_range(format!("{place}.trace.delays"), step.delay_ns, 0)?;
    }
    Ok(())
}

fn validate_element(place: &str, element: &Element) -> Validity {
    let in_range =
        |field: &str, value: u64, smallest| in_range(format!("{place}.{field}"), value, smallest);
    let probability = |value: f64| match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => refuse(format!("{place}.probability"), value, "0 to 1"),
    };
    match element {
        Element::StripOptions(selection) | Element::DropOptions(selection) => {
            in_range("after_bytes", selection.after_bytes, 0)
        }
        Element::RewriteSequence {} | Element::Nat(_) => Ok(()),
        Element::Split(split) => in_range("largest_bytes", split.largest_bytes.into(), 1),
        Element::Coalesce(coalesce) => {
            let largest = coalesce.largest_bytes;
            if !(1..=MOST_COALESCED_BYTES).contains(&largest) {
                let place = format!("{place}.largest_bytes");
                return refuse(place, largest, format!("1 to {MOST_COALESCED_BYTES}"));
            }
            in_range("hold_ns", coalesce.hold_ns, 0)
        }
        Element::ChangeBytes(change) => {
            if change.after_bytes.is_some() == change.probability.is_some() {
                let found = "both or none of after_bytes and probability";
                return refuse(place, found, "one of them");
            }
            in_range("after_bytes", change.after_bytes.unwrap_or(0), 0)?;
            probability(change.probability.unwrap_or(0.0))
        }
        Element::InsertBytes(insert) => {
            if !(1..=MOST_INSERTED_BYTES).contains(&insert.bytes) {
                let place = format!("{place}.bytes");
                return refuse(place, insert.bytes, format!("1 to {MOST_INSERTED_BYTES}"));
            }
            in_range("after_bytes", insert.after_bytes, 0)
        }
        Element::Duplicate(duplicate) => probability(duplicate.probability),
        Element::AcknowledgeEarly(early) => in_range("buffer_bytes", early.buffer_bytes, 1),
    }
}

fn validate_application(place: &str, application: &Application) -> Validity {
    match application {
        Application::Cbr {
            rate_bps,
            size_bytes,
            duration_ns,
        } => {
            in_range(format!("{place}.rate_bps"), *rate_bps, 1)?;
            validate_datagram(place, *size_bytes)?;
            in_range(format!("{place}.duration_ns"), duration_ns.unwrap_or(0), 0)
        }
        Application::Probe {
            every_ns,
            size_bytes,
            duration_ns,
        } => {
            in_range(format!("{place}.every_ns"), *every_ns, 1)?;
            validate_datagram(place, *size_bytes)?;
            in_range(format!("{place}.duration_ns"), duration_ns.unwrap_or(0), 0)
        }
        Application::Video(video) => validate_video(place, video),
        _ => Ok(()),
    }
}

fn validate_video(place: &str, video: &Video) -> Validity {
    let rates = &video.bitrates_bps;
    if rates.is_empty() || !rates.is_sorted_by(|low, high| low < high) {
        let allowed = "one bit rate or more, ascending";
        return refuse(
            format!("{place}.bitrates_bps"),
            format!("{rates:?}"),
            allowed,
        );
    }
    in_range(format!("{place}.bitrates_bps"), rates[0], 1)?;
    in_range(format!("{place}.bitrates_bps"), rates[rates.len() - 1], 1)?;
    in_range(format!("{place}.segment_ns"), video.segment_ns, 1)?;
    in_range(
        format!("{place}.length_ns"),
        video.length_ns.unwrap_or(1),
        1,
    )?;
    in_range(
        format!("{place}.buffer_ns"),
        video.buffer_ns,
        video.segment_ns,
    )?;
    let whole = video.buffer_ns / video.segment_ns * video.segment_ns;
    if video.startup_ns > whole {
        let allowed = format!("up to {whole}, the whole segments that the buffer holds");
        return refuse(format!("{place}.startup_ns"), video.startup_ns, allowed);
    }
    Ok(())
}

fn validate_datagram(place: &str, size_bytes: u32) -> Validity {
    if (1..=LARGEST_DATAGRAM_BYTES).contains(&size_bytes) {
        return Ok(());
    }
    refuse(
        format!("{place}.size_bytes"),
        size_bytes,
        format!("1 to {LARGEST_DATAGRAM_BYTES}"),
    )
}
