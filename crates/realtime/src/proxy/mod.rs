//! Any TCP program over the engine: `mptcplab proxy`.
//!
//! A command runs in a network namespace with a TUN device as the only way out. The proxy ends the
//! command's TCP connections and continues them over MPTCP by the engine, from the machine's own
//! interfaces and addresses. They go to the same destination, or to a gateway that continues them
//! over TCP:
//!
//! ```text
//! command --- kernel's TCP --- TUN --- engine --- relay --- engine --- raw sockets --- interfaces
//!
//! interfaces --- server
//! interfaces --- gateway: engine --- relay --- kernel's TCP --- server
//! ```
//!
//! One thread does all the work and waits for all descriptors at once. Only sockets are created in
//! the machine's own network namespace, so everything ends with the process.

mod client;
mod convert;
mod datagrams;
mod engine_side;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod gateway;
mod held_ports;
mod network_side;
mod outlets;
mod packet_filter;
mod program;
mod program_namespace;
mod questions;
mod relay;
mod report;
mod servers;
mod waiting;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use std::{io, thread};

use experiment::time::Nanos;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::CapabilitySet;

use self::client::Client;
use self::gateway::Gateway;
pub use self::report::{InterfaceReport, Report};
use crate::LiveError;
use crate::capabilities::has_capabilities;

/// The interfaces and algorithms of a proxy.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The interfaces; connections start on the first.
    pub interfaces: Vec<String>,
    /// The algorithms.
    pub choice: Choice,
    /// Seconds of silence after which a peer counts as gone.
    pub give_up_after_s: u32,
}

/// Algorithms of the engine, by name.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The congestion control of all subflows.
    pub congestion_control: String,
    /// Selects the subflow for each piece of data.
    pub scheduler: String,
    /// Opens and closes subflows.
    pub path_manager: String,
}

/// A proxy in a thread of its own. Dropping it ends it.
#[derive(Debug)]
pub struct Proxy {
    stop: Arc<OwnedFd>,
    ended: Receiver<Result<Report, LiveError>>,
}

impl Proxy {
    /// Runs a command and carries its TCP over these interfaces, to its destinations or to a
    /// gateway.
    ///
    /// # Errors
    /// The settings are wrong, privileges are missing, or the system refuses.
    pub fn of_command(
        settings: &Settings,
        gateway: Option<SocketAddr>,
        command: Vec<String>,
    ) -> Result<Self, LiveError> {
        check_rights()?;
        let client = Client::new(settings, gateway)?;
        Self::start(move |stop| client.run(&command, stop))
    }

    /// Accepts connections at a port of these interfaces, and continues them over the kernel's TCP.
    ///
    /// # Errors
    /// As [`Self::of_command`], or the port is taken.
    pub fn gateway(settings: &Settings, port: u16) -> Result<Self, LiveError> {
        check_rights()?;
        let gateway = Gateway::new(settings, port)?;
        Self::start(move |stop| gateway.run(stop))
    }

    fn start(
        work: impl FnOnce(&OwnedFd) -> Result<Report, LiveError> + Send + 'static,
    ) -> Result<Self, LiveError> {
        let made = || {
            let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
            let seen = Arc::clone(&stop);
            let (end, ended) = channel();
            let thread = thread::Builder::new().name("proxy".to_owned());
            // The caller may have stopped waiting.
            thread.spawn(move || drop(end.send(work(&seen))))?;
            Ok(Self { stop, ended })
        };
        made().map_err(LiveError::while_::<io::Error>("starting the proxy"))
    }

    /// Waits for the end for at most `timeout`. Returns `None` if the proxy is still running.
    pub fn wait(&self, timeout: Duration) -> Option<Result<Report, LiveError>> {
        match self.ended.recv_timeout(timeout) {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                let why = "the proxy has ended: its thread panicked";
                Some(Err(LiveError::Failed(why.to_owned())))
            }
        }
    }

    /// Ends the proxy: kills its programs and resets its connections.
    pub fn stop(&self) {
        // Fails only if it was already stopped.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop();
    }
}

fn check_rights() -> Result<(), LiveError> {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW | CapabilitySet::SYS_ADMIN;
    match has_capabilities(needed) {
        true => Ok(()),
        false => Err(LiveError::Machine {
            what: "raw sockets and network namespaces need root".to_owned(),
            remedy: "use `sudo mptcplab proxy ..`".to_owned(),
        }),
    }
}

/// Returns the time until the earliest of these times.
fn earliest(due: impl IntoIterator<Item = Option<Nanos>>, now: Nanos) -> Option<Nanos> {
    let first = due.into_iter().flatten().min()?;
    Some(first.saturating_sub(now))
}
