//! Hosts that feel their own first link, in real time: a queueing discipline of the kernel holds back what its stack sends, and the
//! emulator tells our own stack when its packets have left.

use netlab::capabilities::Missing;
use netlab::first_hop::{check_middleboxes, host_directions};
use netlab::resolved::{Application, Direction, Experiment, HopDirection, Layer, Stack, Transport};

/// How early a device hands on what it may: its timers come that late, and a late packet would leave the link idle.
const AHEAD_NS: u64 = 500_000;

/// Bytes of a frame that a device counts before those of IP.
const FRAME_HEADER_BYTES: u32 = 14;

/// Packets that may wait: more than the sockets of a host ever hold.
const MOST_PACKETS: u32 = 10_000;

/// How fast a device hands packets to its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shaping {
    pub(crate) rate_bps: u64,
    /// Bytes that the link counts beyond those that the device does.
    pub(crate) overhead_bytes: i32,
    /// What it may hand on at once after a pause.
    pub(crate) burst_bytes: u32,
    /// The most that may wait.
    pub(crate) limit_bytes: u32,
}

impl Shaping {
    /// That of a device before a link direction; `None` if the link takes no time.
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

/// Where it cannot be had.
pub(crate) fn check(experiment: &Experiment) -> Vec<Missing> {
    let mut missing = Vec::new();
    for direction in host_directions(experiment) {
        let link = &experiment.links[direction / 2];
        let side = HopDirection::BOTH[direction % 2];
        let host = host_at(experiment, link.beginning(side));
        let rate_is_from = match (&link.medium, &link.direction(side).trace) {
            (Some(_), _) => "a medium",
            (None, Some(_)) => "a trace",
            (None, None) => continue,
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

/// Whether a host has our own stack, and feels its first link.
pub(crate) fn is_ours_and_feels(experiment: &Experiment, host: &str) -> bool {
    let mut hosts = experiment.hosts.iter();
    hosts.any(|one| {
        one.id == host
            && one.stack == Stack::Userspace
            && one.first_hop == netlab::resolved::FirstHop::Host
    })
}

fn has_ours(experiment: &Experiment) -> bool {
    let mut hosts = experiment.hosts.iter();
    hosts.any(|host| is_ours_and_feels(experiment, &host.id))
}

/// The directions that begin in hosts with such a stack, or in those with the kernel's.
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
