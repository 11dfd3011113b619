//! The fields of a captured packet that TCP and MPTCP use.

use std::net::{IpAddr, SocketAddr};

use mptcp::seq::SeqNr;
use mptcp::wire::{Flags, Ipv4View, Ipv6View, OptionsIter, ParseError, TCP_PROTOCOL, TcpView};
use pcap_file::DataLink;

use crate::link_layer::{NoIp, ip_packet};

/// Bytes of a TCP header without options.
const FIXED_LEN: usize = 20;

/// A TCP packet of which at least the fixed header was captured.
#[derive(Clone, Debug)]
pub struct TcpPacket<'a> {
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// Address and port of the receiver.
    pub destination: SocketAddr,
    /// Sequence number of the first byte or of the SYN.
    pub seq: SeqNr,
    /// The next sequence number expected.
    pub ack: SeqNr,
    /// Control bits.
    pub flags: Flags,
    /// Receive window before scaling.
    pub window: u16,
    /// Payload, as far as it was captured.
    pub payload: &'a [u8],
    /// Bytes of payload, captured or not.
    pub payload_len: u32,
    /// Bytes of the IP and TCP headers, options included.
    pub header_len: u32,
    /// Options, as far as they were captured.
    pub options: OptionsIter<'a>,
    /// Bytes of TCP options, padding included, captured or not.
    pub options_len: u32,
    /// Whether some options were not captured.
    pub are_options_cut: bool,
}

/// Why a frame is not a TCP packet that can be analyzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTcp {
    /// It carries another protocol.
    Other,
    /// It is a fragment of an IP packet.
    Fragment,
    /// Its link type is unknown.
    Link(DataLink),
    /// Too little of it was captured.
    Cut,
    /// Its headers contradict themselves.
    Malformed,
}

impl<'a> TcpPacket<'a> {
    /// Parses a frame.
    ///
    /// # Errors
    /// Fails if the frame holds no TCP packet, or too little of one.
    pub fn of(link: DataLink, frame: &'a [u8]) -> Result<Self, NoTcp> {
        let packet = ip_packet(link, frame).map_err(|why| match why {
            NoIp::Other => NoTcp::Other,
            NoIp::Link(link) => NoTcp::Link(link),
            NoIp::Cut => NoTcp::Cut,
        })?;
        match packet.first().map(|first| first >> 4) {
            Some(4) => Self::of_ipv4(&Ipv4View::from_prefix(packet).map_err(no_header)?),
            Some(6) => Self::of_ipv6(&Ipv6View::from_prefix(packet).map_err(no_header)?),
            Some(_) => Err(NoTcp::Other),
            None => Err(NoTcp::Cut),
        }
    }

    fn of_ipv4(ip: &Ipv4View<'a>) -> Result<Self, NoTcp> {
        match ip.protocol() {
            TCP_PROTOCOL if ip.is_fragment() => Err(NoTcp::Fragment),
            TCP_PROTOCOL => Self::of_tcp(
                [ip.source().into(), ip.destination().into()],
                ip.header_len(),
                ip.payload_len(),
                ip.payload(),
            ),
            _ => Err(NoTcp::Other),
        }
    }

    fn of_ipv6(ip: &Ipv6View<'a>) -> Result<Self, NoTcp> {
        match ip.protocol() {
            TCP_PROTOCOL => Self::of_tcp(
                [ip.source().into(), ip.destination().into()],
                ip.header_len(),
                ip.payload_len(),
                ip.payload(),
            ),
            _ => Err(NoTcp::Other),
        }
    }

    fn of_tcp(
        [source, destination]: [IpAddr; 2],
        ip_header_len: usize,
        segment_len: usize,
        bytes: &'a [u8],
    ) -> Result<Self, NoTcp> {
        let tcp = TcpView::from_prefix(bytes).map_err(no_header)?;
        let payload_len = segment_len.checked_sub(tcp.header_len());
        let options_len = tcp.header_len() - FIXED_LEN;
        Ok(Self {
            source: SocketAddr::new(source, tcp.source_port()),
            destination: SocketAddr::new(destination, tcp.destination_port()),
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags: tcp.flags(),
            window: tcp.window(),
            payload: tcp.payload(),
            payload_len: payload_len.ok_or(NoTcp::Malformed)? as u32,
            header_len: (ip_header_len + tcp.header_len()) as u32,
            options: tcp.options(),
            options_len: options_len as u32,
            are_options_cut: tcp.option_bytes().len() < options_len,
        })
    }
}

fn no_header(error: ParseError) -> NoTcp {
    match error {
        ParseError::Truncated { .. } => NoTcp::Cut,
        ParseError::Fragment => NoTcp::Fragment,
        _ => NoTcp::Malformed,
    }
}
