//! Packets and their bytes: what was written is read again.

mod icmp;
mod malformed;
mod round_trip;
mod values;
