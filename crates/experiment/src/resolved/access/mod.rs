//! Access networks: what carries the packets of some links in place of a serializer.

mod cable;
mod cellular;
mod satellite;
mod wifi;
mod wifi_ranges;

pub use cable::Cable;
pub use cellular::{
    BusyNeighbours, Cellular, Gaps, Handovers, Harq, NrLeg, Rrc, Signal, UplinkRequests,
};
pub use satellite::{BentPipe, DurationQuantile, Fade, Leo, LossInTime, Stall, Step};
pub use wifi::{
    AccessCategory, Aggregation, ApFifo, ApFq, ApQueue, BEACON_INTERVAL_NS, Edca, Scan, Snr,
    SnrPoint, Wifi, WifiBand, WifiNeighbours, WifiRate, WifiStandard, WifiStation,
};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Direction, InvalidDirection};
use crate::time::Nanos;

/// An access network.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Access {
    /// The channel of a Wi-Fi network.
    Wifi(Wifi),
    /// The radio link of one cellular device.
    Cellular(Cellular),
    /// The link of one dish to satellites in low Earth orbit.
    Leo(Leo),
    /// The line of one cable modem.
    Cable(Cable),
}

impl Access {
    /// Checks the ranges that the types do not express.
    ///
    /// # Errors
    /// Returns the first field whose value is outside its range.
    pub fn validate(&self) -> Result<(), InvalidDirection> {
        match self {
            Self::Wifi(wifi) => wifi.validate(),
            Self::Cellular(cellular) => cellular.validate(),
            Self::Leo(leo) => leo.validate(),
            Self::Cable(cable) => cable.validate(),
        }
    }

    /// Checks a direction of a link that the access network carries.
    pub(super) fn validate_direction(&self, direction: &Direction) -> Result<(), InvalidDirection> {
        match self {
            Self::Wifi(_) => Ok(()),
            Self::Cellular(_) => cellular::validate_has_rate(direction),
            Self::Leo(_) => satellite::validate_rate_only(direction),
            Self::Cable(_) => Ok(()),
        }
    }

    /// Returns the time in which a packet that is alone passes the access network in one direction
    /// with near certainty, beyond the delay and the rate of the direction.
    pub fn longest_wait_ns(&self) -> Nanos {
        match self {
            Self::Wifi(wifi) => wifi.longest_wait_ns(),
            Self::Cellular(cellular) => cellular.longest_wait_ns(),
            Self::Leo(leo) => leo.longest_wait_ns(),
            Self::Cable(cable) => cable.longest_wait_ns(),
        }
    }

    /// Returns whether the access network carries the packets of a link.
    pub fn carries(&self, link: &str) -> bool {
        match self {
            Self::Wifi(wifi) => wifi.stations.iter().any(|station| station.link == link),
            Self::Cellular(cellular) => cellular.link == link,
            Self::Leo(leo) => leo.link == link,
            Self::Cable(cable) => cable.link == link,
        }
    }
}
