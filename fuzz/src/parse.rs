//! Fuzz target: any bytes as a packet. Parsing must not panic, and what was parsed must be the same
//! after it is written and parsed again.

use std::sync::Arc;

use mptcp::wire::checksum::Sum;
use mptcp::wire::{
    ICMP_PROTOCOL, ICMPV6_PROTOCOL, IcmpError, Ipv4View, Ipv6View, MptcpOptionV0, OptionBytes,
    Packet, TCP_PROTOCOL, TcpOptions, TcpView, UDP_PROTOCOL, UdpPacket,
};

/// Parses the bytes as a packet, also with corrected checksums, and as a segment, alone and after
/// an IPv4 header.
pub fn parse(bytes: &[u8]) {
    packet(bytes);
    let mut mended = bytes.to_vec();
    if mend(&mut mended).is_some() {
        packet(&mended);
    }
    let segment = Ipv4View::from_prefix(bytes).map_or(bytes, |ip| ip.payload());
    if let Ok(view) = TcpView::new(segment) {
        options(&view);
        options_v0(&view);
    }
}

fn packet(bytes: &[u8]) {
    let bytes = Arc::from(bytes);
    let mut again = Vec::new();
    if let Ok((packet, _)) = Packet::parse(&bytes) {
        packet.emit(&mut again);
        assert_eq!(again.len(), packet.wire_len());
        let (parsed, ignored) = Packet::parse(&Arc::from(again)).expect("what we wrote");
        assert!(ignored.is_none());
        assert_eq!(parsed, packet);
    } else if let Ok(packet) = UdpPacket::parse(&bytes) {
        packet.emit(&mut again);
        assert_eq!(again.len(), packet.wire_len());
        assert_eq!(UdpPacket::parse(&Arc::from(again)), Ok(packet));
    } else if let Ok(error) = IcmpError::parse(&bytes) {
        assert_eq!(error.sender.is_ipv4(), error.receiver.is_ipv4());
    }
}

fn options(view: &TcpView<'_>) {
    let (options, _) = TcpOptions::parse(view.options());
    let again = options.emit();
    assert_eq!(again.len(), options.wire_len());
    let mut segment = [0; 60];
    segment[12] = (((20 + again.len()) / 4) << 4) as u8;
    segment[20..20 + again.len()].copy_from_slice(&again);
    let view = TcpView::new(&segment).expect("what we wrote");
    let (parsed, ignored) = TcpOptions::parse(view.options());
    assert!(ignored.is_none());
    assert_eq!(parsed, options);
}

fn options_v0(view: &TcpView<'_>) {
    for (_, content) in view.options() {
        if let Ok(option) = MptcpOptionV0::parse(content) {
            let mut again = OptionBytes::new();
            option.emit(&mut again);
            assert_eq!(again.len(), option.wire_len());
            assert_eq!(MptcpOptionV0::parse(&again[2..]), Ok(option));
        }
    }
}

/// Corrects the checksums of a packet; `None` if it has no space for them.
pub(crate) fn mend(bytes: &mut [u8]) -> Option<()> {
    match bytes.first()? >> 4 {
        4 => mend_v4(bytes),
        _ => {
            let view = Ipv6View::new(bytes).ok()?;
            let (start, len) = (view.header_len(), view.payload_len());
            let ends = (view.source().into(), view.destination().into());
            let protocol = view.protocol();
            mend_transport(&mut bytes[start..start + len], protocol, ends)
        }
    }
}

fn mend_v4(bytes: &mut [u8]) -> Option<()> {
    let view = Ipv4View::new(bytes).ok()?;
    let (start, len) = (view.header_len(), view.payload_len());
    let ends = (view.source().into(), view.destination().into());
    let protocol = view.protocol();
    let (header, rest) = bytes.split_at_mut(start);
    mend_field(header, 10, Sum::new())?;
    mend_transport(&mut rest[..len], protocol, ends)
}

fn mend_transport(
    transport: &mut [u8],
    protocol: u8,
    (source, destination): (std::net::IpAddr, std::net::IpAddr),
) -> Option<()> {
    let at = match protocol {
        TCP_PROTOCOL => 16,
        UDP_PROTOCOL => 6,
        ICMPV6_PROTOCOL => 2,
        ICMP_PROTOCOL => return mend_field(transport, 2, Sum::new()),
        _ => return None,
    };
    let pseudo_header = Sum::of_pseudo_header(source, destination, protocol, transport.len());
    mend_field(transport, at, pseudo_header)
}

fn mend_field(bytes: &mut [u8], at: usize, mut sum: Sum) -> Option<()> {
    bytes.get_mut(at..at + 2)?.fill(0);
    sum.add_bytes(bytes);
    bytes[at..at + 2].copy_from_slice(&sum.checksum().to_be_bytes());
    Some(())
}
