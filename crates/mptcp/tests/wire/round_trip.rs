//! Written packets are parsed back.

use std::sync::Arc;

use mptcp::wire::{
    IgnoredOptions, MptcpOption, MptcpOptionV0, OptionBytes, Packet, ParseError, UdpPacket,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::values::{mptcp_option, mptcp_option_v0, packet, tcp_options, udp_packet};

fn bytes_of(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn packets_are_read_as_they_were_written(packet in packet()) {
        let bytes = bytes_of(&packet);
        prop_assert_eq!(bytes.len(), packet.wire_len());
        let parsed = Packet::parse(&Arc::from(bytes));
        prop_assert_eq!(parsed, Ok((packet, IgnoredOptions::default())));
    }

    #[test]
    fn packets_of_udp_are_read_as_they_were_written(packet in udp_packet()) {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        prop_assert_eq!(bytes.len(), packet.wire_len());
        prop_assert_eq!(UdpPacket::parse(&Arc::from(bytes)), Ok(packet));
    }

    #[test]
    fn options_of_tcp_take_the_bytes_that_they_say(options in tcp_options()) {
        let bytes = options.emit();
        prop_assert_eq!(bytes.len(), options.wire_len());
        prop_assert!(options.wire_len() <= options.aligned_len());
    }

    #[test]
    fn options_of_mptcp_are_read_as_they_were_written(option in mptcp_option()) {
        let mut bytes = OptionBytes::new();
        option.emit(&mut bytes);
        prop_assert_eq!(bytes.len(), option.wire_len());
        prop_assert_eq!(usize::from(bytes[1]), bytes.len());
        prop_assert_eq!(MptcpOption::parse(&bytes[2..]), Ok(option));
    }

    #[test]
    fn options_of_version_0_are_read_as_they_were_written(option in mptcp_option_v0()) {
        let mut bytes = OptionBytes::new();
        option.emit(&mut bytes);
        prop_assert_eq!(bytes.len(), option.wire_len());
        prop_assert_eq!(usize::from(bytes[1]), bytes.len());
        prop_assert_eq!(MptcpOptionV0::parse(&bytes[2..]), Ok(option));
        // The engine reads options before it knows the version.
        let either = MptcpOption::parse(&bytes[2..]);
        let mut again = OptionBytes::new();
        either.expect("a form of either version").emit(&mut again);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn emit_appends(packet in packet(), before in proptest::collection::vec(any::<u8>(), 0..9)) {
        let mut bytes = before.clone();
        packet.emit(&mut bytes);
        prop_assert_eq!(bytes, [before, bytes_of(&packet)].concat());
    }

    #[test]
    fn a_changed_bit_of_the_segment_is_noticed(packet in packet(), place: Index, bit in 0..8u8) {
        let mut bytes = bytes_of(&packet);
        let segment_len = packet.segment.wire_len();
        let place = bytes.len() - segment_len + place.index(segment_len);
        bytes[place] ^= 1 << bit;
        // A changed header length may be found impossible before the checksum is verified.
        let parsed = Packet::parse(&Arc::from(bytes));
        let is_noticed = matches!(
            parsed,
            Err(ParseError::Checksum { .. } | ParseError::Length { .. } | ParseError::Truncated { .. })
        );
        prop_assert!(is_noticed);
    }

    #[test]
    fn a_packet_that_is_cut_short_is_no_packet(packet in packet(), place: Index) {
        let mut bytes = bytes_of(&packet);
        bytes.truncate(place.index(bytes.len()));
        let is_truncated = matches!(Packet::parse(&Arc::from(bytes)), Err(ParseError::Truncated { .. }));
        prop_assert!(is_truncated);
    }

    #[test]
    fn bytes_after_a_packet_are_no_part_of_it(packet in packet(), behind in 1..50usize) {
        let mut bytes = bytes_of(&packet);
        bytes.resize(bytes.len() + behind, 0);
        let parsed = Packet::parse(&Arc::from(bytes)).map(|(packet, _)| packet);
        prop_assert_eq!(parsed, Ok(packet));
    }
}
