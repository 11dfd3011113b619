//! Counters of traffic, shared by the two ends of a flow and their readers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use experiment::samples::Unit;
use experiment::time::Nanos;

use super::{FlowCounters, FlowResult, ProbeAnswer, ProbeCounters};

/// A number that only grows, or that only one thread writes.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A time that is set at most once.
#[derive(Debug)]
pub(super) struct Moment(AtomicU64);

impl Moment {
    const NEVER: u64 = u64::MAX;

    fn new() -> Self {
        Self(AtomicU64::new(Self::NEVER))
    }

    /// Sets the time unless it is already set.
    pub(super) fn set(&self, at: Nanos) {
        let order = Ordering::Relaxed;
        // An earlier value stays.
        let _ = self.0.compare_exchange(Self::NEVER, at, order, order);
    }

    pub(super) fn get(&self) -> Option<Nanos> {
        let at = self.0.load(Ordering::Relaxed);
        (at != Self::NEVER).then_some(at)
    }
}

/// Records the events of a connection.
pub(crate) trait Journal: Send + Sync {
    /// The opener called connect.
    fn record_connecting(&self, now: Nanos);
    /// The opener's connection was established.
    fn record_established(&self, now: Nanos);
    /// The transfer is complete; its last byte arrived at `at`.
    fn record_completion(&self, at: Nanos);
    /// The connection failed.
    fn record_failure(&self, error: String);
}

/// The record of a flow.
#[derive(Debug)]
pub(super) struct FlowRecord {
    index: usize,
    scheduled_start: Nanos,
    /// Whether it ends by itself.
    is_finite: bool,
    units: mpsc::Sender<Unit>,
    pub(super) bytes_sent: Counter,
    pub(super) bytes_received: Counter,
    pub(super) packets_sent: Counter,
    pub(super) packets_received: Counter,
    /// For datagrams: whether the sender has sent everything.
    pub(super) has_sent_all: AtomicBool,
    pub(super) start: Moment,
    pub(super) established: Moment,
    pub(super) end: Moment,
    error: Mutex<Option<String>>,
    /// Failures after the first.
    further_failures: Counter,
}

impl FlowRecord {
    pub(super) fn new(
        index: usize,
        scheduled_start: Nanos,
        is_finite: bool,
        units: mpsc::Sender<Unit>,
    ) -> Self {
        Self {
            index,
            scheduled_start,
            is_finite,
            units,
            bytes_sent: Counter::default(),
            bytes_received: Counter::default(),
            packets_sent: Counter::default(),
            packets_received: Counter::default(),
            has_sent_all: AtomicBool::new(false),
            start: Moment::new(),
            established: Moment::new(),
            end: Moment::new(),
            error: Mutex::new(None),
            further_failures: Counter::default(),
        }
    }

    pub(super) fn is_finite(&self) -> bool {
        self.is_finite
    }

    /// Returns when it is scheduled to start.
    pub(super) fn scheduled_start(&self) -> Nanos {
        self.scheduled_start
    }

    /// Returns when it started, or the scheduled start if it has not.
    pub(super) fn start(&self) -> Nanos {
        self.start.get().unwrap_or(self.scheduled_start)
    }

    /// Records the delivery of a unit.
    pub(super) fn record_unit(&self, unit: u64, bytes: u64, sent_ns: Nanos, now: Nanos) {
        let unit = Unit {
            flow: self.index,
            unit,
            bytes,
            sent_ns,
            received_ns: now,
            delivered_ns: now,
        };
        // An error means that the receiver was dropped and needs no more units.
        let _ = self.units.send(unit);
    }

    /// Returns whether it has ended or failed.
    pub(super) fn is_over(&self) -> bool {
        self.end.get().is_some() || self.error().is_some()
    }

    fn error(&self) -> Option<String> {
        let error = self.error.lock();
        error.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn counters(&self) -> FlowCounters {
        let bytes_received = self.bytes_received.get();
        FlowCounters {
            bytes_sent: self.bytes_sent.get(),
            bytes_received,
            // A kernel delivers a stream only in order, and a datagram waits for no other.
            bytes_in_order: bytes_received,
            packets_sent: self.packets_sent.get(),
            packets_received: self.packets_received.get(),
        }
    }

    pub(super) fn result(&self) -> FlowResult {
        let more = self.further_failures.get();
        let error = self.error().map(|first| match more {
            0 => first,
            more => format!("{first} (and {more} more failed)"),
        });
        FlowResult {
            start_ns: self.start(),
            established_ns: self.established.get(),
            end_ns: self.end.get(),
            bytes: self.bytes_received.get(),
            error,
        }
    }
}

impl Journal for FlowRecord {
    fn record_connecting(&self, now: Nanos) {
        self.start.set(now);
    }

    fn record_established(&self, now: Nanos) {
        self.established.set(now);
    }

    fn record_completion(&self, at: Nanos) {
        if self.is_finite {
            self.end.set(at);
        }
    }

    fn record_failure(&self, error: String) {
        if self.end.get().is_some() {
            return;
        }
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        match *first {
            None => *first = Some(error),
            Some(_) => self.further_failures.add(1),
        }
    }
}

/// The record of a probe, of a flow or of `measure`.
#[derive(Debug)]
pub(super) struct ProbeRecord {
    index: usize,
    pub(super) sent: Counter,
    pub(super) answered: Counter,
    last_rtt: AtomicU64,
    answers: mpsc::Sender<ProbeAnswer>,
}

impl ProbeRecord {
    pub(super) fn new(index: usize, answers: mpsc::Sender<ProbeAnswer>) -> Self {
        Self {
            index,
            sent: Counter::default(),
            answered: Counter::default(),
            last_rtt: AtomicU64::new(0),
            answers,
        }
    }

    pub(super) fn record_answer(&self, now: Nanos, rtt: Nanos) {
        self.answered.add(1);
        self.last_rtt.store(rtt, Ordering::Relaxed);
        let answer = ProbeAnswer {
            probe: self.index,
            time_ns: now,
            rtt_ns: rtt,
        };
        // An error means that the receiver was dropped and needs no more answers.
        let _ = self.answers.send(answer);
    }

    pub(super) fn counters(&self) -> ProbeCounters {
        let answered = self.answered.get();
        ProbeCounters {
            sent: self.sent.get(),
            answered,
            last_rtt_ns: (answered > 0).then(|| self.last_rtt.load(Ordering::Relaxed)),
        }
    }
}
