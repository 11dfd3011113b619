//! Translates what a description says about hosts and flows into the configuration of the engine.

use mptcp::connection::{Algorithms, Buffer, Config, Fallback, Start};
use mptcp::endpoint::Profile;
use mptcp::pm;
use mptcp::subflow::{self, InitialWindow, Segmentation, SynRetries};
use mptcp::timer_wheel::TimerWheel;
use mptcp::{cc, sched};

use crate::addressing::{Lookup, PathPairs, host_at};
use crate::algorithms::parameters::{self, Kind};
use crate::algorithms::{MakeControl, MakePathManager, MakeScheduler, Registry};
use crate::resolved::{
    self, Algorithm, FirstHop, Flow, FlowEnd, Handshake, Host, OfferedWindow, Parameters, Transport,
};
use crate::rng::Generator;

/// Bytes of headers without options. Those of IPv6 count if an end of a path has no IPv4 address.
const IPV4_AND_TCP_BYTES: u32 = 20 + 20;
const IPV6_AND_TCP_BYTES: u32 = 40 + 20;
/// Initial buffer sizes of Linux (`tcp_wmem`, `tcp_rmem`).
const FIRST_SEND_BUFFER_BYTES: u64 = 16 << 10;
const FIRST_RECEIVE_BUFFER_BYTES: u64 = 128 << 10;
/// Bytes of each segment taken by timestamps and, with MPTCP, by a mapping with a DATA_ACK.
const TIMESTAMPS_BYTES: u32 = 12;
const DSS_BYTES: u32 = 20;
/// The longest time that a host has been up when an experiment begins: many times the coarsest step
/// of its timers.
const LONGEST_UP_NS: u64 = 3_600 * mptcp::time::SECOND;
/// The largest window scale shift count (RFC 7323, section 2.3).
const MAX_WINDOW_SCALE: u8 = 14;

/// Returns how the connections of a flow are configured at one of its ends.
pub fn profile(
    lookup: &Lookup<'_>,
    flow: &Flow,
    side: FlowEnd,
    seed: u64,
    registry: &Registry,
) -> Profile {
    let host = lookup.host(host_at(flow, side));
    let host = &lookup.experiment.hosts[host.expect("validated: the host of a flow exists")];
    let maker = AlgorithmMaker::new(lookup, flow, host, side, seed, registry);
    Profile {
        config: config(lookup, flow, host, seed).into(),
        algorithms: Box::new(move |seen| maker.make(seen)),
    }
}

fn config(lookup: &Lookup<'_>, flow: &Flow, host: &Host, seed: u64) -> Config {
    let behaviour = host.behaviour().of_engine();
    let is_multipath = flow.transport == Transport::Mptcp && host.mptcp;
    let mss_bytes = mss_bytes(lookup, flow);
    let options_bytes = TIMESTAMPS_BYTES + if is_multipath { DSS_BYTES } else { 0 };
    let payload_bytes = u32::from(mss_bytes) - options_bytes;
    let offered_of = |bytes| offered_bytes(host, bytes, payload_bytes);
    Config {
        subflow: subflow::Config {
            mss_bytes,
            initial_window: InitialWindow::Segments(host.initial_window_segments),
            send_buffer_bytes: u32::try_from(host.sndbuf_bytes).unwrap_or(u32::MAX),
            window_scale: Some(window_scale(host.rcvbuf_bytes)),
            timer_wheel: timer_wheel(host, seed),
            segmentation: segmentation(host),
            syn_retries: SynRetries {
                linear: host.syn_linear_timeouts,
                ..SynRetries::default()
            },
            ..subflow::Config::default()
        }
        .into(),
        is_multipath,
        version: host.behaviour().version(),
        uses_checksums: host.checksum,
        fallback: match host.fallback {
            resolved::Fallback::Rfc => Fallback::Rfc,
            resolved::Fallback::Strict => Fallback::Strict,
        },
        send_buffer: grown_from(FIRST_SEND_BUFFER_BYTES, host.sndbuf_bytes),
        receive_buffer: grown_from(
            offered_of(FIRST_RECEIVE_BUFFER_BYTES),
            offered_of(host.rcvbuf_bytes),
        ),
        // The first SYN and its retransmissions with MP_CAPABLE.
        max_capable_syns: host.syn_retries + 1,
        start: match flow.handshake {
            Handshake::Primary => Start::Primary,
            Handshake::Race => Start::Race,
        },
        behaviour,
        ..Config::default()
    }
}

/// Returns the timer wheel of a host. Hosts have been up for different times, so that their timers
/// do not round alike.
fn timer_wheel(host: &Host, seed: u64) -> Option<TimerWheel> {
    let up_ns = || Generator::new(seed, &format!("timers/{}", host.id)).bits() % LONGEST_UP_NS;
    match host.behaviour().timers {
        resolved::Timers::Exact => None,
        resolved::Timers::Wheel => Some(TimerWheel {
            running_for: up_ns(),
        }),
    }
}

/// Returns how a host makes segments. A host that feels its first link does not offload
/// (`gso_max_segs` 1), so that it queues single packets.
fn segmentation(host: &Host) -> Segmentation {
    match (host.behaviour().segmentation_offload, host.first_hop) {
        (false, _) => Segmentation::Single,
        (true, FirstHop::Host) => Segmentation::InSocketBuffers,
        (true, FirstHop::Network) => Segmentation::Offload,
    }
}

/// Returns the window in bytes that a host offers for a receive buffer, rounded down to 256ths.
fn offered_bytes(host: &Host, buffer_bytes: u64, payload_bytes: u32) -> u64 {
    let in_256ths = match host.behaviour().offered_window {
        OfferedWindow::Half => 128,
        OfferedWindow::ShareOfPayload => {
            256 * payload_bytes / subflow::segment_memory_bytes(payload_bytes)
        }
    };
    buffer_bytes / 256 * u64::from(in_256ths)
}

/// Returns a buffer that grows as needed.
fn grown_from(first_bytes: u64, max_bytes: u64) -> Buffer {
    Buffer::Auto {
        initial_bytes: first_bytes.min(max_bytes),
        max_bytes,
    }
}

/// Returns the largest MSS that fits into a packet on all paths of a flow.
fn mss_bytes(lookup: &Lookup<'_>, flow: &Flow) -> u16 {
    let paths = flow.paths.iter();
    let mtu_bytes = paths.filter_map(|path| lookup.path_mtu_bytes(path)).min();
    let ends = flow
        .paths
        .iter()
        .flat_map(|path| [&path.local, &path.remote]);
    let is_v4 = ends.into_iter().all(|end| {
        let found = lookup.interface(end);
        found.is_some_and(|one| one.ipv4.is_some())
    });
    let headers = if is_v4 {
        IPV4_AND_TCP_BYTES
    } else {
        IPV6_AND_TCP_BYTES
    };
    let mss = mtu_bytes.unwrap_or(1500).saturating_sub(headers);
    u16::try_from(mss).unwrap_or(u16::MAX)
}

/// Returns the smallest shift with which the whole buffer can be offered.
fn window_scale(buffer_bytes: u64) -> u8 {
    let fits = |shift: &u8| u64::from(u16::MAX) << shift >= buffer_bytes;
    (0..MAX_WINDOW_SCALE).find(fits).unwrap_or(MAX_WINDOW_SCALE)
}

/// Creates the algorithms of each connection of a flow, at one end.
struct AlgorithmMaker {
    control: (MakeControl, cc::Parameters, Parameters),
    scheduler: (MakeScheduler, sched::Parameters, Parameters),
    path_manager: (MakePathManager, pm::Parameters, Parameters),
    pairs: PathPairs,
    /// Whether only one interface carries data at a time. All others are then backup.
    one_at_a_time: bool,
}

impl AlgorithmMaker {
    fn new(
        lookup: &Lookup<'_>,
        flow: &Flow,
        host: &Host,
        side: FlowEnd,
        seed: u64,
        registry: &Registry,
    ) -> Self {
        let known = "checked: there is an algorithm of that name";
        let control = first_or(flow, Kind::Control, "reno");
        let scheduler = first_or(flow, Kind::Scheduler, "kernel_default");
        let manager = first_or(flow, Kind::PathManager, "passive");
        let seed = Generator::new(seed, &format!("cc/{}", flow.id)).bits();
        let pairs = PathPairs::new(lookup, &flow.paths, side);
        Self {
            control: (
                registry.control(&control.name).expect(known).clone(),
                parameters::control(&control, seed),
                control.parameters,
            ),
            scheduler: (
                registry.scheduler(&scheduler.name).expect(known).clone(),
                parameters::scheduler(&scheduler, host.behaviour().subflow_order.into()),
                scheduler.parameters,
            ),
            path_manager: (
                registry.path_manager(&manager.name).expect(known).clone(),
                parameters::path_manager(&manager, lookup.experiment, &host.id, &pairs),
                manager.parameters,
            ),
            pairs,
            one_at_a_time: host.one_at_a_time,
        }
    }

    fn make(&self, seen: &pm::Connection) -> Algorithms {
        let (make_control, control, given_to_control) = &self.control;
        let (make_scheduler, scheduler, given_to_scheduler) = &self.scheduler;
        let (make_manager, manager, given_to_manager) = &self.path_manager;
        Algorithms {
            congestion_control: make_control(control, given_to_control),
            scheduler: make_scheduler(scheduler, given_to_scheduler),
            path_manager: make_manager(&self.of_flow(seen), manager, given_to_manager),
        }
    }

    /// Returns the connection with the address pairs of its flow, because the host may have further
    /// pairs.
    fn of_flow(&self, seen: &pm::Connection) -> pm::Connection {
        let initial = seen.initial.local.ip();
        let mut connection = pm::Connection {
            pairs: self.pairs.of_connection(initial).into(),
            ..seen.clone()
        };
        if self.one_at_a_time {
            let locals = connection.pairs.iter().map(|pair| pair.local);
            let others = locals.filter(|local| *local != initial);
            connection.backup.extend(others);
        }
        connection
    }
}

/// Returns the first choice of a flow, or `otherwise`. Flows over TCP name no scheduler and no path
/// manager.
fn first_or(flow: &Flow, kind: Kind, otherwise: &str) -> Algorithm {
    let first = flow.algorithms(kind).first().cloned();
    first.unwrap_or_else(|| Algorithm {
        name: otherwise.to_owned(),
        parameters: Parameters::new(),
    })
}
