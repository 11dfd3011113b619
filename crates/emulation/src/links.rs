//! The links of an experiment: the channels that carry them, and changes to them during a run.
//!
//! Directions 2k and 2k + 1 are forward and backward of link k, in the order of the experiment.

use std::collections::HashMap;

use experiment::resolved::{
    self, Access, Action, Direction, Experiment, HopDirection, InvalidDirection,
};
use experiment::rng::Generator;
use experiment::samples::metrics;
use experiment::time::{Nanos, seconds};

use crate::link::{
    AccessCounters, Channel, Disturbance, DropReason, Enqueued, Output, Packet, StationGenerators,
    StationId,
};

/// The fate of a packet that a link had accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<P> {
    /// The packet reached the end of the direction.
    Delivered {
        /// The direction the packet took.
        direction: usize,
        /// The packet.
        packet: P,
        /// When the packet arrived.
        at: Nanos,
    },
    /// The packet was dropped on the way.
    Dropped {
        /// The direction the packet took.
        direction: usize,
        /// The packet.
        packet: P,
        /// Why the packet was dropped.
        reason: DropReason,
    },
}

/// Counters and gauges of a link direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// Bytes that left the serializer, overhead included.
    pub wire_bytes: u64,
    /// Packets that left the serializer.
    pub wire_packets: u64,
    /// Bytes queued.
    pub queue_bytes: u64,
    /// Packets queued.
    pub queue_packets: u64,
    /// Packets offered to the link.
    pub offered_packets: u64,
    /// Packets that arrived at the far end.
    pub delivered_packets: u64,
    /// Packets dropped for each reason, in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Packets in service or in the delay line.
    pub in_flight_packets: u64,
    /// Counters of the access network, if the direction is on one.
    pub access: Option<AccessCounters>,
}

impl LinkState {
    /// Returns the values of [`metrics::LINK`].
    pub fn values(&self) -> [f64; metrics::LINK.len()] {
        let [queue_full, aqm, loss, link_down, _] = self.dropped;
        [
            self.wire_bytes,
            self.wire_packets,
            self.queue_bytes,
            self.queue_packets,
            self.offered_packets,
            self.delivered_packets,
            queue_full,
            aqm,
            loss,
            link_down,
            self.in_flight_packets,
        ]
        .map(|value| value as f64)
    }

    /// Returns the values of [`metrics::ACCESS`], if the direction is on an access network.
    pub fn access_values(&self) -> Option<[f64; metrics::ACCESS.len()]> {
        let access = self.access?;
        Some([
            seconds(access.air_time),
            access.exchanges as f64,
            access.aggregated_packets as f64,
            access.retried_packets as f64,
            self.dropped[DropReason::Retries as usize] as f64,
            access.held_packets as f64,
            f64::from(access.radio_state),
            access.handovers as f64,
        ])
    }
}

/// One direction of a link.
struct Lane {
    channel: u32,
    station: StationId,
    has_drop_rule: bool,
    dropped_by_rule: u64,
}

struct Link {
    /// The factor that the seed applies to the delay, in millionths.
    delay_ppm: u64,
}

/// The links of an experiment.
pub struct Links<P> {
    links: Vec<Link>,
    lanes: Vec<Lane>,
    channels: Vec<Channel<P>>,
    /// Direction by channel and station, for channels that several directions share. They come
    /// first: those of media, then those of access networks of one link.
    shared: Vec<Vec<u32>>,
    /// Direction by channel, for the channels after the shared ones.
    alone: Vec<u32>,
}

impl<P: Packet> Links<P> {
    /// Returns the links of a valid experiment, varied by `seed`. There is one channel per medium,
    /// then one per link with an access network of its own, then one per direction of every other
    /// link.
    ///
    /// # Errors
    /// Fails if the link model refuses a direction.
    pub fn new(experiment: &Experiment, seed: u64) -> Result<Self, InvalidDirection> {
        let vary = |link| varied(link, experiment.vary.rtt_ppm, seed);
        let mut links = Self {
            links: experiment.links.iter().map(vary).collect(),
            lanes: Vec::new(),
            channels: Vec::new(),
            shared: Vec::new(),
            alone: Vec::new(),
        };
        let of_medium = links.add_media(experiment)?;
        let of_link = links.add_access(experiment, seed, &of_medium);
        links.shared = vec![Vec::new(); links.channels.len()];
        for link in &experiment.links {
            let directions = HopDirection::BOTH.into_iter();
            for (side, direction) in directions.zip([&link.forward, &link.backward]) {
                let channel = match (&link.medium, of_link.get(&link.id)) {
                    (Some(medium), _) => of_medium[medium],
                    (None, Some(channel)) => *channel,
                    (None, None) => links.add_channel(),
                };
                let label = format!("{}/{}", link.id, side.name());
                links.add_lane(channel, direction, StationGenerators::new(seed, &label))?;
            }
        }
        Ok(links)
    }

    /// Adds the channels of media and returns them by id.
    fn add_media<'a>(
        &mut self,
        experiment: &'a Experiment,
    ) -> Result<HashMap<&'a String, usize>, InvalidDirection> {
        let mut of_medium = HashMap::new();
        for medium in &experiment.media {
            of_medium.insert(&medium.id, self.channels.len());
            let channel = Channel::medium(medium.rate_bps, medium.overhead_bytes)?;
            self.channels.push(channel);
        }
        Ok(of_medium)
    }

    /// Makes media into access networks, adds the channels of links with an access network of their
    /// own, and returns the latter by the id of the link.
    fn add_access<'a>(
        &mut self,
        experiment: &'a Experiment,
        seed: u64,
        of_medium: &HashMap<&String, usize>,
    ) -> HashMap<&'a String, usize> {
        let mut of_link = HashMap::new();
        for access in &experiment.access {
            let channel = Channel::of_access(access, seed);
            let link = match access {
                Access::Wifi(wifi) => {
                    self.channels[of_medium[&wifi.medium]] = channel;
                    continue;
                }
                Access::Cellular(cellular) => &cellular.link,
                Access::Leo(leo) => &leo.link,
                Access::Cable(cable) => &cable.link,
            };
            of_link.insert(link, self.channels.len());
            self.channels.push(channel);
        }
        of_link
    }

    /// Adds a channel for the next direction alone.
    fn add_channel(&mut self) -> usize {
        self.alone.push(self.lanes.len() as u32);
        self.channels.push(Channel::point_to_point());
        self.channels.len() - 1
    }

    fn add_lane(
        &mut self,
        channel: usize,
        direction: &Direction,
        generators: StationGenerators,
    ) -> Result<(), InvalidDirection> {
        let index = self.lanes.len();
        let direction = self.links[index / 2].varied(direction);
        let station = self.channels[channel].add_station(&direction, generators)?;
        if let Some(directions) = self.shared.get_mut(channel) {
            directions.push(index as u32);
        }
        self.lanes.push(Lane {
            channel: channel as u32,
            station,
            has_drop_rule: false,
            dropped_by_rule: 0,
        });
        Ok(())
    }

    fn direction_of(&self, channel: usize, station: StationId) -> usize {
        let direction = match channel.checked_sub(self.shared.len()) {
            None => self.shared[channel][station.index()],
            Some(alone) => self.alone[alone],
        };
        direction as usize
    }

    /// Returns the number of channels.
    pub fn channel_count(&self) -> usize {
        self.channels.len()
    }

    /// Returns the channel that carries a direction.
    pub fn channel_of(&self, direction: usize) -> usize {
        self.lanes[direction].channel as usize
    }

    /// Returns the channel that carries only this direction, unless a rule drops its packets.
    pub fn channel_alone(&self, direction: usize) -> Option<usize> {
        let lane = &self.lanes[direction];
        let channel = lane.channel as usize;
        (channel >= self.shared.len() && !lane.has_drop_rule).then_some(channel)
    }

    /// Offers a packet to a direction.
    pub fn offer(&mut self, now: Nanos, direction: usize, packet: P) -> Enqueued {
        let lane = &mut self.lanes[direction];
        if lane.has_drop_rule {
            lane.dropped_by_rule += 1;
            return Enqueued::Dropped(DropReason::LinkDown);
        }
        self.channels[lane.channel as usize].enqueue(now, lane.station, packet)
    }

    /// Offers a packet to the direction of a channel that [`Self::channel_alone`] returned.
    #[inline]
    pub fn offer_alone(&mut self, now: Nanos, channel: usize, packet: P) -> Enqueued {
        self.channels[channel].enqueue_alone(now, packet)
    }

    /// Returns the start of the last transmission of a direction if it is after `since` and before
    /// `now`, and a packet that is offered at `now` would have joined it if it had been offered at
    /// `since`. `None` if transmissions hold one packet each.
    pub fn missed_transmission(
        &mut self,
        now: Nanos,
        direction: usize,
        since: Nanos,
    ) -> Option<Nanos> {
        let lane = &self.lanes[direction];
        let channel = &mut self.channels[lane.channel as usize];
        channel.advance(now);
        let start = channel.last_with_room(lane.station);
        start.filter(|start| (since + 1..now).contains(start))
    }

    /// Returns whether the next departure of a channel is unaffected by a packet offered now.
    pub fn is_settled(&self, channel: usize) -> bool {
        self.channels[channel].is_settled()
    }

    /// Returns the number of packets queued in a direction at `now`.
    pub fn waiting_packets(&mut self, now: Nanos, direction: usize) -> u64 {
        let lane = &self.lanes[direction];
        let channel = &mut self.channels[lane.channel as usize];
        channel.advance(now);
        channel.queue_packets(lane.station)
    }

    /// Returns when the next packet queued in a direction may leave its queue, as of the last call
    /// to its channel. On a medium another direction may be served first. `None` if no packet is
    /// queued.
    pub fn next_start(&self, direction: usize) -> Option<Nanos> {
        let lane = &self.lanes[direction];
        self.channels[lane.channel as usize].next_start(lane.station)
    }

    /// Returns when a channel must be polled next. `None` means not before the next input.
    pub fn next_departure(&self, channel: usize) -> Option<Nanos> {
        self.channels[channel].next_departure()
    }

    /// Returns the next packet that leaves a channel up to `now`.
    pub fn poll(&mut self, now: Nanos, channel: usize) -> Option<Arrival<P>> {
        let output = self.channels[channel].poll(now)?;
        Some(match output {
            Output::Delivered {
                station,
                packet,
                at,
            } => Arrival::Delivered {
                direction: self.direction_of(channel, station),
                packet,
                at,
            },
            Output::Dropped {
                station,
                packet,
                reason,
                ..
            } => Arrival::Dropped {
                direction: self.direction_of(channel, station),
                packet,
                reason,
            },
        })
    }

    /// Returns the next packet that was delivered up to `now`, if the channel knows the arrival of
    /// each packet when it is offered. If this returns `None`, call [`Self::poll`].
    #[inline]
    pub fn poll_computed(&mut self, now: Nanos, channel: usize) -> Option<P> {
        self.channels[channel].poll_computed(now)
    }

    /// Cuts or restores both directions of a link. A cut drops all packets that are queued, in
    /// service or in the delay line.
    pub fn set_up(&mut self, now: Nanos, link: usize, up: bool) {
        for direction in [2 * link, 2 * link + 1] {
            let lane = &self.lanes[direction];
            self.channels[lane.channel as usize].set_up(now, lane.station, up);
        }
    }

    /// Adds or removes a rule that drops all packets offered to a link.
    pub fn set_drop_rule(&mut self, link: usize, on: bool) {
        for direction in [2 * link, 2 * link + 1] {
            self.lanes[direction].has_drop_rule = on;
        }
    }

    /// Gives a link new values, with its delay varied as before. Packets queued or in the delay
    /// line stay.
    ///
    /// # Errors
    /// Fails if the link model refuses a direction.
    pub fn reconfigure(
        &mut self,
        now: Nanos,
        link: usize,
        forward: &Direction,
        backward: &Direction,
    ) -> Result<(), InvalidDirection> {
        for (side, direction) in [forward, backward].into_iter().enumerate() {
            let direction = self.links[link].varied(direction);
            let lane = &self.lanes[2 * link + side];
            let channel = &mut self.channels[lane.channel as usize];
            channel.reconfigure(now, lane.station, &direction)?;
        }
        Ok(())
    }

    /// Does at `now` what an event makes of a link of an access network.
    pub fn disturb(&mut self, now: Nanos, link: usize, action: &Action) {
        let lane = &self.lanes[2 * link];
        if let Some(disturbance) = Disturbance::of(action) {
            self.channels[lane.channel as usize].disturb(now, lane.station, disturbance);
        }
    }

    /// Brings counters and gauges to `now`. No packet leaves.
    pub fn advance(&mut self, now: Nanos) {
        for channel in &mut self.channels {
            channel.advance(now);
        }
    }

    /// Returns all links to time 0: empty and up with their initial values, counters at 0,
    /// generators at their start.
    pub fn reset(&mut self) {
        for channel in &mut self.channels {
            channel.reset();
        }
        for lane in &mut self.lanes {
            lane.has_drop_rule = false;
            lane.dropped_by_rule = 0;
        }
    }

    /// Returns the state of a direction, as of the last call to its channel.
    pub fn state(&self, direction: usize) -> LinkState {
        let lane = &self.lanes[direction];
        let channel = &self.channels[lane.channel as usize];
        let counters = channel.counters(lane.station);
        let mut dropped = DropReason::ALL.map(|reason| counters.dropped(reason));
        dropped[DropReason::LinkDown as usize] += lane.dropped_by_rule;
        LinkState {
            wire_bytes: counters.wire_bytes,
            wire_packets: counters.wire_packets,
            queue_bytes: channel.queue_bytes(lane.station),
            queue_packets: channel.queue_packets(lane.station),
            offered_packets: counters.offered_packets + lane.dropped_by_rule,
            delivered_packets: counters.delivered_packets,
            dropped,
            in_flight_packets: channel.in_flight(lane.station),
            access: channel.access_counters(lane.station),
        }
    }
}

impl Link {
    /// Returns `direction` with the delay it has under this seed.
    fn varied(&self, direction: &Direction) -> Direction {
        let delay = u128::from(direction.delay_ns) * u128::from(self.delay_ppm) / 1_000_000;
        Direction {
            delay_ns: delay as Nanos,
            ..direction.clone()
        }
    }
}

fn varied(link: &resolved::Link, rtt_ppm: u32, seed: u64) -> Link {
    let spread = u64::from(rtt_ppm);
    let draw = Generator::new(seed, &format!("rtt/{}", link.id)).below(2 * spread + 1);
    Link {
        delay_ppm: 1_000_000 - spread + draw,
    }
}
