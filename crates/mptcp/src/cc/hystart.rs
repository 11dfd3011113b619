//! Ways to end slow start before a loss: HyStart as in Linux, and HyStart++ (RFC 9406).

use super::parameters::SlowStart;
use super::rounds::Round;
use super::{Acked, Context};
use crate::time::{MICROSECOND, MILLISECOND, Nanos, SECOND, seconds};

/// RTT samples that a round needs before its smallest one is used (RFC 9406, section 4.3:
/// N_RTT_SAMPLE).
const SAMPLES: u32 = 8;

/// Returns by how much the delay of a round must exceed the smallest one: an eighth of it, between
/// 4 ms and 16 ms.
fn delay_threshold(least: Nanos) -> Nanos {
    (least / 8).clamp(4 * MILLISECOND, 16 * MILLISECOND)
}

/// How slow start continues after an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// Grows by all acknowledged bytes.
    Full,
    /// Grows by a quarter of the acknowledged bytes (RFC 9406, section 4.2: CSS_GROWTH_DIVISOR).
    Quarter,
    /// Slow start ends: ssthresh is set to cwnd.
    Over,
}

/// The algorithm that can end the slow start of a subflow.
#[derive(Clone, Debug)]
pub(super) enum Watch {
    /// No algorithm: slow start lasts until a loss.
    None,
    /// HyStart of Linux.
    HyStart(HyStart),
    /// HyStart++ (RFC 9406).
    HyStartPlusPlus(HyStartPlusPlus),
}

impl Watch {
    /// Creates the initial state.
    pub fn new(slow_start: SlowStart) -> Self {
        match slow_start {
            SlowStart::UntilLoss => Self::None,
            SlowStart::HyStart => Self::HyStart(HyStart::default()),
            SlowStart::HyStartPlusPlus => Self::HyStartPlusPlus(HyStartPlusPlus::default()),
        }
    }

    /// Handles a timeout. HyStart starts again, as in Linux. HyStart++ is disabled, because it is
    /// used only in the first slow start (RFC 9406, section 4.3).
    pub fn after_timeout(&mut self) {
        match self {
            Self::None => {}
            Self::HyStart(watch) => *watch = HyStart::default(),
            Self::HyStartPlusPlus(_) => *self = Self::None,
        }
    }

    /// Handles an acknowledgment in slow start. Returns how slow start continues.
    pub fn acked(&mut self, context: &Context<'_>, acked: &Acked) -> Pace {
        let pace = match self {
            Self::None => Pace::Full,
            Self::HyStart(watch) => watch.acked(context, acked),
            Self::HyStartPlusPlus(watch) => watch.acked(context, acked),
        };
        if pace == Pace::Over && matches!(self, Self::HyStartPlusPlus(_)) {
            *self = Self::None;
        }
        pace
    }
}

/// HyStart of Linux.
///
/// Ends slow start when a train of closely spaced acknowledgments lasts longer than half the
/// smallest round-trip time, or when the smallest delay of a round has grown. A round starts with
/// its first acknowledgment (since Linux 6.14), so the train is measured from there, whatever the
/// window was.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    least_rtt: Option<Nanos>,
    round: Round,
    round_start: Nanos,
    last_ack: Nanos,
    round_least_rtt: Option<Nanos>,
    samples: u32,
    /// Whether HyStart has ended a slow start. It then does not end those after idle times.
    has_ended: bool,
}

impl HyStart {
    /// HyStart does not act on smaller windows.
    const LOW_WINDOW_PACKETS: f64 = 16.0;
    /// Longest gap between acknowledgments of a train.
    const TRAIN_GAP: Nanos = 2 * MILLISECOND;
    /// Upper limit of the delay that aggregation of four segmentation units at the sender can add.
    const LONGEST_ACK_DELAY: Nanos = MILLISECOND;
    const FOUR_UNITS_BYTES: f64 = 4.0 * 65_536.0;

    fn acked(&mut self, context: &Context<'_>, acked: &Acked) -> Pace {
        let Some(rtt) = acked.rtt.map(|rtt| rtt.max(MICROSECOND)) else {
            return Pace::Full;
        };
        let least = self.least_rtt.map_or(rtt, |least| least.min(rtt));
        self.least_rtt = Some(least);
        if self.round.is_over(context, acked) {
            self.begin_round(context.now());
        }
        if self.has_ended || context.this().cwnd_packets() < Self::LOW_WINDOW_PACKETS {
            return Pace::Full;
        }
        self.has_ended = self.is_train_long(context, least) || self.has_delay_grown(rtt, least);
        if self.has_ended {
            Pace::Over
        } else {
            Pace::Full
        }
    }

    fn begin_round(&mut self, now: Nanos) {
        (self.round_start, self.last_ack) = (now, now);
        self.round_least_rtt = None;
        self.samples = 0;
    }

    fn is_train_long(&mut self, context: &Context<'_>, least: Nanos) -> bool {
        let now = context.now();
        if now - self.last_ack > Self::TRAIN_GAP {
            return false;
        }
        self.last_ack = now;
        now - self.round_start > (least + Self::ack_delay(context)) / 2
    }

    /// Returns the time that four segmentation units take at two windows per round-trip time, which
    /// is Linux's pacing rate in slow start.
    fn ack_delay(context: &Context<'_>) -> Nanos {
        let window = context.this();
        let srtt = window.srtt.map_or(0.0, seconds);
        let delay = Self::FOUR_UNITS_BYTES * srtt / (2.0 * window.cwnd_bytes);
        ((delay * SECOND as f64) as Nanos).min(Self::LONGEST_ACK_DELAY)
    }

    fn has_delay_grown(&mut self, rtt: Nanos, least: Nanos) -> bool {
        let round_least = self.round_least_rtt.map_or(rtt, |least| least.min(rtt));
        self.round_least_rtt = Some(round_least);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        round_least > least + delay_threshold(least)
    }
}

/// HyStart++. When the smallest delay of a round has grown, slow start continues at a quarter of
/// the pace. It ends after five such rounds unless the delay falls back.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStartPlusPlus {
    round: Round,
    last_round_least: Option<Nanos>,
    round_least: Option<Nanos>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// State of conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// Smallest delay of the round that started conservative slow start.
    baseline: Nanos,
    rounds: u32,
}

impl HyStartPlusPlus {
    /// Rounds of conservative slow start (RFC 9406, section 4.3: CSS_ROUNDS).
    const CONSERVATIVE_ROUNDS: u32 = 5;

    fn acked(&mut self, context: &Context<'_>, acked: &Acked) -> Pace {
        if self.round.is_over(context, acked) && self.begin_round() {
            return Pace::Over;
        }
        if let Some(rtt) = acked.rtt {
            self.round_least = Some(self.round_least.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
        if self.samples >= SAMPLES {
            self.look_at_delay();
        }
        if self.conservative.is_some() {
            Pace::Quarter
        } else {
            Pace::Full
        }
    }

    /// Starts a round. Returns whether conservative slow start has lasted long enough.
    fn begin_round(&mut self) -> bool {
        self.last_round_least = self.round_least.take();
        self.samples = 0;
        self.conservative.as_mut().is_some_and(|conservative| {
            conservative.rounds += 1;
            conservative.rounds >= Self::CONSERVATIVE_ROUNDS
        })
    }

    fn look_at_delay(&mut self) {
        let Some(least) = self.round_least else {
            return;
        };
        if let Some(conservative) = self.conservative {
            if least < conservative.baseline {
                self.conservative = None;
            }
        } else if self
            .last_round_least
            .is_some_and(|last| least >= last + delay_threshold(last))
        {
            self.conservative = Some(Conservative {
                baseline: least,
                rounds: 0,
            });
        }
    }
}
