//! How connections and subflows begin (RFC 8684, sections 3.1 and 3.2).

use mptcp::connection::keys::{Keys, Nonces};
use mptcp::wire::{Capable, Flags, Join, Key, MptcpOption};

use super::data_stream::DataStream;
use super::options::{Options, Told};
use super::subflow::{JoinSaid, Role};
use super::timeline::EventKind;
use super::{Analysis, Side, Stamp};
use crate::trace::TcpPacket;

/// Ports below are those of servers, mostly.
const FIRST_DYNAMIC_PORT: u16 = 32768;

impl Analysis {
    /// A subflow that begins with this packet, or was not seen to begin.
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

    /// A subflow that a SYN joins to the connection with that token; to an unknown one, if its beginning is not in the capture.
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

    /// A SYN or SYN/ACK.
    pub(super) fn synchronize(
        &mut self,
        stamp: Stamp,
        index: usize,
        packet: &TcpPacket<'_>,
        options: &Options,
    ) {
        let subflow = &mut self.subflows[index];
        let connection = &mut self.connections[subflow.connection];
        let from = subflow.side_of(packet.source);
        let is_first = subflow.ends[from as usize].syn(stamp.at, packet.seq, options.window_scale);
        if packet.flags.contains(Flags::ACK) {
            subflow.answered_at.get_or_insert(stamp.at);
            let [client, server] = &mut subflow.ends;
            if !client.has_window_scale() || !server.has_window_scale() {
                client.forget_window_scale();
                server.forget_window_scale();
            }
        }
        if !is_first {
            return;
        }
        let is_answer = packet.flags.contains(Flags::ACK);
        match subflow.role {
            Role::Plain => {
                connection.streams[from as usize] = DataStream::from_first(None);
                subflow.ends[from as usize].go_on_without_mappings(1, 1);
                let text = if is_answer { "SYN/ACK" } else { "SYN" };
                connection
                    .timeline
                    .note(stamp, index, from, EventKind::Syn, text.to_owned());
            }
            Role::Initial if is_answer && !is_multipath(options) => {
                self.fall_back(stamp, index, from, "the SYN/ACK has no MP_CAPABLE");
            }
            Role::Join if is_answer && join_of(options).is_none() => {
                let text = "the SYN/ACK of the join has no MP_JOIN".to_owned();
                connection
                    .timeline
                    .note(stamp, index, from, EventKind::Violation, text);
            }
            _ => {}
        }
    }

    /// A packet after the SYNs: it may end the handshake.
    pub(super) fn advance_handshake(
        &mut self,
        stamp: Stamp,
        index: usize,
        packet: &TcpPacket<'_>,
        options: &Options,
    ) {
        let subflow = &mut self.subflows[index];
        if subflow.usable_at.is_some() || packet.flags.contains(Flags::RST) {
            return;
        }
        let Some(opener) = subflow.opener else {
            return;
        };
        let from = subflow.side_of(packet.source);
        if from == opener {
            subflow.established_at.get_or_insert(stamp.at);
        }
        // A join may carry data when its third packet was answered (RFC 8684, section 3.2), the others at once.
        let is_usable = match subflow.role {
            Role::Join => {
                let is_answered = from != opener && subflow.established_at.is_some();
                is_answered || (packet.payload_len > 0 && options.dss().is_some())
            }
            _ => subflow.established_at.is_some(),
        };
        if !is_usable {
            return;
        }
        subflow.usable_at = Some(stamp.at);
        if subflow.role == Role::Join {
            let connection = &mut self.connections[subflow.connection];
            let text = "the subflow may carry data".to_owned();
            connection
                .timeline
                .note(stamp, index, from, EventKind::Usable, text);
        }
    }

    /// MP_CAPABLE of version 1.
    pub(super) fn take_capable(
        &mut self,
        stamp: Stamp,
        index: usize,
        from: Side,
        capable: &Capable,
    ) {
        match *capable {
            Capable::Syn { version, flags } => {
                self.agree(index, version, flags);
                let text = format!("SYN, version {version}{}", flags_of(flags));
                self.note_capable(stamp, index, from, text);
            }
            Capable::SynAck {
                version,
                flags,
                sender_key,
            } => {
                self.agree(index, version, flags);
                let text = format!(
                    "SYN/ACK, version {version}, key {sender_key:016x}{}",
                    flags_of(flags)
                );
                self.note_capable(stamp, index, from, text);
                self.learn_key(index, from, sender_key);
            }
            Capable::Ack {
                version,
                flags,
                sender_key,
                receiver_key,
                ..
            } => {
                self.agree(index, version, flags);
                let text = format!("both keys, of the client {sender_key:016x}");
                self.note_capable(stamp, index, from, text);
                self.learn_key(index, from, sender_key);
                self.learn_key(index, !from, receiver_key);
            }
        }
    }

    /// MP_CAPABLE of version 0.
    pub(super) fn take_capable_0(
        &mut self,
        stamp: Stamp,
        index: usize,
        from: Side,
        flags: u8,
        keys: (Key, Option<Key>),
    ) {
        self.agree(index, 0, flags);
        let text = match keys {
            (key, None) => format!("version 0, key {key:016x}{}", flags_of(flags)),
            (key, Some(_)) => format!("both keys, of the client {key:016x}"),
        };
        self.note_capable(stamp, index, from, text);
        self.learn_key(index, from, keys.0);
        if let Some(key) = keys.1 {
            self.learn_key(index, !from, key);
        }
    }

    fn note_capable(&mut self, stamp: Stamp, index: usize, from: Side, text: String) {
        let connection = &mut self.connections[self.subflows[index].connection];
        connection
            .timeline
            .note(stamp, index, from, EventKind::MpCapable, text);
    }

    fn agree(&mut self, index: usize, version: u8, flags: u8) {
        let connection = &mut self.connections[self.subflows[index].connection];
        connection.version = Some(version);
        connection.checksums |= flags & Capable::CHECKSUM_REQUIRED != 0;
    }

    fn learn_key(&mut self, index: usize, side: Side, key: Key) {
        let number = self.subflows[index].connection;
        let connection = &mut self.connections[number];
        if connection.learn_key(side, key)
            && let Some(token) = connection.tokens[side as usize]
        {
            self.tokens.insert(token, (number, side));
        }
    }

    /// MP_JOIN.
    pub(super) fn take_join(&mut self, stamp: Stamp, index: usize, from: Side, join: &Join) {
        let subflow = &mut self.subflows[index];
        let connection = &mut self.connections[subflow.connection];
        let said = subflow.join.get_or_insert_default();
        let text = match *join {
            Join::Syn {
                backup,
                address_id,
                token,
                nonce,
            } => {
                said.token = token;
                said.note(from, address_id, nonce);
                subflow.ends[from as usize].is_backup |= backup;
                format!(
                    "SYN, token {token:08x}, address {address_id}{}",
                    backup_of(backup)
                )
            }
            Join::SynAck {
                backup,
                address_id,
                nonce,
                ..
            } => {
                said.note(from, address_id, nonce);
                subflow.ends[from as usize].is_backup |= backup;
                format!("SYN/ACK, address {address_id}{}", backup_of(backup))
            }
            Join::Ack { .. } => "proof of the keys".to_owned(),
        };
        let said = *said;
        connection
            .timeline
            .note(stamp, index, from, EventKind::MpJoin, text);
        let is_proved = is_proved(connection.version, connection.keys, said, from, join);
        if is_proved == Some(false) {
            let text = "the HMAC of the join is not that of the keys".to_owned();
            connection
                .timeline
                .note(stamp, index, from, EventKind::Violation, text);
        }
    }

    /// From now on the connection is plain TCP.
    pub(super) fn fall_back(&mut self, stamp: Stamp, index: usize, from: Side, why: &'static str) {
        let subflow = &mut self.subflows[index];
        let connection = &mut self.connections[subflow.connection];
        if connection.fallback.is_some() {
            return;
        }
        connection.fallback = Some((stamp.at, why));
        connection
            .timeline
            .note(stamp, index, from, EventKind::Fallback, why.to_owned());
        for side in [Side::Client, Side::Server] {
            if connection.streams[side as usize].bytes == 0 {
                connection.streams[side as usize].begin_plain();
                subflow.ends[side as usize].go_on_without_mappings(1, 1);
            }
        }
    }
}

impl JoinSaid {
    fn note(&mut self, from: Side, address_id: u8, nonce: u32) {
        self.nonces[from as usize] = Some(nonce);
        self.address_ids[from as usize] = Some(address_id);
    }
}

/// Whether the HMAC of a join is right (RFC 8684, section 3.2); `None` where something is not known, or of version 0.
fn is_proved(
    version: Option<u8>,
    keys: [Option<Key>; 2],
    said: JoinSaid,
    from: Side,
    join: &Join,
) -> Option<bool> {
    if version == Some(0) {
        return None;
    }
    let (here, there) = (from as usize, !from as usize);
    let keys = Keys {
        local: keys[here]?,
        remote: keys[there]?,
    };
    let nonces = Nonces {
        local: said.nonces[here]?,
        remote: said.nonces[there]?,
    };
    let expected = keys.join_hmac(nonces);
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
