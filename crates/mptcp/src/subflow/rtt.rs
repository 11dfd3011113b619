//! The RTT and the RTO (RFC 6298), with Linux's estimator or the RFC's.

use std::sync::Arc;

use super::{Config, RtoEstimator};
use crate::seq::SeqNr;
use crate::time::{MICROSECOND, Nanos, SECOND};
use crate::timer_wheel::TimerWheel;

/// Linux's estimator of RTT and RTO: RFC 6298 in integers. The variation keeps the largest
/// deviation of a flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinuxEstimator {
    /// Smoothed RTT in eighths of a microsecond.
    srtt_8th_us: i64,
    /// Smoothed deviation in quarters of a microsecond.
    mdev_4th_us: i64,
    /// The largest deviation of this flight, in quarters of a microsecond.
    mdev_max_4th_us: i64,
    /// The variation, which the RTO adds to the smoothed RTT, in microseconds.
    rttvar_us: i64,
}

impl LinuxEstimator {
    /// Records an RTT sample of `rtt_us` microseconds. `min_us` is the lower limit of the variation
    /// in microseconds. `is_new_flight` means that all data sent before the current flight began is
    /// acknowledged.
    pub fn sample(&mut self, rtt_us: u32, min_us: u32, is_new_flight: bool) {
        let (rtt_us, min_us) = (i64::from(rtt_us.max(1)), i64::from(min_us));
        if self.srtt_8th_us == 0 {
            self.srtt_8th_us = rtt_us << 3;
            self.mdev_4th_us = rtt_us << 1;
            self.rttvar_us = self.mdev_4th_us.max(min_us);
            self.mdev_max_4th_us = self.rttvar_us;
            return;
        }
        self.smooth(rtt_us);
        self.mdev_max_4th_us = self.mdev_max_4th_us.max(self.mdev_4th_us);
        self.rttvar_us = self.rttvar_us.max(self.mdev_max_4th_us);
        if is_new_flight {
            self.rttvar_us -= (self.rttvar_us - self.mdev_max_4th_us) >> 2;
            self.mdev_max_4th_us = min_us;
        }
    }

    /// Smooths the deviation and the RTT. A sample far below the mean moves the deviation by 1/32
    /// instead of 1/4, so that a falling delay does not raise the RTO.
    fn smooth(&mut self, rtt_us: i64) {
        let error = rtt_us - (self.srtt_8th_us >> 3);
        self.srtt_8th_us = (self.srtt_8th_us + error).max(1);
        let mut change = error.abs() - (self.mdev_4th_us >> 2);
        if error < 0 && change > 0 {
            change >>= 3;
        }
        self.mdev_4th_us += change;
    }

    /// Returns the smoothed RTT in microseconds, or `None` before the first sample.
    pub fn srtt_us(&self) -> Option<u64> {
        (self.srtt_8th_us > 0).then_some(self.srtt_8th_us as u64 >> 3)
    }

    /// Returns the smoothed deviation in microseconds.
    pub fn mdev_us(&self) -> u64 {
        self.mdev_4th_us as u64 >> 2
    }

    /// Returns Linux's `rttvar` in microseconds. The RTO adds it to the smoothed RTT as it is,
    /// because it corresponds to four times the RTTVAR of RFC 6298.
    pub fn rttvar_us(&self) -> u64 {
        self.rttvar_us as u64
    }

    /// Returns the RTO in microseconds, before its upper limit is applied.
    pub fn rto_us(&self) -> u64 {
        (self.srtt_8th_us >> 3) as u64 + self.rttvar_us()
    }
}

/// The estimator of RFC 6298, in nanoseconds as floating-point numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RfcEstimator {
    srtt_ns: Option<f64>,
    rttvar_ns: f64,
}

impl RfcEstimator {
    /// Records an RTT sample of `rtt_ns` nanoseconds (RFC 6298, sections 2.2 and 2.3).
    pub fn sample(&mut self, rtt_ns: f64) {
        let Some(srtt) = self.srtt_ns else {
            (self.srtt_ns, self.rttvar_ns) = (Some(rtt_ns), rtt_ns / 2.0);
            return;
        };
        self.rttvar_ns = 0.75 * self.rttvar_ns + 0.25 * (srtt - rtt_ns).abs();
        self.srtt_ns = Some(0.875 * srtt + 0.125 * rtt_ns);
    }

    /// Returns the smoothed RTT in nanoseconds, or `None` before the first sample.
    pub fn srtt_ns(&self) -> Option<f64> {
        self.srtt_ns
    }

    /// Returns RTTVAR, the variation of the RTT, in nanoseconds.
    pub fn rttvar_ns(&self) -> f64 {
        self.rttvar_ns
    }

    /// Returns the RTO in nanoseconds, limited to `min_ns..=max_ns` (RFC 6298, sections 2.3 to
    /// 2.5). The clock granularity of the RFC is taken as 0.
    pub fn rto_ns(&self, min_ns: f64, max_ns: f64) -> f64 {
        (self.srtt_ns.unwrap_or(0.0) + 4.0 * self.rttvar_ns).clamp(min_ns, max_ns)
    }
}

/// Returns the timeout after `expiries` consecutive expiries: `rto`, doubled for each expiry (RFC
/// 6298, section 5.5), up to `max`. All are in nanoseconds.
pub fn backed_off(rto: Nanos, expiries: u32, max: Nanos) -> Nanos {
    rto.checked_shl(expiries)
        .filter(|doubled| doubled >> expiries == rto)
        .map_or(max, |doubled| doubled.min(max))
}

#[derive(Clone, Copy, Debug)]
enum Estimator {
    Linux(LinuxEstimator),
    Rfc(RfcEstimator),
}

/// The RTT state of a subflow: its estimator and the min RTT.
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    config: Arc<Config>,
    estimator: Estimator,
    /// The RTO before the first sample.
    unmeasured_rto: Nanos,
    min: Option<Nanos>,
    /// The flight ends when this sequence number is acknowledged.
    flight_end: SeqNr,
}

impl Rtt {
    pub fn new(config: &Arc<Config>, iss: SeqNr) -> Self {
        let estimator = match config.rto.estimator {
            RtoEstimator::Linux => Estimator::Linux(LinuxEstimator::default()),
            RtoEstimator::Rfc6298 => Estimator::Rfc(RfcEstimator::default()),
        };
        Self {
            config: Arc::clone(config),
            estimator,
            unmeasured_rto: config.rto.initial,
            min: None,
            flight_end: iss,
        }
    }

    /// Records an RTT sample of `rtt` nanoseconds, taken when SND.UNA was `una` and SND.NXT was
    /// `nxt`.
    pub fn sample(&mut self, rtt: Nanos, una: SeqNr, nxt: SeqNr) {
        let is_new_flight = una.is_after(self.flight_end);
        if is_new_flight || self.srtt().is_none() {
            self.flight_end = nxt;
        }
        match &mut self.estimator {
            Estimator::Linux(linux) => {
                let min = self.config.rto.min;
                linux.sample(microseconds(rtt), microseconds(min), is_new_flight);
            }
            Estimator::Rfc(rfc) => rfc.sample(rtt as f64),
        }
    }

    /// Lowers the min RTT to `rtt` if that is smaller.
    pub fn record_min(&mut self, rtt: Nanos) {
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
    }

    pub fn srtt(&self) -> Option<Nanos> {
        match &self.estimator {
            Estimator::Linux(linux) => linux.srtt_us().map(|us| us * MICROSECOND),
            Estimator::Rfc(rfc) => rfc.srtt_ns().map(|ns| ns as Nanos),
        }
    }

    pub fn rttvar(&self) -> Nanos {
        match &self.estimator {
            Estimator::Linux(linux) => linux.rttvar_us() * MICROSECOND,
            Estimator::Rfc(rfc) => rfc.rttvar_ns() as Nanos,
        }
    }

    pub fn min(&self) -> Option<Nanos> {
        self.min
    }

    /// Returns the RTO in nanoseconds, without back-off. With a timer wheel, it is rounded up to
    /// clock ticks.
    pub fn rto(&self) -> Nanos {
        if self.srtt().is_none() {
            return self.unmeasured_rto;
        }
        let (min, max) = (self.config.rto.min, self.config.rto.max);
        let rto = match &self.estimator {
            Estimator::Linux(linux) => (linux.rto_us() * MICROSECOND).min(max),
            Estimator::Rfc(rfc) => rfc.rto_ns(min as f64, max as f64) as Nanos,
        };
        if self.config.timer_wheel.is_some() {
            TimerWheel::in_ticks(rto)
        } else {
            rto
        }
    }

    pub fn backed_off(&self, expiries: u32) -> Nanos {
        backed_off(self.rto(), expiries, self.config.rto.max)
    }

    /// Raises the RTO to at least 3 s until the first sample, because the SYN was lost (RFC 6298,
    /// section 5.7).
    pub fn distrust(&mut self) {
        self.unmeasured_rto = self.unmeasured_rto.max(3 * SECOND);
    }
}

fn microseconds(duration: Nanos) -> u32 {
    u32::try_from(duration / MICROSECOND).unwrap_or(u32::MAX)
}
