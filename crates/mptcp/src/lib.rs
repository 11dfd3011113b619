//! The protocol engine of Multipath TCP (RFC 8684), sans-IO.
//!
//! So far its path managers, which also drive the Linux kernel.

pub mod pm;
