//! A capture of all packets, kept when a test fails.

use std::fs::File;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use mptcp::time::Nanos;
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};

/// Bytes of a packet that are kept: all headers with their options.
const SNAP_LEN: usize = 120;

/// Packets in the order in which they passed.
#[derive(Default)]
pub struct Capture {
    packets: Vec<(Nanos, u32, Vec<u8>)>,
}

impl Capture {
    pub fn add(&mut self, now: Nanos, packet: &[u8]) {
        let start = packet[..packet.len().min(SNAP_LEN)].to_vec();
        self.packets.push((now, packet.len() as u32, start));
    }

    /// Writes the packets to a file of that name, and prints its path.
    pub fn keep(&self, name: &str) {
        eprintln!("the packets are in {}", self.write(name).display());
    }

    fn write(&self, name: &str) -> PathBuf {
        let words = name.split(|one: char| !one.is_ascii_alphanumeric() && one != '_');
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let file = format!("{}.pcap", words.join("-"));
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
        let header = PcapHeader {
            datalink: DataLink::RAW,
            ..PcapHeader::default()
        };
        let file = File::create(&path).unwrap();
        let mut writer = PcapWriter::with_header(file, header).unwrap();
        for (at, len, bytes) in &self.packets {
            let packet = PcapPacket::new(Duration::from_nanos(*at), *len, bytes);
            writer.write_packet(&packet).unwrap();
        }
        path
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if thread::panicking() {
            self.keep(thread::current().name().unwrap_or("test"));
        }
    }
}
