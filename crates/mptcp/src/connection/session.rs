//! What both sides of a connection agreed on, and the options that say so (RFC 8684, sections 3.1 to 3.3).

use super::Config;
use super::fin::Fins;
use super::keys::{self, Keys, Nonces};
use super::path::{InfiniteMapping, Join, PathSignals};
use crate::payload::Payload;
use crate::pm::Role;
use crate::seq::DataSeq;
use crate::subflow::{Options, Outgoing, SegmentKind};
use crate::wire::checksum::Sum;
use crate::wire::{
    Capable, DataNumber, Dss, InitialMapping, Join as JoinOption, Key, Mapping, MptcpOption,
    MptcpOptions, Token,
};

/// Bytes of options, padding included, that a data segment has: a DSS with a short DATA_ACK, with or without checksum.
const SHORT_DSS_BYTES: u32 = 24;
/// The same with a long DATA_ACK.
const LONG_DSS_BYTES: u32 = 28;

/// Which protocol a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Multipath TCP was asked for, and it is not yet known whether the peer speaks it.
    Negotiating,
    /// Multipath TCP.
    Multipath,
    /// TCP, from the start or after a fallback (RFC 8684, section 3.7).
    Plain,
}

/// What is common to all subflows of a connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) role: Role,
    pub(super) mode: Mode,
    local_key: Key,
    /// The number of the first byte of our stream.
    first_data_seq: DataSeq,
    pub(super) remote: Option<Remote>,
    pub(super) uses_checksums: bool,
    /// Whether we allow joins to the address and port of the initial subflow (flag C).
    allows_joins_to_initial: bool,
    /// Whether the peer allows joins to the address and port of the initial subflow (flag C).
    pub(super) may_join_initial: bool,
    /// Whether the peer is known to know the keys, so that MP_CAPABLE need not be repeated (section 3.1).
    pub(super) is_fully_established: bool,
    /// What an opener's MP_CAPABLE says of its first burst of data, once that was sent.
    first_mapping: Option<InitialMapping>,
    /// Whether the peer has sent a mapping or a DATA_ACK.
    pub(super) has_seen_dss: bool,
    /// Whether the peer has shown that it takes long numbers.
    pub(super) has_long_acks: bool,
    /// The first byte of the peer's stream that is missing.
    pub(super) receive_next: u64,
    pub(super) fins: Fins,
    /// Whether the next data says that from it on we speak plain TCP (section 3.7).
    pub(super) owes_infinite_mapping: bool,
    /// Whether the peer's MP_FAIL ended Multipath TCP, and gets one in answer.
    pub(super) answers_fail: bool,
    /// Whether the peer maps its data still, after we told it that they came changed: so long it has DATA_ACKs.
    pub(super) awaits_infinite_mapping: bool,
    /// How many SYNs with MP_CAPABLE a path may send.
    max_capable_syns: u32,
}

/// What follows from the peer's key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    key: Key,
    pub(super) token: Token,
    /// The number of the first byte of its stream.
    first_data_seq: DataSeq,
}

impl Session {
    pub(super) fn new(role: Role, local_key: Key, config: &Config) -> Self {
        Self {
            role,
            mode: Mode::Negotiating,
            local_key,
            first_data_seq: keys::initial_data_seq(local_key) + 1,
            remote: None,
            uses_checksums: config.uses_checksums,
            allows_joins_to_initial: config.allows_joins_to_initial,
            may_join_initial: true,
            is_fully_established: false,
            first_mapping: None,
            has_seen_dss: false,
            has_long_acks: false,
            receive_next: 0,
            fins: Fins::default(),
            owes_infinite_mapping: false,
            answers_fail: false,
            awaits_infinite_mapping: false,
            max_capable_syns: config.max_capable_syns,
        }
    }

    pub(super) fn set_remote_key(&mut self, key: Key) {
        self.remote = Some(Remote {
            key,
            token: keys::token(key),
            first_data_seq: keys::initial_data_seq(key) + 1,
        });
    }

    /// Both keys, once the peer's is known.
    pub(super) fn keys(&self) -> Option<Keys> {
        self.remote.map(|remote| Keys {
            local: self.local_key,
            remote: remote.key,
        })
    }

    pub(super) fn local_key(&self) -> Key {
        self.local_key
    }

    /// What the peer calls this connection.
    pub(super) fn local_token(&self) -> Token {
        keys::token(self.local_key)
    }

    /// Bytes to be reserved for options in data segments.
    pub(super) fn reserved_bytes(&self) -> u32 {
        match (self.mode, self.has_long_acks) {
            (Mode::Plain, _) if !self.owes_infinite_mapping => 0,
            (_, false) => SHORT_DSS_BYTES,
            (_, true) => LONG_DSS_BYTES,
        }
    }

    /// The number of a byte of our stream.
    pub(super) fn data_seq(&self, offset: u64) -> DataSeq {
        self.first_data_seq + offset
    }

    /// The byte of our stream with that number, near a known one; nothing if it lies before the first.
    pub(super) fn offset(&self, number: DataNumber, near: u64) -> Option<u64> {
        let data_seq = number.expand(self.data_seq(near));
        u64::try_from(data_seq.distance_from(self.first_data_seq)).ok()
    }

    /// The number of a byte of the peer's stream, if its key is known.
    pub(super) fn remote_data_seq(&self, offset: u64) -> Option<DataSeq> {
        self.remote.map(|remote| remote.first_data_seq + offset)
    }

    /// The byte of the peer's stream with that number; nothing if it lies before the first, or the peer's key is not known.
    pub(super) fn remote_offset(&self, number: DataNumber) -> Option<u64> {
        let first = self.remote?.first_data_seq;
        let data_seq = number.expand(first + self.receive_next);
        u64::try_from(data_seq.distance_from(first)).ok()
    }

    /// What a DATA_ACK says now, in the long form if the peer takes it and there is room: a segment that was cut for the short
    /// form, and is sent again, has none.
    fn data_ack(&self, room_bytes: usize) -> Option<DataNumber> {
        let fin = u64::from(self.fins.is_remote_reached(self.receive_next));
        let next = self.remote?.first_data_seq + self.receive_next + fin;
        let is_long = self.has_long_acks && room_bytes >= LONG_DSS_BYTES as usize;
        Some(match is_long {
            true => DataNumber::Long(next),
            false => DataNumber::Short(next.low()),
        })
    }

    fn capable_flags(&self) -> u8 {
        let mut flags = Capable::HMAC_SHA256;
        if self.uses_checksums {
            flags |= Capable::CHECKSUM_REQUIRED;
        }
        if !self.allows_joins_to_initial {
            flags |= Capable::NO_JOIN_TO_INITIAL;
        }
        flags
    }

    /// Whether the first data would go out with MP_CAPABLE, and it is not settled yet how many are mapped by it.
    pub(super) fn owes_first_mapping(&self) -> bool {
        !self.is_fully_established
            && self.first_mapping.is_none()
            && self.role == Role::Opener
            && self.mode == Mode::Multipath
    }

    /// Every segment of the first burst repeats MP_CAPABLE, so that the keys arrive with any of them, as Linux does; what they
    /// say of the burst is one mapping (section 3.1).
    pub(super) fn map_first_burst(&mut self, burst: &Payload) {
        self.first_mapping = Some(InitialMapping {
            len: burst.len() as u16,
            checksum: self.checksum(self.data_seq(0), 1, burst),
        });
    }

    /// Bytes of the first burst, if they have a checksum.
    pub(super) fn first_checked_bytes(&self) -> u16 {
        let first = self.first_mapping.filter(|first| first.checksum.is_some());
        first.map_or(0, |first| first.len)
    }

    fn capable_ack(&self, remote: Remote, data: Option<InitialMapping>) -> MptcpOption {
        MptcpOption::Capable(Capable::Ack {
            version: 1,
            flags: self.capable_flags(),
            sender_key: self.local_key,
            receiver_key: remote.key,
            data,
        })
    }

    fn dss(&self, mapping: Option<Mapping>, data_fin: bool, room_bytes: usize) -> MptcpOption {
        let signal = Dss::default()
            .with_data_ack(self.data_ack(room_bytes))
            .with_mapping(mapping)
            .with_data_fin(data_fin);
        MptcpOption::Dss(signal)
    }

    fn mapping(&self, outgoing: &Outgoing<'_>, offset: u64) -> Mapping {
        let data_seq = self.data_seq(offset);
        let len = outgoing.payload.len() as u16;
        let subflow_seq = outgoing.subflow_seq;
        Mapping {
            data_seq: DataNumber::Long(data_seq),
            subflow_seq,
            len,
            checksum: self.checksum(data_seq, subflow_seq, outgoing.payload),
        }
    }

    /// The first burst as a mapping like others.
    fn mapping_of_burst(&self, first: InitialMapping) -> Mapping {
        Mapping {
            data_seq: DataNumber::Long(self.data_seq(0)),
            subflow_seq: 1,
            len: first.len,
            checksum: first.checksum,
        }
    }

    /// A mapping of nothing but our DATA_FIN (section 3.3.3).
    fn fin_mapping(&self, fin: u64) -> Mapping {
        let data_seq = self.data_seq(fin);
        Mapping {
            data_seq: DataNumber::Long(data_seq),
            subflow_seq: 0,
            len: 1,
            checksum: self
                .uses_checksums
                .then(|| Sum::of_mapping(data_seq, 0, 1).checksum()),
        }
    }

    /// The checksum of a mapping without DATA_FIN, if checksums are used (section 3.3.1).
    fn checksum(&self, data_seq: DataSeq, subflow_seq: u32, payload: &Payload) -> Option<u16> {
        self.uses_checksums.then(|| {
            let mut sum = Sum::of_mapping(data_seq, subflow_seq, payload.len() as u16);
            sum.add_payload(payload);
            sum.checksum()
        })
    }
}

/// The options of one path's segments.
pub(super) struct PathOptions<'a> {
    pub(super) session: &'a mut Session,
    pub(super) signals: &'a mut PathSignals,
}

impl Options for PathOptions<'_> {
    fn for_segment(&mut self, outgoing: &Outgoing<'_>) -> MptcpOptions {
        let mut options = MptcpOptions::new();
        if self.session.mode == Mode::Plain {
            self.say_farewell_to_multipath(outgoing, &mut options);
            return options;
        }
        match outgoing.kind {
            SegmentKind::Syn => options.extend(self.syn()),
            SegmentKind::SynAck => options.push(self.syn_ack()),
            SegmentKind::Data => options.push(self.data(outgoing)),
            SegmentKind::Ack => self.ack(outgoing.room_bytes, &mut options),
            SegmentKind::Fin => options.extend(self.fin(outgoing.room_bytes)),
            SegmentKind::Reset => self.reset(&mut options),
        }
        options
    }
}

impl PathOptions<'_> {
    /// After as many attempts as are allowed, the SYN goes without MP_CAPABLE: a middlebox may drop it (section 3.1).
    fn syn(&mut self) -> Option<MptcpOption> {
        if let Join::Opening {
            address_id,
            nonces,
            token,
        } = self.signals.join
        {
            return Some(MptcpOption::Join(JoinOption::Syn {
                backup: self.signals.is_backup_local,
                address_id,
                token,
                nonce: nonces.local,
            }));
        }
        self.signals.capable_syns += 1;
        let capable = Capable::Syn {
            version: 1,
            flags: self.session.capable_flags(),
        };
        (self.signals.capable_syns <= self.session.max_capable_syns)
            .then_some(MptcpOption::Capable(capable))
    }

    fn syn_ack(&self) -> MptcpOption {
        match (self.signals.join, self.session.keys()) {
            (Join::Accepting { address_id, nonces }, Some(keys)) => {
                MptcpOption::Join(JoinOption::SynAck {
                    backup: self.signals.is_backup_local,
                    address_id,
                    truncated_hmac: keys::first_64_bits(&keys.join_hmac(nonces)),
                    nonce: nonces.local,
                })
            }
            _ => MptcpOption::Capable(Capable::SynAck {
                version: 1,
                flags: self.session.capable_flags(),
                sender_key: self.session.local_key,
            }),
        }
    }

    fn data(&self, outgoing: &Outgoing<'_>) -> MptcpOption {
        let offset = outgoing.offset.expect("data has its place in the stream");
        match (self.first_mapping(outgoing, offset), self.session.remote) {
            (first @ Some(_), Some(remote)) if self.repeats_capable() => {
                self.session.capable_ack(remote, first)
            }
            (first, _) => {
                let mapping = match first {
                    Some(first) => self.session.mapping_of_burst(first),
                    None => self.session.mapping(outgoing, offset),
                };
                let room = outgoing.room_bytes;
                self.session.dss(Some(mapping), false, room)
            }
        }
    }

    /// The mapping of the first burst, if this is a part of it and not the same data once more behind it.
    fn first_mapping(&self, outgoing: &Outgoing<'_>, offset: u64) -> Option<InitialMapping> {
        let first = self.session.first_mapping?;
        let is_where_it_began = u64::from(outgoing.subflow_seq) == offset + 1;
        let end = offset + u64::from(outgoing.payload.len());
        let is_part = is_where_it_began && end <= u64::from(first.len);
        (is_part && self.signals.join == Join::Initial).then_some(first)
    }

    /// Whether the peer may not yet know our key, and this is the subflow to say it on.
    fn repeats_capable(&self) -> bool {
        let is_opener = self.session.role == Role::Opener;
        is_opener && self.signals.join == Join::Initial && !self.session.is_fully_established
    }

    /// Until the peer has shown that it has the keys, they go with every acknowledgment (section 3.1), but for one after them that
    /// says the DATA_FIN of a stream without a byte (section 3.3.3): there is no room for both, and nothing else would ever make
    /// the peer show it.
    fn says_keys_next(&mut self) -> bool {
        let has_said_keys = std::mem::replace(&mut self.signals.has_said_keys, true);
        !has_said_keys || !self.signals.owes_bare_fin(self.session)
    }

    fn ack(&mut self, room_bytes: usize, options: &mut MptcpOptions) {
        if let (Join::Confirming { nonces, .. }, Some(keys)) =
            (self.signals.join, self.session.keys())
        {
            options.push(self.join_ack(keys, nonces));
            return;
        }
        if let Some(remote) = self.session.remote
            && self.repeats_capable()
            && self.says_keys_next()
        {
            options.push(self.session.capable_ack(remote, None));
            return;
        }
        if self.session.remote.is_none() {
            // Whoever accepted, and has not learnt the key, has nothing to say yet.
            return;
        }
        let signal = self.signals.take_pending();
        // With a port, an IPv6 address takes that of the timestamps, too.
        let takes_all_room = matches!(signal, Some(MptcpOption::AddAddress(_)));
        if !takes_all_room {
            options.push(self.acknowledgment(room_bytes));
        }
        if let Some(signal) = signal {
            let used: usize = options.iter().map(MptcpOption::wire_len).sum();
            match takes_all_room || used + signal.wire_len() <= room_bytes {
                true => options.push(signal),
                false => self.signals.pending.push_front(signal),
            }
        }
    }

    fn join_ack(&self, keys: Keys, nonces: Nonces) -> MptcpOption {
        MptcpOption::Join(JoinOption::Ack {
            hmac: keys::first_160_bits(&keys.join_hmac(nonces)),
        })
    }

    /// A DSS without data; with our DATA_FIN if it is to be said on this path.
    fn acknowledgment(&mut self, room_bytes: usize) -> MptcpOption {
        let fin = self.session.fins.local_to_send();
        let says_fin = std::mem::take(&mut self.signals.says_fin);
        match fin.filter(|_| says_fin) {
            Some(fin) => self
                .session
                .dss(Some(self.session.fin_mapping(fin)), true, room_bytes),
            None => self.session.dss(None, false, room_bytes),
        }
    }

    fn fin(&self, room_bytes: usize) -> Option<MptcpOption> {
        self.session
            .remote
            .map(|_| self.session.dss(None, false, room_bytes))
    }

    fn reset(&mut self, options: &mut MptcpOptions) {
        if let Some(remote) = self.session.remote.filter(|_| self.signals.closes_fast) {
            options.push(MptcpOption::FastClose {
                receiver_key: remote.key,
            });
        }
        if let Some(data_seq) = self.signals.failed_from {
            options.push(MptcpOption::Fail { data_seq });
        }
        if let Some(reason) = self.signals.reset_reason {
            options.push(MptcpOption::Reset(reason));
        }
    }

    /// After a fallback in mid-stream: MP_FAIL, and one infinite mapping with the first new byte (section 3.7).
    fn say_farewell_to_multipath(&mut self, outgoing: &Outgoing<'_>, options: &mut MptcpOptions) {
        if outgoing.kind == SegmentKind::Ack {
            self.say_fail(outgoing.room_bytes, options);
        }
        if let Some(offset) = outgoing.offset
            && let Some(&infinite) = self.signals.infinite.as_deref()
            && infinite.said_at <= offset
        {
            options.push(self.infinite_mapping(infinite, offset, outgoing.subflow_seq));
            self.signals.infinite = None;
            self.session.owes_infinite_mapping = false;
        }
    }

    /// MP_FAIL is repeated until there is an answer, as acknowledgments may be lost; the answer is said once for each. DATA_ACKs
    /// end with the peer's infinite mapping: that comes with new data, for which a window may have to open (section 3.7).
    fn say_fail(&mut self, room_bytes: usize, options: &mut MptcpOptions) {
        let fail = self.signals.failed_from;
        if self.session.answers_fail {
            self.signals.failed_from = None;
        }
        options.extend(fail.map(|data_seq| MptcpOption::Fail { data_seq }));
        if self.session.awaits_infinite_mapping {
            let used: usize = options.iter().map(MptcpOption::wire_len).sum();
            let room = room_bytes.saturating_sub(used);
            let ack = self.session.dss(None, false, room);
            options.extend(Some(ack).filter(|ack| ack.wire_len() <= room));
        }
    }

    /// Bytes before the first new one stand as far before it on the subflow as in the stream.
    fn infinite_mapping(
        &self,
        infinite: InfiniteMapping,
        offset: u64,
        subflow_seq: u32,
    ) -> MptcpOption {
        let back = (offset - infinite.back_to) as u32;
        let mapping = Mapping {
            data_seq: DataNumber::Long(self.session.data_seq(infinite.back_to)),
            subflow_seq: subflow_seq.wrapping_sub(back),
            len: 0,
            checksum: self.session.uses_checksums.then_some(0),
        };
        MptcpOption::Dss(Dss::default().with_mapping(Some(mapping)))
    }
}
