//! Satellite access.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::resolved::HopDirection;

/// The link of one dish to satellites in low Earth orbit. The directions of the link give the
/// queues, and the delay behind the ground station.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Leo {
    /// Id of the link between the dish and the network.
    pub link: String,
    /// The direction from the dish to the network.
    pub uplink: HopDirection,
}
