//! Packets as bytes and as values.
//!
//! Parsing has two layers. A view ([`Ipv4View`], [`Ipv6View`], [`TcpView`], [`UdpView`]) borrows
//! the bytes, checks lengths once and gives access to the header fields. Truncated packets, as in
//! captures, are read with views alone. [`Packet`] and [`UdpPacket`] are owned values with the
//! fields that matter to a transport. Parsing them verifies checksums and shares the payload with
//! the input bytes; emitting them computes checksums. An emitted packet parses to the same value.
//!
//! Parsing never panics. A malformed packet is rejected with a [`ParseError`]; an option that must
//! be ignored is [counted](IgnoredOptions).

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
pub use icmp::{ICMP_PROTOCOL, ICMPV6_PROTOCOL, IcmpError, Problem};
pub(crate) use ip::header_len as ip_header_len;
pub use ip::{Ecn, Hops, Ipv4View, Ipv6View};
pub use mptcp_option::{
    AddressId, Capable, DataNumber, Dss, InitialMapping, Join, KIND, Key, Mapping, MptcpOption,
    MptcpOptions, Nonce, OptionError, RemovedAddresses, ResetReason, SignalledAddress, Token,
    Version,
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
