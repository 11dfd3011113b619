//! Fuzz target: a server with many guests, which make valid and invalid handshakes and joins, and
//! more of them than the server keeps.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mptcp::connection::keys::{self, Keys, Nonces};
use mptcp::connection::{Connection, Event};
use mptcp::endpoint::{ConnectionId, Endpoint, NetworkView};
use mptcp::payload::Payload;
use mptcp::pm::AddressPair;
use mptcp::seq::SeqNr;
use mptcp::time::{MILLISECOND, Nanos};
use mptcp::wire::{
    Capable, DataNumber, Dss, Ecn, Flags, Hops, Join, Key, Mapping, MptcpOption, MptcpOptions,
    Packet, Segment, TcpOptions, Timestamps, Version,
};

use crate::parse::mend;
use crate::script::Script;
use crate::{Generator, forge, stack};

/// The server's listening port. The next port has other parameters.
const PORT: u16 = 80;
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
/// Guests that connect to the server.
const GUESTS: u8 = 12;
/// The key of every guest.
const GUEST_KEY: Key = 0x0123_4567_89ab_cdef;
/// The nonce of every guest that joins.
const GUEST_NONCE: u32 = 7;
/// Packets that the server may send without receiving anything. More is an endless loop.
const MAX_BURST: usize = 20_000;
/// Timers that may expire before the end.
const MAX_EXPIRIES: usize = 20_000;
/// Packets that can be sent again, changed.
const MAX_SENT: usize = 16;

/// Runs an input: it sets the parameters of the server and then gives commands.
pub fn endpoint(input: &[u8]) {
    let mut script = Script::new(input);
    let mut server = Server::new(&mut script);
    while let Some(command) = script.command() {
        server.obey(command, &mut script);
    }
    server.end();
}

struct Server {
    now: Nanos,
    endpoint: Endpoint,
    known: Vec<ConnectionId>,
    /// The last packet that each guest received, by addresses and ports.
    heard: BTreeMap<(SocketAddr, SocketAddr), Packet>,
    /// The last packets that guests sent.
    sent: VecDeque<Packet>,
    /// Keys of the server that guests have received, the latest last.
    keys: Vec<Key>,
}

impl Server {
    fn new(script: &mut Script<'_>) -> Self {
        let network = NetworkView {
            pairs: (0..2)
                .map(|guest| AddressPair {
                    local: SERVER,
                    remote: guest_address(guest).ip(),
                })
                .collect(),
            ..NetworkView::default()
        };
        let seed = u64::from(script.byte());
        let mut endpoint = Endpoint::new(network, Box::new(Generator(seed)));
        endpoint.listen(PORT, stack::profile(script));
        endpoint.listen(PORT + 1, stack::profile(script));
        Self {
            now: MILLISECOND,
            endpoint,
            known: Vec::new(),
            heard: BTreeMap::new(),
            sent: VecDeque::new(),
            keys: Vec::new(),
        }
    }

    fn obey(&mut self, command: u8, script: &mut Script<'_>) {
        let guest = (command >> 4) % GUESTS;
        match command % 16 {
            0 => self.open(guest, script),
            1 => self.join(guest, script),
            2..=4 => self.confirm(guest),
            5..=7 => self.bring_data(guest, script),
            8 | 9 => self.forge(script),
            10 => self.take_bytes(script),
            11 => self.pass_time(MILLISECOND << (script.byte() % 17)),
            12 | 13 => self.use_connection(script),
            14 => self.connect(script),
            _ => self.change_surroundings(script),
        }
        self.settle();
    }

    fn deliver(&mut self, packet: &Packet) {
        if let Some(packet) = forge::read_again(packet) {
            self.endpoint.handle_packet(self.now, &packet);
            self.sent.truncate(MAX_SENT - 1);
            self.sent.push_front(packet);
        }
    }

    /// Opens a connection from a guest, with some of the options.
    fn open(&mut self, guest: u8, script: &mut Script<'_>) {
        let bits = script.byte();
        let mut syn = syn(guest, PORT + u16::from(bits & 1));
        let options = &mut syn.segment.options;
        if bits & 2 != 0 {
            options.mptcp = MptcpOptions::new();
        }
        if bits & 4 != 0 {
            options.timestamps = None;
        }
        if bits & 0x30 == 0x30 {
            forge::change(&mut syn, script);
        }
        self.deliver(&syn);
    }

    /// Sends a join from a guest to one of the connections.
    fn join(&mut self, guest: u8, script: &mut Script<'_>) {
        let mut syn = syn(guest, PORT);
        let which = script.below(self.keys.len().max(1));
        let key = self.keys.get(which).copied().unwrap_or(0);
        let join = Join::Syn {
            backup: false,
            address_id: guest,
            token: keys::token(Version::One, key),
            nonce: GUEST_NONCE,
        };
        syn.segment.options.mptcp = [MptcpOption::Join(join)].into_iter().collect();
        self.deliver(&syn);
    }

    /// Sends a valid third packet from a guest.
    fn confirm(&mut self, guest: u8) {
        if let Some(packet) = self.answer(guest) {
            self.deliver(&packet);
        }
    }

    /// Returns a segment that continues the last packet that the guest received.
    fn answer(&self, guest: u8) -> Option<Packet> {
        let ends = |port| (SocketAddr::new(SERVER, port), guest_address(guest));
        let heard = self
            .heard
            .get(&ends(PORT))
            .or_else(|| self.heard.get(&ends(PORT + 1)))?;
        let mut packet = reply(heard);
        let said = heard.segment.options.mptcp.first();
        let option = said.and_then(|option| answer_option(option, self.keys.last().copied()?));
        packet.segment.options.mptcp.extend(option);
        Some(packet)
    }

    /// Sends data with a mapping that may be valid, possibly changed further.
    fn bring_data(&mut self, guest: u8, script: &mut Script<'_>) {
        let Some(mut packet) = self.answer(guest) else {
            return;
        };
        let len = u32::from(script.byte()) * 8;
        packet.segment.payload = Payload::stream(1, 0, len);
        let mapping = Mapping {
            data_seq: DataNumber::Long(
                keys::initial_data_seq(Version::One, GUEST_KEY) + 1 + u64::from(script.byte()),
            ),
            subflow_seq: 1 + u32::from(script.byte()),
            len: len as u16,
            checksum: None,
        };
        let dss = Dss::default().with_mapping(Some(mapping));
        let has_room = packet.segment.options.mptcp.is_empty();
        packet
            .segment
            .options
            .mptcp
            .extend(Some(MptcpOption::Dss(dss)).filter(|_| has_room));
        if script.byte().is_multiple_of(2) {
            forge::change(&mut packet, script);
        }
        self.deliver(&packet);
    }

    fn forge(&mut self, script: &mut Script<'_>) {
        if let Some(packet) = self.sent.get(script.below(MAX_SENT)) {
            let mut packet = packet.clone();
            forge::change(&mut packet, script);
            self.deliver(&packet);
        }
    }

    /// Delivers bytes of the input as a packet.
    fn take_bytes(&mut self, script: &mut Script<'_>) {
        let len = usize::from(script.byte());
        let mut bytes = script.bytes(len).to_vec();
        let _ = mend(&mut bytes);
        if let Ok((packet, _)) = Packet::parse(&Arc::from(bytes)) {
            self.endpoint.handle_packet(self.now, &packet);
        }
    }

    /// Performs an action of the server's application.
    fn use_connection(&mut self, script: &mut Script<'_>) {
        let (what, which) = (script.byte(), script.below(self.known.len().max(1)));
        let _ = self.endpoint.accept(PORT + u16::from(what >> 7));
        let Some(&id) = self.known.get(which) else {
            return;
        };
        let endpoint = &mut self.endpoint;
        match what % 16 {
            0 => drop(endpoint.forget(id)),
            1 => drop(endpoint.command(id, Connection::abort)),
            2 | 3 => drop(endpoint.command(id, Connection::close)),
            4..=8 => drop(endpoint.command(id, Connection::recv)),
            _ => drop(endpoint.command(id, |it| {
                it.send(&Payload::stream(2, 0, u32::from(what) * 64))
            })),
        }
    }

    /// Opens a connection from the server to a guest.
    fn connect(&mut self, script: &mut Script<'_>) {
        let profile = stack::profile(script);
        let remote = guest_address(script.byte() % GUESTS);
        let local = SocketAddr::new(
            SERVER,
            u16::from(script.byte() % 4) * u16::from(PORT == 80) * 20,
        );
        let _ = self.endpoint.connect(self.now, local, remote, &profile);
    }

    fn change_surroundings(&mut self, script: &mut Script<'_>) {
        let (what, is_on) = (script.byte(), script.byte().is_multiple_of(2));
        match what % 4 {
            0 => self.endpoint.listen(PORT, stack::profile(script)),
            1 if is_on => self.endpoint.stop_listening(PORT + 1),
            1 => self.endpoint.set_backup(self.now, SERVER, what >= 128),
            _ => self.endpoint.handle_address_change(self.now, SERVER, is_on),
        }
    }

    fn pass_time(&mut self, duration: Nanos) {
        let end = self.now + duration;
        self.expire(end);
        self.now = end;
    }

    /// Lets the timers expire that are due by `end`.
    fn expire(&mut self, end: Nanos) {
        let mut expiries = 0;
        while let Some(at) = self.endpoint.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.endpoint.handle_timeout(self.now);
            self.settle();
            expiries += 1;
            assert!(expiries < MAX_EXPIRIES, "a timer that never rests");
        }
    }

    fn settle(&mut self) {
        let mut burst = 0;
        while let Some(packet) = self.endpoint.poll_transmit(self.now) {
            self.hear(packet);
            burst += 1;
            assert!(burst < MAX_BURST, "packets without end");
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                Event::Connected { .. } => self.known.push(id),
                Event::Closed { .. } => self.forget(id),
                _ => {}
            }
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        self.endpoint.forget(id);
        self.known.retain(|known| *known != id);
    }

    /// Handles a packet that a guest receives from the server.
    fn hear(&mut self, packet: Packet) {
        let _ = packet.wire_len();
        if let Some(MptcpOption::Capable(Capable::SynAck { sender_key, .. })) =
            packet.segment.options.mptcp.first()
        {
            self.keys.push(*sender_key);
        }
        if !packet.segment.flags.contains(Flags::RST) {
            let segment = &packet.segment;
            let local = SocketAddr::new(packet.source, segment.source_port);
            let remote = SocketAddr::new(packet.destination, segment.destination_port);
            self.heard.insert((local, remote), packet);
        }
    }

    /// Checks the end: after all accepted connections are released and the others have timed out,
    /// no state is left.
    fn end(mut self) {
        for id in std::mem::take(&mut self.known) {
            self.endpoint.forget(id);
        }
        self.expire(Nanos::MAX);
        let left = format!("{:?}", self.endpoint);
        assert!(
            !self.known.is_empty() || left.contains("connections: 0,"),
            "{left}"
        );
    }
}

fn guest_address(guest: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, guest], 1_000 + u16::from(guest)))
}

fn syn(guest: u8, port: u16) -> Packet {
    let from = guest_address(guest);
    let mut options = TcpOptions {
        mss: Some(1_460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 1, echo: 0 }),
        ..TcpOptions::default()
    };
    options.mptcp.push(MptcpOption::Capable(Capable::Syn {
        version: 1,
        flags: Capable::HMAC_SHA256,
    }));
    Packet {
        source: from.ip(),
        destination: SERVER,
        ecn: Ecn::NotCapable,
        via: Hops::new(),
        segment: Segment {
            source_port: from.port(),
            destination_port: port,
            seq: SeqNr(1_000),
            ack: SeqNr(0),
            flags: Flags::SYN,
            window: u16::MAX,
            options,
            payload: Payload::EMPTY,
        },
    }
}

/// Returns an acknowledgment of `heard`.
fn reply(heard: &Packet) -> Packet {
    let segment = &heard.segment;
    let timestamps = segment.options.timestamps;
    Packet {
        source: heard.destination,
        destination: heard.source,
        ecn: Ecn::NotCapable,
        via: Hops::new(),
        segment: Segment {
            source_port: segment.destination_port,
            destination_port: segment.source_port,
            seq: segment.ack,
            ack: segment.end(),
            flags: Flags::ACK,
            window: u16::MAX,
            options: TcpOptions {
                timestamps: timestamps.map(|theirs| Timestamps {
                    value: 2,
                    echo: theirs.value,
                }),
                ..TcpOptions::default()
            },
            payload: Payload::EMPTY,
        },
    }
}

/// Returns a guest's answer to an option of the server, whose key is `server_key`.
fn answer_option(said: &MptcpOption, server_key: Key) -> Option<MptcpOption> {
    match said {
        MptcpOption::Capable(Capable::SynAck { sender_key, .. }) => {
            Some(MptcpOption::Capable(Capable::Ack {
                version: 1,
                flags: Capable::HMAC_SHA256,
                sender_key: GUEST_KEY,
                receiver_key: *sender_key,
                data: None,
            }))
        }
        MptcpOption::Join(Join::SynAck { nonce, .. }) => {
            let keys = Keys {
                local: GUEST_KEY,
                remote: server_key,
            };
            let nonces = Nonces {
                local: GUEST_NONCE,
                remote: *nonce,
            };
            let hmac = keys.join_hmac(Version::One, nonces);
            Some(MptcpOption::Join(Join::Ack { hmac }))
        }
        _ => None,
    }
}
