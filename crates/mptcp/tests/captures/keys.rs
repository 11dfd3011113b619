//! Everything that follows from the keys of the captures is in them.

use mptcp::connection::keys::{Nonces, first_64_bits, initial_data_seq, token};
use mptcp::payload::Payload;
use mptcp::seq::DataSeq;
use mptcp::wire::checksum::Sum;
use mptcp::wire::{Capable, DataNumber, Join, MptcpOption, Version};

use crate::recording::{NAMES, Recorded, Recording, Side, Subflow};

const SIDES: [Side; 2] = [Side::Client, Side::Server];

fn nonces(subflow: &Subflow, side: Side) -> Nonces {
    Nonces {
        local: subflow.nonces[side as usize],
        remote: subflow.nonces[side.other() as usize],
    }
}

/// Calls `checks` with every option of all captures. It returns whether it has checked the option;
/// the result is how many it has.
fn count_options(mut checks: impl FnMut(&Recording, &Recorded, &MptcpOption) -> bool) -> usize {
    let mut count = 0;
    for recording in NAMES.map(Recording::load) {
        for (recorded, option) in SIDES.iter().flat_map(|side| recording.options(*side)) {
            count += usize::from(checks(&recording, recorded, option));
        }
    }
    count
}

#[test]
fn tokens_are_those_of_the_servers_keys() {
    let count = count_options(|recording, _, option| {
        let MptcpOption::Join(Join::Syn { token: named, .. }) = option else {
            return false;
        };
        assert_eq!(
            *named,
            token(Version::One, recording.keys(Side::Server).local)
        );
        true
    });
    assert_eq!(count, 7);
}

#[test]
fn every_mp_capable_and_fast_close_names_the_same_keys() {
    let count = count_options(|recording, recorded, option| {
        let keys = recording.keys(recorded.sender);
        let named = match option {
            MptcpOption::Capable(Capable::SynAck { sender_key, .. }) => (*sender_key, keys.remote),
            MptcpOption::Capable(Capable::Ack {
                sender_key,
                receiver_key,
                ..
            }) => (*sender_key, *receiver_key),
            MptcpOption::FastClose { receiver_key } => (keys.local, *receiver_key),
            _ => return false,
        };
        assert_eq!(named, (keys.local, keys.remote), "{option:?}");
        true
    });
    assert_eq!(count, 41);
}

#[test]
fn joins_are_proved_by_both_sides() {
    let count = count_options(|recording, recorded, option| {
        let nonces = nonces(&recording.subflows[recorded.subflow], recorded.sender);
        let hmac = recording
            .keys(recorded.sender)
            .join_hmac(Version::One, nonces);
        match option {
            MptcpOption::Join(Join::SynAck { truncated_hmac, .. }) => {
                assert_eq!(*truncated_hmac, first_64_bits(&hmac));
            }
            MptcpOption::Join(Join::Ack { hmac: said }) => assert_eq!(*said, hmac),
            _ => return false,
        }
        true
    });
    assert_eq!(count, 14);
}

#[test]
fn the_announcement_is_proved() {
    let recording = Recording::load("B_addaddr");
    let announced = recording
        .options(Side::Server)
        .find_map(|(_, option)| match option {
            MptcpOption::AddAddress(announced) => Some(announced.clone()),
            _ => None,
        });
    let announced = announced.expect("the server announces its second address");
    let keys = recording.keys(Side::Server);
    let hmac = keys.address_hmac(announced.id, announced.address, announced.port);
    assert_eq!(announced.truncated_hmac, Some(hmac));
}

/// The first byte has the number after the initial one, and the DATA_FIN the number after the last
/// byte.
#[test]
fn the_numbers_of_all_streams_follow_from_the_keys() {
    for recording in NAMES.map(Recording::load) {
        for side in SIDES {
            let mut ranges = recording.ranges(side);
            ranges.sort_unstable();
            let len = ranges.iter().fold(0, |next, (start, end, _)| {
                assert!(*start <= next, "nobody sent {next}..{start}");
                next.max(*end)
            });
            assert_eq!(len, recording.stream(side).len() as u64);
            let fin = initial_data_seq(Version::One, recording.keys(side).local) + 1 + len;
            assert!(
                recording
                    .of(side)
                    .filter_map(|recorded| recorded.data_fin())
                    .all(|said| said == fin)
            );
        }
    }
}

#[test]
fn checksums_are_over_the_numbers_and_the_data() {
    let recording = Recording::load("F_csum");
    let mut count = 0;
    for side in SIDES {
        let stream = recording.stream(side);
        let first = initial_data_seq(Version::One, recording.keys(side).local) + 1;
        for (_, option) in recording.options(side) {
            let (data_seq, subflow_seq, len, checksum, fin) = match option {
                MptcpOption::Capable(Capable::Ack {
                    data: Some(data), ..
                }) => (first, 1, data.len, data.checksum, false),
                MptcpOption::Dss(dss) => {
                    let Some(mapping) = dss.mapping() else {
                        continue;
                    };
                    let DataNumber::Long(data_seq) = mapping.data_seq else {
                        panic!("short")
                    };
                    (
                        data_seq,
                        mapping.subflow_seq,
                        mapping.len,
                        mapping.checksum,
                        dss.data_fin(),
                    )
                }
                _ => continue,
            };
            let start = data_seq.distance_from(first) as usize;
            let data = &stream[start..][..usize::from(len) - usize::from(fin)];
            assert_eq!(checksum, Some(sum(data_seq, subflow_seq, len, data)));
            count += 1;
        }
    }
    assert_eq!(count, 23);
}

fn sum(data_seq: DataSeq, subflow_seq: u32, len: u16, data: &[u8]) -> u16 {
    let mut sum = Sum::of_mapping(data_seq, subflow_seq, len);
    sum.add_payload(&Payload::literal(data));
    sum.checksum()
}
