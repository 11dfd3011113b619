//! Cost of a data segment with DSS and SACK over IPv4: from bytes to a value and back, checksums included.
//!
//! The cost of the payload is that of summing it, and of copying it when it is written; so it is measured without one too.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use criterion::{
    BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime,
};
use mptcp::payload::Payload;
use mptcp::seq::{DataSeq, SeqNr};
use mptcp::wire::{
    DataNumber, Dss, Ecn, Flags, Hops, Mapping, MptcpOption, Packet, SackBlock, Segment, TcpOptions,
};

/// 40 bytes of options: one SACK block, and a DSS with a long number and a long DATA_ACK.
fn options() -> TcpOptions {
    let signal = Dss {
        data_fin: false,
        data_ack: Some(DataNumber::Long(DataSeq(1 << 40))),
        mapping: Some(Mapping {
            data_seq: DataNumber::Long(DataSeq(1 << 41)),
            subflow_seq: 100_000,
            len: 1400,
            checksum: None,
        }),
    };
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

fn measure(group: &mut BenchmarkGroup<'_, WallTime>, payload_len: usize) {
    let packet = packet(payload_len);
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    let shared: Arc<[u8]> = Arc::from(bytes.as_slice());
    group.bench_function(format!("parse/{payload_len}"), |bencher| {
        bencher.iter(|| Packet::parse(black_box(&shared)));
    });
    group.bench_function(format!("emit/{payload_len}"), |bencher| {
        bencher.iter(|| {
            bytes.clear();
            black_box(&packet).emit(&mut bytes);
            black_box(bytes.len())
        });
    });
}

fn segments(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codec");
    for payload_len in [0, 1400] {
        measure(&mut group, payload_len);
    }
    group.finish();
}

criterion_group!(benches, segments);
criterion_main!(benches);
