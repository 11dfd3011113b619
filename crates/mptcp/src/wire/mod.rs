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

/// Temporary.
pub fn dss_checksum(
    _data_seq: u64,
    _subflow_seq: u32,
    _len: u16,
    _payload: &crate::payload::Payload,
) -> u16 {
    0
}
