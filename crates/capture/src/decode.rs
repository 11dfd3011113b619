//! Decodes one packet, with its options in the terms of RFC 8684.

use mptcp::connection::keys::{initial_data_seq, token};
use mptcp::wire::{
    Capable, DataNumber, Dss, Flags, Join, KIND as MPTCP, Key, MptcpOption, MptcpOptionV0,
    ResetReason, SignalledAddress, Version,
};
use serde::Serialize;

use crate::analysis::{Side, reset_reason};
use crate::tcp_packet::TcpPacket;

/// A packet with its options.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct DecodedPacket {
    /// Number of the frame.
    pub packet: u64,
    /// Time since the start of the capture.
    pub at_s: f64,
    /// Address and port of the sender.
    pub source: String,
    /// Address and port of the receiver.
    pub destination: String,
    /// Index of the connection.
    pub connection: usize,
    /// Index of the subflow.
    pub subflow: usize,
    /// The side of the connection that sent it.
    pub from: Side,
    /// Control bits that are set.
    pub flags: Vec<&'static str>,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Receive window before scaling.
    pub window: u16,
    /// Bytes of payload.
    pub payload_bytes: u32,
    /// Options, in the order of the header.
    pub options: Vec<DecodedOption>,
    /// Whether some options were not captured.
    pub are_options_cut: bool,
}

/// An option.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct DecodedOption {
    /// Its name.
    pub name: String,
    /// The document that defines it.
    pub source: &'static str,
    /// Length in bytes, with kind and length.
    pub bytes: usize,
    /// Its bytes in hexadecimal.
    pub hex: String,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// A field of an option.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// The meaning of the value, if it needs an explanation.
    pub meaning: String,
}

/// The position of a packet in the capture and the analysis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) packet: u64,
    pub(super) at_s: f64,
    pub(super) connection: usize,
    pub(super) subflow: usize,
    pub(super) from: Side,
    pub(super) version: Option<u8>,
}

/// Control bits with their names (RFC 9293, section 3.1).
const FLAGS: [(Flags, &str); 8] = [
    (Flags::CWR, "CWR"),
    (Flags::ECE, "ECE"),
    (Flags::URG, "URG"),
    (Flags::ACK, "ACK"),
    (Flags::PSH, "PSH"),
    (Flags::RST, "RST"),
    (Flags::SYN, "SYN"),
    (Flags::FIN, "FIN"),
];

pub(super) fn packet(place: Place, packet: &TcpPacket<'_>) -> DecodedPacket {
    let set = FLAGS
        .iter()
        .filter(|(flag, _)| packet.flags.contains(*flag));
    let options = packet.options.clone();
    DecodedPacket {
        packet: place.packet,
        at_s: place.at_s,
        source: packet.source.to_string(),
        destination: packet.destination.to_string(),
        connection: place.connection,
        subflow: place.subflow,
        from: place.from,
        flags: set.map(|(_, name)| *name).collect(),
        seq: packet.seq.0,
        ack: packet.ack.0,
        window: packet.window,
        payload_bytes: packet.payload_len,
        options: options
            .map(|(kind, content)| option(kind, content, place.version))
            .collect(),
        are_options_cut: packet.are_options_cut,
    }
}

fn option(kind: u8, content: &[u8], version: Option<u8>) -> DecodedOption {
    let (name, source, fields) = match kind {
        MPTCP => multipath(content, version),
        _ => plain(kind, content),
    };
    let bytes = 2 + content.len();
    let head = [kind, bytes as u8];
    let hex = head.iter().chain(content).map(|byte| format!("{byte:02x}"));
    DecodedOption {
        name,
        source,
        bytes,
        hex: hex.collect(),
        fields,
    }
}

type Decoded = (String, &'static str, Vec<Field>);

fn plain(kind: u8, content: &[u8]) -> Decoded {
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0u32, |sum, byte| sum << 8 | u32::from(*byte))
    };
    let (name, source, fields) = match (kind, content) {
        (2, [_, _]) => {
            let value = number(content).to_string();
            (
                "MSS",
                "RFC 9293, 3.7.1",
                vec![field("Maximum segment size", value, "bytes")],
            )
        }
        (3, [shift]) => {
            let meaning = format!("windows count {} bytes", 1u32 << (*shift).min(14));
            let shift = field("Shift", shift.to_string(), meaning);
            ("Window scale", "RFC 7323, 2.2", vec![shift])
        }
        (4, []) => ("SACK permitted", "RFC 2018, 2", Vec::new()),
        (5, blocks) => {
            let (blocks, _) = blocks.as_chunks::<8>();
            let block = |block: &[u8; 8]| {
                let (start, end) = (number(&block[..4]), number(&block[4..]));
                let meaning = format!("{} bytes beyond a hole", end.wrapping_sub(start));
                field("Block", format!("{start} to {end}"), meaning)
            };
            ("SACK", "RFC 2018, 3", blocks.iter().map(block).collect())
        }
        (8, [_, _, _, _, _, _, _, _]) => {
            let fields = vec![
                field("TSval", number(&content[..4]).to_string(), ""),
                field("TSecr", number(&content[4..]).to_string(), ""),
            ];
            ("Timestamps", "RFC 7323, 3.2", fields)
        }
        _ => return (format!("Option of kind {kind}"), "", Vec::new()),
    };
    (name.to_owned(), source, fields)
}

fn multipath(content: &[u8], version: Option<u8>) -> Decoded {
    let is_capable_0 = content.first() == Some(&0);
    if is_capable_0 || version == Some(0) {
        return MptcpOptionV0::parse(content).map_or_else(|_| malformed(content), version_0);
    }
    match MptcpOption::parse(content) {
        Err(_) | Ok(MptcpOption::Version0(_)) => malformed(content),
        Ok(option) => version_1(&option),
    }
}

fn malformed(content: &[u8]) -> Decoded {
    let subtype = content
        .first()
        .map_or(String::from("none"), |first| (first >> 4).to_string());
    let fields = vec![field(
        "Subtype",
        subtype,
        "not of the form that its subtype has, or not known",
    )];
    ("Option of MPTCP".to_owned(), "RFC 8684, 3", fields)
}

fn version_0(option: MptcpOptionV0) -> Decoded {
    match option {
        MptcpOptionV0::Capable {
            version,
            flags,
            sender_key,
            receiver_key,
        } => {
            let mut fields = capable_flags(version, flags);
            fields.push(field("Sender's key", hex(sender_key), ""));
            fields.extend(receiver_key.map(|key| field("Receiver's key", hex(key), "")));
            ("MP_CAPABLE".to_owned(), "RFC 6824, 3.1", fields)
        }
        MptcpOptionV0::AddAddress { id, address, port } => {
            let mut fields = vec![
                field("Address ID", id.to_string(), ""),
                field("Address", address.to_string(), ""),
            ];
            fields.extend(port.map(|port| field("Port", port.to_string(), "")));
            ("ADD_ADDR".to_owned(), "RFC 6824, 3.4.1", fields)
        }
        MptcpOptionV0::Priority { backup, address_id } => {
            let mut fields = vec![backup_flag(backup)];
            fields.extend(
                address_id.map(|id| field("Address ID", id.to_string(), "the subflows it means")),
            );
            ("MP_PRIO".to_owned(), "RFC 6824, 3.3.8", fields)
        }
        MptcpOptionV0::Join(one) => version_1(&MptcpOption::Join(one)),
        MptcpOptionV0::Dss(one) => version_1(&MptcpOption::Dss(one)),
        MptcpOptionV0::RemoveAddress(ids) => version_1(&MptcpOption::RemoveAddress(ids)),
        MptcpOptionV0::Fail { data_seq } => version_1(&MptcpOption::Fail { data_seq }),
        MptcpOptionV0::FastClose { receiver_key } => {
            version_1(&MptcpOption::FastClose { receiver_key })
        }
    }
}

fn version_1(option: &MptcpOption) -> Decoded {
    let (name, source, fields) = match option {
        MptcpOption::Capable(capable) => ("MP_CAPABLE", "RFC 8684, 3.1", capable_fields(capable)),
        MptcpOption::Join(join) => ("MP_JOIN", "RFC 8684, 3.2", join_fields(join)),
        MptcpOption::Dss(dss) => ("DSS", "RFC 8684, 3.3", dss_fields(dss)),
        MptcpOption::AddAddress(address) => {
            ("ADD_ADDR", "RFC 8684, 3.4.1", address_fields(address))
        }
        MptcpOption::RemoveAddress(ids) => {
            let id = |id: &u8| field("Address ID", id.to_string(), "its subflows are closed");
            (
                "REMOVE_ADDR",
                "RFC 8684, 3.4.2",
                ids.iter().map(id).collect(),
            )
        }
        MptcpOption::Priority { backup } => {
            ("MP_PRIO", "RFC 8684, 3.3.8", vec![backup_flag(*backup)])
        }
        MptcpOption::Fail { data_seq } => {
            let meaning = "the checksum of the mapping that starts there was wrong";
            let number = field("Data sequence number", data_seq.0.to_string(), meaning);
            ("MP_FAIL", "RFC 8684, 3.7", vec![number])
        }
        MptcpOption::FastClose { receiver_key } => {
            let key = field(
                "Receiver's key",
                hex(*receiver_key),
                "proves that the sender is of this connection",
            );
            ("MP_FASTCLOSE", "RFC 8684, 3.5", vec![key])
        }
        MptcpOption::Reset(reason) => ("MP_TCPRST", "RFC 8684, 3.6", reset_fields(*reason)),
        MptcpOption::Version0(option) => return version_0((**option).clone()),
    };
    (name.to_owned(), source, fields)
}

fn capable_flags(version: u8, flags: u8) -> Vec<Field> {
    let bits = [
        (Capable::CHECKSUM_REQUIRED, "A", "checksum required"),
        (
            Capable::EXTENSIBILITY,
            "B",
            "extensibility: must be 0 in this version",
        ),
        (
            Capable::NO_JOIN_TO_INITIAL,
            "C",
            "no subflows to this address and port",
        ),
        (
            Capable::HMAC_SHA256,
            "H",
            if version == 0 {
                "HMAC-SHA1"
            } else {
                "HMAC-SHA256"
            },
        ),
    ];
    let mut fields = vec![field("Version", version.to_string(), "")];
    fields.extend(bits.map(|(bit, name, meaning)| {
        let is_set = flags & bit != 0;
        field(
            name,
            u8::from(is_set).to_string(),
            if is_set { meaning } else { "" },
        )
    }));
    fields
}

fn capable_fields(capable: &Capable) -> Vec<Field> {
    let key_of = |name: &'static str, key: Key| {
        let meaning = format!(
            "token {:08x}, initial data sequence number {}",
            token(Version::One, key),
            initial_data_seq(Version::One, key).0
        );
        field(name, hex(key), meaning)
    };
    match *capable {
        Capable::Syn { version, flags } => capable_flags(version, flags),
        Capable::SynAck {
            version,
            flags,
            sender_key,
        } => {
            let mut fields = capable_flags(version, flags);
            fields.push(key_of("Sender's key", sender_key));
            fields
        }
        Capable::Ack {
            version,
            flags,
            sender_key,
            receiver_key,
            data,
        } => {
            let mut fields = capable_flags(version, flags);
            fields.push(key_of("Sender's key", sender_key));
            fields.push(key_of("Receiver's key", receiver_key));
            if let Some(data) = data {
                let meaning = "bytes of the connection's first mapping";
                fields.push(field("Data-level length", data.len.to_string(), meaning));
                fields.extend(data.checksum.map(checksum_field));
            }
            fields
        }
    }
}

fn join_fields(join: &Join) -> Vec<Field> {
    match *join {
        Join::Syn {
            backup,
            address_id,
            token,
            nonce,
        } => vec![
            backup_flag(backup),
            field(
                "Address ID",
                address_id.to_string(),
                "of the address it comes from",
            ),
            field(
                "Receiver's token",
                format!("{token:08x}"),
                "names the connection",
            ),
            field("Sender's random number", format!("{nonce:08x}"), ""),
        ],
        Join::SynAck {
            backup,
            address_id,
            truncated_hmac,
            nonce,
        } => vec![
            backup_flag(backup),
            field(
                "Address ID",
                address_id.to_string(),
                "of the address it comes from",
            ),
            field(
                "Sender's truncated HMAC",
                hex(truncated_hmac),
                "64 bits: who accepts knows the keys",
            ),
            field("Sender's random number", format!("{nonce:08x}"), ""),
        ],
        Join::Ack { hmac } => {
            let digits: String = hmac.iter().map(|byte| format!("{byte:02x}")).collect();
            vec![field(
                "Sender's HMAC",
                digits,
                "160 bits: who opened knows the keys",
            )]
        }
    }
}

fn dss_fields(dss: &Dss) -> Vec<Field> {
    let mut fields = Vec::new();
    if dss.data_fin() {
        fields.push(field(
            "F",
            "1".to_owned(),
            "DATA_FIN: the data ends with this mapping",
        ));
    }
    if let Some(ack) = dss.data_ack() {
        let (number, octets) = number_text(ack);
        fields.push(field(
            "Data ACK",
            number,
            format!("{octets} octets: all data before it has arrived"),
        ));
    }
    let Some(mapping) = dss.mapping() else {
        return fields;
    };
    let (number, octets) = number_text(mapping.data_seq);
    fields.push(field(
        "Data sequence number",
        number,
        format!("{octets} octets"),
    ));
    let relative = mapping.subflow_seq.to_string();
    fields.push(field(
        "Subflow sequence number",
        relative,
        "relative to the initial one of the subflow",
    ));
    let meaning = match (mapping.len, dss.data_fin()) {
        (0, _) => "the infinite mapping: plain TCP from here on",
        (_, true) => "bytes, one of them for DATA_FIN",
        (_, false) => "bytes from these numbers on",
    };
    fields.push(field("Data-level length", mapping.len.to_string(), meaning));
    fields.extend(mapping.checksum.map(checksum_field));
    fields
}

fn address_fields(address: &SignalledAddress) -> Vec<Field> {
    let is_echo = address.truncated_hmac.is_none();
    let meaning = if is_echo {
        "echo: the announcement has arrived"
    } else {
        ""
    };
    let mut fields = vec![
        field("E", u8::from(is_echo).to_string(), meaning),
        field("Address ID", address.id.to_string(), ""),
        field("Address", address.address.to_string(), ""),
    ];
    fields.extend(address.port.map(|port| field("Port", port.to_string(), "")));
    let hmac = address.truncated_hmac;
    fields.extend(hmac.map(|hmac| {
        field(
            "Truncated HMAC",
            hex(hmac),
            "64 bits over ID, address and port",
        )
    }));
    fields
}

fn reset_fields(reason: ResetReason) -> Vec<Field> {
    let transient = if reason.is_transient() {
        "another try may go well"
    } else {
        ""
    };
    vec![
        field("T", u8::from(reason.is_transient()).to_string(), transient),
        field("Reason", reason.code.to_string(), reset_reason(reason.code)),
    ]
}

fn backup_flag(backup: bool) -> Field {
    let meaning = if backup {
        "backup: used when no other subflow can be"
    } else {
        ""
    };
    field("B", u8::from(backup).to_string(), meaning)
}

fn checksum_field(checksum: u16) -> Field {
    field(
        "Checksum",
        format!("{checksum:04x}"),
        "over the data and a pseudo-header",
    )
}

fn number_text(number: DataNumber) -> (String, u8) {
    match number {
        DataNumber::Short(low) => (low.to_string(), 4),
        DataNumber::Long(full) => (full.0.to_string(), 8),
    }
}

fn hex(key: u64) -> String {
    format!("{key:016x}")
}

fn field(name: &'static str, value: String, meaning: impl Into<String>) -> Field {
    Field {
        name,
        value,
        meaning: meaning.into(),
    }
}
