//! The link model, in virtual time: loss at ingress, queue, serializer, loss at egress, delay line.
//!
//! Pure and generic over the packet, so that the simulator and the live emulator run the same code.

mod channel;
mod counters;
mod delay_line;
mod fixed_rate;
mod loss;
mod queue;
mod serializer;
mod station;
mod stepwise;

pub use channel::{Channel, Enqueued, Output, StationId};
pub use counters::{Counters, DropReason};
pub use station::StationGenerators;

/// What the link model has to know about a packet.
pub trait Packet: Send + 'static {
    /// Length of the IP packet in bytes.
    fn ip_bytes(&self) -> u32;

    /// The same for all packets of a flow and hardly ever that of another, of any pattern; FQ-CoDel separates flows by it.
    fn flow_key(&self) -> u64;
}
