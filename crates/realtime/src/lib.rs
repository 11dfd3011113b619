//! Runs experiments in real time on Linux: the links of `emulation` between hosts in network
//! namespaces.
//!
//! Descriptors and threads of this process hold everything that a run creates, so all of it ends
//! with the process.
#![cfg(target_os = "linux")]

pub mod applications;
mod capabilities;
mod clock;
#[cfg(test)]
#[path = "../../experiment/tests/complete/mod.rs"]
mod complete;
mod emulator;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod kernel;
mod machines;
mod network;
pub mod proxy;
mod run;
mod sampling;
mod summary;
mod switches;
mod sys;
pub mod telemetry;
mod userspace;

pub use capabilities::{Kernel, capabilities, check};
pub use clock::Clock;
pub use emulator::{
    DirectionState, Emulator, EmulatorSummary, InterfaceState, LATENESS_BOUND_NS, LatenessSummary,
    NetworkState, STANDSTILL_BOUND_NS,
};
pub use error::LiveError;
pub use kernel::path_manager::{End, PathEvent, PathManagers, What};
pub use machines::{
    ClockSummary, MachineConnection, MachineSummary, Reach, TunnelSummary, serve_part,
};
pub use network::device::{Device, DeviceKind};
pub use network::hosts::{Hosts, Tables};
pub use network::namespace::NetworkNamespace;
pub use network::user_namespace::enter as enter_user_namespace;
pub use run::{Controlling, LiveRun};
pub use summary::{HostSummary, LateLink, RealLink, Status, Summary};
pub use switches::{ControlSummary, ControllerSummary, Problem, Reaction, RuleChange};
pub use userspace::capabilities::Userspace;
