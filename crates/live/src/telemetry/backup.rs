//! Which subflows are backup ones. No socket option tells; inet_diag (sock_diag(7)) does.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use netlab::resolved::{Experiment, Transport};
use netlink_packet_core::{
    DefaultNla, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, Nla as _,
    NlasIterator, Parseable, parse_u32,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_sys::{Socket, SocketAddr as NetlinkAddress, protocols::NETLINK_SOCK_DIAG};

use crate::netlink::{parse, uninterrupted};
use crate::{LiveError, NetworkNamespace};

/// As much as the kernel puts into one part of a dump.
const RECEIVE_BYTES: usize = 64 * 1024;
/// `INET_DIAG_ULP_INFO` of linux/inet_diag.h: what the protocol above TCP says.
const ULP_INFO: u16 = 19;
/// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`, which share the number of an attribute's type.
const FLAGS_OF_TYPE: u16 = 0xc000;
/// `INET_ULP_INFO_MPTCP`.
const OF_MPTCP: u16 = 3;
/// `MPTCP_SUBFLOW_ATTR_FLAGS` of linux/mptcp.h.
const FLAGS: u16 = 8;
/// `MPTCP_SUBFLOW_FLAG_BKUP_REM` and `_LOC`: the other end, or this one, asked for it.
const IS_BACKUP: u32 = 1 << 4 | 1 << 5;

/// A subflow of a host: its own address and the other.
pub(super) type Pair = (SocketAddr, SocketAddr);

/// Asks the hosts that send over Multipath TCP.
pub(super) struct Backups {
    by_host: BTreeMap<String, HostBackups>,
}

impl Backups {
    /// # Errors
    /// The system refuses a socket.
    pub(super) fn new<'a>(
        experiment: &Experiment,
        namespace: impl Fn(&str) -> &'a Arc<NetworkNamespace>,
    ) -> Result<Self, LiveError> {
        let mut by_host = BTreeMap::new();
        for flow in &experiment.flows {
            if flow.transport == Transport::Mptcp && !by_host.contains_key(&flow.from) {
                let host = namespace(&flow.from).run(HostBackups::open);
                by_host.insert(flow.from.clone(), host?);
            }
        }
        Ok(Self { by_host })
    }

    /// Asks anew. Where a kernel cannot tell, nothing is known.
    pub(super) fn update(&mut self) {
        for host in self.by_host.values_mut() {
            host.update();
        }
    }

    /// Whether a subflow of a host is backup; `None` if that is not known.
    pub(super) fn is_backup(&self, host: &str, pair: Pair) -> Option<bool> {
        let host = self.by_host.get(host)?;
        let is_backup = host.backup.contains(&pair);
        (is_backup || host.regular.contains(&pair)).then_some(is_backup)
    }
}

struct HostBackups {
    socket: Socket,
    buffer: Vec<u8>,
    last_sequence: u32,
    backup: HashSet<Pair>,
    regular: HashSet<Pair>,
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
            backup: HashSet::new(),
            regular: HashSet::new(),
        })
    }

    fn update(&mut self) {
        self.backup.clear();
        self.regular.clear();
        // A kernel without inet_diag refuses, and then nothing is known.
        let _ = self.dump(AF_INET, SocketId::new_v4());
        let _ = self.dump(AF_INET6, SocketId::new_v6());
    }

    fn dump(&mut self, family: u8, socket_id: SocketId) -> io::Result<()> {
        self.ask(family, socket_id)?;
        loop {
            let length = uninterrupted(|| self.socket.recv(&mut &mut self.buffer[..], 0))?;
            let answers = parse::<SockDiagMessage>(&self.buffer[..length]);
            for (sequence, payload) in answers.map_err(io::Error::other)? {
                match payload {
                    _ if sequence != self.last_sequence => {}
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(answer)) => {
                        self.note(&answer);
                    }
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
        }
    }

    fn ask(&mut self, family: u8, socket_id: SocketId) -> io::Result<()> {
        self.last_sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        header.sequence_number = self.last_sequence;
        let request = InetRequest {
            family,
            protocol: IPPROTO_TCP,
            // Only with this one does the kernel tell what stands above TCP.
            extensions: ExtensionFlags::INFO,
            states: StateFlags::ESTABLISHED | StateFlags::FIN_WAIT1 | StateFlags::CLOSE_WAIT,
            socket_id,
        };
        let payload = NetlinkPayload::from(SockDiagMessage::InetRequest(request));
        let mut message = NetlinkMessage::new(header, payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        uninterrupted(|| self.socket.send(&bytes, 0)).map(drop)
    }

    fn note(&mut self, answer: &InetResponse) {
        let Some(flags) = answer.nlas.iter().find_map(subflow_flags) else {
            return;
        };
        let id = &answer.header.socket_id;
        let local = SocketAddr::new(id.source_address.to_canonical(), id.source_port);
        let remote = SocketAddr::new(id.destination_address.to_canonical(), id.destination_port);
        if flags & IS_BACKUP != 0 {
            self.backup.insert((local, remote));
        } else {
            self.regular.insert((local, remote));
        }
    }
}

/// The flags of a subflow of Multipath TCP.
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
