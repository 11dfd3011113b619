//! Packets as values, and their bytes.

pub mod checksum;
mod error;
mod fields;
mod ip;
mod mptcp_option;
mod mptcp_v0;
mod options;
mod packet;
mod segment;
mod tcp;
mod tcp_options;
mod udp;

pub use error::{Header, ParseError};
pub use ip::{Ecn, Hops, Ipv4View, Ipv6View};
pub use mptcp_option::{
    AddressId, Capable, DataNumber, Dss, InitialMapping, Join, KIND, Key, Mapping, MptcpOption,
    MptcpOptions, Nonce, OptionError, RemovedAddresses, ResetReason, SignalledAddress, Token,
};
pub use mptcp_v0::MptcpOptionV0;
pub use options::OptionsIter;
pub use packet::Packet;
pub use segment::{Flags, Segment};
pub use tcp::{TCP_PROTOCOL, TcpView};
pub use tcp_options::{
    IgnoredOptions, MAX_OPTIONS_LEN, OptionBytes, SackBlock, SackBlocks, TcpOptions, Timestamps,
};
pub use udp::{UDP_PROTOCOL, UdpPacket, UdpView};
