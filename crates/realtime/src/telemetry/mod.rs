//! What the kernel reports about the connections of a run, read from their sockets during the run.
//!
//! Both ends of each connection are read: bytes sent come from the sender, bytes received from the
//! receiver.

mod backup;
mod engine;
mod mptcp_info;
mod observation;
mod observer;
mod state;
mod tcp_info;
mod tracker;

use std::os::fd::AsFd;
use std::sync::Arc;

use experiment::addressing::{Ends, Places};
use experiment::resolved::Experiment;
use experiment::summary::SubflowResult;
use experiment::time::Nanos;

#[cfg(feature = "fuzzing")]
pub(crate) use self::mptcp_info::read_infos;

use self::backup::Backups;
use self::mptcp_info::MptcpReader;
use self::tracker::Tracker;
use crate::applications::traffic::{FlowSocket, StreamEnd};
use crate::{LiveError, NetworkNamespace};

pub(crate) use self::engine::ClosedSubflow;
pub use self::observation::Fallback;
pub(crate) use self::observation::{Observation, ObservedEnd};
pub(crate) use self::observer::Observer;
pub use self::state::{ConnectionState, FlowTelemetry, SubflowState};
pub use self::tcp_info::TcpState;

/// The shortest time between two requests for the priority of subflows. They take longer than
/// reading a socket, and the priority seldom changes.
const BACKUP_EVERY_NS: Nanos = 100_000_000;

/// The telemetry of a run.
pub struct Telemetry {
    places: Places,
    reader: MptcpReader,
    backups: Backups,
    backups_at: Option<Nanos>,
    trackers: Vec<Tracker>,
    /// Reports of hosts with the userspace stack, and of other machines, for the next sample.
    ours: Vec<ObservedEnd>,
}

impl Telemetry {
    /// Starts without any state. `namespace` returns the namespace of a host.
    ///
    /// # Errors
    /// The system refuses a netlink socket in a host that sends over MPTCP.
    pub fn new<'a>(
        experiment: &Experiment,
        namespace: impl Fn(&str) -> Option<&'a Arc<NetworkNamespace>>,
    ) -> Result<Self, LiveError> {
        Ok(Self {
            places: Places::new(experiment),
            reader: MptcpReader::new(),
            backups: Backups::new(experiment, namespace)?,
            backups_at: None,
            trackers: experiment
                .flows
                .iter()
                .map(|_| Tracker::default())
                .collect(),
            ours: Vec::new(),
        })
    }

    /// Adds the report of a host with the userspace stack, or of another machine, to the next sample.
    pub(crate) fn add_reports(&mut self, ends: Vec<ObservedEnd>) {
        self.ours.extend(ends);
    }

    /// Reads all open ends of connections. Returns the state of each flow, in the experiment's
    /// order.
    ///
    /// A socket that can no longer be read counts as gone; its last values are kept.
    pub fn sample(&mut self, now: Nanos, sockets: &[FlowSocket]) -> Vec<FlowTelemetry> {
        for tracker in &mut self.trackers {
            tracker.begin(now);
        }
        for end in [StreamEnd::Sender, StreamEnd::Receiver] {
            for socket in sockets.iter().filter(|socket| socket.end == end) {
                self.look_at(socket);
            }
            for ours in self.ours.extract_if(.., |ours| ours.end == end) {
                let tracker = &mut self.trackers[ours.flow];
                tracker.observe(end, ours.is_mptcp, ours.observation);
            }
        }
        if self
            .backups_at
            .is_none_or(|last| now.saturating_sub(last) >= BACKUP_EVERY_NS)
        {
            self.backups_at = Some(now);
            self.ask_for_backups();
        }
        let trackers = self.trackers.iter_mut().enumerate();
        trackers
            .map(|(flow, tracker)| {
                let sender = self.places.sender(flow);
                tracker.end(|local, remote| self.backups.is_backup(sender, (local, remote)))
            })
            .collect()
    }

    fn ask_for_backups(&mut self) {
        self.backups.clear();
        for (flow, tracker) in self.trackers.iter().enumerate() {
            let pairs = tracker.pairs_of_senders();
            self.backups.ask(self.places.sender(flow), &pairs);
        }
    }

    fn look_at(&mut self, socket: &FlowSocket) {
        let descriptor = socket.socket.as_fd();
        let seen = Observation::of(descriptor, socket.is_mptcp, &mut self.reader);
        if let (Some(seen), Some(tracker)) = (seen, self.trackers.get_mut(socket.flow)) {
            tracker.observe(socket.end, socket.is_mptcp, seen);
        }
    }

    /// Returns all subflows that were ever established, by flow in the experiment's order, as last
    /// seen.
    pub fn results(&self) -> Vec<Vec<SubflowResult>> {
        let trackers = self.trackers.iter().enumerate();
        trackers
            .map(|(flow, tracker)| {
                let states = tracker.all();
                let results = states.iter().map(|state| self.result(flow, state));
                results.collect()
            })
            .collect()
    }

    fn result(&self, flow: usize, state: &SubflowState) -> SubflowResult {
        let ends = Ends {
            local: state.local,
            remote: state.remote,
        };
        SubflowResult {
            opened_ns: state.opened_ns.unwrap_or(0),
            closed_ns: state.closed_ns,
            bytes: state.bytes(),
            retransmitted_bytes: state.retransmitted_bytes.unwrap_or(0),
            ..SubflowResult::new(&self.places, flow, state.number, ends)
        }
    }
}
