//! A client of the network, and its two directions.

use experiment::resolved::{Wifi, WifiStation};
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::WifiAir;
use super::access_point::Pending;
use super::aggregate::Window;
use super::phy::{Phy, Rate};
use super::presence::Presence;
use super::rates::{RateControl, Signal};
use crate::link::{AccessCounters, Packet};

/// A client: what its two directions share.
pub(super) struct Client {
    pub(super) phy: Phy,
    pub(super) category: usize,
    pub(super) rates: Vec<Rate>,
    pub(super) signal: Signal,
    pub(super) presence: Presence,
    /// From when on it receives, as of the last call to `next_receiver`.
    pub(super) receives_from: Nanos,
}

impl Client {
    /// Returns a client of the network whose access point sends frames of `phy`.
    pub(super) fn new(station: &WifiStation, seed: u64, phy: Phy) -> Self {
        let phy = phy.of_station(station);
        let label = format!("signal/{}", station.link);
        Self {
            phy,
            category: station.access_category as usize,
            rates: phy.rates(station),
            signal: Signal::new(&station.snr, Generator::new(seed, &label)),
            presence: Presence::new(station, seed),
            receives_from: 0,
        }
    }
}

/// A direction between a client and the access point.
pub(super) struct Lane {
    pub(super) client: usize,
    pub(super) contender: usize,
    pub(super) is_uplink: bool,
    pub(super) window: Window,
    pub(super) rate_control: RateControl,
    /// Decides which MPDUs fail.
    pub(super) failures: Generator,
    /// The start of the last transmission, if it had room for another packet.
    pub(super) last_with_room: Option<Nanos>,
    /// `held_packets` is 0 here, because it follows from the rest.
    pub(super) counters: AccessCounters,
}

impl Lane {
    /// Returns the empty direction of `client`, a number, that the contender sends.
    pub(super) fn new(
        wifi: &Wifi,
        client: usize,
        contender: usize,
        is_uplink: bool,
        seed: u64,
        rates: usize,
    ) -> Self {
        let station = &wifi.stations[client];
        let side = if is_uplink { "uplink" } else { "downlink" };
        let generator =
            |purpose: &str| Generator::new(seed, &format!("{purpose}/{}/{side}", station.link));
        Self {
            client,
            contender,
            is_uplink,
            window: Window::new(station.aggregation),
            rate_control: RateControl::new(&station.rate, rates, generator("rates")),
            failures: generator("failures"),
            last_with_room: None,
            counters: AccessCounters::default(),
        }
    }

    /// Returns what the driver holds in the window.
    pub(super) fn pending<P: Packet>(&self, air: &WifiAir<P>) -> Pending {
        let client = &air.clients[self.client];
        let control = &self.rate_control;
        let rate = control.expected(&client.rates, &client.signal, &air.errors);
        Pending {
            packets: self.window.packets(),
            bytes: self.window.unsent_bytes(),
            bps: client.rates[rate].bps,
        }
    }

    pub(super) fn charge(&mut self, air_time: Nanos) {
        self.counters.air_time += air_time;
    }
}
