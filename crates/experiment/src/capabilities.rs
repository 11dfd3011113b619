//! Capabilities of a back-end, and the features of an experiment that a back-end lacks.

use std::borrow::Cow;

use crate::algorithms::parameters::Kind;
use crate::features::Feature;
use crate::resolved::{
    Action, Algorithm, Direction, Experiment, Flow, Host, Link, LinkDownBy, Origin, Transport,
};

/// A [`Feature`] or an algorithm that a description can use, and whether a back-end has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The kind and name of the feature, as in `transport udp`.
    pub feature: Cow<'static, str>,
    /// Why the back-end lacks the feature; `None` if it has it.
    pub missing_because: Option<Cow<'static, str>>,
}

impl Capability {
    /// Creates the capability of a feature, or of its lack for this reason.
    pub fn of(feature: Feature, missing_because: Option<&'static str>) -> Self {
        Self {
            feature: Cow::Borrowed(feature.name()),
            missing_because: missing_because.map(Cow::Borrowed),
        }
    }

    /// Creates the capability of an algorithm, or of a parameter with `name` of the form
    /// `ALGORITHM PARAMETER`.
    pub fn of_algorithm(
        kind: Kind,
        name: &str,
        missing_because: Option<Cow<'static, str>>,
    ) -> Self {
        Self {
            feature: format!("{} {name}", kind.field()).into(),
            missing_because,
        }
    }
}

/// A feature that an experiment uses and a back-end lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The place in the experiment and the feature.
    pub feature: String,
    /// Why the back-end lacks it.
    pub why: String,
}

/// The features of a back-end. A back-end lacks all features that its table does not name.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities<'a> {
    table: &'a [Capability],
}

impl<'a> Capabilities<'a> {
    /// Creates the capabilities of a table.
    pub fn new(table: &'a [Capability]) -> Self {
        Self { table }
    }

    /// Returns why the back-end lacks a feature; `None` if it has it.
    fn missing_because(&self, feature: &str) -> Option<&'a str> {
        let named = self
            .table
            .iter()
            .find(|capability| capability.feature == feature);
        match named {
            Some(capability) => capability.missing_because.as_deref(),
            None => Some("this back-end does not know it"),
        }
    }

    /// Returns the feature, chosen by name at `place`, if the back-end lacks it.
    fn unless_there(&self, place: &str, feature: impl Into<Feature>) -> Option<Missing> {
        let feature = feature.into();
        let why = self.missing_because(feature.name())?;
        Some(Missing {
            feature: format!("{place}: {}", feature.short_name()),
            why: why.to_owned(),
        })
    }

    /// Returns the feature that `place` has by its presence, if the back-end lacks it.
    fn unless_possible(&self, place: String, feature: Feature) -> Option<Missing> {
        let why = self.missing_because(feature.name())?.to_owned();
        Some(Missing {
            feature: place,
            why,
        })
    }

    /// Returns everything in a valid experiment that the back-end lacks; empty if it can run the
    /// experiment. In a list of algorithms in order of preference, only the first counts.
    pub fn check(&self, experiment: &Experiment) -> Vec<Missing> {
        let mut missing = Vec::new();
        for host in &experiment.hosts {
            self.check_host(host, &mut missing);
        }
        for node in &experiment.nodes {
            missing.extend(self.unless_there(&format!("nodes.{}.kind", node.id), node.kind));
            let place = format!("nodes.{}.next_hop", node.id);
            let next_hop = node.next_hop;
            missing.extend(next_hop.and_then(|next_hop| self.unless_there(&place, next_hop)));
        }
        if let Some(control) = &experiment.control {
            missing.extend(self.unless_there("control.install", control.install));
            let others = Feature::of_control(control);
            missing.extend(others.filter_map(|one| self.unless_there("control", one)));
        }
        for medium in &experiment.media {
            missing.extend(self.unless_possible(format!("media.{}", medium.id), Feature::Medium));
        }
        for (index, access) in experiment.access.iter().enumerate() {
            missing.extend(self.unless_there(&format!("access.{index}"), access));
        }
        for link in &experiment.links {
            self.check_link(link, &mut missing);
        }
        for (index, middlebox) in experiment.middleboxes.iter().enumerate() {
            let place = format!("middleboxes.{index}");
            missing.extend(self.unless_there(&place, &middlebox.element));
        }
        for flow in &experiment.flows {
            self.check_flow(flow, &mut missing);
        }
        for event in &experiment.events {
            let place = format!("events.{}", event.id);
            missing.extend(self.check_action(experiment, &place, &event.action));
        }
        for interface in &experiment.measure.captures {
            let place = format!("measure.captures: {interface}");
            missing.extend(self.unless_possible(place, Feature::Captures));
        }
        missing
    }

    fn check_host(&self, host: &Host, missing: &mut Vec<Missing>) {
        let place = format!("hosts.{}", host.id);
        let chosen = [
            ("stack", Some(host.stack.into())),
            ("fallback", Some(host.fallback.into())),
            ("first_hop", Some(host.first_hop.into())),
            ("host_jitter", Feature::of_host_jitter(host.host_jitter)),
        ];
        for (field, feature) in chosen {
            let place = format!("{place}.{field}");
            missing.extend(feature.and_then(|one: Feature| self.unless_there(&place, one)));
        }
        if host.machine.is_some() {
            missing.extend(self.unless_possible(format!("{place}.on"), Feature::OnMachine));
        }
        if host.one_at_a_time {
            let place = format!("{place}.one_at_a_time");
            missing.extend(self.unless_possible(place, Feature::OneAtATime));
        }
    }

    fn check_link(&self, link: &Link, missing: &mut Vec<Missing>) {
        if link.real {
            missing
                .extend(self.unless_possible(format!("links.{}.real", link.id), Feature::RealLink));
        }
        for (name, direction) in [("forward", &link.forward), ("backward", &link.backward)] {
            self.check_direction(&format!("links.{}.{name}", link.id), direction, missing);
        }
    }

    fn check_direction(&self, place: &str, direction: &Direction, missing: &mut Vec<Missing>) {
        missing.extend(self.unless_there(&format!("{place}.queue"), &direction.queue));
        let loss = Feature::of_loss(&direction.loss);
        missing.extend(loss.and_then(|loss| self.unless_there(&format!("{place}.loss"), loss)));
        if direction.trace.is_some() {
            missing.extend(self.unless_possible(format!("{place}.trace"), Feature::Trace));
        }
    }

    fn check_flow(&self, flow: &Flow, missing: &mut Vec<Missing>) {
        let place = format!("flows.{}", flow.id);
        let transport = self.unless_there(&format!("{place}.transport"), flow.transport);
        let speaks_it = transport.is_none();
        missing.extend(transport);
        missing.extend(self.unless_there(&format!("{place}.app"), &flow.app));
        if speaks_it {
            self.check_algorithms(&place, flow, missing);
        }
    }

    fn check_algorithms(&self, place: &str, flow: &Flow, missing: &mut Vec<Missing>) {
        let kinds = match flow.transport {
            Transport::Udp => &[][..],
            Transport::Tcp => &[Kind::Control],
            Transport::Mptcp => &Kind::ALL,
        };
        for kind in kinds {
            if let Some(algorithm) = flow.algorithms(*kind).first() {
                self.check_algorithm(place, *kind, algorithm, missing);
            }
        }
        if flow.transport == Transport::Mptcp {
            let (place, handshake) = (format!("{place}.handshake"), flow.handshake);
            let handshake = Feature::of_handshake(handshake);
            missing.extend(handshake.and_then(|one| self.unless_there(&place, one)));
        }
    }

    fn check_algorithm(
        &self,
        place: &str,
        kind: Kind,
        algorithm: &Algorithm,
        missing: &mut Vec<Missing>,
    ) {
        let place = format!("{place}.{}", kind.field());
        if let Some(why) = self.why_lacking(kind, algorithm) {
            missing.push(Missing {
                feature: format!("{place}: {}", algorithm.name),
                why: why.to_owned(),
            });
            return;
        }
        // Only the class knows which parameters it takes.
        if algorithm.origin() == Some(Origin::Class) {
            return;
        }
        let place = format!("{place}.{}", algorithm.name);
        for parameter in algorithm.parameters.keys() {
            let name = format!("{} {} {parameter}", kind.field(), algorithm.name);
            let why = self.missing_because(&name);
            missing.extend(why.map(|why| Missing {
                feature: format!("{place}: {parameter}"),
                why: why.to_owned(),
            }));
        }
    }

    /// Returns why an algorithm is missing. One entry of the table may stand for all algorithms of
    /// a user.
    fn why_lacking(&self, kind: Kind, algorithm: &Algorithm) -> Option<&'a str> {
        let why = self.missing_because(&format!("{} {}", kind.field(), algorithm.name))?;
        match algorithm.origin() {
            Some(Origin::Object) if kind != Kind::Control => {
                Some("eBPF objects are congestion controls")
            }
            Some(origin) => self.missing_because(Feature::from(origin).name()),
            None => Some(why),
        }
    }

    /// Returns what the back-end lacks for `action` at `place`.
    pub fn check_action(
        &self,
        experiment: &Experiment,
        place: &str,
        action: &Action,
    ) -> Vec<Missing> {
        let mut missing = Vec::new();
        missing.extend(self.unless_there(place, action));
        match action {
            Action::LinkDown { link, by } | Action::LinkUp { link, by } => {
                missing.extend(check_port(experiment, place, link, *by));
            }
            Action::SetLink {
                forward, backward, ..
            } => {
                self.check_direction(&format!("{place}.forward"), forward, &mut missing);
                self.check_direction(&format!("{place}.backward"), backward, &mut missing);
            }
            _ => {}
        }
        missing
    }
}

/// Returns an error for `port_down` between two hosts, because hosts have no port that could go
/// down.
fn check_port(experiment: &Experiment, place: &str, link: &str, by: LinkDownBy) -> Option<Missing> {
    let is_host = |node: &String| experiment.hosts.iter().any(|host| host.id == *node);
    let mut ends = experiment
        .interfaces
        .iter()
        .filter(|interface| interface.link == link);
    let has_port = ends.any(|end| !is_host(&end.node));
    (by == LinkDownBy::PortDown && !has_port).then(|| Missing {
        feature: format!("{place}: port_down"),
        why: format!(
            "{link} joins two hosts, and only routers, switches and access points have ports: use cut or drop_rule"
        ),
    })
}
