//! Parameters of a connection.

use crate::cc::CongestionControl;
use crate::failure::Behaviour;
use crate::pm::PathManager;
use crate::sched::Scheduler;
use crate::subflow;
use crate::time::{Nanos, SECOND};

/// Parameters of a connection; the defaults are Linux's, except that buffers do not grow from a smaller size.
#[derive(Clone, Debug)]
pub struct Config {
    /// Those of every subflow.
    pub subflow: subflow::Config,
    /// Whether Multipath TCP is asked for, or granted. Without, it is plain TCP.
    pub is_multipath: bool,
    /// Whether checksums are required (RFC 8684, section 3.3.1). Either side can.
    pub uses_checksums: bool,
    /// Bytes that the application may have written and the peer not acknowledged.
    pub send_buffer_bytes: u64,
    /// Bytes that may wait for the application, or for what is missing before them.
    pub receive_buffer_bytes: u64,
    /// SYNs with MP_CAPABLE before one without.
    pub max_capable_syns: u32,
    /// What happens when Multipath TCP breaks in the middle of a stream.
    pub fallback: Fallback,
    /// What is done about subflows that fail.
    pub behaviour: Behaviour,
    /// How long a connection lives without any subflow, so that it can be joined again (break before make).
    pub lifetime_without_subflows: Nanos,
    /// Most subflows at a time.
    pub max_subflows: usize,
}

/// What happens when Multipath TCP breaks in the middle of a stream (RFC 8684, section 3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// What the RFC says, and no more: a connection with one subflow whose checksum fails goes on as plain TCP.
    #[default]
    Rfc,
    /// The connection is reset rather than deliver a byte that was not sent.
    Strict,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            subflow: subflow::Config::default(),
            is_multipath: true,
            uses_checksums: false,
            send_buffer_bytes: 4 << 20,
            receive_buffer_bytes: 6 << 20,
            max_capable_syns: 3,
            fallback: Fallback::default(),
            behaviour: Behaviour::mainline(),
            lifetime_without_subflows: 60 * SECOND,
            max_subflows: 256,
        }
    }
}

/// The algorithms of a connection.
#[derive(Debug)]
pub struct Algorithms {
    /// Congestion control of all subflows.
    pub congestion_control: Box<dyn CongestionControl>,
    /// Which subflow carries what.
    pub scheduler: Box<dyn Scheduler>,
    /// Which subflows there are.
    pub path_manager: Box<dyn PathManager>,
}
