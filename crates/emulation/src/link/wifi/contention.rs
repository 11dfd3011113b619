//! Contention for the channel: DCF and EDCA as rounds (IEEE Std 802.11-2020, sections 10.3,
//! 10.23.2).
//!
//! A round is the time from the end of one transmission to the start of the next. Instants are
//! integers: the starts of all contenders lie on one grid of slots after SIFS, unless the channel
//! was idle when a frame came.

use experiment::resolved::Edca;
use experiment::rng::Generator;
use experiment::time::Nanos;

use super::phy::Phy;

/// What contends: a station, a category of the access point or a neighbour.
#[derive(Clone, Debug)]
struct Contender {
    aifs: Nanos,
    cw_min: u32,
    cw_max: u32,
    cw: u32,
    /// Slots of backoff left when the channel was last busy.
    backoff: u32,
    /// Whether the backoff was over, and nothing to send, before the channel was last busy.
    has_expired: bool,
    /// When it had something to send. It may lie in the future.
    ready: Option<Nanos>,
}

/// The contenders for one channel.
pub(super) struct Contention {
    slot: Nanos,
    sifs: Nanos,
    contenders: Vec<Contender>,
    /// The end of the last transmission, with its acknowledgment. Before the first one, long ago.
    busy_until: i64,
    generator: Generator,
}

const LONG_AGO: i64 = -1_000_000_000_000;

impl Contention {
    pub(super) fn new(phy: &Phy, generator: Generator) -> Self {
        Self {
            slot: phy.slot,
            sifs: phy.sifs,
            contenders: Vec::new(),
            busy_until: LONG_AGO,
            generator,
        }
    }

    /// Adds a contender with nothing to send and returns its index.
    pub(super) fn add(&mut self, edca: &Edca) -> usize {
        self.contenders.push(Contender {
            aifs: self.sifs + Nanos::from(edca.aifsn) * self.slot,
            cw_min: edca.cw_min,
            cw_max: edca.cw_max,
            cw: edca.cw_min,
            backoff: 0,
            has_expired: true,
            ready: None,
        });
        self.contenders.len() - 1
    }

    /// Returns when the channel becomes free, or has become so. 0 if it was never busy.
    pub(super) fn busy_until(&self) -> Nanos {
        self.busy_until.max(0) as Nanos
    }

    /// Returns when a contender had something to send, or will have.
    pub(super) fn ready(&self, contender: usize) -> Option<Nanos> {
        self.contenders[contender].ready
    }

    pub(super) fn is_ready(&self, contender: usize) -> bool {
        self.contenders[contender].ready.is_some()
    }

    /// Makes a contender ready from `at` on, which may lie in the future. It draws a backoff if its
    /// last one is over and the channel is not idle then.
    pub(super) fn set_ready(&mut self, contender: usize, at: Nanos) {
        let one = &mut self.contenders[contender];
        one.ready = Some(at);
        if one.has_expired && (at as i64) < self.busy_until + one.aifs as i64 {
            one.draw(&mut self.generator);
        }
    }

    /// Takes back that a contender has something to send. Its backoff continues.
    pub(super) fn clear_ready(&mut self, contender: usize) {
        self.contenders[contender].ready = None;
    }

    /// Returns when the next round is won. `None` if no contender is ready.
    pub(super) fn next_start(&self) -> Option<Nanos> {
        let contenders = self.contenders.iter();
        contenders.filter_map(|one| self.start_of(one)).min()
    }

    fn start_of(&self, contender: &Contender) -> Option<Nanos> {
        let ready = contender.ready? as i64;
        let backoff = contender.aifs + Nanos::from(contender.backoff) * self.slot;
        Some(ready.max(self.busy_until + backoff as i64) as Nanos)
    }

    /// Puts those that start at `start` into `winners`.
    pub(super) fn winners(&self, start: Nanos, winners: &mut Vec<usize>) {
        let starts = self.contenders.iter().map(|one| self.start_of(one));
        let won = starts.enumerate().filter(|(_, at)| *at == Some(start));
        winners.extend(won.map(|(index, _)| index));
    }

    /// Makes the channel busy from `start` to `end`. The backoffs of all others stop.
    pub(super) fn occupy(&mut self, start: Nanos, end: Nanos, winners: &[usize]) {
        let (from, start_at) = (self.busy_until, start as i64);
        self.busy_until = end as i64;
        for (index, one) in self.contenders.iter_mut().enumerate() {
            if winners.contains(&index) {
                continue;
            }
            let idle = (start_at - from - one.aifs as i64).max(0) as Nanos;
            let slots = u32::try_from(idle / self.slot).unwrap_or(u32::MAX);
            one.backoff = one.backoff.saturating_sub(slots);
            let waits = one.ready.is_some_and(|ready| ready <= start);
            one.has_expired = one.has_expired || (one.backoff == 0 && !waits);
            let comes = one.ready.filter(|ready| *ready < end + one.aifs);
            if comes.is_some() && one.has_expired {
                one.draw(&mut self.generator);
            }
        }
    }

    /// Ends the transmission on the channel at `now`.
    pub(super) fn release(&mut self, now: Nanos) {
        self.busy_until = self.busy_until.min(now as i64);
    }

    /// Draws the backoff after a transmission that was acknowledged, or given up.
    pub(super) fn succeed(&mut self, contender: usize) {
        let one = &mut self.contenders[contender];
        one.cw = one.cw_min;
        one.draw(&mut self.generator);
    }

    /// Draws the backoff after a transmission without an acknowledgment.
    pub(super) fn fail(&mut self, contender: usize) {
        let one = &mut self.contenders[contender];
        one.cw = (2 * one.cw + 1).min(one.cw_max);
        one.draw(&mut self.generator);
    }
}

impl Contender {
    /// Draws a backoff. 0 is allowed and starts right after AIFS.
    fn draw(&mut self, generator: &mut Generator) {
        self.backoff = generator.below(Nanos::from(self.cw) + 1) as u32;
        self.has_expired = false;
    }
}
