//! Packets as values, and their bytes.
//!
//! Bytes are read in two steps. A view ([`Ipv4View`], [`Ipv6View`], [`TcpView`], [`UdpView`]) checks lengths once and shows the
//! fields of a header where they stand; captures of which only the first bytes were kept are read with views alone. [`Packet`]
//! and [`UdpPacket`] are values of what matters to a transport: reading one verifies its checksums and keeps its payload as a
//! part of the bytes, and writing it computes them. What was written is read again as the same value.
//!
//! No bytes make this panic. A packet is refused with a [`ParseError`]; an option that has to be ignored is
//! [counted](IgnoredOptions).

pub mod checksum;
mod error;
mod fields;
mod icmp;
mod ip;
pub mod mptcp_option;
pub mod mptcp_v0;
mod options;
mod packet;
mod segment;
mod tcp;
pub mod tcp_options;
mod udp;

pub use error::{Header, ParseError};
pub use icmp::{IcmpError, Problem};
pub(crate) use ip::header_len as ip_header_len;
pub use ip::{Ecn, Hops, Ipv4View, Ipv6View};
pub use mptcp_option::{
    AddressId, Capable, DataNumber, Dss, InitialMapping, Join, KIND, Key, Mapping, MptcpOption,
    MptcpOptions, Nonce, OptionError, RemovedAddresses, ResetReason, SignalledAddress, Token,
};
pub use mptcp_v0::MptcpOptionV0;
pub use options::OptionsIter;
pub use packet::Packet;
pub use segment::{Flags, Segment};
pub(crate) use tcp::TCP_HEADER_LEN;
pub use tcp::{TCP_PROTOCOL, TcpView};
pub use tcp_options::{
    IgnoredOptions, MAX_OPTIONS_LEN, OptionBytes, SackBlock, SackBlocks, TcpOptions, Timestamps,
};
pub use udp::{UDP_PROTOCOL, UdpPacket, UdpView};
