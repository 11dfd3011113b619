//! What both hosts of a connection agreed on, and the options that carry it (RFC 8684, sections 3.1
//! to 3.3).

use super::Config;
use super::fin::Fins;
use super::keys::{self, Keys, Nonces};
use super::lifecycle::Phase;
use super::subflow_context::{InfiniteMapping, SubflowSignals};
use crate::payload::Payload;
use crate::pm::Role;
use crate::seq::DataSeq;
use crate::subflow::{Options, Outgoing, SegmentKind};
use crate::wire::checksum::Sum;
use crate::wire::{
    Capable, DataNumber, Dss, InitialMapping, Join as JoinOption, Key, Mapping, MptcpOption,
    MptcpOptions, Token, Version,
};

/// Returns the bytes of MPTCP options in a data segment, including padding: those of a DSS with or
/// without checksum. Its DSN is long in version 1 and short in version 0, as in the kernels that
/// use these versions.
fn dss_bytes(version: Version, has_long_ack: bool) -> u32 {
    let with_short_ack = match version {
        Version::Zero => 20,
        Version::One => 24,
    };
    with_short_ack + if has_long_ack { 4 } else { 0 }
}

/// Length in bytes of the ADD_ADDR of version 0 for an IPv4 address with a port. There is room for
/// it beside a DSS.
const LONGEST_IPV4_ANNOUNCEMENT: usize = 10;

/// The protocol that a connection uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// MPTCP was requested, and it is not known yet whether the connection will use it.
    Negotiating,
    /// MPTCP (RFC 8684).
    Multipath,
    /// Plain TCP, from the start or after a fallback (RFC 8684, section 3.7).
    Plain,
}

/// State that all subflows of a connection share.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) version: Version,
    pub(super) role: Role,
    pub(super) mode: Mode,
    local_key: Key,
    /// DSN of the first byte of the local stream.
    first_data_seq: DataSeq,
    pub(super) remote: Option<Remote>,
    pub(super) uses_checksums: bool,
    /// Whether this host allows joins to the address and port of the initial subflow (flag C).
    allows_joins_to_initial: bool,
    /// Whether the peer allows joins to the address and port of the initial subflow (flag C).
    pub(super) may_join_initial: bool,
    /// Whether the peer is known to have the keys, so that MP_CAPABLE need not be repeated (section
    /// 3.1).
    pub(super) is_fully_established: bool,
    /// Mapping of the opener's first burst of data, which MP_CAPABLE carries; set once the burst is
    /// sent.
    first_mapping: Option<InitialMapping>,
    /// Whether the peer has sent a mapping or a DATA_ACK.
    pub(super) has_seen_dss: bool,
    /// Whether the peer has shown that it accepts DATA_ACKs of 64 bits.
    pub(super) has_long_acks: bool,
    /// Offset of the first missing byte of the peer's stream.
    pub(super) receive_next: u64,
    pub(super) fins: Fins,
    /// Whether the next data must carry an infinite mapping (section 3.7).
    pub(super) owes_infinite_mapping: bool,
    /// Whether the fallback was due to the peer's MP_FAIL, so that each MP_FAIL is answered.
    pub(super) answers_fail: bool,
    /// Whether the peer still sends mappings after this host reported a wrong checksum. Until it
    /// stops, it is sent DATA_ACKs.
    pub(super) awaits_infinite_mapping: bool,
    /// Maximum number of SYNs with MP_CAPABLE on a subflow.
    max_capable_syns: u32,
}

/// Values derived from the key of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    key: Key,
    pub(super) token: Token,
    /// DSN of the first byte of the peer's stream.
    first_data_seq: DataSeq,
}

impl Session {
    pub(super) fn new(role: Role, local_key: Key, config: &Config) -> Self {
        let version = config.version;
        Self {
            version,
            role,
            mode: Mode::Negotiating,
            local_key,
            first_data_seq: keys::initial_data_seq(version, local_key) + 1,
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
            token: keys::token(self.version, key),
            first_data_seq: keys::initial_data_seq(self.version, key) + 1,
        });
    }

    /// Returns both keys, once the peer's is known.
    pub(super) fn keys(&self) -> Option<Keys> {
        self.remote.map(|remote| Keys {
            local: self.local_key,
            remote: remote.key,
        })
    }

    /// Returns whether this host may not yet send options, because it does not know that the
    /// handshake has succeeded. In version 1, it does not know the peer's key either.
    pub(super) fn awaits_keys(&self) -> bool {
        self.remote.is_none() || (self.role == Role::Acceptor && self.mode == Mode::Negotiating)
    }

    /// Returns whether `number` in MP_CAPABLE is the version of this host.
    pub(super) fn has_version(&self, number: u8) -> bool {
        number == self.version.number()
    }

    /// Returns the token by which the peer joins this connection.
    pub(super) fn local_token(&self) -> Token {
        keys::token(self.version, self.local_key)
    }

    /// Returns the bytes to reserve for options in data segments.
    pub(super) fn reserved_bytes(&self) -> u32 {
        match (self.mode, self.has_long_acks) {
            (Mode::Plain, _) if !self.owes_infinite_mapping => 0,
            (_, has_long_acks) => dss_bytes(self.version, has_long_acks),
        }
    }

    /// Returns the DSN of a byte of the local stream.
    pub(super) fn data_seq(&self, offset: u64) -> DataSeq {
        self.first_data_seq + offset
    }

    /// Returns the offset in the local stream of the DSN `number`, close to the offset `near`.
    /// Returns `None` if it is before the first byte.
    pub(super) fn offset(&self, number: DataNumber, near: u64) -> Option<u64> {
        let data_seq = number.expand(self.data_seq(near));
        u64::try_from(data_seq.distance_from(self.first_data_seq)).ok()
    }

    /// Returns the DSN of a byte of the peer's stream, if the peer's key is known.
    pub(super) fn remote_data_seq(&self, offset: u64) -> Option<DataSeq> {
        self.remote.map(|remote| remote.first_data_seq + offset)
    }

    /// Returns the offset in the peer's stream of the DSN `number`. Returns `None` if it is before
    /// the first byte or if the peer's key is not known.
    pub(super) fn remote_offset(&self, number: DataNumber) -> Option<u64> {
        let first = self.remote?.first_data_seq;
        let data_seq = number.expand(first + self.receive_next);
        u64::try_from(data_seq.distance_from(first)).ok()
    }

    /// Returns the current DATA_ACK, in the long form if the peer accepts it and there is room. A
    /// retransmitted segment that was cut for the short form has no room.
    fn data_ack(&self, room_bytes: usize) -> Option<DataNumber> {
        let fin = u64::from(self.fins.is_remote_reached(self.receive_next));
        let next = self.remote?.first_data_seq + self.receive_next + fin;
        let room_for_long = dss_bytes(self.version, true) as usize;
        let is_long = self.has_long_acks && room_bytes >= room_for_long;
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

    /// Returns a DSN as mappings carry it.
    fn number_of(&self, data_seq: DataSeq) -> DataNumber {
        match self.version {
            Version::Zero => DataNumber::Short(data_seq.low()),
            Version::One => DataNumber::Long(data_seq),
        }
    }

    /// Returns whether the first data would carry MP_CAPABLE and the length of its mapping is not
    /// yet set. In version 0, MP_CAPABLE never carries a mapping.
    pub(super) fn owes_first_mapping(&self) -> bool {
        self.version == Version::One
            && !self.is_fully_established
            && self.first_mapping.is_none()
            && self.role == Role::Opener
            && self.mode == Mode::Multipath
    }

    /// Sets the mapping of the first burst. Every segment of the burst repeats MP_CAPABLE with this
    /// one mapping, as in Linux, so that the keys arrive with any of them (section 3.1).
    pub(super) fn map_first_burst(&mut self, burst: &Payload) {
        self.first_mapping = Some(InitialMapping {
            len: burst.len() as u16,
            checksum: self.checksum(self.data_seq(0), 1, burst),
        });
    }

    /// Returns the length of the first burst in bytes if it has a checksum, otherwise 0.
    pub(super) fn first_checked_bytes(&self) -> u16 {
        let first = self.first_mapping.filter(|first| first.checksum.is_some());
        first.map_or(0, |first| first.len)
    }

    /// Returns the MP_CAPABLE of a SYN/ACK, and of a SYN in version 0.
    fn capable_with_key(&self) -> Capable {
        Capable::SynAck {
            version: self.version.number(),
            flags: self.capable_flags(),
            sender_key: self.local_key,
        }
    }

    fn capable_ack(&self, remote: Remote, data: Option<InitialMapping>) -> MptcpOption {
        MptcpOption::Capable(Capable::Ack {
            version: self.version.number(),
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
            data_seq: self.number_of(data_seq),
            subflow_seq,
            len,
            checksum: self.checksum(data_seq, subflow_seq, outgoing.payload),
        }
    }

    /// Returns the mapping of the first burst for a DSS.
    fn mapping_of_burst(&self, first: InitialMapping) -> Mapping {
        Mapping {
            data_seq: DataNumber::Long(self.data_seq(0)),
            subflow_seq: 1,
            len: first.len,
            checksum: first.checksum,
        }
    }

    /// Returns the mapping of a DATA_FIN without data (section 3.3.3).
    fn fin_mapping(&self, fin: u64) -> Mapping {
        let data_seq = self.data_seq(fin);
        Mapping {
            data_seq: self.number_of(data_seq),
            subflow_seq: 0,
            len: 1,
            checksum: self
                .uses_checksums
                .then(|| Sum::of_mapping(data_seq, 0, 1).checksum()),
        }
    }

    /// Returns the checksum of a mapping without DATA_FIN, if checksums are used (section 3.3.1).
    fn checksum(&self, data_seq: DataSeq, subflow_seq: u32, payload: &Payload) -> Option<u16> {
        self.uses_checksums.then(|| {
            let mut sum = Sum::of_mapping(data_seq, subflow_seq, payload.len() as u16);
            sum.add_payload(payload);
            sum.checksum()
        })
    }
}

/// Writes the MPTCP options of the segments of one subflow.
pub(super) struct SubflowOptions<'a> {
    pub(super) session: &'a mut Session,
    pub(super) signals: &'a mut SubflowSignals,
    pub(super) is_initial: bool,
    pub(super) phase: &'a Phase,
}

impl Options for SubflowOptions<'_> {
    fn for_segment(&mut self, outgoing: &Outgoing<'_>) -> MptcpOptions {
        let mut options = MptcpOptions::new();
        if self.session.mode == Mode::Plain {
            self.write_fallback_options(outgoing, &mut options);
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

impl SubflowOptions<'_> {
    /// Returns the MPTCP option of a SYN. After the allowed number of attempts, the SYN carries no
    /// MP_CAPABLE, because a middlebox may drop it (section 3.1).
    fn syn(&mut self) -> Option<MptcpOption> {
        if let Phase::Opening {
            address_id,
            nonces,
            token,
        } = *self.phase
        {
            return Some(MptcpOption::Join(JoinOption::Syn {
                backup: self.signals.is_backup_local,
                address_id,
                token,
                nonce: nonces.local,
            }));
        }
        self.signals.capable_syns += 1;
        let capable = match self.session.version {
            Version::Zero => self.session.capable_with_key(),
            Version::One => Capable::Syn {
                version: 1,
                flags: self.session.capable_flags(),
            },
        };
        (self.signals.capable_syns <= self.session.max_capable_syns)
            .then_some(MptcpOption::Capable(capable))
    }

    fn syn_ack(&self) -> MptcpOption {
        match (self.phase, self.session.keys()) {
            (&Phase::Accepting { address_id, nonces }, Some(keys)) => {
                MptcpOption::Join(JoinOption::SynAck {
                    backup: self.signals.is_backup_local,
                    address_id,
                    truncated_hmac: keys::first_64_bits(&self.join_hmac(keys, nonces)),
                    nonce: nonces.local,
                })
            }
            _ => MptcpOption::Capable(self.session.capable_with_key()),
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

    /// Returns the mapping of the first burst if the segment is part of it. A reinjection of the
    /// same data later on the subflow is not.
    fn first_mapping(&self, outgoing: &Outgoing<'_>, offset: u64) -> Option<InitialMapping> {
        let first = self.session.first_mapping?;
        let is_where_it_began = u64::from(outgoing.subflow_seq) == offset + 1;
        let end = offset + u64::from(outgoing.payload.len());
        let is_part = is_where_it_began && end <= u64::from(first.len);
        (is_part && self.is_initial).then_some(first)
    }

    /// Returns whether the peer may not yet know the local key and this subflow has to carry it.
    fn repeats_capable(&self) -> bool {
        let is_opener = self.session.role == Role::Opener;
        is_opener && self.is_initial && !self.session.is_fully_established
    }

    /// Returns whether the next ACK carries the keys.
    ///
    /// Until the peer has shown that it has the keys, every ACK carries them (section 3.1). The
    /// exception is one ACK after them that carries the DATA_FIN of an empty stream (section
    /// 3.3.3). There is no room for both, and nothing else would make the peer show that it has the
    /// keys.
    fn sends_keys_next(&mut self) -> bool {
        let has_sent_keys = std::mem::replace(&mut self.signals.has_sent_keys, true);
        !has_sent_keys || !self.signals.owes_bare_fin(self.session)
    }

    fn ack(&mut self, room_bytes: usize, options: &mut MptcpOptions) {
        if let (Phase::Confirming(its), Some(keys)) = (self.phase, self.session.keys()) {
            options.push(self.join_ack(keys, its.nonces));
            return;
        }
        if let Some(remote) = self.session.remote
            && self.repeats_capable()
            && self.sends_keys_next()
        {
            options.push(self.session.capable_ack(remote, None));
            return;
        }
        if self.session.awaits_keys() {
            // An acceptor that has not learned the peer's key sends no options.
            return;
        }
        let signal = self.signals.take_pending();
        // An IPv6 address with a port also takes the room of the timestamps.
        let takes_all_room = match &signal {
            Some(MptcpOption::AddAddress(_)) => true,
            Some(announcement @ MptcpOption::Version0(_)) => {
                announcement.wire_len() > LONGEST_IPV4_ANNOUNCEMENT
            }
            _ => false,
        };
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
            hmac: self.join_hmac(keys, nonces),
        })
    }

    fn join_hmac(&self, keys: Keys, nonces: Nonces) -> [u8; 20] {
        keys.join_hmac(self.session.version, nonces)
    }

    /// Returns a DSS without data. It carries the DATA_FIN if this subflow has to send it.
    fn acknowledgment(&mut self, room_bytes: usize) -> MptcpOption {
        let fin = self.session.fins.local_to_send();
        let sends_data_fin = std::mem::take(&mut self.signals.sends_data_fin);
        match fin.filter(|_| sends_data_fin) {
            Some(fin) => self
                .session
                .dss(Some(self.session.fin_mapping(fin)), true, room_bytes),
            None => self.session.dss(None, false, room_bytes),
        }
    }

    fn fin(&self, room_bytes: usize) -> Option<MptcpOption> {
        let may_send = !self.session.awaits_keys();
        may_send.then(|| self.session.dss(None, false, room_bytes))
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
        if let Some(reason) = self.signals.reset_reason
            && self.session.version == Version::One
        {
            options.push(MptcpOption::Reset(reason));
        }
    }

    /// Writes the options after a fallback in the middle of a stream: MP_FAIL, and one infinite
    /// mapping with the first new byte (section 3.7).
    fn write_fallback_options(&mut self, outgoing: &Outgoing<'_>, options: &mut MptcpOptions) {
        if outgoing.kind == SegmentKind::Ack {
            self.write_fail(outgoing.room_bytes, options);
        }
        if let Some(offset) = outgoing.offset
            && let Some(&infinite) = self.signals.infinite.as_deref()
            && infinite.sent_with <= offset
        {
            options.push(self.infinite_mapping(infinite, offset, outgoing.subflow_seq));
            self.signals.infinite = None;
            self.session.owes_infinite_mapping = false;
        }
    }

    /// Writes MP_FAIL. It is repeated until it is answered, because ACKs may be lost. An answer is
    /// sent once for each MP_FAIL received.
    ///
    /// DATA_ACKs continue until the peer's infinite mapping arrives. It comes with new data, and
    /// the window may have to open for that data first (section 3.7).
    fn write_fail(&mut self, room_bytes: usize, options: &mut MptcpOptions) {
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

    /// Returns an infinite mapping from `back_to` on. Its start lies as many bytes before the first
    /// new byte, at `offset`, on the subflow as in the stream.
    fn infinite_mapping(
        &self,
        infinite: InfiniteMapping,
        offset: u64,
        subflow_seq: u32,
    ) -> MptcpOption {
        let back = (offset - infinite.back_to) as u32;
        let mapping = Mapping {
            data_seq: self
                .session
                .number_of(self.session.data_seq(infinite.back_to)),
            subflow_seq: subflow_seq.wrapping_sub(back),
            len: 0,
            checksum: self.session.uses_checksums.then_some(0),
        };
        MptcpOption::Dss(Dss::default().with_mapping(Some(mapping)))
    }
}
