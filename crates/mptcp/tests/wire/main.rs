//! Packets and their bytes: what was written is read again.

mod malformed;
mod round_trip;
mod values;
