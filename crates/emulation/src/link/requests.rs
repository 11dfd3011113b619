//! Requests for uplink grants (3GPP TS 36.321, section 5.4.4; DOCSIS MAC and upper layer protocols).

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::phase::Phase;

/// Opportunities to ask for a grant after silence.
#[derive(Debug)]
pub(super) struct Requests {
    opportunities: Phase,
    grant: Nanos,
}

impl Requests {
    pub(super) fn new(parameters: resolved::UplinkRequests, mut generator: Generator) -> Self {
        Self {
            opportunities: Phase::drawn(parameters.period_ns, &mut generator),
            grant: parameters.grant_ns,
        }
    }

    /// Returns from when on a device has grants that asks for them at `now`.
    pub(super) fn granted_from(&self, now: Nanos) -> Nanos {
        self.opportunities.next(now).saturating_add(self.grant)
    }
}
