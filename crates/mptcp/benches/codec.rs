//! Cost of a data segment with DSS and SACK over IPv4: from bytes to a value and back, checksums included.
//!
//! The cost of the payload is that of summing it, and of copying it when it is written; so it is measured without one too.
//!
//! With the arguments `repeat parse-1400 1000` it does nothing but that, without a clock.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use criterion::{Criterion, criterion_group};
use mptcp::payload::Payload;
use mptcp::seq::{DataSeq, SeqNr};
use mptcp::wire::{
    DataNumber, Dss, Ecn, Flags, Hops, IgnoredOptions, Mapping, MptcpOption, Packet, ParseError,
    SackBlock, Segment, TcpOptions,
};

/// 40 bytes of options: one SACK block, and a DSS with a long number and a long DATA_ACK.
fn options() -> TcpOptions {
    let mapping = Mapping {
        data_seq: DataNumber::Long(DataSeq(1 << 41)),
        subflow_seq: 100_000,
        len: 1400,
        checksum: None,
    };
    let data_ack = DataNumber::Long(DataSeq(1 << 40));
    let signal = Dss::default()
        .with_data_ack(Some(data_ack))
        .with_mapping(Some(mapping));
    let block = SackBlock {
        start: SeqNr(2000),
        end: SeqNr(3400),
    };
    TcpOptions {
        sack: [block].into_iter().collect(),
        mptcp: [MptcpOption::Dss(signal)].into_iter().collect(),
        ..TcpOptions::default()
    }
}

fn packet(payload_len: usize) -> Packet {
    Packet {
        source: IpAddr::V4(Ipv4Addr::new(10, 1, 1, 1)),
        destination: IpAddr::V4(Ipv4Addr::new(10, 1, 1, 2)),
        ecn: Ecn::NotCapable,
        via: Hops::new(),
        segment: Segment {
            source_port: 4000,
            destination_port: 5001,
            seq: SeqNr(100_000),
            ack: SeqNr(1000),
            flags: Flags::ACK,
            window: 512,
            options: options(),
            payload: Payload::literal(vec![0x5a; payload_len]),
        },
    }
}

/// A packet and its bytes.
struct Codec {
    packet: Packet,
    bytes: Arc<[u8]>,
    written: Vec<u8>,
}

impl Codec {
    fn new(payload_len: usize) -> Self {
        let packet = packet(payload_len);
        let mut written = Vec::new();
        packet.emit(&mut written);
        Self {
            packet,
            bytes: Arc::from(written.as_slice()),
            written,
        }
    }

    fn parse(&self) -> Result<(Packet, IgnoredOptions), ParseError> {
        Packet::parse(black_box(&self.bytes))
    }

    fn emit(&mut self) -> usize {
        self.written.clear();
        black_box(&self.packet).emit(&mut self.written);
        black_box(&self.written).len()
    }
}

fn segments(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codec");
    for payload_len in [0, 1400] {
        let mut codec = Codec::new(payload_len);
        group.bench_function(format!("parse/{payload_len}"), |it| {
            it.iter(|| codec.parse())
        });
        group.bench_function(format!("emit/{payload_len}"), |it| it.iter(|| codec.emit()));
    }
    group.finish();
}

/// Does one thing that many times and nothing else, for who counts instructions.
fn repeat(direction: &str, payload_len: &str, times: &str) {
    let mut codec = Codec::new(payload_len.parse().expect("bytes of payload"));
    for _ in 0..times.parse::<u32>().expect("a number of times") {
        match direction {
            "parse" => drop(black_box(codec.parse())),
            "emit" => drop(black_box(codec.emit())),
            _ => panic!("{direction}: parse and emit are known"),
        }
    }
}

criterion_group!(benches, segments);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["repeat", case, times, ..] => {
            let (direction, payload_len) = case.split_once('-').expect("as in parse-1400");
            repeat(direction, payload_len, times);
        }
        _ => benches(),
    }
}
