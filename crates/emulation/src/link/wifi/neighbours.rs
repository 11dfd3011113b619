//! Stations of other networks: contenders without packets.

use experiment::resolved::WifiNeighbours;
use experiment::rng::Generator;
use experiment::time::{NANOS_PER_SECOND, Nanos};

use super::phy::Phy;

/// How long a neighbour remembers frames that it could not send, and how much of an idle time is
/// played when the next packet comes.
pub(super) const MEMORY: Nanos = NANOS_PER_SECOND;

/// One station of another network.
pub(super) struct Neighbour {
    pub(super) ppdu: Nanos,
    pub(super) ack: Nanos,
    /// Mean time between frames.
    gap: Nanos,
    /// When the first frame that it has not sent came or comes.
    next: Nanos,
    generator: Generator,
}

impl Neighbour {
    /// Returns the stations of a group.
    pub(super) fn group<'a>(
        group: &'a WifiNeighbours,
        phy: &'a Phy,
        generator: impl Fn(u32) -> Generator + 'a,
    ) -> impl Iterator<Item = Self> + 'a {
        let rate = phy.legacy(group.rate_bps);
        let bits = 8 * u64::from(group.packet_bytes) * u64::from(group.stations);
        let gap = u128::from(bits) * u128::from(NANOS_PER_SECOND) / u128::from(group.load_bps);
        (0..group.stations).map(move |index| {
            let mut one = Self {
                ppdu: rate.ppdu(phy.mpdu_bytes(group.packet_bytes)),
                ack: rate.ack,
                gap: gap as Nanos,
                next: 0,
                generator: generator(index),
            };
            one.next = one.generator.exponential(one.gap);
            one
        })
    }

    /// Returns when its next frame came or comes.
    pub(super) fn next(&self) -> Nanos {
        self.next
    }

    /// Takes the frame that was sent, or given up, at `now`. Frames are forgotten after a second.
    pub(super) fn pop(&mut self, now: Nanos) {
        self.forget_before(now.saturating_sub(MEMORY));
        self.next = self
            .next
            .saturating_add(self.generator.exponential(self.gap));
    }

    /// Forgets all frames that came before `instant`.
    pub(super) fn forget_before(&mut self, instant: Nanos) {
        if self.next < instant {
            self.next = instant.saturating_add(self.generator.exponential(self.gap));
        }
    }
}
