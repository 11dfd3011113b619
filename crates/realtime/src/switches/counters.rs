//! Reads the counters of switches in a thread of its own, because a hundred switches take longer
//! than an event may wait.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use experiment::samples::metrics::SWITCH;
use experiment::time::{Nanos, seconds};

use super::openflow::{Connection, PortCounters, TableCounters};
use crate::{Clock, LiveError};

/// The counters of a switch at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) at_ns: Nanos,
    /// Index of the switch.
    pub(super) switch: usize,
    tables: TableCounters,
    received_packets: u64,
    sent_packets: u64,
    barrier_rtt_s: f64,
}

impl Reading {
    /// Returns the values of [`SWITCH`] since an earlier reading.
    pub(super) fn since(&self, earlier: &Self) -> [f64; SWITCH.len()] {
        let grown = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let lookups = grown(self.tables.lookups, earlier.tables.lookups);
        let matched = grown(self.tables.matched, earlier.tables.matched);
        [
            self.tables.entries as f64,
            lookups,
            matched,
            (lookups - matched).max(0.0),
            grown(self.received_packets, earlier.received_packets),
            grown(self.sent_packets, earlier.sent_packets),
            self.barrier_rtt_s,
        ]
    }
}

/// The connections of the thread.
pub(super) struct Reader {
    connections: Vec<(Connection, Vec<u32>)>,
}

impl Reader {
    /// Reads switches by their connections. Counters of ports are summed over those named.
    pub(super) fn new(connections: Vec<(Connection, Vec<u32>)>) -> Self {
        Self { connections }
    }

    /// Reads all switches.
    ///
    /// # Errors
    /// A switch does not answer.
    pub(super) fn read(&mut self, clock: Option<Clock>) -> Result<Vec<Reading>, LiveError> {
        let connections = self.connections.iter_mut().enumerate();
        let readings = connections.map(|(switch, (connection, ports))| {
            let tables = connection.tables()?;
            let mut counted = connection.ports()?;
            counted.retain(|one| ports.contains(&one.port));
            let begun = Instant::now();
            let barrier = connection.begin(super::openflow::Change::Add, &[])?;
            connection.await_barrier(barrier)?;
            let sum = |counter: fn(&PortCounters) -> u64| counted.iter().map(counter).sum();
            Ok(Reading {
                at_ns: clock.map_or(0, |clock| clock.now()),
                switch,
                tables,
                received_packets: sum(|port| port.received_packets),
                sent_packets: sum(|port| port.sent_packets),
                barrier_rtt_s: seconds(begun.elapsed().as_nanos() as Nanos),
            })
        });
        readings.collect()
    }
}

/// The thread that reads. Dropping it ends it.
pub(super) struct Counting {
    stop: Option<Sender<()>>,
    readings: Receiver<Result<Vec<Reading>, LiveError>>,
    thread: Option<JoinHandle<()>>,
}

impl Counting {
    /// Begins to read at every multiple of `every_ns` of the clock.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn start(
        mut reader: Reader,
        every_ns: Nanos,
        clock: Clock,
    ) -> Result<Self, LiveError> {
        let (stop, stopped) = channel();
        let (sender, readings) = channel();
        let run = move || {
            loop {
                let next = (clock.now() / every_ns + 1) * every_ns;
                let stopped = stopped.recv_timeout(clock.until(next));
                let is_last = stopped != Err(RecvTimeoutError::Timeout);
                let reading = reader.read(Some(clock));
                let has_failed = reading.is_err();
                if sender.send(reading).is_err() || has_failed || is_last {
                    return;
                }
            }
        };
        let thread = thread::Builder::new()
            .name("counters".to_owned())
            .spawn(run)
            .map_err(LiveError::while_("starting the thread for counters"))?;
        Ok(Self {
            stop: Some(stop),
            readings,
            thread: Some(thread),
        })
    }

    /// Returns the readings since the last call.
    ///
    /// # Errors
    /// A switch did not answer.
    pub(super) fn readings(&self) -> Result<Vec<Reading>, LiveError> {
        let all: Result<Vec<_>, _> = self.readings.try_iter().collect();
        Ok(all?.into_iter().flatten().collect())
    }

    /// Reads a last time and ends the thread.
    pub(super) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.stop();
    }
}
