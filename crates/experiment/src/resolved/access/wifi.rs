//! Wi-Fi (IEEE 802.11).

use schemars::JsonSchema;
use serde::Deserialize;

use crate::resolved::HopDirection;

/// The air of one Wi-Fi network, which all links on a medium share.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wifi {
    /// Id of the medium.
    pub medium: String,
    /// The stations, one for each link on the medium, in the order of the links.
    pub stations: Vec<WifiStation>,
}

/// A station of a Wi-Fi network.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WifiStation {
    /// Id of the link between the station and the access point.
    pub link: String,
    /// The direction from the station to the access point.
    pub uplink: HopDirection,
}
