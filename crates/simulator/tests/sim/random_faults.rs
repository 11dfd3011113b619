//! Whatever fails at any time, bytes arrive in order and once, packets are accounted for, and
//! finite flows end.

use std::fs;

use experiment::features::{BackEnd, Feature};
use experiment::run::Run as _;
use mptcp::{cc, pm, sched};
use proptest::prelude::*;
use proptest::sample;
use serde_json::{Value, json};
use simulator::QueueKind;

use crate::complete::carriers;
use crate::experiments::{
    MS, Run, SECOND, add_event, add_flow, add_host, add_link, empty, finish, path_over, set_jitter,
    start,
};

/// A random experiment: client and server, and links, flows and faults between them.
#[derive(Clone, Debug)]
struct World {
    seed: u64,
    links: Vec<Link>,
    flows: Vec<Flow>,
    faults: Vec<Fault>,
}

#[derive(Clone, Debug)]
struct Link {
    /// `None` is a serializer of its own.
    carrier: Option<Feature>,
    rate_kbps: u64,
    delay_ms: u64,
    loss_percent: u32,
    queue_packets: u64,
}

#[derive(Clone, Debug)]
struct Flow {
    transport: &'static str,
    app: App,
    cc: &'static str,
    scheduler: &'static str,
    path_manager: &'static str,
    first_link: usize,
}

#[derive(Clone, Copy, Debug)]
struct App {
    kind: Feature,
    bytes: u64,
}

/// A fault for some time.
#[derive(Clone, Debug)]
struct Fault {
    what: What,
    link: usize,
    at_ms: u64,
    duration_ms: u64,
}

macro_rules! faults {
    ($($variant:ident),*) => {
        #[derive(Clone, Copy, Debug)]
        enum What {
            $($variant),*
        }

        impl What {
            const ALL: &[Self] = &[$(Self::$variant),*];
        }
    };
}

// `Moved` and `Faded` need an access network, and otherwise are an outage and another rate.
faults! { ClientDown, ServerDown, Cut, DropRule, AddressLost, Backup, Slow, Moved, Faded }

/// Returns the features of a kind that the simulator has.
fn features(kind: &str) -> impl Strategy<Value = Feature> + use<> {
    let features = Feature::of_kind(kind);
    let here = features.filter(|one| one.lacking(BackEnd::Simulator).is_none());
    sample::select(here.collect::<Vec<_>>())
}

fn link() -> impl Strategy<Value = Link> {
    let carrier = prop::option::of(sample::select(carriers::all()));
    (carrier, 500..20_000u64, 1..60u64, 0..3u32, 10..100u64).prop_map(
        |(carrier, rate_kbps, delay_ms, loss_percent, queue_packets)| Link {
            carrier,
            rate_kbps,
            delay_ms,
            loss_percent,
            queue_packets,
        },
    )
}

fn app() -> impl Strategy<Value = App> {
    (features("app"), 1..100_000u64).prop_map(|(kind, bytes)| App { kind, bytes })
}

fn flow() -> impl Strategy<Value = Flow> {
    (
        features("transport"),
        app(),
        sample::select(cc::names().collect::<Vec<_>>()),
        sample::select(sched::names().collect::<Vec<_>>()),
        sample::select(pm::names().collect::<Vec<_>>()),
        0..4usize,
    )
        .prop_map(
            |(transport, app, cc, scheduler, path_manager, first_link)| Flow {
                transport: transport.short_name(),
                // Datagrams are neither answered nor counted.
                app: match transport {
                    Feature::TransportUdp => App {
                        kind: Feature::AppCbr,
                        ..app
                    },
                    _ => app,
                },
                cc,
                scheduler,
                path_manager,
                first_link,
            },
        )
}

fn fault() -> impl Strategy<Value = Fault> {
    let what = sample::select(What::ALL);
    (what, 0..4usize, 0..4_000u64, 1..3_000u64).prop_map(|(what, link, at_ms, duration_ms)| Fault {
        what,
        link,
        at_ms,
        duration_ms,
    })
}

fn world() -> impl Strategy<Value = World> {
    (
        0..1_000u64,
        proptest::collection::vec(link(), 1..4),
        proptest::collection::vec(flow(), 1..3),
        proptest::collection::vec(fault(), 0..4),
    )
        .prop_map(|(seed, links, flows, faults)| World {
            seed,
            links,
            flows,
            faults,
        })
}

impl World {
    /// Returns the experiment as every back-end gets it.
    fn experiment(&self) -> Value {
        let mut experiment = empty();
        experiment["duration_ns"] = json!(600 * SECOND);
        experiment["measure"]["every_ns"] = json!(60 * SECOND);
        add_host(&mut experiment, "client");
        add_host(&mut experiment, "server");
        if !self.seed.is_multiple_of(3) {
            let times = |factor: u64| [20, 50, 140, 350].map(|us| us * 1_000 * factor);
            set_jitter(&mut experiment, times(1 + self.seed % 20));
        }
        for (index, link) in self.links.iter().enumerate() {
            add_link(&mut experiment, &name(index), "client", "server");
            for direction in ["forward", "backward"] {
                link.write(&mut experiment["links"][index][direction]);
            }
        }
        for carrier in carriers::all() {
            let links = self.links.iter().enumerate();
            let carried = links.filter(|(_, link)| link.carrier == Some(carrier));
            let carried: Vec<_> = carried.map(|(index, _)| index).collect();
            carriers::carry(&mut experiment, carrier, &carried, self.seed);
        }
        for (index, flow) in self.flows.iter().enumerate() {
            flow.add(&mut experiment, index, self.links.len());
        }
        let mut changes: Vec<_> = self
            .faults
            .iter()
            .flat_map(|fault| fault.changes(&experiment["links"], &self.links))
            .collect();
        changes.sort_by_key(|(at_ms, _)| *at_ms);
        for (at_ms, action) in changes {
            add_event(&mut experiment, at_ms * MS, action);
        }
        experiment
    }

    /// Returns whether all seven SYNs, or the answers to them, can be lost: the last of them leaves
    /// within eleven seconds, and both an outage and random losses take some.
    fn may_never_connect(&self) -> bool {
        let has_losses = self.links.iter().any(Link::may_lose);
        let silences = |what| !matches!(what, What::Backup | What::Slow);
        let mut faults = self.faults.iter();
        has_losses && faults.any(|fault| silences(fault.what) && fault.at_ms < 11_000)
    }

    /// Returns whether an address is lost before both hosts can know the keys. Then the connection
    /// is lost with its only path.
    fn may_end_early(&self, established_ns: Option<u64>) -> bool {
        // The back-off lasts for as long again as a path was silent.
        let silent_ms: u64 = self.faults.iter().map(|fault| fault.duration_ms).sum();
        // A device connects, or a station is away, once for each direction.
        let access_ms = if self.links.iter().any(Link::may_lose) {
            4000
        } else {
            0
        };
        let exchange_ms = 500 + access_ms + 2 * silent_ms;
        let known_ms = established_ns.map_or(u64::MAX, |at_ns| at_ns / MS + exchange_ms);
        let takes_address = |what| {
            matches!(
                what,
                What::ClientDown | What::ServerDown | What::AddressLost
            )
        };
        self.faults
            .iter()
            .any(|fault| takes_address(fault.what) && fault.at_ms < known_ms)
    }
}

fn name(link: usize) -> String {
    format!("link{link}")
}

impl Link {
    /// Returns whether packets can be lost even without a fault.
    fn may_lose(&self) -> bool {
        self.loss_percent > 0 || self.carrier.is_some()
    }

    fn write(&self, direction: &mut Value) {
        direction["rate_bps"] = json!(self.rate_kbps * 1000);
        direction["delay_ns"] = json!(self.delay_ms * MS);
        direction["queue"]["limit_packets"] = json!(self.queue_packets);
        if self.loss_percent > 0 {
            let probability = f64::from(self.loss_percent) / 100.0;
            direction["loss"] = json!({"kind": "bernoulli", "probability": probability});
        }
    }
}

impl Flow {
    fn add(&self, experiment: &mut Value, index: usize, links: usize) {
        let first = self.first_link % links;
        add_flow(
            experiment,
            &format!("flow{index}"),
            &[&name(first)],
            self.app.json(),
        );
        let flow = &mut experiment["flows"][index];
        flow["transport"] = json!(self.transport);
        if self.transport == "udp" {
            return;
        }
        flow["cc"] = json!([self.cc]);
        if self.transport == "mptcp" {
            flow["scheduler"] = json!([self.scheduler]);
            flow["path_manager"] = json!([{"name": self.path_manager}]);
            let ways = (first..links).chain(0..first);
            flow["paths"] = ways.map(|link| path_over(&name(link))).collect();
        }
    }
}

impl App {
    fn json(self) -> Value {
        let bytes = self.bytes;
        let mut app = match self.kind {
            Feature::AppBulk => json!({"bytes": bytes, "duration_ns": null}),
            Feature::AppCbr => {
                json!({"rate_bps": 50_000 + 10 * bytes, "size_bytes": 500, "duration_ns": 2 * SECOND})
            }
            Feature::AppProbe => {
                json!({"every_ns": 50 * MS, "size_bytes": 64, "duration_ns": 2 * SECOND})
            }
            Feature::AppRequestResponse => {
                json!({"request_bytes": 200, "response_bytes": 5_000, "count": 1 + bytes % 9, "duration_ns": null})
            }
            Feature::AppShortFlows => {
                json!({"bytes": bytes, "every_ns": null, "poisson_mean_ns": 20 * SECOND})
            }
            Feature::AppStreaming => json!({"bitrate_bps": 1 + bytes, "startup_ns": 2 * SECOND}),
            Feature::AppVideo => {
                json!({"bitrates_bps": [50_000, 200_000], "segment_ns": SECOND, "buffer_ns": 4 * SECOND,
                    "startup_ns": 2 * SECOND, "length_ns": 10 * SECOND})
            }
            other => panic!("{} has no settings here", other.name()),
        };
        app["kind"] = json!(self.kind.short_name());
        app
    }

    /// Returns whether it ends by itself.
    fn is_finite(self) -> bool {
        !matches!(self.kind, Feature::AppShortFlows | Feature::AppStreaming)
    }
}

impl Fault {
    /// Returns when it begins and when it ends, with the actions.
    fn changes(&self, links: &Value, drawn: &[Link]) -> [(u64, Value); 2] {
        let link = self.link % drawn.len();
        let (id, now, carrier) = (name(link), &links[link], drawn[link].carrier);
        let of =
            |kind: &str, node: &str| json!({"kind": kind, "interface": format!("{node}.{id}")});
        let service = |kind: &str, by: &str| json!({"kind": kind, "link": id, "by": by});
        let rate = |divisor: u64| {
            let mut action = json!({"kind": "set_link", "link": id, "forward": now["forward"], "backward": now["backward"]});
            // A trace has its rates in it.
            if let Some(rate) = now["forward"]["rate_bps"].as_u64() {
                action["forward"]["rate_bps"] = json!(rate / divisor);
            }
            action
        };
        let backup =
            |on: bool| json!({"kind": "set_backup", "interface": format!("client.{id}"), "on": on});
        let gap_ns = self.duration_ms * MS / 10;
        let handover =
            json!({"kind": "handover", "link": id, "gap_ns": gap_ns, "forward_queue": link == 0});
        let roam = json!({"kind": "roam", "link": id, "gap_ns": gap_ns});
        let signal =
            |mean_mdb: i64| json!({"kind": "set_signal", "link": id, "mean_mdb": mean_mdb});
        let [begin, end] = match self.what {
            What::Moved if carrier == Some(Feature::Cellular) => [handover.clone(), handover],
            What::Moved if carrier == Some(Feature::Wifi) => [roam.clone(), roam],
            What::Moved => ["link_down", "link_up"].map(|kind| service(kind, "cut")),
            What::Faded if carrier == Some(Feature::Wifi) => [-10_000, 25_000].map(signal),
            What::Faded => [8, 1].map(rate),
            What::ClientDown => ["interface_down", "interface_up"].map(|kind| of(kind, "client")),
            What::ServerDown => ["interface_down", "interface_up"].map(|kind| of(kind, "server")),
            What::Cut => ["link_down", "link_up"].map(|kind| service(kind, "cut")),
            What::DropRule => ["link_down", "link_up"].map(|kind| service(kind, "drop_rule")),
            What::AddressLost => ["address_remove", "address_add"].map(|kind| of(kind, "client")),
            What::Backup => [true, false].map(backup),
            What::Slow => [4, 1].map(rate),
        };
        [(self.at_ms, begin), (self.at_ms + self.duration_ms, end)]
    }
}

/// Checks that packets that were given to links and neither delivered nor dropped are still in
/// them.
fn assert_accounted(run: &Run) -> Result<(), TestCaseError> {
    let left: u64 = run
        .summary
        .links
        .iter()
        .map(|link| {
            let dropped = link.dropped_queue_full
                + link.dropped_aqm
                + link.dropped_loss
                + link.dropped_link_down
                + link.dropped_retries;
            link.offered_packets - link.delivered_packets - dropped
        })
        .sum();
    let in_flight = run.total("in_flight_packets");
    prop_assert_eq!(left as f64, run.total("queue_packets") + in_flight);
    prop_assert!(run.total("held_packets") <= in_flight);
    Ok(())
}

fn holds(world: &World, experiment: &Value) -> Result<(), TestCaseError> {
    let run = |queue| {
        let directory = tempfile::tempdir().expect("a directory");
        let mut simulation = start(experiment, world.seed, directory.path(), queue);
        simulation.advance(u64::MAX).expect("a run");
        finish(simulation, directory.path())
    };
    let calendar = run(QueueKind::Calendar);
    for (flow, drawn) in calendar.summary.flows.iter().zip(&world.flows) {
        let connects_never = flow.established_ns.is_none() && world.may_never_connect();
        if flow.error.is_some() && (connects_never || world.may_end_early(flow.established_ns)) {
            continue;
        }
        prop_assert_eq!(&flow.error, &None, "{}", &flow.id);
        prop_assert_eq!(flow.end_ns.is_some(), drawn.app.is_finite(), "{}", &flow.id);
        if drawn.app.kind == Feature::AppBulk {
            prop_assert_eq!(flow.bytes, drawn.app.bytes);
        }
    }
    assert_accounted(&calendar)?;
    if world.seed.is_multiple_of(8) {
        let heap = run(QueueKind::Heap);
        prop_assert_eq!(heap.summary.trace_hash, calendar.summary.trace_hash);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_faults_spoil_nothing(world in world()) {
        let experiment = world.experiment();
        holds(&world, &experiment).map_err(|failure| {
            // The last case of shrinking stays in the file; `mptcplab run FILE --seed SEED` repeats
            // it.
            let file = std::env::temp_dir().join("mptcplab-random-fault.json");
            fs::write(&file, experiment.to_string()).expect("a file");
            TestCaseError::fail(format!("{failure}: {} with seed {}", file.display(), world.seed))
        })?;
    }
}
