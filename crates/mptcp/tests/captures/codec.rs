//! Options that the kernel wrote are parsed, and written with the same bytes.

use mptcp::wire::{Ipv4View, MptcpOption, TcpOptions, TcpView};

use crate::recording::{NAMES, for_each_ip_packet};

/// Calls `check` with every segment. Returns how many there were.
fn for_each_segment(mut check: impl FnMut(&TcpView<'_>)) -> usize {
    let mut count = 0;
    for name in NAMES {
        for_each_ip_packet(name, |_, bytes| {
            let ip = Ipv4View::from_prefix(bytes).unwrap();
            assert!(ip.is_checksum_right());
            check(&TcpView::new(ip.payload()).unwrap());
            count += 1;
        });
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

/// Returns the index of an option by its subtype.
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
        MptcpOption::Version0(_) => panic!("the recordings have version 1"),
    }
}
