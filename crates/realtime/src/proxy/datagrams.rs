//! UDP of a proxied program, mainly for name resolution. Uses the kernel's sockets outside, one for
//! each pair of addresses and ports.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use experiment::time::{NANOS_PER_SECOND, Nanos};
use mptcp::payload::Payload;
use mptcp::wire::{Ecn, UdpPacket};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, ipproto, recv, send,
    socket_with,
};

/// How long an answer may take (RFC 4787, section 4.3, requirement 5).
const IDLE: Nanos = 300 * NANOS_PER_SECOND;
/// The most flows. A further flow replaces the one that was silent for longest.
const MOST_FLOWS: usize = 1024;
/// Datagrams read from one socket before the others get their turn.
const DATAGRAMS_IN_A_ROW: usize = 16;

/// Identifies a flow of datagrams; never reused.
pub(super) type FlowId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ends {
    program: SocketAddr,
    other: SocketAddr,
}

struct Flow {
    ends: Ends,
    socket: OwnedFd,
    used_at: Nanos,
}

/// All flows of datagrams.
pub(super) struct Datagrams {
    flows: BTreeMap<FlowId, Flow>,
    by_ends: BTreeMap<Ends, FlowId>,
    next_id: FlowId,
    buffer: Vec<u8>,
}

impl Datagrams {
    pub(super) fn new() -> Self {
        Self {
            flows: BTreeMap::new(),
            by_ends: BTreeMap::new(),
            next_id: 0,
            buffer: vec![0; usize::from(u16::MAX)],
        }
    }

    /// Sends a datagram of the program. `watch` is called with each new socket.
    ///
    /// # Errors
    /// A socket cannot be created or used; the datagram is lost.
    pub(super) fn send(
        &mut self,
        now: Nanos,
        packet: &UdpPacket,
        watch: impl FnOnce(FlowId, &OwnedFd) -> io::Result<()>,
    ) -> io::Result<()> {
        let ends = Ends {
            program: SocketAddr::new(packet.source, packet.source_port),
            other: SocketAddr::new(packet.destination, packet.destination_port),
        };
        let id = match self.by_ends.get(&ends) {
            Some(&id) => id,
            None => self.open(now, ends, watch)?,
        };
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.used_at = now;
            send(&flow.socket, &packet.payload.to_vec(), SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    fn open(
        &mut self,
        now: Nanos,
        ends: Ends,
        watch: impl FnOnce(FlowId, &OwnedFd) -> io::Result<()>,
    ) -> io::Result<FlowId> {
        self.make_room(now);
        let family = match ends.other.ip() {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
        connect(&socket, &ends.other)?;
        let id = self.next_id;
        self.next_id += 1;
        watch(id, &socket)?;
        let flow = Flow {
            ends,
            socket,
            used_at: now,
        };
        self.flows.insert(id, flow);
        self.by_ends.insert(ends, id);
        Ok(id)
    }

    fn make_room(&mut self, now: Nanos) {
        let by_ends = &mut self.by_ends;
        self.flows.retain(|_, flow| {
            let stays = now.saturating_sub(flow.used_at) < IDLE;
            if !stays {
                by_ends.remove(&flow.ends);
            }
            stays
        });
        if self.flows.len() >= MOST_FLOWS {
            let silent = self.flows.iter().min_by_key(|(_, flow)| flow.used_at);
            let silent = silent.map(|(id, _)| *id);
            let gone = silent.and_then(|id| self.flows.remove(&id));
            gone.map(|flow| by_ends.remove(&flow.ends));
        }
    }

    /// Delivers received datagrams to the program.
    pub(super) fn receive(&mut self, now: Nanos, id: FlowId, mut deliver: impl FnMut(&UdpPacket)) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        for _ in 0..DATAGRAMS_IN_A_ROW {
            // The socket is empty, or reports that the peer refused. The program notices that by
            // the silence.
            let Ok((_, count)) = recv(&flow.socket, &mut self.buffer[..], RecvFlags::empty())
            else {
                return;
            };
            flow.used_at = now;
            deliver(&UdpPacket {
                source: flow.ends.other.ip(),
                destination: flow.ends.program.ip(),
                ecn: Ecn::NotCapable,
                source_port: flow.ends.other.port(),
                destination_port: flow.ends.program.port(),
                payload: Payload::literal(&self.buffer[..count]),
            });
        }
    }
}
