//! Applications over the sockets of real hosts.
//!
//! Each end of a flow runs in a thread in its host. Each thread blocks in one wait only, which a
//! stop ends at once.

mod byte_stream;
mod connection;
mod datagrams;
mod pattern;
mod plan;
mod probe;
mod record;
mod request_response;
mod role;
mod short_flows;
mod sockets;
mod stream;
mod unit_header;
mod worker;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use experiment::resolved::Experiment;
use experiment::samples::Unit;
use experiment::time::Nanos;
use serde::{Deserialize, Serialize};

use self::plan::Plan;
use self::record::{FlowRecord, ProbeRecord};
use self::sockets::Registry;
use self::worker::Workers;
use crate::{Clock, LiveError, NetworkNamespace};

pub(crate) use self::byte_stream::ByteStream;
pub(crate) use self::connection::{End, MakeEnd};
pub use self::plan::{port_of_flow, why_refused};
pub(crate) use self::record::Journal;
pub(crate) use self::role::{Opened, Openings, Part, Role};
pub use self::unit_header::UNIT_HEADER_BYTES;
pub(crate) use self::worker::Wait;
pub use experiment::traffic::StreamEnd;

/// Counters of a flow, of both ends together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounters {
    /// Payload that the sender's kernel accepted.
    pub bytes_sent: u64,
    /// Payload that the receiver read.
    pub bytes_received: u64,
    /// Payload that the receiver read in order, which is all of it.
    pub bytes_in_order: u64,
    /// Datagrams and probes sent.
    pub packets_sent: u64,
    /// Datagrams and probes received.
    pub packets_received: u64,
}

/// The result of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowResult {
    /// When connect was called or the first datagram was sent; the scheduled time if neither
    /// happened.
    pub start_ns: Nanos,
    /// When its first connection was established at the opener; `None` for UDP.
    pub established_ns: Option<Nanos>,
    /// When the last byte of a finite flow arrived.
    pub end_ns: Option<Nanos>,
    /// Payload that the receiver read.
    pub bytes: u64,
    /// Why the flow failed.
    pub error: Option<String>,
}

/// Counters of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCounters {
    /// Probes sent.
    pub sent: u64,
    /// Probes answered.
    pub answered: u64,
    /// Round-trip time of the last answered probe.
    pub last_rtt_ns: Option<Nanos>,
}

/// An answered probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    /// Index of the probe in [`Traffic::probe_names`].
    pub probe: usize,
    /// When the answer arrived.
    pub time_ns: Nanos,
    /// Time since the probe was sent.
    pub rtt_ns: Nanos,
}

/// An end of a connection of a flow.
#[derive(Clone, Debug)]
pub struct FlowSocket {
    /// Index of the flow in the experiment.
    pub flow: usize,
    /// Which end it is.
    pub end: StreamEnd,
    /// Whether the socket is for MPTCP. Its connection may have fallen back to TCP.
    pub is_mptcp: bool,
    /// The socket. It may be shut down, but stays open as long as this reference exists.
    pub socket: Arc<OwnedFd>,
}

/// The traffic of a run, ready to start: every listener is open, and every thread is in its host.
pub struct PreparedTraffic {
    traffic: Traffic,
    roles: BTreeMap<String, Vec<Role>>,
}

impl PreparedTraffic {
    /// Removes and returns the roles of hosts with the userspace stack, by their ids.
    pub(crate) fn take_roles(&mut self) -> BTreeMap<String, Vec<Role>> {
        std::mem::take(&mut self.roles)
    }

    /// Starts the traffic. Time 0 of `clock` is that of the flows; `clock` may have started just
    /// before.
    pub fn start(mut self, clock: Clock) -> Traffic {
        self.traffic.workers.begin(clock);
        self.traffic
    }
}

/// The traffic of a run. Dropping it ends it.
pub struct Traffic {
    workers: Workers,
    flows: Vec<Arc<FlowRecord>>,
    probes: Vec<Arc<ProbeRecord>>,
    probe_names: Vec<String>,
    answers: Mutex<mpsc::Receiver<ProbeAnswer>>,
    registry: Arc<Registry>,
}

impl Traffic {
    /// Creates the threads and listeners of all flows except programs, and the probes of `measure`.
    /// `namespace` returns the namespace of a host; the ends of flows at hosts without one are left
    /// to another machine. Delivered data units are sent to `units`.
    ///
    /// # Errors
    /// - [`why_refused`] returns a reason.
    /// - A port is taken.
    /// - A host lacks a protocol or congestion control.
    pub fn prepare<'a>(
        experiment: &Experiment,
        seed: u64,
        namespace: impl Fn(&str) -> Option<&'a Arc<NetworkNamespace>>,
        units: mpsc::Sender<Unit>,
    ) -> Result<PreparedTraffic, LiveError> {
        let (answers_in, answers) = mpsc::channel();
        let Plan {
            groups,
            flows,
            probes,
            probe_names,
            registry,
            roles,
        } = Plan::new(experiment, seed, namespace, units, answers_in)?;
        let traffic = Self {
            workers: Workers::prepare(groups)?,
            flows,
            probes,
            probe_names,
            answers: Mutex::new(answers),
            registry,
        };
        Ok(PreparedTraffic { traffic, roles })
    }

    /// Returns the counters of the flows, in the experiment's order. Those of programs are 0.
    pub fn flows(&self) -> Vec<FlowCounters> {
        self.flows.iter().map(|flow| flow.counters()).collect()
    }

    /// Returns the entity names of the probes: those of flows, then those of `measure`.
    pub fn probe_names(&self) -> &[String] {
        &self.probe_names
    }

    /// Returns the counters of the probes, in the order of their names.
    pub fn probes(&self) -> Vec<ProbeCounters> {
        self.probes.iter().map(|probe| probe.counters()).collect()
    }

    /// Returns the probes answered since the last call.
    pub fn rtts(&self) -> Vec<ProbeAnswer> {
        let answers = self.answers.lock();
        let answers = answers.unwrap_or_else(PoisonError::into_inner);
        answers.try_iter().collect()
    }

    /// Returns the ends of established connections. Each is returned at least once after its end,
    /// so that its last state can be read; the call after that closes it.
    pub fn sockets(&self) -> Vec<FlowSocket> {
        self.registry.sockets()
    }

    /// Returns whether all finite flows have ended or failed; `None` if there are none.
    pub fn flows_are_done(&self) -> Option<bool> {
        self.flows_are_done_beside(&[])
    }

    /// Like [`Self::flows_are_done`], where `elsewhere` tells which flows have ended or failed
    /// according to other machines.
    pub(crate) fn flows_are_done_beside(&self, elsewhere: &[bool]) -> Option<bool> {
        let finite = self.flows.iter().enumerate();
        let mut finite = finite.filter(|(_, flow)| flow.is_finite()).peekable();
        finite.peek()?;
        let is_over_there = |flow| elsewhere.get(flow).copied().unwrap_or(false);
        Some(finite.all(|(index, flow)| flow.is_over() || is_over_there(index)))
    }

    /// Returns, for each flow, whether it has ended or failed.
    pub(crate) fn flows_over(&self) -> Vec<bool> {
        self.flows.iter().map(|flow| flow.is_over()).collect()
    }

    /// Ends all threads, whatever they wait for. Connections stay open until this is dropped, so
    /// that their last state can be read.
    ///
    /// # Errors
    /// A thread had panicked.
    pub fn stop(&mut self) -> Result<(), LiveError> {
        self.workers.stop()
    }

    /// Returns the results of the flows, in the experiment's order.
    pub fn results(&self) -> Vec<FlowResult> {
        self.flows.iter().map(|flow| flow.result()).collect()
    }
}
