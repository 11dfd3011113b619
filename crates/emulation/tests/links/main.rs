//! The links of an experiment as both back-ends call them. The simulator polls a link whenever it
//! asks for it. The emulator polls it when its thread comes to it, and offers packets before that.

#[path = "../../../experiment/tests/complete/mod.rs"]
mod complete;
#[allow(dead_code, reason = "shared with the tests of plain links")]
#[path = "../link/driver.rs"]
mod driver;
mod media;
#[allow(dead_code, reason = "shared with the tests of access networks")]
#[path = "../access/networks.rs"]
mod networks;

use emulation::link::{DropReason, Enqueued};
use emulation::links::{Arrival, LinkState, Links};
use experiment::resolved::{Access, Action, Experiment};
use experiment::rng::Generator;
use experiment::time::Nanos;

use driver::{Datagram, MILLISECOND, SECOND};
use media::LINKS;

/// What happens to the links at an instant that both callers know.
#[derive(Clone, Debug)]
enum Input {
    Offer { direction: usize, bytes: u32 },
    Cut { link: usize, up: bool },
    DropRule { link: usize, on: bool },
    Change { link: usize, divisor: u64 },
    Disturb { link: usize, action: Action },
}

/// When the links are called without an input.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    /// As the simulator does: at each instant that they name.
    Prompt,
    /// As the emulator does: now and then, after they were due, and for their counters.
    Late,
}

/// What became of a packet that was offered: its number, direction, and arrival or reason.
type Fate = (u64, usize, Result<Nanos, DropReason>);

struct Caller {
    manner: Manner,
    experiment: Experiment,
    links: Links<Datagram>,
    offered: u64,
    fates: Vec<Fate>,
    delays: Generator,
}

impl Caller {
    fn new(manner: Manner, experiment: &Experiment, seed: u64) -> Self {
        Self {
            manner,
            experiment: experiment.clone(),
            links: Links::new(experiment, seed).expect("valid links"),
            offered: 0,
            fates: Vec::new(),
            delays: Generator::new(seed, "delays of the caller"),
        }
    }

    fn take(&mut self, now: Nanos, input: &Input) {
        match self.manner {
            Manner::Prompt => self.poll_until(now),
            Manner::Late => self.poll_late(now),
        }
        match input {
            Input::Offer { direction, bytes } => self.offer(now, *direction, *bytes),
            Input::Cut { link, up } => self.links.set_up(now, *link, *up),
            Input::DropRule { link, on } => self.links.set_drop_rule(*link, *on),
            Input::Change { link, divisor } => self.change(now, *link, *divisor),
            Input::Disturb { link, action } => self.links.disturb(now, *link, action),
        }
        self.check_ledger();
    }

    fn offer(&mut self, now: Nanos, direction: usize, bytes: u32) {
        let packet = Datagram {
            id: self.offered,
            bytes,
            flow: u64::from(bytes % 3),
            sent: now,
        };
        self.offered += 1;
        let id = packet.id;
        if let Enqueued::Dropped(reason) = self.links.offer(now, direction, packet) {
            self.fates.push((id, direction, Err(reason)));
        }
    }

    fn change(&mut self, now: Nanos, link: usize, divisor: u64) {
        let of = &self.experiment.links[link];
        let [forward, backward] = [&of.forward, &of.backward].map(|direction| {
            let mut slower = direction.clone();
            slower.rate_bps = direction.rate_bps.map(|rate| rate / divisor);
            slower
        });
        let changed = self.links.reconfigure(now, link, &forward, &backward);
        changed.expect("valid directions");
    }

    /// Polls each channel at the instants that it names.
    fn poll_until(&mut self, now: Nanos) {
        for channel in 0..self.links.channel_count() {
            while let Some(at) = self.links.next_departure(channel).filter(|at| *at <= now) {
                self.poll(at, channel);
            }
        }
    }

    /// Polls each channel that was due at some time before, and sometimes reads the counters.
    fn poll_late(&mut self, now: Nanos) {
        for channel in 0..self.links.channel_count() {
            let is_due = self
                .links
                .next_departure(channel)
                .is_some_and(|at| at <= now);
            if is_due && self.delays.chance(0.3) {
                self.poll(now, channel);
            }
        }
        if self.delays.chance(0.1) {
            self.links.advance(now);
        }
    }

    fn poll(&mut self, now: Nanos, channel: usize) {
        while let Some(arrival) = self.links.poll(now, channel) {
            self.fates.push(match arrival {
                Arrival::Delivered {
                    direction,
                    packet,
                    at,
                } => (packet.id, direction, Ok(at)),
                Arrival::Dropped {
                    direction,
                    packet,
                    reason,
                } => (packet.id, direction, Err(reason)),
            });
        }
    }

    fn check_ledger(&self) {
        for direction in 0..2 * LINKS.len() {
            let state = self.links.state(direction);
            let gone = state.delivered_packets + state.dropped.iter().sum::<u64>();
            let inside = state.queue_packets + state.in_flight_packets;
            assert_eq!(state.offered_packets, gone + inside, "{state:?}");
        }
    }

    /// Returns the fates in the order of the packets, those of each direction in the order in which
    /// they arrived, and the counters at `end`.
    fn finish(mut self, end: Nanos) -> (Vec<Fate>, Vec<Fate>, Vec<LinkState>) {
        match self.manner {
            Manner::Prompt => self.poll_until(end),
            Manner::Late => (0..self.links.channel_count()).for_each(|one| self.poll(end, one)),
        }
        self.links.advance(end);
        self.check_ledger();
        let states = (0..2 * LINKS.len()).map(|direction| self.links.state(direction));
        let states = states.collect();
        let mut arrived = self.fates.clone();
        arrived.retain(|(.., fate)| fate.is_ok());
        // A stable sort by direction keeps the order of arrival.
        arrived.sort_by_key(|(_, direction, _)| *direction);
        self.fates.sort_by_key(|(id, ..)| *id);
        (self.fates, arrived, states)
    }
}

/// Returns inputs at ascending instants: bursts and single packets in all directions, and now and
/// then an outage, a new rate, or what an event makes of the access network.
fn inputs(experiment: &Experiment, seed: u64) -> Vec<(Nanos, Input)> {
    let mut draw = Generator::new(seed, "inputs");
    let mut now = 0;
    let mut inputs = Vec::new();
    let mut is_up = [true; LINKS.len()];
    let mut has_rule = [false; LINKS.len()];
    for _ in 0..150 {
        let longest = [1, 2 * MILLISECOND, 60 * MILLISECOND][draw.below(3) as usize];
        now += draw.below(longest);
        let link = draw.below(2) as usize;
        let mut add = |input| inputs.push((now, input));
        match draw.below(40) {
            0 => {
                is_up[link] = !is_up[link];
                add(Input::Cut {
                    link,
                    up: is_up[link],
                });
            }
            1 => {
                has_rule[link] = !has_rule[link];
                add(Input::DropRule {
                    link,
                    on: has_rule[link],
                });
            }
            2 | 3 => {
                let divisor = 1 + draw.below(4);
                add(Input::Change { link, divisor });
            }
            4 | 5 => {
                if let Some(action) = disturbance(experiment, link, &mut draw) {
                    add(Input::Disturb { link, action });
                }
            }
            _ => {
                let direction = draw.below(4) as usize;
                let packets = [1, 1, 3, 30][draw.below(4) as usize];
                for _ in 0..packets {
                    let bytes = 40 + draw.below(1461) as u32;
                    add(Input::Offer { direction, bytes });
                }
            }
        }
    }
    inputs
}

/// Returns the action of an event for the access network of a link, if there is one.
fn disturbance(experiment: &Experiment, link: usize, draw: &mut Generator) -> Option<Action> {
    let link = LINKS[link].to_owned();
    let (gap_ns, is_first) = (draw.below(80 * MILLISECOND), draw.chance(0.5));
    let mut access = experiment.access.iter();
    match access.find(|access| access.carries(&link))? {
        Access::Wifi(_) if is_first => Some(Action::Roam { link, gap_ns }),
        Access::Wifi(_) => Some(Action::SetSignal {
            link,
            mean_mdb: draw.below(25_000) as i64,
        }),
        Access::Cellular(_) => Some(Action::Handover {
            link,
            gap_ns,
            forward_queue: is_first,
        }),
        Access::Leo(_) | Access::Cable(_) => None,
    }
}

/// P1. The same packets at the same instants have the same fates and the same order in both
/// back-ends, over everything that can carry packets.
#[test]
fn packets_offered_at_the_same_instants_have_the_same_fates_in_both_back_ends() {
    for carried in media::all() {
        for seed in 0..24 {
            let experiment = &carried.experiment;
            let inputs = inputs(experiment, seed);
            let play = |manner| {
                let mut caller = Caller::new(manner, experiment, seed);
                for (now, input) in &inputs {
                    caller.take(*now, input);
                }
                caller.finish(inputs[inputs.len() - 1].0 + 60 * SECOND)
            };
            let [simulated, emulated] = [Manner::Prompt, Manner::Late].map(play);
            assert_eq!(simulated, emulated, "{}, seed {seed}", carried.by);
        }
    }
}

/// A packet that is read late would have joined a transmission that has begun since.
#[test]
fn a_transmission_is_missed_if_it_began_with_room_before_a_packet_of_its_direction_was_read() {
    let is_n = |carried: &media::Carried| carried.by.starts_with("wifi n ");
    let carried = media::all().into_iter().find(is_n).expect("a network of n");
    let mut experiment = carried.experiment;
    let Access::Wifi(air) = &mut experiment.access[0] else {
        panic!("{} is no Wi-Fi", carried.by);
    };
    air.neighbours.clear();
    air.stations[1].scan = None;
    let mut caller = Caller::new(Manner::Prompt, &experiment, 1);
    // The uplink of the second link, whose rate is fixed.
    let direction = 2;
    caller.offer(SECOND, direction, 1000);
    let missed = |caller: &mut Caller, direction, since| {
        let now = SECOND + MILLISECOND;
        caller.links.missed_transmission(now, direction, since)
    };
    assert_eq!(missed(&mut caller, direction, SECOND - 1), Some(SECOND));
    assert_eq!(
        missed(&mut caller, direction, SECOND),
        None,
        "it was read before"
    );
    assert_eq!(
        missed(&mut caller, direction ^ 1, SECOND - 1),
        None,
        "the other direction"
    );
    // A transmission with all packets that it may hold has no room for another one.
    let mut caller = Caller::new(Manner::Prompt, &experiment, 1);
    for _ in 0..60 {
        caller.offer(SECOND, direction, 1500);
    }
    let start = (0..1000).find_map(|step| {
        let now = SECOND + step * MILLISECOND / 10;
        caller.links.missed_transmission(now, direction, SECOND)
    });
    let start = start.expect("the last transmission has room");
    assert!(
        start > SECOND + 10 * MILLISECOND,
        "the first ones are full: {start}"
    );
}

/// Every carrier has a world in which something happens to it.
#[test]
fn every_carrier_delivers_packets_in_these_worlds() {
    for carried in media::all() {
        let mut caller = Caller::new(Manner::Prompt, &carried.experiment, 1);
        let inputs = inputs(&carried.experiment, 1);
        for (now, input) in &inputs {
            caller.take(*now, input);
        }
        let (fates, arrived, states) = caller.finish(inputs[inputs.len() - 1].0 + 60 * SECOND);
        assert_eq!(
            fates.len() as u64,
            states.iter().map(|one| one.offered_packets).sum::<u64>()
        );
        assert!(arrived.len() > 100, "{}: {}", carried.by, arrived.len());
    }
}
