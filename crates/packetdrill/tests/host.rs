//! The effects of `--so_flags` and of the family of a socket on packets.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use mptcp::payload::Payload;
use mptcp::seq::SeqNr;
use mptcp::wire::{
    Capable, DataNumber, Dss, Ecn, Flags, Hops, MptcpOption, MptcpOptions, Packet, Segment,
    TcpOptions, Version,
};
use mptcplab_packetdrill::host::{Host, IPPROTO_MPTCP};
use mptcplab_packetdrill::options::Options;

const PORT: u16 = 8080;
const PEER: [u8; 4] = [192, 0, 2, 1];
const PEER_KEY: u64 = 2;

fn host(flags: &str) -> Host {
    Host::new(Options::parse(flags).unwrap())
}

fn listener(host: &mut Host, domain: i32, local: IpAddr) -> i32 {
    let fd = host
        .socket(domain, libc::SOCK_STREAM, IPPROTO_MPTCP)
        .unwrap();
    host.bind(fd, SocketAddr::new(local, PORT)).unwrap();
    host.listen(fd, 1).unwrap();
    fd
}

/// Delivers a segment from the same network to the host.
fn arrives(host: &mut Host, to: IpAddr, seq: u32, ack: u32, flags: Flags, mptcp: MptcpOption) {
    let source = match to {
        IpAddr::V4(_) => PEER.into(),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    let segment = Segment {
        source_port: 40_000,
        destination_port: PORT,
        seq: SeqNr(seq),
        ack: SeqNr(ack),
        flags,
        window: 30_000,
        options: TcpOptions {
            mptcp: MptcpOptions::from_iter([mptcp]),
            ..TcpOptions::default()
        },
        payload: Payload::EMPTY,
    };
    receive(host, source, to, segment);
}

fn receive(host: &mut Host, source: IpAddr, destination: IpAddr, segment: Segment) {
    let packet = Packet {
        source,
        destination,
        ecn: Ecn::NotCapable,
        via: Hops::default(),
        segment,
    };
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    host.receive(&bytes);
}

fn sent(host: &mut Host) -> Option<Packet> {
    let (_, bytes) = host.take_sent()?;
    Some(Packet::parse(&Arc::from(bytes)).unwrap().0)
}

fn syn() -> MptcpOption {
    MptcpOption::Capable(Capable::Syn {
        version: 1,
        flags: Capable::HMAC_SHA256,
    })
}

/// Returns the MSS in the answer to a SYN to an address.
fn offered_mss(host: &mut Host, to: IpAddr) -> Option<u16> {
    arrives(host, to, 0, 0, Flags::SYN, syn());
    sent(host).unwrap().segment.options.mss
}

#[test]
fn the_family_of_the_packets_says_how_long_segments_are() {
    let (v4, v6) = (
        IpAddr::from([192, 168, 0, 1]),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    );
    for (flags, of_v4, of_v6) in [("", 1460, 1440), ("mtu=1520", 1480, 1460)] {
        let mut host = host(flags);
        listener(&mut host, libc::AF_INET6, Ipv6Addr::UNSPECIFIED.into());
        assert_eq!(offered_mss(&mut host, v4), Some(of_v4));
        assert_eq!(offered_mss(&mut host, v6), Some(of_v6));
    }
    let mut host = host("local=192.168.0.1");
    let fd = host
        .socket(libc::AF_INET6, libc::SOCK_STREAM, IPPROTO_MPTCP)
        .unwrap();
    let peer = "[::ffff:192.0.2.1]:80".parse().unwrap();
    assert_eq!(host.connect(fd, peer), Err(libc::EINPROGRESS));
    let syn = sent(&mut host).unwrap();
    assert_eq!(syn.destination, IpAddr::from([192, 0, 2, 1]));
    assert_eq!(syn.segment.options.mss, Some(1460));
}

#[test]
fn a_connection_that_was_opened_comes_out_once_its_syn_is_answered() {
    let mut host = host("local=192.168.0.1");
    let fd = host
        .socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP)
        .unwrap();
    let peer = SocketAddr::from((PEER, 80));
    assert_eq!(host.connect(fd, peer), Err(libc::EINPROGRESS));
    assert_eq!(host.outcome(fd), Err(libc::EAGAIN));
    let syn = sent(&mut host).unwrap().segment;
    let answer = Segment {
        source_port: 80,
        destination_port: syn.source_port,
        seq: SeqNr(0),
        ack: syn.end(),
        flags: Flags::SYN | Flags::ACK,
        window: 30_000,
        options: TcpOptions::default(),
        payload: Payload::EMPTY,
    };
    receive(&mut host, PEER.into(), [192, 168, 0, 1].into(), answer);
    assert_eq!(host.outcome(fd), Ok(()));
}

#[test]
fn an_endpoint_is_announced() {
    let local = IpAddr::from([192, 168, 0, 1]);
    let mut host =
        host("local=192.168.0.1,endpoint=192.168.0.2+signal,subflows=8,add_addr_accepted=8");
    let fd = listener(&mut host, libc::AF_INET, local);
    arrives(&mut host, local, 0, 0, Flags::SYN, syn());
    let answer = sent(&mut host).unwrap().segment;
    let Some(MptcpOption::Capable(Capable::SynAck { sender_key, .. })) =
        answer.options.mptcp.first()
    else {
        panic!("{answer:?}")
    };
    let third = MptcpOption::Capable(Capable::Ack {
        version: 1,
        flags: Capable::HMAC_SHA256,
        sender_key: PEER_KEY,
        receiver_key: *sender_key,
        data: None,
    });
    let ack = answer.end().0;
    arrives(&mut host, local, 1, ack, Flags::ACK, third);
    host.accept(fd).unwrap();
    let first = mptcp::connection::keys::initial_data_seq(Version::One, *sender_key) + 1;
    let dss = Dss::default().with_data_ack(Some(DataNumber::Short(first.low())));
    arrives(&mut host, local, 1, ack, Flags::ACK, MptcpOption::Dss(dss));
    let announced = std::iter::from_fn(|| sent(&mut host)).any(|packet| {
        let mut options = packet.segment.options.mptcp.iter();
        options.any(|option| {
            matches!(option, MptcpOption::AddAddress(it) if it.id == 1 && it.address == IpAddr::from([192, 168, 0, 2]))
        })
    });
    assert!(announced);
}

#[test]
fn timestamps_are_offered_unless_they_are_off() {
    for (flags, offers) in [("", true), ("timestamps=off", false)] {
        let mut host = host(&format!("local=192.168.0.1,{flags}"));
        let fd = host
            .socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP)
            .unwrap();
        assert_eq!(
            host.connect(fd, SocketAddr::from((PEER, 80))),
            Err(libc::EINPROGRESS)
        );
        let options = sent(&mut host).unwrap().segment.options;
        assert_eq!(options.timestamps.is_some(), offers);
    }
}

#[test]
fn the_size_of_a_buffer_is_told_doubled() {
    let mut host = host("");
    let fd = host
        .socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP)
        .unwrap();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_SNDBUF);
    host.set_option(fd, level, name, &10_000_i32.to_ne_bytes())
        .unwrap();
    assert_eq!(
        host.option(fd, level, name),
        Ok(20_000_i32.to_ne_bytes().to_vec())
    );
}
