//! States of the radio of one device (3GPP TS 36.331, 36.321): connected, discontinuous reception,
//! idle.

use experiment::resolved;
use experiment::rng::Generator;
use experiment::time::Nanos;

use crate::link::phase::Phase;

/// State of the radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Connected and listening all the time.
    Active,
    /// Connected, and listening once a cycle.
    Drx,
    /// Not connected.
    Idle,
    /// It asks for a connection.
    Promotion,
}

impl State {
    pub(super) fn is_connected(self) -> bool {
        matches!(self, Self::Active | Self::Drx)
    }
}

/// The radio of one device, which both directions share. It starts as if data had ended at time 0.
#[derive(Debug)]
pub(super) struct Rrc {
    parameters: resolved::Rrc,
    drx: Phase,
    paging: Phase,
    /// When data was last sent or received.
    last_data: Nanos,
    /// From when on the device is active. In the future while it wakes up.
    active_from: Nanos,
    /// The state from which the device woke up last.
    woke_from: State,
}

impl Rrc {
    /// Returns the radio at time 0. `generator` draws the phases of its cycles.
    pub(super) fn new(parameters: resolved::Rrc, mut generator: Generator) -> Self {
        Self {
            parameters,
            drx: Phase::drawn(parameters.drx_cycle_ns, &mut generator),
            paging: Phase::drawn(parameters.paging_cycle_ns, &mut generator),
            last_data: 0,
            active_from: 0,
            woke_from: State::Active,
        }
    }

    /// Returns from when on the device is active.
    pub(super) fn active_from(&self) -> Nanos {
        self.active_from
    }

    /// Returns the state at `now`. While a device waits until it listens, it has the state from which
    /// it wakes up.
    pub(super) fn state(&self, now: Nanos) -> State {
        if now < self.active_from {
            let promotion = self.parameters.promotion_ns;
            let is_promoted = self.woke_from == State::Idle;
            return match now.saturating_add(promotion) >= self.active_from {
                true if is_promoted => State::Promotion,
                _ => self.woke_from,
            };
        }
        let silence = now.saturating_sub(self.last_data.max(self.active_from));
        if silence < self.parameters.drx_after_ns {
            State::Active
        } else if silence < self.parameters.inactivity_ns {
            State::Drx
        } else {
            State::Idle
        }
    }

    /// Wakes the device up at `now` because a packet waits. The device begins at once if it has the
    /// packet, and the network waits until the device listens.
    pub(super) fn wake(&mut self, now: Nanos, is_uplink: bool) {
        let state = self.state(now);
        let listens = |phase: Phase| if is_uplink { now } else { phase.next(now) };
        let active_from = match state {
            State::Active | State::Promotion => return,
            State::Drx => listens(self.drx),
            State::Idle => listens(self.paging).saturating_add(self.parameters.promotion_ns),
        };
        let is_waking = self.active_from > now;
        if !is_waking || active_from < self.active_from {
            self.active_from = active_from;
        }
        self.woke_from = state;
    }

    /// Notes that data is sent or received until `end`.
    pub(super) fn record_data(&mut self, end: Nanos) {
        self.last_data = self.last_data.max(end);
    }
}
