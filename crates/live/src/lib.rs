//! Runs experiments in real time on Linux: the link model of `netlab` between hosts in network
//! namespaces.
//!
//! Descriptors and threads of this process hold everything that a run creates, so all of it ends
//! with the process.
#![cfg(target_os = "linux")]

mod capabilities;
mod clock;
pub mod congestion;
mod device;
mod emulator;
mod error;
mod first_hop;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hosts;
mod mailbox;
mod namespace;
mod netlink;
mod offload;
mod own_stack;
mod path_manager;
pub mod programs;
pub mod proxy;
mod run;
mod sampling;
mod stack;
mod subflow_times;
mod summary;
mod sys;
pub mod telemetry;
pub mod traffic;

pub use capabilities::{Kernel, capabilities, check};
pub use clock::Clock;
pub use device::{Device, DeviceKind};
pub use emulator::{
    DirectionState, Emulator, EmulatorSummary, InterfaceState, LATENESS_BOUND_NS, LatenessSummary,
    NetworkState, STANDSTILL_BOUND_NS,
};
pub use error::LiveError;
pub use hosts::{Hosts, Tables};
pub use namespace::NetworkNamespace;
pub use own_stack::OwnStack;
pub use path_manager::{End, PathEvent, PathManagers, What};
pub use run::LiveRun;
pub use sampling::Latest;
pub use summary::{HostSummary, LateLink, Status, Summary};
