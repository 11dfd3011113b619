//! When a client is on the channel: power saving, scanning, roaming.

use experiment::resolved::{BEACON_INTERVAL_NS, Scan, WifiStation};
use experiment::rng::Generator;
use experiment::time::Nanos;

/// The state of a radio, as metrics report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RadioState {
    Awake = 0,
    Asleep = 1,
    Scanning = 2,
    Roaming = 3,
}

/// When a client can send and receive.
pub(super) struct Presence {
    /// Time without packets after which it sleeps. `None` is never.
    power_save_after: Option<Nanos>,
    /// Offset of the beacons.
    beacon: Nanos,
    last_active: Nanos,
    /// Until when packets for it wait, because it sleeps.
    asleep_until: Nanos,
    scan: Option<Scanning>,
    roaming_until: Nanos,
}

/// The next absence, or the one under way.
struct Scanning {
    scan: Scan,
    start: Nanos,
    end: Nanos,
    generator: Generator,
}

impl Presence {
    pub(super) fn new(station: &WifiStation, seed: u64) -> Self {
        let label = |purpose: &str| format!("{purpose}/{}", station.link);
        let generator = |purpose| Generator::new(seed, &label(purpose));
        Self {
            power_save_after: station.power_save_after_ns,
            beacon: generator("beacon").below(BEACON_INTERVAL_NS),
            last_active: 0,
            asleep_until: 0,
            scan: station
                .scan
                .map(|scan| Scanning::new(scan, generator("scan"))),
            roaming_until: 0,
        }
    }

    /// Returns the first instant from `now` on at which the client is on the channel.
    #[inline]
    pub(super) fn next(&mut self, now: Nanos, is_uplink: bool) -> Nanos {
        let awake = if is_uplink { now } else { self.asleep_until };
        let at = now.max(awake).max(self.roaming_until);
        match &mut self.scan {
            Some(scan) => scan.next(at, now),
            None => at,
        }
    }

    /// Records that a packet came for the client or from it.
    pub(super) fn record_arrival(&mut self, now: Nanos, is_uplink: bool) {
        if is_uplink {
            self.asleep_until = self.asleep_until.min(now);
        } else if self.is_asleep(now) && self.asleep_until <= now {
            let since = now.saturating_sub(self.beacon);
            let beacons = since.div_ceil(BEACON_INTERVAL_NS);
            self.asleep_until = self.beacon + beacons * BEACON_INTERVAL_NS;
        }
        self.last_active = self.last_active.max(now).max(self.asleep_until);
    }

    pub(super) fn record_exchange(&mut self, now: Nanos) {
        self.last_active = self.last_active.max(now);
    }

    fn is_asleep(&self, now: Nanos) -> bool {
        let idle = now.saturating_sub(self.last_active);
        self.power_save_after.is_some_and(|after| idle > after)
    }

    pub(super) fn roam(&mut self, now: Nanos, gap: Nanos) {
        self.roaming_until = self.roaming_until.max(now.saturating_add(gap));
    }

    pub(super) fn state(&self, now: Nanos) -> RadioState {
        let is_absent = |scan: &Scanning| (scan.start..scan.end).contains(&now);
        if now < self.roaming_until {
            RadioState::Roaming
        } else if self.scan.as_ref().is_some_and(is_absent) {
            RadioState::Scanning
        } else if now < self.asleep_until || self.is_asleep(now) {
            RadioState::Asleep
        } else {
            RadioState::Awake
        }
    }
}

impl Scanning {
    fn new(scan: Scan, mut generator: Generator) -> Self {
        let start = generator.below(scan.every_ns);
        let mut scanning = Self {
            scan,
            start,
            end: start,
            generator,
        };
        scanning.end += scanning.duration();
        scanning
    }

    fn duration(&mut self) -> Nanos {
        let spread = self.scan.longest_ns - self.scan.shortest_ns;
        self.scan.shortest_ns + self.generator.below(spread + 1)
    }

    /// Returns `at`, or the end of the absence in which it lies. Forgets absences that ended before
    /// `now`.
    fn next(&mut self, at: Nanos, now: Nanos) -> Nanos {
        while self.end <= now {
            self.start += self.scan.every_ns;
            self.end = self.start + self.duration();
        }
        if (self.start..self.end).contains(&at) {
            self.end
        } else {
            at
        }
    }
}
