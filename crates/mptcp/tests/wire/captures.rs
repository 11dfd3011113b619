//! Captures of the Linux kernel talking to itself (Linux cooked mode, version 2; only the first bytes of each packet).

use std::fs::File;
use std::path::{Path, PathBuf};

use mptcp::wire::{Ipv4View, MptcpOption, TCP_PROTOCOL, TcpOptions, TcpView};
use pcap_file::pcap::PcapReader;

/// Bytes of the header that cooked mode writes before a packet.
const COOKED_HEADER_LEN: usize = 20;

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

/// Calls `check` with every segment; how many there were.
fn for_each_segment(mut check: impl FnMut(&TcpView<'_>)) -> usize {
    let mut count = 0;
    for path in captures() {
        let mut reader = PcapReader::new(File::open(path).unwrap()).unwrap();
        // Raw, because the checks of `pcap-file` refuse packets of which only a part was kept.
        while let Some(packet) = reader.next_raw_packet() {
            let packet = packet.unwrap();
            let ip = Ipv4View::from_prefix(&packet.data[COOKED_HEADER_LEN..]).unwrap();
            assert!(ip.is_checksum_right());
            if ip.protocol() == TCP_PROTOCOL {
                check(&TcpView::new(ip.payload()).unwrap());
                count += 1;
            }
        }
    }
    count
}

#[test]
fn what_the_kernel_wrote_is_written_the_same() {
    let count = for_each_segment(|segment| {
        let (options, ignored) = TcpOptions::parse(segment.options());
        assert!(ignored.is_none(), "{ignored:?} beside {options:?}");
        assert_eq!(&options.emit()[..], segment.option_bytes(), "{options:?}");
    });
    assert_eq!(count, 942);
}

#[test]
fn every_option_of_mptcp_but_one_is_in_the_captures() {
    let mut seen = [false; 9];
    for_each_segment(|segment| {
        let (options, _) = TcpOptions::parse(segment.options());
        for option in &options.mptcp {
            seen[index(option)] = true;
        }
    });
    // No capture has an MP_FAIL.
    assert_eq!(
        seen,
        [true, true, true, true, true, true, false, true, true]
    );
}

/// The subtype.
fn index(option: &MptcpOption) -> usize {
    match option {
        MptcpOption::Capable(_) => 0,
        MptcpOption::Join(_) => 1,
        MptcpOption::Dss(_) => 2,
        MptcpOption::AddAddress(_) => 3,
        MptcpOption::RemoveAddress(_) => 4,
        MptcpOption::Priority { .. } => 5,
        MptcpOption::Fail { .. } => 6,
        MptcpOption::FastClose { .. } => 7,
        MptcpOption::Reset(_) => 8,
    }
}
