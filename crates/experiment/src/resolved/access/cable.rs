//! Cable access (DOCSIS).

use schemars::JsonSchema;
use serde::Deserialize;

use super::UplinkRequests;
use crate::resolved::HopDirection;
use crate::resolved::direction::{InvalidDirection, ensure};
use crate::time::Nanos;

/// The line of one cable modem. The directions of the link give the rates, the queues of the modem
/// and of the network, and the delay behind the grants.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cable {
    /// Id of the link between the modem and the network.
    pub link: String,
    /// The direction from the modem to the network.
    pub uplink: HopDirection,
    /// How a modem whose queue was empty asks for its first grant: at the next map of grants.
    pub requests: UplinkRequests,
}

impl Cable {
    /// Returns the time from a packet to its grant.
    pub(super) fn longest_wait_ns(&self) -> Nanos {
        self.requests.period_ns + self.requests.grant_ns
    }

    /// Checks the ranges that the types do not express.
    ///
    /// # Errors
    /// Returns the first field whose value is outside its range.
    pub fn validate(&self) -> Result<(), InvalidDirection> {
        let period = self.requests.period_ns;
        ensure(period > 0, "requests.period_ns", period, "at least 1")
    }
}
