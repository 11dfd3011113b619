//! Which subflows have backup priority. No socket option shows it; inet_diag (sock_diag(7)) does.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use experiment::resolved::{Experiment, Transport};
use netlink_packet_core::{
    DefaultNla, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, Nla as _,
    NlasIterator, Parseable, parse_u32,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as NetlinkAddress};

use crate::network::netlink::{parse, uninterrupted};
use crate::{LiveError, NetworkNamespace};

/// Size of the receive buffer, larger than any answer.
const RECEIVE_BYTES: usize = 16 * 1024;
/// Requests in one send. Their answers fit into the receive buffer.
const BATCH: usize = 32;
/// `INET_DIAG_NOCOOKIE`.
const ANY_COOKIE: [u8; 8] = [255; 8];
/// `INET_DIAG_ULP_INFO` of linux/inet_diag.h: information of the protocol above TCP.
const ULP_INFO: u16 = 19;
/// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`, which share the number of an attribute's type.
const FLAGS_OF_TYPE: u16 = 0xc000;
/// `INET_ULP_INFO_MPTCP`.
const OF_MPTCP: u16 = 3;
/// `MPTCP_SUBFLOW_ATTR_FLAGS` of linux/mptcp.h.
const FLAGS: u16 = 8;
/// `MPTCP_SUBFLOW_FLAG_BKUP_REM` and `_LOC`: the peer, or this host, asked for backup priority.
const IS_BACKUP: u32 = 1 << 4 | 1 << 5;

/// A subflow of a host: its own address and the peer's.
pub(super) type Pair = (SocketAddr, SocketAddr);

/// Requests the priority of subflows from hosts that send over MPTCP.
pub(super) struct Backups {
    by_host: BTreeMap<String, HostBackups>,
}

impl Backups {
    /// Opens a socket in each host that sends over MPTCP and has a namespace here.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub(super) fn new<'a>(
        experiment: &Experiment,
        namespace: impl Fn(&str) -> Option<&'a Arc<NetworkNamespace>>,
    ) -> Result<Self, LiveError> {
        let mut by_host = BTreeMap::new();
        for flow in &experiment.flows {
            if flow.transport == Transport::Mptcp
                && !by_host.contains_key(&flow.from)
                && let Some(namespace) = namespace(&flow.from)
            {
                by_host.insert(flow.from.clone(), namespace.run(HostBackups::open)?);
            }
        }
        Ok(Self { by_host })
    }

    /// Forgets all answers.
    pub(super) fn clear(&mut self) {
        for host in self.by_host.values_mut() {
            host.known.clear();
        }
    }

    /// Requests the priority of subflows of a host. It stays unknown where the kernel cannot
    /// answer.
    pub(super) fn ask(&mut self, host: &str, pairs: &[Pair]) {
        let Some(host) = self.by_host.get_mut(host) else {
            return;
        };
        for pairs in pairs.chunks(BATCH) {
            if host.ask(pairs).is_err() {
                return;
            }
        }
    }

    /// Returns whether a subflow of a host has backup priority; `None` if that is not known.
    pub(super) fn is_backup(&self, host: &str, pair: Pair) -> Option<bool> {
        self.by_host.get(host)?.known.get(&pair).copied()
    }
}

struct HostBackups {
    socket: Socket,
    buffer: Vec<u8>,
    last_sequence: u32,
    known: HashMap<Pair, bool>,
}

impl HostBackups {
    fn open() -> Result<Self, LiveError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
            socket.bind_auto()?;
            socket.connect(&NetlinkAddress::new(0, 0))?;
            io::Result::Ok(socket)
        };
        Ok(Self {
            socket: open().map_err(LiveError::while_("opening a socket of sock_diag"))?,
            buffer: vec![0; RECEIVE_BYTES],
            last_sequence: 0,
            known: HashMap::new(),
        })
    }

    /// Sends all requests in one message. Each has an answer, which may be that there is no such
    /// subflow.
    fn ask(&mut self, pairs: &[Pair]) -> io::Result<()> {
        let first = self.last_sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        for pair in pairs {
            self.last_sequence = self.last_sequence.wrapping_add(1);
            append_question(&mut bytes, self.last_sequence, *pair);
        }
        uninterrupted(|| self.socket.send(&bytes, 0))?;
        let mut outstanding = pairs.len();
        while outstanding > 0 {
            // The kernel answers while it takes the requests, so an answer that is missing now
            // never comes.
            let at_once = libc::MSG_DONTWAIT;
            let length = uninterrupted(|| self.socket.recv(&mut &mut self.buffer[..], at_once))?;
            let answers = parse::<SockDiagMessage>(&self.buffer[..length]);
            for (sequence, payload) in answers.map_err(io::Error::other)? {
                let place = sequence.wrapping_sub(first) as usize;
                let Some(pair) = pairs.get(place) else {
                    continue;
                };
                outstanding -= 1;
                if let NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(answer)) = payload
                    && let Some(flags) = answer.nlas.iter().find_map(subflow_flags)
                {
                    self.known.insert(*pair, flags & IS_BACKUP != 0);
                }
            }
        }
        Ok(())
    }
}

fn append_question(bytes: &mut Vec<u8>, sequence: u32, (local, remote): Pair) {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    header.sequence_number = sequence;
    let request = InetRequest {
        family: if local.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        // The kernel reports the protocol above TCP only with this extension.
        extensions: ExtensionFlags::INFO,
        states: StateFlags::all(),
        socket_id: SocketId {
            source_port: local.port(),
            destination_port: remote.port(),
            source_address: local.ip(),
            destination_address: remote.ip(),
            interface_id: 0,
            cookie: ANY_COOKIE,
        },
    };
    let payload = NetlinkPayload::from(SockDiagMessage::InetRequest(request));
    let mut message = NetlinkMessage::new(header, payload);
    message.finalize();
    let at = bytes.len();
    bytes.resize(at + message.buffer_len().next_multiple_of(4), 0);
    message.serialize(&mut bytes[at..]);
}

/// Returns the flags of an MPTCP subflow.
fn subflow_flags(attribute: &Nla) -> Option<u32> {
    let Nla::Other(attribute) = attribute else {
        return None;
    };
    let of_mptcp = value_of(&nested(attribute, ULP_INFO)?, OF_MPTCP)?;
    parse_u32(&value_of(&of_mptcp, FLAGS)?).ok()
}

fn nested(attribute: &DefaultNla, kind: u16) -> Option<Vec<u8>> {
    if attribute.kind() & !FLAGS_OF_TYPE != kind {
        return None;
    }
    let mut value = vec![0; attribute.value_len()];
    attribute.emit_value(&mut value);
    Some(value)
}

fn value_of(attributes: &[u8], kind: u16) -> Option<Vec<u8>> {
    NlasIterator::new(attributes)
        .filter_map(Result::ok)
        .filter_map(|nla| DefaultNla::parse(&nla).ok())
        .find_map(|nla| nested(&nla, kind))
}
