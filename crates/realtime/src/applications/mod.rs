//! The applications of flows: traffic of mptcplab itself, and programs.

pub mod programs;
pub mod traffic;
