//! Forged packets: changed copies of packets, and their form after parsing.

use std::sync::Arc;

use mptcp::payload::Payload;
use mptcp::seq::{DataSeq, SeqNr};
use mptcp::wire::{
    DataNumber, Dss, Ecn, Flags, MAX_OPTIONS_LEN, Mapping, MptcpOption, MptcpOptions, Packet,
    SackBlock, TcpOptions, TcpView,
};

use crate::script::Script;

/// The longest payload of a forged packet, in bytes.
const MAX_PAYLOAD_BYTES: usize = 2_000;

/// Changes a packet in up to three places.
pub fn change(packet: &mut Packet, script: &mut Script<'_>) {
    for _ in 0..=script.byte() % 3 {
        change_once(packet, script);
    }
}

fn change_once(packet: &mut Packet, script: &mut Script<'_>) {
    let segment = &mut packet.segment;
    match script.byte() % 16 {
        0 | 1 => segment.seq += script.distance(),
        2 | 3 => segment.ack += script.distance(),
        4 => segment.flags.0 ^= 1 << (script.byte() % 8),
        5 => segment.flags = Flags(script.byte()),
        6 => segment.window = script.word(),
        7 => segment.payload = payload(script),
        8 => segment.options.mptcp = MptcpOptions::new(),
        9 => change_tcp_options(segment.ack, &mut segment.options, script),
        10..=13 => change_dss(&mut segment.options, script),
        14 => add_options(&mut segment.options, script),
        _ => {
            packet.ecn =
                [Ecn::NotCapable, Ecn::Capable0, Ecn::CongestionExperienced][script.below(3)]
        }
    }
}

/// Returns a payload of a length that the script gives. Forged packets of equal length have equal
/// payloads.
fn payload(script: &mut Script<'_>) -> Payload {
    let len = usize::from(script.word()) % (MAX_PAYLOAD_BYTES + 1);
    Payload::stream(9, 0, len as u32)
}

fn change_tcp_options(ack: SeqNr, options: &mut TcpOptions, script: &mut Script<'_>) {
    match script.byte() % 6 {
        0 => options.timestamps = None,
        1 | 2 => {
            if let Some(timestamps) = &mut options.timestamps {
                timestamps.value = timestamps.value.wrapping_add(script.distance());
                timestamps.echo = timestamps.echo.wrapping_add(script.distance());
            }
        }
        3 | 4 => {
            let start = ack + script.distance();
            let end = start + script.distance();
            let _ = options.sack.try_push(SackBlock { start, end });
        }
        _ => {
            options.mss = Some(script.word());
            options.window_scale = Some(script.byte());
        }
    }
}

/// Changes a field of the DSS option, and adds the option to a packet without one.
fn change_dss(options: &mut TcpOptions, script: &mut Script<'_>) {
    let is_dss = |option: &MptcpOption| matches!(option, MptcpOption::Dss(_));
    if !options.mptcp.iter().any(is_dss) {
        let _ = options.mptcp.try_push(MptcpOption::Dss(Dss::default()));
    }
    for option in &mut options.mptcp {
        if let MptcpOption::Dss(dss) = option {
            change_dss_field(dss, script);
        }
    }
}

fn change_dss_field(dss: &mut Dss, script: &mut Script<'_>) {
    match script.byte() % 8 {
        0 => {
            let data_ack = dss.data_ack().map(|number| moved(number, script));
            *dss = dss.with_data_ack(data_ack);
        }
        1 => *dss = dss.with_data_ack(None),
        2 => *dss = dss.with_data_fin(!dss.data_fin()),
        3 => *dss = dss.with_mapping(None),
        which => {
            let mut mapping = dss.mapping().unwrap_or(Mapping {
                data_seq: DataNumber::Short(script.distance()),
                subflow_seq: 1,
                len: 1,
                checksum: None,
            });
            change_mapping(&mut mapping, which, script);
            *dss = dss.with_mapping(Some(mapping));
        }
    }
}

fn change_mapping(mapping: &mut Mapping, which: u8, script: &mut Script<'_>) {
    match which {
        4 => mapping.data_seq = moved(mapping.data_seq, script),
        5 => mapping.subflow_seq = mapping.subflow_seq.wrapping_add(script.distance()),
        6 => mapping.len = script.word() % 4_000,
        _ => {
            let sum = script.word();
            mapping.checksum = Some(sum).filter(|_| mapping.checksum.is_none());
        }
    }
}

/// Returns a number near `number`, at times in the other form.
fn moved(number: DataNumber, script: &mut Script<'_>) -> DataNumber {
    let distance = i64::from(script.distance() as i32);
    match (number, script.byte() % 4) {
        (DataNumber::Long(number), 0) => DataNumber::Short(number.low()),
        (DataNumber::Short(low), 0) => DataNumber::Long(DataSeq(u64::from(low))),
        (DataNumber::Long(number), _) => DataNumber::Long(number + distance as u64),
        (DataNumber::Short(low), _) => DataNumber::Short(low.wrapping_add(distance as u32)),
    }
}

/// Adds options that the script gives byte by byte.
fn add_options(options: &mut TcpOptions, script: &mut Script<'_>) {
    let len = script
        .below(MAX_OPTIONS_LEN + 1)
        .next_multiple_of(4)
        .min(MAX_OPTIONS_LEN);
    let mut header = [0; 60];
    header[12] = (((20 + len) / 4) << 4) as u8;
    let bytes = script.bytes(len);
    header[20..20 + bytes.len()].copy_from_slice(bytes);
    let view = TcpView::new(&header).expect("a header that is long enough");
    let (spelled, _) = TcpOptions::parse(view.options());
    for option in &spelled.mptcp {
        let _ = options.mptcp.try_push(option.clone());
    }
}

/// Returns the packet as its receiver parses it; `None` if it cannot be written.
pub fn read_again(packet: &Packet) -> Option<Packet> {
    if packet.segment.options.wire_len() > MAX_OPTIONS_LEN {
        return None;
    }
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    let (read, _) = Packet::parse(&Arc::from(bytes)).expect("what was written can be read");
    Some(read)
}
