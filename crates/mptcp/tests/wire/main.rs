//! Packets and their bytes: what was written is read again, and what the kernel wrote is written the same.

mod captures;
mod malformed;
mod round_trip;
mod values;
