//! Hosts with their own queue before the first link, in real time (`first_hop: host`). With the
//! kernel's stack, a queueing discipline holds back packets. With the userspace stack, the emulator
//! reports when packets have left.

use emulation::first_hop::{check_middleboxes, host_directions};
use experiment::capabilities::Missing;
use experiment::resolved::{
    Application, Direction, Experiment, Framing, HopDirection, Layer, Stack, Trace, Transport,
};

/// How much a device may send ahead of the link. Its timers are up to that late, and a late packet
/// would leave the link idle.
const AHEAD_NS: u64 = 500_000;

/// Bytes of a frame that a device counts in addition to those of IP.
const FRAME_HEADER_BYTES: u32 = 14;

/// Packets that may wait, more than the sockets of a host ever hold.
const MOST_PACKETS: u32 = 10_000;

/// The rate at which a device hands packets to its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shaping {
    pub(crate) rate_bps: u64,
    /// Bytes that the link counts in addition to those that the device counts.
    pub(crate) overhead_bytes: i32,
    /// Bytes that it may hand on at once after a pause.
    pub(crate) burst_bytes: u32,
    /// Bytes that may wait.
    pub(crate) limit_bytes: u32,
}

impl Shaping {
    /// Returns the shaping of a device before a link direction; `None` if the link has no rate.
    pub(crate) fn before(direction: &Direction, layer: Layer, mtu_bytes: u32) -> Option<Self> {
        let rate_bps = direction.rate_bps?;
        let packet_bytes = mtu_bytes + direction.overhead_bytes;
        let ahead_bytes = u128::from(rate_bps) * u128::from(AHEAD_NS) / 8_000_000_000;
        let counted_bytes = match layer {
            Layer::Two => FRAME_HEADER_BYTES,
            Layer::Three => 0,
        };
        Some(Self {
            rate_bps,
            overhead_bytes: direction.overhead_bytes as i32 - counted_bytes as i32,
            burst_bytes: packet_bytes
                .saturating_add(u32::try_from(ahead_bytes).unwrap_or(u32::MAX)),
            limit_bytes: packet_bytes.saturating_mul(MOST_PACKETS),
        })
    }
}

/// Returns the hosts of the experiment for which this is not available.
pub(crate) fn check(experiment: &Experiment) -> Vec<Missing> {
    let mut missing = Vec::new();
    for direction in host_directions(experiment) {
        let link = &experiment.links[direction / 2];
        let side = HopDirection::BOTH[direction % 2];
        let host = host_at(experiment, link.beginning(side));
        let direction = link.direction(side);
        let is_traced = direction.trace.as_ref().is_some_and(Trace::has_capacity);
        let rate_is_from = match (&link.medium, direction.framing) {
            (Some(_), _) => "a medium",
            (None, _) if is_traced => "a trace",
            (None, Framing::Atm | Framing::Ptm) => "its framing",
            (None, Framing::Plain) => continue,
        };
        missing.push(Missing {
            feature: format!("hosts.{host}.first_hop: host"),
            why: format!(
                "{rate_is_from} gives the rate of link {}, which no queueing discipline of the host can follow: use first_hop: network, or the simulator",
                link.id
            ),
        });
    }
    missing.extend(experiment.flows.iter().filter_map(|flow| {
        let sends_datagrams = flow.transport == Transport::Udp
            && matches!(flow.app, Application::Cbr { .. });
        let host = experiment.hosts.iter().find(|host| host.id == flow.from)?;
        (sends_datagrams && is_ours_and_feels(experiment, &host.id)).then(|| Missing {
            feature: format!("flows.{}.transport: udp", flow.id),
            why: format!(
                "datagrams of host {} are the kernel's and TCP is our own stack's, so with first_hop: host they would wait in two queues: use first_hop: network, or stack: kernel",
                host.id
            ),
        })
    }));
    let ours = check_middleboxes(experiment).into_iter();
    missing.extend(ours.filter(|_| has_ours(experiment)));
    missing
}

/// Returns whether a host has the userspace stack and `first_hop: host`.
pub(crate) fn is_ours_and_feels(experiment: &Experiment, host: &str) -> bool {
    let mut hosts = experiment.hosts.iter();
    hosts.any(|one| {
        one.id == host
            && one.stack == Stack::Userspace
            && one.first_hop == experiment::resolved::FirstHop::Host
    })
}

fn has_ours(experiment: &Experiment) -> bool {
    let mut hosts = experiment.hosts.iter();
    hosts.any(|host| is_ours_and_feels(experiment, &host.id))
}

/// Returns the directions with `first_hop: host` that begin in hosts with the userspace stack or,
/// without `own_stack`, with the kernel's.
pub(crate) fn directions_from(experiment: &Experiment, own_stack: bool) -> Vec<usize> {
    let mut directions = host_directions(experiment);
    directions.retain(|direction| {
        let side = HopDirection::BOTH[direction % 2];
        let host = host_at(experiment, experiment.links[direction / 2].beginning(side));
        is_ours_and_feels(experiment, host) == own_stack
    });
    directions
}

fn host_at<'a>(experiment: &'a Experiment, interface: &str) -> &'a str {
    let mut interfaces = experiment.interfaces.iter();
    let found = interfaces.find(|one| one.id == interface);
    found.map_or("", |one| &one.node)
}
