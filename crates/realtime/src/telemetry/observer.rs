//! Reads the sockets of a machine's hosts, for the telemetry of the machine that runs the
//! experiment.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use experiment::addressing::Places;
use experiment::resolved::Experiment;

use super::backup::Backups;
use super::mptcp_info::{MptcpReader, SubflowInfo};
use super::observation::{Observation, ObservedEnd};
use crate::applications::traffic::{FlowSocket, StreamEnd};
use crate::{LiveError, NetworkNamespace};

/// The reader of these sockets.
pub(crate) struct Observer {
    places: Places,
    reader: MptcpReader,
    backups: Backups,
}

impl Observer {
    /// Starts without any state. `namespace` returns the namespace of a host; `None` if it is on
    /// another machine.
    ///
    /// # Errors
    /// The system refuses a netlink socket in a host that sends over MPTCP.
    pub(crate) fn new<'a>(
        experiment: &Experiment,
        namespace: impl Fn(&str) -> Option<&'a Arc<NetworkNamespace>>,
    ) -> Result<Self, LiveError> {
        Ok(Self {
            places: Places::new(experiment),
            reader: MptcpReader::new(),
            backups: Backups::new(experiment, namespace)?,
        })
    }

    /// Reads sockets. Those that can no longer be read are left out.
    pub(crate) fn observe(&mut self, sockets: &[FlowSocket]) -> Vec<ObservedEnd> {
        self.backups.clear();
        let mut ends = Vec::with_capacity(sockets.len());
        for socket in sockets {
            let descriptor = socket.socket.as_fd();
            let seen = Observation::of(descriptor, socket.is_mptcp, &mut self.reader);
            let Some(mut observation) = seen else {
                continue;
            };
            if socket.end == StreamEnd::Sender {
                self.add_backups(socket.flow, &mut observation);
            }
            ends.push(ObservedEnd {
                flow: socket.flow,
                end: socket.end,
                is_mptcp: socket.is_mptcp,
                observation,
            });
        }
        ends
    }

    /// Adds which subflows have backup priority, which only their own machine can tell.
    fn add_backups(&mut self, flow: usize, observation: &mut Observation) {
        let host = self.places.sender(flow);
        let ends = |subflow: &SubflowInfo| (subflow.local, subflow.remote);
        let pairs: Vec<(SocketAddr, SocketAddr)> = observation.subflows.iter().map(ends).collect();
        self.backups.ask(host, &pairs);
        for subflow in &mut observation.subflows {
            subflow.is_backup = self.backups.is_backup(host, ends(subflow));
        }
    }
}
