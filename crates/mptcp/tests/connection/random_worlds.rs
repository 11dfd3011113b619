//! Whatever happens on the paths, both byte streams arrive whole, in order and once, and both hosts
//! close.

use std::iter;
use std::net::IpAddr;
use std::sync::Arc;

use mptcp::connection::{Buffer, Config, Event, Fallback, Mode, Start};
use mptcp::failure::{Behaviour, Reinjection};
use mptcp::pm::Recreation;
use mptcp::subflow::{CloseReason, Keepalive};
use mptcp::time::{MILLISECOND, Nanos, SECOND};
use mptcp::{cc, pm, sched};
use proptest::prelude::*;
use proptest::sample;
use proptest::test_runner::FileFailurePersistence;

use crate::world::middleboxes::lose;
use crate::world::{
    Addressing, CLIENT, Faults, Pair, PathModel, SERVER, Side, Stack, ipv4, ipv6, seconds,
};

/// A random world.
#[derive(Clone, Debug)]
struct World {
    seed: u64,
    paths: Vec<PathModel>,
    stacks: [Stack; 2],
    upload: u64,
    download: u64,
    outages: Vec<Outage>,
    /// The host that writes nothing, and so does not end its byte stream, before the other's has
    /// ended.
    last: Option<usize>,
    /// Whether the client knows the other paths when it opens the connection.
    starts_anywhere: bool,
    family: Family,
}

/// The address family of the paths.
#[derive(Clone, Copy, Debug)]
enum Family {
    Ipv4,
    Ipv6,
    Mixed,
}

/// An outage of a path.
#[derive(Clone, Debug)]
struct Outage {
    path: usize,
    start_ms: u64,
    duration_ms: u64,
    /// Whether the client's interface goes down too, so that its path manager notices. Otherwise no
    /// host does.
    is_told: bool,
}

fn path() -> impl Strategy<Value = PathModel> {
    let faults = (0..5u32, 0..3u32, 0..3u32);
    // Rarely, a router takes only shorter packets and reports it, but never shorter than links of
    // IPv6 must take.
    let mtu_bytes = prop::option::weighted(0.2, 1280..1500u64);
    (1..50u64, 1..100u64, faults, mtu_bytes).prop_map(
        |(rate_mbps, delay_ms, (loss, duplication, reordering), mtu_bytes)| PathModel {
            mtu_bytes: mtu_bytes.unwrap_or(u64::MAX),
            tells_mtu: true,
            ..PathModel::new(rate_mbps, delay_ms).with(Faults {
                loss: f64::from(loss) / 100.0,
                duplication: f64::from(duplication) / 100.0,
                reordering: f64::from(reordering) / 100.0,
                ..Faults::default()
            })
        },
    )
}

fn buffer() -> impl Strategy<Value = Buffer> {
    let bytes = 20_000..400_000u64;
    let auto = (20_000..100_000u64, bytes.clone());
    prop_oneof![
        bytes.prop_map(Buffer::Fixed),
        auto.prop_map(|(initial_bytes, max_bytes)| Buffer::Auto {
            initial_bytes,
            max_bytes
        }),
    ]
}

fn stack() -> impl Strategy<Value = Stack> {
    let names = (
        sample::select(cc::names().collect::<Vec<_>>()),
        sample::select(sched::names().collect::<Vec<_>>()),
        sample::select(path_managers()),
    );
    let start = prop_oneof![Just(Start::Primary), Just(Start::Race)];
    let behaviour = (any::<bool>(), sample::select(reinjections()), start);
    let buffers = (buffer(), buffer());
    (names, buffers, behaviour, any::<[bool; 3]>()).prop_map(
        |(
            (congestion_control, scheduler, path_manager),
            (send, receive),
            behaviour,
            [uses_checksums, has_rack, has_nagle],
        )| {
            let (is_oot, reinjection, start) = behaviour;
            let preset = if is_oot {
                Behaviour::oot()
            } else {
                Behaviour::mainline()
            };
            let mut config = Config {
                uses_checksums,
                start,
                send_buffer: send,
                receive_buffer: receive,
                behaviour: Behaviour {
                    reinjection,
                    // Otherwise a byte stream ends with the last subflow.
                    recreation: Recreation::default(),
                    ..preset
                },
                ..Config::default()
            };
            let subflow = Arc::make_mut(&mut config.subflow);
            (subflow.rack, subflow.nagle) = (has_rack, has_nagle);
            Stack {
                config,
                congestion_control,
                scheduler,
                path_manager,
                ..Stack::default()
            }
        },
    )
}

/// Returns the path managers that need no routers, in the order of their names, which the seeds of
/// failed worlds assume.
fn path_managers() -> Vec<&'static str> {
    let mut names: Vec<_> = pm::names().filter(|one| *one != "binder").collect();
    names.sort_unstable();
    names
}

/// Returns all kinds of reinjection, each after the one that the match names.
fn reinjections() -> Vec<Reinjection> {
    let next = |one: &Reinjection| match one {
        Reinjection::None => Some(Reinjection::OnRto),
        Reinjection::OnRto => Some(Reinjection::OnStale),
        Reinjection::OnStale => Some(Reinjection::OnClose),
        Reinjection::OnClose => Some(Reinjection::Opportunistic),
        Reinjection::Opportunistic => None,
    };
    iter::successors(Some(Reinjection::None), next).collect()
}

fn outage() -> impl Strategy<Value = Outage> {
    (0..4usize, 0..3_000u64, 50..5_000u64, any::<bool>()).prop_map(
        |(path, start_ms, duration_ms, is_told)| Outage {
            path,
            start_ms,
            duration_ms,
            is_told,
        },
    )
}

/// Returns addresses of both families in turn.
fn mixed(path: usize, side: usize) -> IpAddr {
    match path % 2 {
        0 => ipv4(path, side),
        _ => ipv6(path, side),
    }
}

impl Family {
    fn addressing(self) -> Addressing {
        match self {
            Self::Ipv4 => ipv4,
            Self::Ipv6 => ipv6,
            Self::Mixed => mixed,
        }
    }
}

fn world() -> impl Strategy<Value = World> {
    // Rarely, a byte stream ends before its first byte.
    let bytes = prop_oneof![1 => Just(0), 9 => 0..200_000u64];
    let last = prop_oneof![4 => Just(None), 1 => Just(Some(CLIENT)), 1 => Just(Some(SERVER))];
    let family = prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6), Just(Family::Mixed)];
    (
        any::<u32>(),
        proptest::collection::vec(path(), 1..4),
        [stack(), stack()],
        (bytes.clone(), bytes),
        proptest::collection::vec(outage(), 0..3),
        // Bytes are changed in a tenth of the worlds.
        (any::<bool>(), family, 0..10u32, last),
    )
        .prop_map(|(seed, paths, stacks, (upload, download), outages, more)| {
            let (starts_anywhere, family, changes, last) = more;
            let world = World {
                seed: u64::from(seed),
                paths,
                stacks,
                upload,
                download,
                outages,
                last,
                starts_anywhere,
                family,
            };
            match changes {
                0 => world.with_changed_bytes(),
                _ => world,
            }
            .that_can_end()
        })
}

impl World {
    /// Changes a byte in one of a hundred packets, which only the checksums of DSS detect. No such
    /// byte may be delivered.
    fn with_changed_bytes(mut self) -> Self {
        self.paths
            .iter_mut()
            .for_each(|path| path.faults.corruption = 0.01);
        for stack in &mut self.stacks {
            stack.config.uses_checksums = true;
            stack.config.fallback = Fallback::Strict;
        }
        self
    }

    /// Returns whether subflows are closed before the connection ends.
    fn closes_subflows(&self) -> bool {
        let has_changes = self.paths.iter().any(|path| path.faults.corruption > 0.0);
        has_changes || self.outages.iter().any(|outage| outage.is_told)
    }

    /// Makes sure that the connection can end: where subflows are closed, a host must open others
    /// and reinject the data.
    fn that_can_end(mut self) -> Self {
        let closes = self.closes_subflows();
        for stack in self.stacks.iter_mut().filter(|_| closes) {
            stack.path_manager = "full_mesh";
            let reinjection = &mut stack.config.behaviour.reinjection;
            if *reinjection == Reinjection::None {
                *reinjection = Reinjection::OnClose;
            }
        }
        self
    }

    /// Returns the same world with the first path alone, on which nothing closes a subflow, and
    /// with that congestion control.
    fn over_one_path(mut self, congestion_control: &'static str) -> Self {
        self.paths.truncate(1);
        self.paths[0].faults.corruption = 0.0;
        self.outages.clear();
        for stack in &mut self.stacks {
            stack.congestion_control = congestion_control;
            stack.path_manager = "passive";
        }
        self
    }

    /// Returns whether a stack resets a subflow where another falls back.
    fn is_strict(&self) -> bool {
        self.stacks
            .iter()
            .any(|stack| stack.config.fallback == Fallback::Strict)
    }

    /// Retries handshakes so often that losses alone end none. Within a million worlds, six retries
    /// failed in one.
    fn insisting(mut self) -> Self {
        for stack in &mut self.stacks {
            let subflow = Arc::make_mut(&mut stack.config.subflow);
            (subflow.syn_retries.count, subflow.syn_retries.linear) = (20, 20);
        }
        self
    }

    fn pair(&self) -> Pair {
        let stacks = [&self.stacks[CLIENT], &self.stacks[SERVER]];
        let (seed, paths) = (self.seed, self.paths.clone());
        let mut pair = match self.starts_anywhere {
            true => Pair::over_all_paths(seed, paths, stacks, self.family.addressing()),
            false => Pair::addressed(seed, paths, stacks, self.family.addressing()),
        };
        pair.transfer(self.upload, self.download);
        for (number, side) in pair.sides.iter_mut().enumerate() {
            side.takes_changed = true;
            side.sends_last = self.last == Some(number);
        }
        pair
    }
}

/// The disappearance of a peer, for one host or for both: none of its later packets arrives.
#[derive(Clone, Debug)]
struct Vanishing {
    at_ms: u64,
    /// The host at which nothing arrives.
    is_silent: [bool; 2],
    /// Whether keepalives are sent. Without them an idle connection stays open (RFC 9293, section
    /// 3.8.4).
    has_keepalive: bool,
}

fn vanishing() -> impl Strategy<Value = Vanishing> {
    let is_silent = prop::sample::select(&[[true, true], [true, false], [false, true]][..]);
    (0..5_000u64, is_silent, any::<bool>()).prop_map(|(at_ms, is_silent, has_keepalive)| {
        Vanishing {
            at_ms,
            is_silent,
            has_keepalive,
        }
    })
}

/// Longer than data is retransmitted: twice on each possible path, one after the other.
const PATIENCE: Nanos = 3 * 3600 * SECOND;

/// The most packets that both hosts may send to a peer that is gone. Data is retransmitted 15 times
/// on a path (`tcp_retries2`), a DATA_FIN 9 times (`net.mptcp.close_timeout`), and a SYN 6 times,
/// started anew every 30 s while other paths may come back.
const MOST_PACKETS_TO_NOBODY: usize = 3_000;

impl Vanishing {
    fn applied_to(&self, mut world: World) -> Pair {
        for stack in &mut world.stacks {
            let subflow = Arc::make_mut(&mut stack.config.subflow);
            subflow.keepalive = self.has_keepalive.then_some(KEEPALIVE);
        }
        let mut pair = world.pair();
        pair.keeps_log = false;
        let (at, is_silent) = (self.at_ms * MILLISECOND, self.is_silent);
        pair.network
            .middleboxes
            .push(lose(usize::MAX, move |place, _| {
                place.now >= at && is_silent[place.from]
            }));
        pair
    }
}

const KEEPALIVE: Keepalive = Keepalive {
    idle: 60 * SECOND,
    interval: 10 * SECOND,
    probes: 6,
};

fn most(buffer: Buffer) -> u64 {
    match buffer {
        Buffer::Fixed(bytes) => bytes,
        Buffer::Auto {
            initial_bytes,
            max_bytes,
        } => initial_bytes.max(max_bytes),
    }
}

/// Without MPTCP, or after a fallback, a changed byte is not detected.
fn delivers_what_was_sent(pair: &Pair) -> bool {
    let mut sides = pair.sides.iter();
    sides.all(|side| {
        let connection = side.connection.and_then(|id| side.endpoint.connection(id));
        side.changed_bytes == 0 || connection.is_some_and(|it| it.mode() == Mode::Plain)
    })
}

/// Checks that no more is kept than the buffers hold: unacknowledged data, unread data and, in each
/// place where it may wait for a gap, out-of-order data. An automatic send buffer grows for each
/// subflow that ever existed.
fn keep_to_the_buffers(pair: &Pair, stacks: &[Stack; 2]) -> bool {
    pair.sides.iter().zip(stacks).all(|(side, stack)| {
        let connection = side.connection.and_then(|id| side.endpoint.connection(id));
        connection.is_none_or(|connection| {
            let [send, receive] = [stack.config.send_buffer, stack.config.receive_buffer];
            let places = 1 + connection.subflows().count() as u64;
            (matches!(send, Buffer::Auto { .. }) || connection.unacked_bytes() <= most(send))
                && connection.unread_bytes() <= most(receive)
                && connection.out_of_order_bytes() <= places * most(receive)
        })
    })
}

/// Returns whether both connections ended before they could be joined, because a changed byte made
/// a side with [`Fallback::Strict`] reset the only subflow, and the RST with MP_FAIL was lost. The
/// opener then has no proof that its peer knows the keys, without which it may not join (RFC 8684,
/// section 3.1).
fn lost_the_proof(pair: &Pair) -> bool {
    let has_ended = |side: &Side| side.has_closed() && side.received == 0;
    let has_refused = |side: &Side| {
        let connection = side.connection.and_then(|id| side.endpoint.connection(id));
        connection.is_some_and(|connection| connection.counters().failed_checksums > 0)
    };
    pair.sides.iter().all(has_ended) && pair.sides.iter().any(has_refused)
}

/// Cuts and repairs paths at their times, which count from when a connection can live without a
/// path. Returns whether it got that far.
fn play(outages: &[Outage], pair: &mut Pair) -> bool {
    pair.run_until(seconds(600), |pair| {
        pair.is_settled() || lost_the_proof(pair)
    });
    if !pair.is_settled() {
        return false;
    }
    let start = pair.now;
    let paths = pair.network.paths.len();
    let cuts = outages
        .iter()
        .map(|outage| (outage.start_ms, outage, false));
    let repairs = outages
        .iter()
        .map(|outage| (outage.start_ms + outage.duration_ms, outage, true));
    let mut changes: Vec<_> = cuts.chain(repairs).collect();
    changes.sort_by_key(|(at_ms, outage, is_up)| (*at_ms, outage.path, *is_up));
    for (at_ms, outage, is_up) in changes {
        let at = start + at_ms * MILLISECOND;
        pair.run_for(at - pair.now);
        let path = outage.path % paths;
        match outage.is_told {
            true => pair.set_interface(path, CLIENT, is_up),
            false => pair.set_path(path, is_up),
        }
    }
    true
}

proptest! {
    // The seeds of worlds that failed are in a file beside this one, and run first.
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("seeds"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn streams_arrive_whole(world in world().prop_map(World::insisting)) {
        let mut pair = world.pair();
        pair.keeps_log = false;
        if !play(&world.outages, &mut pair) {
            prop_assert!(world.is_strict());
            return Ok(());
        }
        while pair.sides.iter().any(|side| side.finished_at.is_none()) {
            pair.run_for(100 * MILLISECOND);
            prop_assert!(keep_to_the_buffers(&pair, &world.stacks));
            prop_assert!(delivers_what_was_sent(&pair));
            prop_assert!(pair.now < seconds(3600));
        }
        pair.run_to_the_end(seconds(3600));
        prop_assert_eq!(pair.sides[SERVER].received, world.upload);
        prop_assert_eq!(pair.sides[CLIENT].received, world.download);
        // The last acknowledgment may be lost with the last subflow. Then one host cannot know that
        // everything has arrived.
        let may_be_unsure = world.closes_subflows();
        let in_order = |event: &Event| *event == Event::Closed { reason: CloseReason::Finished };
        let sure = pair.sides.iter().filter(|side| side.has_seen(in_order)).count();
        prop_assert!(sure == 2 || (sure == 1 && may_be_unsure));
    }
    /// RFC 9293, section 3.8.3; RFC 8684, section 3.3.3. Whatever happens to the peer, the number
    /// of packets is bounded, and a connection with data to send or with keepalives ends.
    #[test]
    fn every_connection_ends_when_its_peer_is_gone(world in world(), vanishing in vanishing()) {
        let mut pair = vanishing.applied_to(world);
        pair.run_for(vanishing.at_ms * MILLISECOND);
        let before = pair.packets;
        pair.run_for(PATIENCE);
        prop_assert!(pair.packets - before < MOST_PACKETS_TO_NOBODY, "{} packets", pair.packets - before);
        prop_assert!(pair.last_packet_at < pair.now - PATIENCE / 3, "{} s ago", (pair.now - pair.last_packet_at) / SECOND);
        if vanishing.has_keepalive {
            for side in &pair.sides {
                prop_assert!(side.has_closed() || side.connection.is_none());
                prop_assert_eq!(side.endpoint.poll_timeout(), None);
            }
        }
    }
    /// RFC 6356, section 3: with one subflow it equals TCP, in every packet.
    #[test]
    fn with_one_subflow_the_coupled_controls_send_what_reno_sends(
        world in world().prop_map(World::insisting),
        coupled in prop::sample::select(&["lia", "olia", "balia", "coupled", "semicoupled"][..]),
    ) {
        let sent = |control| {
            let mut pair = world.clone().over_one_path(control).pair();
            pair.run_to_the_end(seconds(3600));
            pair.log
        };
        prop_assert!(sent(coupled) == sent("reno"));
    }
}
