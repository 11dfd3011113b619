//! A capture as a conversation (Linux cooked mode, version 2). Only the first bytes of each packet
//! were kept.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use mptcp::connection::keys::{Keys, initial_data_seq};
use mptcp::payload::Payload;
use mptcp::pm::AddressPair;
use mptcp::seq::{DataSeq, SeqNr};
use mptcp::time::Nanos;
use mptcp::wire::{
    Capable, DataNumber, Flags, Hops, Ipv4View, Join, Mapping, MptcpOption, Nonce, Packet, Segment,
    TCP_PROTOCOL, TcpOptions, TcpView, Version,
};
use pcap_file::pcap::PcapReader;

/// Bytes of the header that cooked mode writes before a packet.
const COOKED_HEADER_LEN: usize = 20;

/// All captures.
pub const NAMES: [&str; 8] = [
    "A_basic",
    "B_addaddr",
    "C_rmaddr",
    "D_prio",
    "E_linger",
    "F_csum",
    "H_gso",
    "mb_loss",
];

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The host that opened the connection.
    Client = 0,
    Server = 1,
}

impl Side {
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A packet with its payload completed.
pub struct Recorded {
    /// Time since the first packet.
    pub at: Nanos,
    pub sender: Side,
    /// Index of its subflow in [`Recording::subflows`].
    pub subflow: usize,
    pub packet: Packet,
}

impl Recorded {
    pub fn segment(&self) -> &Segment {
        &self.packet.segment
    }

    /// Returns the mapping of its DSS, and whether the mapping ends with a DATA_FIN.
    fn mapping(&self) -> Option<(Mapping, bool)> {
        let mut options = self.segment().options.mptcp.iter();
        options.find_map(|option| match option {
            MptcpOption::Dss(dss) => dss.mapping().map(|mapping| (mapping, dss.data_fin())),
            _ => None,
        })
    }

    /// Returns the data sequence number of its DATA_FIN.
    pub fn data_fin(&self) -> Option<DataSeq> {
        let (mapping, _) = self.mapping().filter(|(_, data_fin)| *data_fin)?;
        Some(long(mapping.data_seq) + u64::from(mapping.len) - 1)
    }
}

/// A subflow, with the choices of both hosts, the client's first.
pub struct Subflow {
    pub ends: [SocketAddr; 2],
    pub isn: [SeqNr; 2],
    /// The nonces of MP_JOIN.
    pub nonces: [Nonce; 2],
}

impl Subflow {
    /// Returns its addresses as one host sees them.
    pub fn pair(&self, side: Side) -> AddressPair {
        AddressPair {
            local: self.ends[side as usize].ip(),
            remote: self.ends[side.other() as usize].ip(),
        }
    }
}

/// A capture of one connection.
pub struct Recording {
    pub packets: Vec<Recorded>,
    /// In the order of their SYNs.
    pub subflows: Vec<Subflow>,
}

impl Recording {
    pub fn load(name: &str) -> Self {
        let mut recording = Self {
            packets: Vec::new(),
            subflows: Vec::new(),
        };
        for_each_ip_packet(name, |at, bytes| recording.add(at, whole(bytes)));
        recording
    }

    fn add(&mut self, at: Nanos, packet: Packet) {
        let segment = &packet.segment;
        let source = SocketAddr::new(packet.source, segment.source_port);
        let destination = SocketAddr::new(packet.destination, segment.destination_port);
        if segment.flags == Flags::SYN {
            self.subflows.push(Subflow {
                ends: [source, destination],
                isn: [SeqNr(0); 2],
                nonces: [0; 2],
            });
        }
        let is_of = |subflow: &Subflow| {
            subflow.ends.contains(&source) && subflow.ends.contains(&destination)
        };
        let subflow = self
            .subflows
            .iter()
            .position(is_of)
            .expect("a SYN is the first of a subflow");
        let sender = match self.subflows[subflow].ends[0] == source {
            true => Side::Client,
            false => Side::Server,
        };
        self.subflows[subflow].learn(sender, segment);
        self.packets.push(Recorded {
            at,
            sender,
            subflow,
            packet,
        });
    }

    /// Returns the packets of one host.
    pub fn of(&self, side: Side) -> impl Iterator<Item = &Recorded> {
        self.packets
            .iter()
            .filter(move |recorded| recorded.sender == side)
    }

    /// Returns the MPTCP options of one host, with their packets.
    pub fn options(&self, side: Side) -> impl Iterator<Item = (&Recorded, &MptcpOption)> {
        self.of(side).flat_map(|recorded| {
            let options = recorded.segment().options.mptcp.iter();
            options.map(move |option| (recorded, option))
        })
    }

    /// Returns both keys as one host has them, from the third packet.
    pub fn keys(&self, side: Side) -> Keys {
        let keys = self
            .options(Side::Client)
            .find_map(|(_, option)| match option {
                MptcpOption::Capable(Capable::Ack {
                    sender_key,
                    receiver_key,
                    ..
                }) => Some([*sender_key, *receiver_key]),
                _ => None,
            });
        let keys = keys.expect("the third packet has both keys");
        Keys {
            local: keys[side as usize],
            remote: keys[side.other() as usize],
        }
    }

    /// Returns where the payload of a packet starts in the byte stream of its sender.
    pub fn offset(&self, recorded: &Recorded) -> u64 {
        let isn = self.subflows[recorded.subflow].isn[recorded.sender as usize];
        let position = i64::from(recorded.segment().seq.distance_from(isn));
        let first = initial_data_seq(Version::One, self.keys(recorded.sender).local) + 1;
        // MP_CAPABLE maps from the first byte on (RFC 8684, section 3.1).
        let (start, subflow_seq) = match recorded.mapping() {
            Some((mapping, _)) => (
                long(mapping.data_seq).distance_from(first),
                mapping.subflow_seq,
            ),
            None => (0, 1),
        };
        u64::try_from(start + position - i64::from(subflow_seq))
            .expect("no byte is before the first")
    }

    /// Returns the packets of one host that carry data, with the offset of the first byte in the
    /// byte stream.
    fn data(&self, side: Side) -> impl Iterator<Item = (u64, &Recorded)> {
        let data = self
            .of(side)
            .filter(|recorded| !recorded.segment().payload.is_empty());
        data.map(|recorded| (self.offset(recorded), recorded))
    }

    /// Returns start, end and subflow of the payloads of one host in its byte stream, in the order
    /// in which they were sent.
    pub fn ranges(&self, side: Side) -> Vec<(u64, u64, usize)> {
        let range = |(start, recorded): (u64, &Recorded)| {
            let end = start + u64::from(recorded.segment().payload.len());
            (start, end, recorded.subflow)
        };
        self.data(side).map(range).collect()
    }

    /// Returns the whole byte stream of one host.
    pub fn stream(&self, side: Side) -> Vec<u8> {
        let mut data: Vec<_> = self.data(side).collect();
        data.sort_by_key(|(offset, _)| *offset);
        let mut stream = Vec::new();
        for (offset, recorded) in data {
            let known = stream.len() - offset as usize;
            let payload = recorded.segment().payload.to_vec();
            stream.extend(payload.into_iter().skip(known));
        }
        stream
    }
}

impl Subflow {
    fn learn(&mut self, sender: Side, segment: &Segment) {
        if segment.flags.contains(Flags::SYN) {
            self.isn[sender as usize] = segment.seq;
        }
        for option in &segment.options.mptcp {
            if let MptcpOption::Join(Join::Syn { nonce, .. } | Join::SynAck { nonce, .. }) = option
            {
                self.nonces[sender as usize] = *nonce;
            }
        }
    }
}

/// Returns a long data sequence number. The kernel writes no others in mappings.
fn long(number: DataNumber) -> DataSeq {
    match number {
        DataNumber::Long(number) => number,
        DataNumber::Short(low) => panic!("a mapping of the kernel with the short number {low:#x}"),
    }
}

/// Calls `take` with each TCP packet: its time since the first, and the bytes that were kept.
pub fn for_each_ip_packet(name: &str, mut take: impl FnMut(Nanos, &[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let file = File::open(folder.join(name).with_extension("pcap")).unwrap();
    let mut reader = PcapReader::new(file).unwrap();
    let mut start = None;
    // Raw, because the checks of `pcap-file` refuse packets that were kept only in part.
    while let Some(packet) = reader.next_raw_packet() {
        let packet = packet.unwrap();
        let at = Nanos::from(packet.ts_sec) * 1_000_000_000 + Nanos::from(packet.ts_frac) * 1000;
        let bytes = &packet.data[COOKED_HEADER_LEN..];
        if Ipv4View::from_prefix(bytes).unwrap().protocol() == TCP_PROTOCOL {
            take(at - *start.get_or_insert(at), bytes);
        }
    }
}

/// Returns the packet that starts with these bytes.
fn whole(bytes: &[u8]) -> Packet {
    let ip = Ipv4View::from_prefix(bytes).unwrap();
    let tcp = TcpView::new(ip.payload()).unwrap();
    Packet {
        source: IpAddr::from(ip.source()),
        destination: IpAddr::from(ip.destination()),
        ecn: ip.ecn(),
        via: Hops::default(),
        segment: Segment {
            source_port: tcp.source_port(),
            destination_port: tcp.destination_port(),
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags: tcp.flags(),
            window: tcp.window(),
            options: TcpOptions::parse(tcp.options()).0,
            payload: whole_payload(tcp.payload(), ip.payload_len() - tcp.header_len()),
        },
    }
}

/// Returns the whole payload. The byte streams of the captures repeat one byte or all bytes in
/// order, so the kept bytes determine the rest.
fn whole_payload(kept: &[u8], len: usize) -> Payload {
    let first = kept.first().copied().unwrap_or_default();
    let step = kept.get(1).map_or(0, |second| second.wrapping_sub(first));
    let bytes: Vec<_> = (0..len)
        .map(|index| first.wrapping_add(step.wrapping_mul(index as u8)))
        .collect();
    assert!(
        bytes.starts_with(kept),
        "a payload of another kind: {kept:?}"
    );
    Payload::literal(bytes)
}
