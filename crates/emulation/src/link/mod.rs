//! The link model, in virtual time: loss at ingress, queue, serializer, loss at egress, delay line.
//!
//! Free of I/O and generic over the packet, so that the simulator and the emulator run the same
//! code.

mod cable;
mod carrier;
mod cellular;
mod channel;
mod computed;
mod counters;
mod fading;
mod loss;
mod phase;
mod pipe;
mod queue;
mod requests;
mod satellite;
mod serializer;
mod station;
mod stations;
mod trace;
mod train;
mod turns;
mod wifi;
mod wire_size;

pub use carrier::Disturbance;
pub use channel::{Channel, Enqueued, Output, StationId};
pub use counters::{AccessCounters, Counters, DropReason};
pub use station::StationGenerators;
pub use trace::longest_wait_ns;
pub use wifi::most_payload_bps;

/// What the link model needs to know about a packet.
pub trait Packet: Send + 'static {
    /// Returns the length of the IP packet in bytes.
    fn ip_bytes(&self) -> u32;

    /// Returns a key by which FQ-CoDel separates flows. It is the same for all packets of a flow
    /// and almost never equal for two flows. Its bits need not be mixed.
    fn flow_key(&self) -> u64;
}
