//! Packets and their bytes: written packets are parsed back.

mod icmp;
mod malformed;
mod round_trip;
mod values;
