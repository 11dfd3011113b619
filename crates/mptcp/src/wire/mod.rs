//! Packets as values, and their bytes.

mod mptcp_option;
mod packet;
mod segment;

pub use mptcp_option::{
    AddressId, Capable, DataNumber, Dss, Join, Key, Mapping, MptcpOption, MptcpOptions, Nonce,
    RemovedAddresses, ResetReason, SignalledAddress, Token,
};
pub use packet::{Ecn, Packet};
pub use segment::{Flags, MAX_OPTIONS_LEN, SackBlock, SackBlocks, Segment, TcpOptions, Timestamps};
