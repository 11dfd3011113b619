//! Models of what stands between hosts: links with their queues and losses, shared media,
//! middleboxes, and the queue that a host has for its first link.
//!
//! The models take the time as an argument, so the simulator and the real-time emulator share them.

pub mod first_hop;
pub mod link;
mod link_summary;
pub mod links;
pub mod middlebox;

pub use link_summary::LinkSummary;
