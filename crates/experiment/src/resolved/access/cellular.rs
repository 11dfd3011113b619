//! Cellular access (LTE and NR).

use schemars::JsonSchema;
use serde::Deserialize;

use crate::resolved::HopDirection;

/// The radio link of one cellular device. The directions of the link give mean rates, the queues
/// of the device and of the base station, and the delay behind the base station.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cellular {
    /// Id of the link between the device and the network.
    pub link: String,
    /// The direction from the device to the network.
    pub uplink: HopDirection,
}
