//! Datagrams at a constant rate over UDP.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use experiment::time::Nanos;
use experiment::traffic::Pace;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, sendto};

use super::record::{FlowRecord, Journal};
use super::unit_header::{UNIT_HEADER_BYTES, UnitHeader};
use super::worker::{Task, Turn, Wait};

/// Datagrams before other tasks of the thread get their turn.
pub(super) const DATAGRAMS_PER_TURN: usize = 64;
/// The largest that IP can carry.
pub(super) const LARGEST_DATAGRAM_BYTES: usize = 65_535;
/// How long, beyond the round-trip time, a receiver waits for datagrams that were sent before they
/// count as lost.
pub(super) const QUIET: Nanos = 1_000_000_000;
/// How often a receiver checks whether the sender has sent everything.
const LOOK_EVERY: Nanos = 10_000_000;

/// The outcome of sending a datagram.
pub(super) enum Sent {
    /// It was sent, or lost in this host because an interface is down or an address is gone.
    Yes,
    /// There is no room for it now.
    MustWait,
    /// It can never be sent.
    Never(Errno),
}

/// Sends a datagram. The socket is not connected, because connecting needs a route when the socket
/// is created.
pub(super) fn send_datagram(socket: BorrowedFd<'_>, datagram: &[u8], target: SocketAddr) -> Sent {
    match sendto(socket, datagram, SendFlags::NOSIGNAL, &target) {
        Ok(_) => Sent::Yes,
        Err(Errno::AGAIN | Errno::INTR) => Sent::MustWait,
        Err(error @ (Errno::MSGSIZE | Errno::BADF | Errno::FAULT)) => Sent::Never(error),
        Err(_) => Sent::Yes,
    }
}

/// A datagram of a given size. Its header is written before each use.
pub(super) struct Datagram(Vec<u8>);

impl Datagram {
    pub(super) fn new(size_bytes: u32) -> Self {
        Self(vec![b'm'; size_bytes as usize])
    }

    pub(super) fn with(&mut self, header: UnitHeader) -> &[u8] {
        self.0[..UNIT_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        &self.0
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Sends datagrams at a constant rate.
pub(super) struct DatagramSender {
    flow: Arc<FlowRecord>,
    socket: OwnedFd,
    target: SocketAddr,
    pace: Pace,
    /// The number of datagrams; `None`: no limit.
    count: Option<u64>,
    datagram: Datagram,
    sent: u64,
}

impl DatagramSender {
    pub(super) fn new(
        flow: Arc<FlowRecord>,
        socket: OwnedFd,
        target: SocketAddr,
        pace: Pace,
        count: Option<u64>,
    ) -> Self {
        Self {
            datagram: Datagram::new(pace.piece_bytes as u32),
            flow,
            socket,
            target,
            pace,
            count,
            sent: 0,
        }
    }

    fn over(&self) -> Option<Wait> {
        self.flow.has_sent_all.store(true, Ordering::Release);
        None
    }
}

impl Task for DatagramSender {
    fn advance(&mut self, turn: &mut Turn) -> Option<Wait> {
        for _ in 0..DATAGRAMS_PER_TURN {
            if self.count == Some(self.sent) {
                return self.over();
            }
            let now = turn.clock.now();
            let due = self
                .pace
                .due(self.sent)
                .saturating_add(self.flow.scheduled_start());
            if now < due {
                return Some(Wait::until(due));
            }
            self.flow.record_connecting(now);
            let header = UnitHeader {
                number: self.sent,
                sent_ns: now,
            };
            let datagram = self.datagram.with(header);
            match send_datagram(self.socket.as_fd(), datagram, self.target) {
                Sent::Yes => {}
                Sent::MustWait => return Some(Wait::writable()),
                Sent::Never(error) => {
                    self.flow.record_failure(format!("sending: {error}"));
                    return self.over();
                }
            }
            self.sent += 1;
            self.flow.packets_sent.add(1);
            self.flow.bytes_sent.add(self.datagram.size_bytes());
        }
        Some(Wait::until(0))
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// Receives datagrams.
pub(super) struct DatagramReceiver {
    flow: Arc<FlowRecord>,
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// Silence after which missing datagrams count as lost.
    quiet: Nanos,
    last_arrival: Option<Nanos>,
    /// When the receiver saw that everything had been sent.
    all_sent_at: Option<Nanos>,
}

impl DatagramReceiver {
    pub(super) fn new(flow: Arc<FlowRecord>, socket: OwnedFd, rtt_ns: Nanos) -> Self {
        Self {
            flow,
            socket,
            buffer: vec![0; LARGEST_DATAGRAM_BYTES],
            quiet: QUIET.saturating_add(rtt_ns),
            last_arrival: None,
            all_sent_at: None,
        }
    }

    fn take(&mut self, count: usize, now: Nanos) {
        let Some(header) = UnitHeader::at_start(&self.buffer[..count]) else {
            return;
        };
        let bytes = count as u64;
        self.last_arrival = Some(now);
        self.flow.packets_received.add(1);
        self.flow.bytes_received.add(bytes);
        self.flow
            .record_unit(header.number, bytes, header.sent_ns, now);
    }

    /// Ends the flow if each datagram has arrived or is lost. Otherwise returns when to check
    /// again.
    fn look_for_end(&mut self, now: Nanos) -> Option<Nanos> {
        if !self.flow.is_finite() || self.flow.end.get().is_some() {
            return None;
        }
        if !self.flow.has_sent_all.load(Ordering::Acquire) {
            return Some(now + LOOK_EVERY);
        }
        let all_sent_at = *self.all_sent_at.get_or_insert(now);
        let is_complete = self.flow.packets_received.get() >= self.flow.packets_sent.get();
        let last = self.last_arrival.unwrap_or(self.flow.start());
        let lost_at = last.max(all_sent_at).saturating_add(self.quiet);
        if is_complete || now >= lost_at {
            self.flow.record_completion(last);
            return None;
        }
        Some(lost_at)
    }
}

impl Task for DatagramReceiver {
    fn advance(&mut self, turn: &mut Turn) -> Option<Wait> {
        for _ in 0..DATAGRAMS_PER_TURN {
            match recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, count)) => self.take(count, turn.clock.now()),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => {
                    self.flow.record_failure(format!("receiving: {error}"));
                    return None;
                }
            }
        }
        let look = self.look_for_end(turn.clock.now());
        Some(Wait::readable().or_until(look))
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
