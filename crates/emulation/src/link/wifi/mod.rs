//! The air of a Wi-Fi network: one event per access to the channel.
//!
//! All that a transmission does is decided at its start. Packets that arrive are put on the wire of
//! their station then, with the instant at which they arrive.

mod access_point;
mod aggregate;
mod carrier;
mod ceiling;
mod contention;
mod lane;
mod neighbours;
mod phy;
mod presence;
mod rates;
mod readiness;
mod transmission;

use experiment::resolved::{HopDirection, Wifi};
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::stations::Stations;
use super::{DropReason, Packet, StationId};
use access_point::{AccessPoint, CATEGORIES, Pending};
use contention::Contention;
use lane::{Client, Lane};
use neighbours::Neighbour;
use phy::Phy;
use rates::ErrorTable;

pub use ceiling::most_payload_bps;

/// What a contender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// The packets of a station.
    Client(usize),
    /// The packets of the access point in a category.
    AccessPoint(usize),
    /// Frames of another network.
    Neighbour(usize),
}

/// The carrier of a Wi-Fi network.
pub(super) struct WifiAir<P> {
    wifi: Wifi,
    stations: Stations<P>,
    phy: Phy,
    errors: ErrorTable,
    contention: Contention,
    /// By contender.
    senders: Vec<Sender>,
    /// The contender of each category of the access point.
    ap_contenders: [Option<usize>; CATEGORIES],
    access_point: AccessPoint,
    /// By link.
    clients: Vec<Client>,
    /// By station of the channel.
    lanes: Vec<Lane>,
    neighbours: Vec<Neighbour>,
    on_air: Option<OnAir<P>>,
    /// The contender that may go on without a round, and until when.
    txop: Option<(usize, Nanos)>,
    /// When the next transmission starts. `None` while no packet waits for the channel.
    next: Option<Nanos>,
    /// The latest instant up to which all is done.
    clock: Nanos,
    /// Buffers. Empty between calls.
    winners: Vec<usize>,
    pending: Vec<Pending>,
}

/// What is known of the transmission on the channel and becomes visible at its end.
struct OnAir<P> {
    finish: Nanos,
    lane: usize,
    drops: Vec<(usize, P, DropReason)>,
}

impl<P: Packet> WifiAir<P> {
    /// Returns the carrier for the run with `seed`.
    pub(super) fn new(wifi: &Wifi, seed: u64) -> Self {
        let phy = Phy::new(wifi);
        let label = |purpose: &str| format!("{purpose}/{}", wifi.medium);
        let contention = Contention::new(&phy, Generator::new(seed, &label("contention")));
        let categories = wifi.stations.iter().map(|station| station.access_category);
        let mut air = Self {
            stations: Stations::new(None),
            phy,
            errors: ErrorTable::new(),
            contention,
            senders: Vec::new(),
            ap_contenders: [None; CATEGORIES],
            access_point: AccessPoint::new(wifi.ap_queue, categories),
            clients: Vec::new(),
            lanes: Vec::new(),
            neighbours: Vec::new(),
            on_air: None,
            txop: None,
            next: None,
            clock: 0,
            winners: Vec::new(),
            pending: Vec::new(),
            wifi: wifi.clone(),
        };
        air.add_clients(seed);
        air.add_neighbours(seed);
        air
    }

    fn add_clients(&mut self, seed: u64) {
        for (index, station) in self.wifi.stations.clone().iter().enumerate() {
            let category = station.access_category as usize;
            let contender = self.contention.add(&station.edca);
            self.senders.push(Sender::Client(index));
            if self.ap_contenders[category].is_none() {
                let edca = self.wifi.edca[category];
                self.ap_contenders[category] = Some(self.contention.add(&edca));
                self.senders.push(Sender::AccessPoint(category));
            }
            let client = Client::new(station, seed, self.phy);
            let (count, of_ap) = (client.rates.len(), self.ap_contenders[category]);
            self.clients.push(client);
            for side in HopDirection::BOTH {
                let is_uplink = side == station.uplink;
                let sender = of_ap.filter(|_| !is_uplink).unwrap_or(contender);
                let lane = Lane::new(&self.wifi, index, sender, is_uplink, seed, count);
                self.lanes.push(lane);
            }
        }
    }

    /// Returns the longest time for which a sender may go on. 0 is one exchange.
    fn txop_limit(&self, sender: Sender) -> Nanos {
        match sender {
            Sender::Client(client) => self.wifi.stations[client].edca.txop_limit_ns,
            Sender::AccessPoint(category) => self.wifi.edca[category].txop_limit_ns,
            Sender::Neighbour(_) => 0,
        }
    }

    fn add_neighbours(&mut self, seed: u64) {
        for (index, group) in self.wifi.neighbours.iter().enumerate() {
            let label = format!("neighbours/{}/{index}", self.wifi.medium);
            let generator = |one| Generator::new(seed, &format!("{label}/{one}"));
            for one in Neighbour::group(group, &self.phy, generator) {
                let contender = self.contention.add(&self.wifi.edca[0]);
                self.contention.set_ready(contender, one.next());
                self.senders.push(Sender::Neighbour(self.neighbours.len()));
                self.neighbours.push(one);
            }
        }
    }

    /// Returns the station of the channel with the packets for or from a client.
    fn lane_of(&self, client: usize, is_uplink: bool) -> usize {
        let forward = 2 * client;
        let first_is_uplink = self.lanes[forward].is_uplink;
        forward + usize::from(first_is_uplink != is_uplink)
    }

    /// Computes when the next transmission starts.
    fn plan(&mut self) {
        let is_wanted = |(index, sender): (usize, &Sender)| {
            !matches!(sender, Sender::Neighbour(_)) && self.contention.is_ready(index)
        };
        let waits = self.senders.iter().enumerate().any(is_wanted);
        let txop = self
            .txop
            .filter(|(owner, _)| self.contention.is_ready(*owner));
        self.txop = txop;
        self.next = match txop {
            Some(_) => Some(self.contention.busy_until() + self.phy.sifs),
            None => self.contention.next_start(),
        };
        self.next = self.next.filter(|_| waits);
    }

    /// Plays what neighbours did while no packet waited.
    fn catch_up(&mut self, now: Nanos) {
        let begin = now.saturating_sub(neighbours::MEMORY);
        for (index, sender) in self.senders.iter().enumerate() {
            if let Sender::Neighbour(one) = sender
                && self.neighbours[*one].next() < begin
                && self.contention.busy_until() < begin
            {
                self.neighbours[*one].forget_before(begin);
                self.contention
                    .set_ready(index, self.neighbours[*one].next());
            }
        }
        while let Some(start) = self.contention.next_start().filter(|start| *start <= now) {
            self.begin(start);
        }
    }

    /// Makes the transmission on the channel visible.
    fn finish(&mut self) {
        let Some(on_air) = self.on_air.take() else {
            return;
        };
        for (lane, packet, reason) in on_air.drops {
            let station = StationId(lane as u32);
            self.stations
                .report_drop(station, packet, on_air.finish, reason);
        }
    }
}
