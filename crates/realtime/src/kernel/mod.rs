//! The kernel's Multipath TCP: its path manager and its congestion controls.

pub mod congestion;
pub mod path_manager;
pub mod subflow_times;
