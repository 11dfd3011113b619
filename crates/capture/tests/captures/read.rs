//! Tests that files of every form give the same result.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use capture::{CaptureReader, End, Explained, ReadError};
use flate2::Compression;
use flate2::write::GzEncoder;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};

use crate::conversation::{ACK, Sent, bytes_of, client, server};

/// A packet of plain TCP with ten bytes.
fn packet() -> Vec<u8> {
    let sent = Sent {
        seq: 1,
        ack: 1,
        flags: ACK,
        len: 10,
        ..Sent::default()
    };
    bytes_of(client(1, 40000), server(1), sent)
}

fn file(
    link: DataLink,
    header: &[u8],
    endianness: Endianness,
    resolution: TsResolution,
) -> Vec<u8> {
    let pcap_header = PcapHeader {
        datalink: link,
        endianness,
        ts_resolution: resolution,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), pcap_header).unwrap();
    let frame = [header, &packet()].concat();
    for second in [1, 2] {
        let at = Duration::new(second, 500_000_000);
        writer
            .write_packet(&PcapPacket::new(at, frame.len() as u32, &frame))
            .unwrap();
    }
    writer.into_writer()
}

fn raw() -> Vec<u8> {
    file(
        DataLink::RAW,
        &[],
        Endianness::Little,
        TsResolution::MicroSecond,
    )
}

/// Returns the bytes of payload, the seconds, and why the file was incomplete.
fn explained(bytes: &[u8]) -> (u64, f64, Option<String>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("capture");
    std::fs::write(&path, bytes).unwrap();
    let mut explained = Explained::open(&[&path], None).unwrap();
    while explained.advance(1).unwrap() {}
    let document = explained.document();
    let bytes = document
        .summary
        .connections
        .iter()
        .map(|one| one.bytes)
        .sum();
    (
        bytes,
        document.summary.duration_s,
        document.files[0].broken.clone(),
    )
}

const BOTH: (u64, f64, Option<String>) = (20, 1.0, None);

#[test]
fn all_links_lead_to_the_same_packet() {
    let ethernet = [[0; 12].as_slice(), &[0x08, 0x00]].concat();
    let tagged = [
        [0; 12].as_slice(),
        &[0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2, 0x08, 0x00],
    ]
    .concat();
    let cooked = [[0; 14].as_slice(), &[0x08, 0x00]].concat();
    let cooked_2 = [[0x08, 0x00].as_slice(), &[0; 18]].concat();
    let links = [
        (DataLink::RAW, vec![]),
        (DataLink::IPV4, vec![]),
        (DataLink::ETHERNET, ethernet),
        (DataLink::ETHERNET, tagged),
        (DataLink::LINUX_SLL, cooked),
        (DataLink::LINUX_SLL2, cooked_2),
        (DataLink::NULL, vec![2, 0, 0, 0]),
    ];
    for (link, header) in links {
        let bytes = file(link, &header, Endianness::Little, TsResolution::MicroSecond);
        assert_eq!(explained(&bytes), BOTH, "{link:?}");
    }
}

#[test]
fn both_orders_of_bytes_and_both_resolutions_are_read() {
    for endianness in [Endianness::Little, Endianness::Big] {
        for resolution in [TsResolution::MicroSecond, TsResolution::NanoSecond] {
            assert_eq!(
                explained(&file(DataLink::RAW, &[], endianness, resolution)),
                BOTH
            );
        }
    }
}

#[test]
fn a_compressed_file_is_read() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&raw()).unwrap();
    assert_eq!(explained(&encoder.finish().unwrap()), BOTH);
}

#[test]
fn of_a_cut_file_all_whole_packets_are_read_and_the_rest_is_told() {
    let bytes = raw();
    let (payload, _, broken) = explained(&bytes[..bytes.len() - 1]);
    assert_eq!(payload, 10);
    assert_eq!(broken.as_deref(), Some("it ends within a packet"));
}

#[test]
fn a_short_snap_length_leaves_the_lengths_of_packets_as_they_were() {
    let header = PcapHeader {
        datalink: DataLink::RAW,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    let whole = packet();
    let captured = PcapPacket::new(Duration::ZERO, whole.len() as u32, &whole[..40]);
    writer.write_packet(&captured).unwrap();
    assert_eq!(explained(&writer.into_writer()).0, 10);
}

#[test]
fn what_is_no_capture_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let damaged = "its header is damaged, or that of another kind of file";
    for (bytes, reason) in [
        (b"".as_slice(), "it ends within its header"),
        (b"hello, world, this is a text", damaged),
    ] {
        let path = directory.path().join("text");
        std::fs::write(&path, bytes).unwrap();
        let refused = CaptureReader::open(&path).err().expect("a refusal");
        assert!(
            matches!(refused, ReadError::NoCapture { ref why, .. } if why == reason),
            "{refused}"
        );
    }
    assert!(matches!(
        CaptureReader::open(Path::new("/nowhere")),
        Err(ReadError::Io { .. })
    ));
}

#[test]
fn interfaces_of_a_host_are_read_in_the_order_of_time() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| directory.path().join(name));
    for path in &paths {
        std::fs::write(path, raw()).unwrap();
    }
    let mut explained = Explained::open(&[&paths[0], &paths[1]], None).unwrap();
    while explained.advance(1).unwrap() {}
    let document = explained.document();
    assert_eq!(document.summary.frames.tcp, 4);
    assert_eq!(document.summary.connections[0].bytes, 40);
    assert_eq!(
        document
            .files
            .iter()
            .map(|file| file.frames)
            .collect::<Vec<_>>(),
        [2, 2]
    );
}

#[test]
fn the_end_of_a_whole_file_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("capture");
    std::fs::write(&path, raw()).unwrap();
    let mut reader = CaptureReader::open(&path).unwrap();
    while reader.read(|_| ()).unwrap().is_some() {}
    assert_eq!((reader.frames(), reader.end()), (2, Some(&End::Whole)));
}
