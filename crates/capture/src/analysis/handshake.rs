//! How connections and subflows begin (RFC 8684, sections 3.1 and 3.2).

use mptcp::connection::keys::Nonces;
use mptcp::wire::{Capable, Flags, Join, Key, MptcpOption, Nonce};

use super::connection::{Connection, FallbackCause};
use super::data_stream::DataStream;
use super::options::{Options, Told};
use super::subflow::{Proof, Role};
use super::timeline::EventKind;
use super::{Analysis, Arrival, Side, Stamp, Teller};
use crate::TcpPacket;

/// Ports below this mostly belong to servers.
const FIRST_DYNAMIC_PORT: u16 = 32768;

impl Analysis {
    /// Creates a subflow for a packet that belongs to no known one. The start of the subflow may be
    /// missing in the capture.
    pub(super) fn open(
        &mut self,
        stamp: Stamp,
        packet: &TcpPacket<'_>,
        options: &Options,
    ) -> usize {
        let is_syn = packet.flags.contains(Flags::SYN);
        let is_answer = is_syn && packet.flags.contains(Flags::ACK);
        if let (Some(Join::Syn { token, .. }), false) = (join_of(options), is_answer) {
            return self.open_join(stamp, packet, *token);
        }
        let from_client = if is_syn {
            !is_answer
        } else {
            packet.source.port() >= FIRST_DYNAMIC_PORT
                || packet.destination.port() < FIRST_DYNAMIC_PORT
        };
        let sides = if from_client {
            [packet.source, packet.destination]
        } else {
            [packet.destination, packet.source]
        };
        let role = match (join_of(options), is_syn && is_multipath(options)) {
            (Some(_), _) => Role::Join,
            (None, true) => Role::Initial,
            (None, false) => Role::Plain,
        };
        let connection = self.new_connection(stamp.at);
        self.connections[connection].version = version_of(options);
        let opener = is_syn.then_some(Side::Client);
        self.new_subflow(stamp.at, connection, sides, opener, role)
    }

    /// Creates a subflow that joins the connection with `token`. An unknown token creates a
    /// connection, because its start is missing in the capture.
    fn open_join(&mut self, stamp: Stamp, packet: &TcpPacket<'_>, token: u32) -> usize {
        let (connection, receiver) = match self.tokens.get(&token) {
            Some(&(connection, side)) => (connection, side),
            None => {
                let connection = self.new_connection(stamp.at);
                self.connections[connection].version = Some(1);
                self.connections[connection].tokens[Side::Server as usize] = Some(token);
                self.tokens.insert(token, (connection, Side::Server));
                (connection, Side::Server)
            }
        };
        let sides = match receiver {
            Side::Server => [packet.source, packet.destination],
            Side::Client => [packet.destination, packet.source],
        };
        self.new_subflow(stamp.at, connection, sides, Some(!receiver), Role::Join)
    }

    /// Handles a SYN or SYN/ACK.
    pub(super) fn synchronize(&mut self, arrival: &Arrival<'_>) {
        let (packet, options) = (arrival.packet, &arrival.options);
        let is_answer = packet.flags.contains(Flags::ACK);
        let (subflow, connection, by) = self.places_of(arrival);
        let (now, from) = (by.stamp.at, by.from as usize);
        let is_first = subflow.ends[from].syn(now, packet.seq, options.window_scale);
        let counter = match (is_multipath(options), packet.are_options_cut) {
            (true, _) => &mut subflow.syns.with_mptcp,
            (false, false) => &mut subflow.syns.without_mptcp,
            (false, true) => &mut subflow.syns.options_cut,
        };
        *counter += u64::from(!is_answer);
        if is_answer {
            subflow.answered_at.get_or_insert(now);
            let [client, server] = &mut subflow.ends;
            if !client.has_window_scale() || !server.has_window_scale() {
                client.forget_window_scale();
                server.forget_window_scale();
            }
        }
        if !is_first {
            return;
        }
        match subflow.role {
            Role::Plain => {
                connection.streams[from] = DataStream::from_first(None);
                subflow.ends[from].go_on_without_mappings(1, 1);
                let text = if is_answer { "SYN/ACK" } else { "SYN" };
                connection.note(by, EventKind::Syn, text);
            }
            _ if packet.are_options_cut => {}
            Role::Initial if is_answer && !is_multipath(options) => {
                let why = "the SYN/ACK has no MP_CAPABLE";
                self.fall_back(by, FallbackCause::AnswerWithoutCapable, why);
            }
            Role::Join if is_answer && join_of(options).is_none() => {
                let text = "the SYN/ACK of the join has no MP_JOIN";
                connection.note(by, EventKind::Violation, text);
            }
            _ => {}
        }
    }

    /// Handles a packet after the SYNs, which may complete the handshake.
    pub(super) fn advance_handshake(&mut self, arrival: &Arrival<'_>) {
        let packet = arrival.packet;
        let (subflow, connection, by) = self.places_of(arrival);
        if subflow.usable_at.is_some() || packet.flags.contains(Flags::RST) {
            return;
        }
        let Some(opener) = subflow.opener else {
            return;
        };
        if by.from == opener {
            subflow.established_at.get_or_insert(by.stamp.at);
        }
        // A join may carry data once its third packet is answered (RFC 8684, section 3.2), other
        // subflows at once.
        let is_usable = match subflow.role {
            Role::Join => {
                let is_answered = by.from != opener && subflow.established_at.is_some();
                is_answered || (packet.payload_len > 0 && arrival.options.dss().is_some())
            }
            _ => subflow.established_at.is_some(),
        };
        if !is_usable {
            return;
        }
        subflow.usable_at = Some(by.stamp.at);
        if subflow.role == Role::Join {
            connection.note(by, EventKind::Usable, "the subflow may carry data");
        }
    }

    /// Records the first packet of a side without any MPTCP option, which every packet of the
    /// initial subflow has until a fallback (RFC 8684, section 3.7).
    pub(super) fn notice_bare_packet(&mut self, arrival: &Arrival<'_>) {
        let (packet, options) = (arrival.packet, &arrival.options);
        let is_bare =
            options.mptcp_len == 0 && !packet.are_options_cut && !packet.flags.contains(Flags::RST);
        let (subflow, connection, by) = self.places_of(arrival);
        if is_bare && subflow.role == Role::Initial {
            connection.bare_packets[by.from as usize].get_or_insert(by.stamp.packet);
        }
    }

    /// Handles MP_CAPABLE of version 1.
    pub(super) fn handle_capable(&mut self, by: Teller, capable: &Capable) {
        match *capable {
            Capable::Syn { version, flags } => {
                self.agree(by, version, flags);
                let text = format!("SYN, version {version}{}", flags_of(flags));
                self.record_capable(by, text);
            }
            Capable::SynAck {
                version,
                flags,
                sender_key,
            } => {
                self.agree(by, version, flags);
                let text = format!(
                    "SYN/ACK, version {version}, key {sender_key:016x}{}",
                    flags_of(flags)
                );
                self.record_capable(by, text);
                self.learn_key(by, by.from, sender_key);
            }
            Capable::Ack {
                version,
                flags,
                sender_key,
                receiver_key,
                ..
            } => {
                self.agree(by, version, flags);
                let text = format!("both keys, of the client {sender_key:016x}");
                self.record_capable(by, text);
                self.learn_key(by, by.from, sender_key);
                self.learn_key(by, !by.from, receiver_key);
            }
        }
    }

    /// Handles MP_CAPABLE of version 0.
    pub(super) fn handle_capable_0(&mut self, by: Teller, flags: u8, keys: (Key, Option<Key>)) {
        self.agree(by, 0, flags);
        let text = match keys {
            (key, None) => format!("version 0, key {key:016x}{}", flags_of(flags)),
            (key, Some(_)) => format!("both keys, of the client {key:016x}"),
        };
        self.record_capable(by, text);
        self.learn_key(by, by.from, keys.0);
        if let Some(key) = keys.1 {
            self.learn_key(by, !by.from, key);
        }
    }

    fn record_capable(&mut self, by: Teller, text: String) {
        self.connection_of(by).note(by, EventKind::MpCapable, text);
    }

    fn agree(&mut self, by: Teller, version: u8, flags: u8) {
        let connection = self.connection_of(by);
        connection.version = Some(version);
        connection.checksums |= flags & Capable::CHECKSUM_REQUIRED != 0;
    }

    fn connection_of(&mut self, by: Teller) -> &mut Connection {
        &mut self.connections[self.subflows[by.subflow].connection]
    }

    fn learn_key(&mut self, by: Teller, side: Side, key: Key) {
        let number = self.subflows[by.subflow].connection;
        let connection = &mut self.connections[number];
        if connection.learn_key(side, key)
            && let Some(token) = connection.tokens[side as usize]
        {
            self.tokens.insert(token, (number, side));
        }
    }

    /// Handles MP_JOIN.
    pub(super) fn handle_join(&mut self, by: Teller, join: &Join) {
        let subflow = &mut self.subflows[by.subflow];
        let connection = &mut self.connections[subflow.connection];
        let from = by.from as usize;
        let text = match *join {
            Join::Syn {
                backup,
                address_id,
                token,
                nonce,
            } => {
                subflow.nonces[from] = Some(nonce);
                subflow.ends[from].is_backup |= backup;
                let backup = backup_of(backup);
                format!("SYN, token {token:08x}, address {address_id}{backup}")
            }
            Join::SynAck {
                backup,
                address_id,
                nonce,
                ..
            } => {
                subflow.nonces[from] = Some(nonce);
                subflow.ends[from].is_backup |= backup;
                format!("SYN/ACK, address {address_id}{}", backup_of(backup))
            }
            Join::Ack { .. } => "proof of the keys".to_owned(),
        };
        connection.note(by, EventKind::MpJoin, text);
        let is_right = is_proved(connection, subflow.nonces, by.from, join);
        if !matches!(join, Join::Syn { .. }) {
            let proof = Proof {
                packet: by.stamp.packet,
                is_right,
            };
            let known = subflow.proofs[from].get_or_insert(proof);
            if is_right == Some(false) && known.is_right != Some(false) {
                *known = proof;
            }
        }
        if is_right == Some(false) {
            let text = "the HMAC of the join is not that of the keys";
            connection.note(by, EventKind::Violation, text);
        }
    }

    /// Records a fallback to plain TCP. A direction without data so far begins with its next byte.
    /// The first call does this for both directions, a later one only for the direction of the
    /// sender.
    pub(super) fn fall_back(&mut self, by: Teller, cause: FallbackCause, why: &'static str) {
        let subflow = &mut self.subflows[by.subflow];
        let connection = &mut self.connections[subflow.connection];
        let is_first = connection.fall_back(by, cause, why);
        for side in [Side::Client, Side::Server] {
            let concerns = is_first || side == by.from;
            if concerns && connection.streams[side as usize].bytes == 0 {
                connection.streams[side as usize].begin_plain();
                subflow.ends[side as usize].go_on_without_mappings(1, 1);
            }
        }
    }
}

/// Returns whether the HMAC of a join is correct (RFC 8684, section 3.2; RFC 6824, section 3.2).
/// `None` if it cannot be checked.
fn is_proved(
    connection: &Connection,
    nonces: [Option<Nonce>; 2],
    from: Side,
    join: &Join,
) -> Option<bool> {
    let nonces = Nonces {
        local: nonces[from as usize]?,
        remote: nonces[!from as usize]?,
    };
    let expected = connection
        .keys_of(from)?
        .join_hmac(connection.version(), nonces);
    match join {
        Join::Syn { .. } => None,
        Join::SynAck { truncated_hmac, .. } => {
            Some(expected.starts_with(&truncated_hmac.to_be_bytes()))
        }
        Join::Ack { hmac } => Some(expected.starts_with(hmac)),
    }
}

fn join_of(options: &Options) -> Option<&Join> {
    options.mptcp.iter().find_map(|told| match told {
        Told::Option(MptcpOption::Join(join)) => Some(join),
        _ => None,
    })
}

fn is_multipath(options: &Options) -> bool {
    !options.mptcp.is_empty()
}

fn version_of(options: &Options) -> Option<u8> {
    options.mptcp.first().map(|told| match told {
        Told::Capable0 { .. } => 0,
        Told::Option(_) => 1,
    })
}

fn flags_of(flags: u8) -> &'static str {
    let (checksums, no_join) = (Capable::CHECKSUM_REQUIRED, Capable::NO_JOIN_TO_INITIAL);
    match (flags & checksums != 0, flags & no_join != 0) {
        (true, true) => ", checksums, no joins to this address",
        (true, false) => ", checksums",
        (false, true) => ", no joins to this address",
        (false, false) => "",
    }
}

fn backup_of(backup: bool) -> &'static str {
    if backup { ", backup" } else { "" }
}
