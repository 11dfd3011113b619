//! Formats packets as scripts write them, for messages about unexpected packets.

use mptcp::seq::{DataSeq, SeqNr};
use mptcp::wire::{Capable, DataNumber, Dss, Flags, Join, MptcpOption, Packet, TcpOptions};

use crate::script::{FLAG_LETTERS, Sender};
use crate::session::{Flow, Session};

/// Formats one packet of a sender.
pub fn packet(packet: &Packet, sender: Sender, session: &Session, flow: &Flow) -> String {
    let segment = &packet.segment;
    let relative = |number: SeqNr, owner| number.distance_from(flow.base_of(owner));
    let letters = FLAG_LETTERS
        .iter()
        .filter(|(_, flag)| segment.flags.contains(*flag));
    let seq = relative(segment.seq, sender);
    let len = segment.payload.len() as i32;
    let mut line = format!(
        "{}:{} > {}:{} {} {seq}:{}({len})",
        packet.source,
        segment.source_port,
        packet.destination,
        segment.destination_port,
        letters.map(|(letter, _)| letter).collect::<String>(),
        seq + len,
    );
    if segment.flags.contains(Flags::ACK) {
        line += &format!(" ack {}", relative(segment.ack, sender.other()));
    }
    let mut options = tcp_options(&segment.options, flow.base_of(sender.other()));
    let mptcp = segment.options.mptcp.iter();
    options.extend(mptcp.map(|option| mptcp_option(option, sender, session)));
    line + &format!(" win {} <{}>", segment.window, options.join(", "))
}

fn tcp_options(options: &TcpOptions, acked_base: SeqNr) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(options.mss.map(|mss| format!("mss {mss}")));
    words.extend(options.sack_permitted.then(|| "sackOK".to_owned()));
    let timestamps = options.timestamps;
    words.extend(timestamps.map(|it| format!("TS val {} ecr {}", it.value, it.echo)));
    words.extend(options.window_scale.map(|shift| format!("wscale {shift}")));
    let number = |number: SeqNr| number.distance_from(acked_base);
    let blocks = options
        .sack
        .iter()
        .map(|block| format!(" {}:{}", number(block.start), number(block.end)));
    let blocks: String = blocks.collect();
    words.extend((!blocks.is_empty()).then(|| format!("sack{blocks}")));
    words
}

fn mptcp_option(option: &MptcpOption, sender: Sender, session: &Session) -> String {
    match option {
        MptcpOption::Capable(it) => capable(it),
        MptcpOption::Join(it) => join(it),
        MptcpOption::Dss(it) => dss(it, sender, session),
        MptcpOption::AddAddress(it) => format!(
            "add_address address_id={} addr[{}] port={:?} hmac={:?}",
            it.id, it.address, it.port, it.truncated_hmac
        ),
        MptcpOption::RemoveAddress(ids) => format!("remove_address address_id={ids:?}"),
        MptcpOption::Priority { backup: true } => "mp_prio backup".to_owned(),
        MptcpOption::Priority { backup: false } => "mp_prio".to_owned(),
        MptcpOption::Fail { data_seq } => {
            format!("mp_fail dsn8={}", session.nth(sender.other(), *data_seq))
        }
        MptcpOption::FastClose { receiver_key } => format!("mp_fastclose key[{receiver_key}]"),
        MptcpOption::Version0(it) => format!("version 0: {it:?}"),
        MptcpOption::Reset(it) => format!("mp_reset {} flags {:#x}", it.code, it.flags),
    }
}

fn capable(capable: &Capable) -> String {
    match capable {
        Capable::Syn { version, flags } => format!("mpcapable v{version} flags {flags:#x} nokey"),
        Capable::SynAck {
            version,
            flags,
            sender_key,
        } => format!("mpcapable v{version} flags {flags:#x} key[{sender_key}]"),
        Capable::Ack {
            version,
            flags,
            sender_key,
            receiver_key,
            data,
        } => format!(
            "mpcapable v{version} flags {flags:#x} key[{sender_key}, {receiver_key}] {data:?}"
        ),
    }
}

fn join(join: &Join) -> String {
    match join {
        Join::Syn {
            backup,
            address_id,
            token,
            ..
        } => format!("mp_join_syn backup {backup} address_id={address_id} token={token}"),
        Join::SynAck {
            backup,
            address_id,
            truncated_hmac,
            ..
        } => format!(
            "mp_join_syn_ack backup {backup} address_id={address_id} sender_hmac={truncated_hmac}"
        ),
        Join::Ack { hmac } => format!("mp_join_ack sender_hmac={hmac:x?}"),
    }
}

fn dss(dss: &Dss, sender: Sender, session: &Session) -> String {
    let mut line = "dss".to_owned();
    if let Some(number) = dss.data_ack() {
        line += &data_number("dack", number, sender.other(), session);
    }
    if let Some(mapping) = dss.mapping() {
        line += &data_number("dsn", mapping.data_seq, sender, session);
        line += &format!(" ssn={} dll={}", mapping.subflow_seq, mapping.len);
        line += &mapping
            .checksum
            .map_or(" nocs".to_owned(), |sum| format!(" cksum={sum}"));
    }
    line + if dss.data_fin() { " fin" } else { "" }
}

fn data_number(name: &str, number: DataNumber, owner: Sender, session: &Session) -> String {
    let near = session.data_seq(owner, 1).unwrap_or(DataSeq(0));
    let (bytes, full) = match number {
        DataNumber::Short(_) => (4, number.expand(near)),
        DataNumber::Long(number) => (8, number),
    };
    format!(" {name}{bytes}={}", session.nth(owner, full))
}
