//! Packets made one by one, as a capture would have them.

use std::net::{IpAddr, SocketAddr};

use capture::Frame;
use capture::analysis::{Analysis, Row, Summary};
use mptcp::payload::Payload;
use mptcp::seq::{DataSeq, SeqNr};
use mptcp::wire::{
    DataNumber, Dss, Flags, Hops, Mapping, MptcpOption, MptcpOptionV0, OptionBytes, Packet,
    SackBlock, Segment, TcpOptions,
};
use pcap_file::DataLink;

pub const MILLISECOND: u64 = 1_000_000;
const IPV4_LEN: usize = 20;
const TCP_LEN: usize = 20;

/// The analysis of a conversation, packet by packet.
#[derive(Default)]
pub struct Conversation {
    analysis: Analysis,
    now: u64,
    number: u64,
}

/// A packet to send.
#[derive(Clone)]
pub struct Sent {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub len: u32,
    pub mptcp: Vec<MptcpOption>,
    pub sack: Vec<(u32, u32)>,
    pub window_scale: Option<u8>,
}

impl Default for Sent {
    fn default() -> Self {
        Self {
            seq: 0,
            ack: 0,
            flags: 0,
            window: 65000,
            len: 0,
            mptcp: Vec::new(),
            sack: Vec::new(),
            window_scale: None,
        }
    }
}

pub const SYN: u8 = Flags::SYN.0;
pub const SYN_ACK: u8 = Flags::SYN.0 | Flags::ACK.0;
pub const ACK: u8 = Flags::ACK.0;
pub const PSH_ACK: u8 = Flags::PSH.0 | Flags::ACK.0;
pub const FIN_ACK: u8 = Flags::FIN.0 | Flags::ACK.0;
pub const RST: u8 = Flags::RST.0;

/// Returns the client's end of a subflow, 10.0.NETWORK.1.
pub fn client(network: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, network, 1]), port)
}

/// Returns the server's end.
pub fn server(network: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, network, 2]), 80)
}

/// Returns a DSS option that maps `len` bytes and may acknowledge data.
pub fn dss(data_seq: u64, subflow_seq: u32, len: u16, data_ack: Option<u64>) -> MptcpOption {
    let mapping = Mapping {
        data_seq: DataNumber::Long(DataSeq(data_seq)),
        subflow_seq,
        len,
        checksum: None,
    };
    let ack = data_ack.map(|ack| DataNumber::Long(DataSeq(ack)));
    MptcpOption::Dss(
        Dss::default()
            .with_mapping(Some(mapping))
            .with_data_ack(ack),
    )
}

/// Returns a DSS option that only acknowledges.
pub fn data_ack(data_ack: u64) -> MptcpOption {
    let ack = Some(DataNumber::Long(DataSeq(data_ack)));
    MptcpOption::Dss(Dss::default().with_data_ack(ack))
}

impl Conversation {
    /// Sends a packet, a millisecond after the one before.
    pub fn send(&mut self, from: SocketAddr, to: SocketAddr, sent: Sent) -> Row {
        self.take(bytes_of(from, to, sent))
    }

    /// Sends a packet with an option of version 0, which the engine does not support.
    pub fn send_version_0(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        sent: Sent,
        option: &MptcpOptionV0,
    ) -> Row {
        let mut options = OptionBytes::new();
        option.emit(&mut options);
        let mut bytes = bytes_of(from, to, sent);
        let padding = [0; 4];
        let padded = [&options[..], &padding[..(4 - options.len() % 4) % 4]].concat();
        bytes[IPV4_LEN + 12] += (padded.len() as u8 / 4) << 4;
        let total = (bytes.len() + padded.len()) as u16;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes.splice(IPV4_LEN + TCP_LEN..IPV4_LEN + TCP_LEN, padded);
        self.take(bytes)
    }

    fn take(&mut self, bytes: Vec<u8>) -> Row {
        self.now += MILLISECOND;
        self.number += 1;
        let frame = Frame {
            number: self.number,
            at: self.now,
            link: DataLink::RAW,
            bytes: &bytes,
        };
        self.analysis
            .frame(self.number, &frame)
            .expect("a packet of TCP")
    }

    /// Lets time pass.
    pub fn wait(&mut self, milliseconds: u64) {
        self.now += milliseconds * MILLISECOND;
    }

    pub fn summary(&self) -> Summary {
        self.analysis.summary()
    }

    /// Sends the three packets of a handshake with these options, and initial sequence numbers 1000
    /// and 2000.
    pub fn open(&mut self, from: SocketAddr, to: SocketAddr, options: [Vec<MptcpOption>; 3]) {
        let [syn, syn_ack, ack] = options;
        let sent = |seq, ack, flags, mptcp| Sent {
            seq,
            ack,
            flags,
            mptcp,
            ..Sent::default()
        };
        self.send(from, to, sent(1000, 0, SYN, syn));
        self.send(to, from, sent(2000, 1001, SYN_ACK, syn_ack));
        self.send(from, to, sent(1001, 2001, ACK, ack));
    }
}

/// Returns the bytes of a packet.
pub fn bytes_of(from: SocketAddr, to: SocketAddr, sent: Sent) -> Vec<u8> {
    let block = |&(start, end): &(u32, u32)| SackBlock {
        start: SeqNr(start),
        end: SeqNr(end),
    };
    let packet = Packet {
        source: from.ip(),
        destination: to.ip(),
        ecn: Default::default(),
        via: Hops::new(),
        segment: Segment {
            source_port: from.port(),
            destination_port: to.port(),
            seq: SeqNr(sent.seq),
            ack: SeqNr(sent.ack),
            flags: Flags(sent.flags),
            window: sent.window,
            options: TcpOptions {
                window_scale: sent.window_scale,
                sack: sent.sack.iter().map(block).collect(),
                mptcp: sent.mptcp.into_iter().collect(),
                ..TcpOptions::default()
            },
            payload: Payload::literal(vec![0; sent.len as usize]),
        },
    };
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    bytes
}
