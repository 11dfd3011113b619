//! Hosts on other machines. The run and all its links stay on this machine, and only hosts are
//! elsewhere.
//!
//! An agent on each machine builds its hosts and runs their ends of flows (`part`), as this machine
//! asks it to (`coordinator`). Requests and answers are lines of JSON (`request`) over a connection
//! that the caller has opened. Packets pass between the emulator here and the devices there through
//! tunnels (`carrier` is their end there).

mod carrier;
mod checks;
mod clock_offset;
mod connection;
mod coordinator;
mod part;
mod request;

pub(crate) use checks::check;
pub use connection::{MachineConnection, Reach};
pub use coordinator::{ClockSummary, MachineSummary, TunnelSummary};
pub(crate) use coordinator::{Machines, merge_counters, merge_probes};
pub use part::serve_part;
