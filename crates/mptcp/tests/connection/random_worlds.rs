//! Whatever the paths do, both streams arrive whole, in order and once, and both sides end.

use std::sync::Arc;

use mptcp::connection::{Buffer, Config, Event, Start};
use mptcp::failure::{Behaviour, Reinjection};
use mptcp::subflow::CloseReason;
use mptcp::time::MILLISECOND;
use mptcp::{cc, sched};
use proptest::prelude::*;

use crate::world::{CLIENT, Faults, Pair, PathModel, SERVER, Stack, seconds};

/// A world as it is drawn.
#[derive(Clone, Debug)]
struct World {
    seed: u64,
    paths: Vec<PathModel>,
    stacks: [Stack; 2],
    upload: u64,
    download: u64,
    outages: Vec<Outage>,
    /// Whether the client knows of the other paths when it opens the connection.
    starts_anywhere: bool,
}

/// A path that is cut for a while.
#[derive(Clone, Debug)]
struct Outage {
    path: usize,
    start_ms: u64,
    duration_ms: u64,
    /// The client's interface goes down with it, so that its path manager hears of it; else nobody does.
    is_told: bool,
}

fn path() -> impl Strategy<Value = PathModel> {
    let faults = (0..5u32, 0..3u32, 0..3u32);
    (1..50u64, 1..100u64, faults).prop_map(
        |(rate_mbps, delay_ms, (loss, duplication, reordering))| {
            PathModel::new(rate_mbps, delay_ms).with(Faults {
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
    let names = (0..cc::CONGESTION_CONTROLS.len(), 0..sched::SCHEDULERS.len());
    let start = prop_oneof![Just(Start::Primary), Just(Start::Race)];
    let behaviour = (any::<bool>(), 0..REINJECTIONS.len(), start);
    let buffers = (buffer(), buffer());
    (names, buffers, any::<bool>(), behaviour, any::<[bool; 2]>()).prop_map(
        |(
            (control, scheduler),
            (send, receive),
            uses_checksums,
            behaviour,
            [has_rack, has_nagle],
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
                    reinjection: REINJECTIONS[reinjection],
                    ..preset
                },
                ..Config::default()
            };
            let subflow = Arc::make_mut(&mut config.subflow);
            (subflow.rack, subflow.nagle) = (has_rack, has_nagle);
            Stack {
                config,
                congestion_control: cc::CONGESTION_CONTROLS[control].0,
                scheduler: sched::SCHEDULERS[scheduler].0,
                ..Stack::default()
            }
        },
    )
}

const REINJECTIONS: [Reinjection; 5] = [
    Reinjection::None,
    Reinjection::OnRto,
    Reinjection::OnStale,
    Reinjection::OnClose,
    Reinjection::Opportunistic,
];

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

fn world() -> impl Strategy<Value = World> {
    let bytes = 0..200_000u64;
    (
        any::<u32>(),
        proptest::collection::vec(path(), 1..4),
        [stack(), stack()],
        bytes.clone(),
        bytes,
        (proptest::collection::vec(outage(), 0..3), any::<bool>()),
    )
        .prop_map(|(seed, paths, mut stacks, upload, download, more)| {
            let (outages, starts_anywhere) = more;
            // Who never sends again elsewhere loses what a closed subflow had.
            let closes = outages.iter().any(|outage: &Outage| outage.is_told);
            for stack in &mut stacks {
                let reinjection = &mut stack.config.behaviour.reinjection;
                if closes && *reinjection == Reinjection::None {
                    *reinjection = Reinjection::OnClose;
                }
            }
            World {
                seed: u64::from(seed),
                paths,
                stacks,
                upload,
                download,
                outages,
                starts_anywhere,
            }
        })
}

/// Cuts and repairs paths at their times, which count from when a connection can live without a path.
fn play(outages: &[Outage], pair: &mut Pair) {
    pair.run_until(seconds(600), |pair| pair.is_settled());
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
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streams_arrive_whole(world in world()) {
        let stacks = [&world.stacks[CLIENT], &world.stacks[SERVER]];
        let mut pair = match world.starts_anywhere {
            true => Pair::over_all_paths(world.seed, world.paths.clone(), stacks),
            false => Pair::of(world.seed, world.paths.clone(), stacks),
        };
        pair.transfer(world.upload, world.download);
        play(&world.outages, &mut pair);
        pair.run_to_the_end(seconds(3600));
        prop_assert_eq!(pair.sides[SERVER].received, world.upload);
        prop_assert_eq!(pair.sides[CLIENT].received, world.download);
        // The last acknowledgment may be lost with the last interface: then one side cannot know that all has arrived.
        let may_be_unsure = world.outages.iter().any(|outage| outage.is_told);
        let in_order = |event: &Event| *event == Event::Closed { reason: CloseReason::Finished };
        let sure = pair.sides.iter().filter(|side| side.has_seen(in_order)).count();
        prop_assert!(sure == 2 || (sure == 1 && may_be_unsure));
    }
}
