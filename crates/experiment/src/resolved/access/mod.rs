//! Access networks: what carries the packets of some links in place of a serializer.

mod cellular;
mod satellite;
mod wifi;

pub use cellular::Cellular;
pub use satellite::Leo;
pub use wifi::{Wifi, WifiStation};

use schemars::JsonSchema;
use serde::Deserialize;

/// An access network.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Access {
    /// The air of a Wi-Fi network.
    Wifi(Wifi),
    /// The radio link of one cellular device.
    Cellular(Cellular),
    /// The link of one dish to satellites in low Earth orbit.
    Leo(Leo),
}
