//! Probes over UDP or in a connection. Each is echoed, which gives a round-trip time.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use experiment::time::Nanos;
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, recv, recvfrom, sendto};

use super::byte_stream::{ByteStream, Progress, progress};
use super::connection::End;
use super::datagrams::{
    DATAGRAMS_PER_TURN, Datagram, LARGEST_DATAGRAM_BYTES, QUIET, Sent, send_datagram,
};
use super::record::{FlowRecord, Journal, ProbeRecord};
use super::stream::wait_for_peer;
use super::unit_header::{UNIT_HEADER_BYTES, UnitHeader};
use super::worker::{Task, Turn, Wait};
use crate::Clock;

/// When probes are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeTimes {
    pub(super) start: Nanos,
    pub(super) every: Nanos,
    pub(super) duration: Option<Nanos>,
}

impl ProbeTimes {
    /// Returns when probe `number` is sent; `None` if it is not sent.
    fn due(self, number: u64) -> Option<Nanos> {
        let after_start = self.every.saturating_mul(number);
        let is_over = self
            .duration
            .is_some_and(|duration| after_start >= duration);
        (!is_over).then(|| self.start.saturating_add(after_start))
    }
}

/// Sends probes in datagrams and records their answers.
pub(super) struct DatagramProbe {
    socket: OwnedFd,
    target: SocketAddr,
    times: ProbeTimes,
    probe: Arc<ProbeRecord>,
    /// Its flow; `None` for probes of `measure`.
    flow: Option<Arc<FlowRecord>>,
    datagram: Datagram,
    buffer: Vec<u8>,
    /// Silence after which unanswered probes count as lost.
    quiet: Nanos,
    sent: u64,
    last_sent: Nanos,
    last_answer: Option<Nanos>,
}

impl DatagramProbe {
    pub(super) fn new(
        socket: OwnedFd,
        target: SocketAddr,
        times: ProbeTimes,
        probe: Arc<ProbeRecord>,
        flow: Option<Arc<FlowRecord>>,
        size_bytes: u32,
        rtt_ns: Nanos,
    ) -> Self {
        Self {
            socket,
            target,
            times,
            probe,
            flow,
            datagram: Datagram::new(size_bytes),
            buffer: vec![0; LARGEST_DATAGRAM_BYTES],
            quiet: QUIET.saturating_add(rtt_ns),
            sent: 0,
            last_sent: 0,
            last_answer: None,
        }
    }

    /// Reads and records answers.
    fn handle_answers(&mut self, turn: &Turn) {
        for _ in 0..DATAGRAMS_PER_TURN {
            match recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, count)) => {
                    let now = turn.clock.now();
                    if let Some(header) = UnitHeader::at_start(&self.buffer[..count]) {
                        self.last_answer = Some(now);
                        self.probe
                            .record_answer(now, now.saturating_sub(header.sent_ns));
                    }
                }
                // The socket is empty, or has nothing that could be an answer.
                Err(_) => break,
            }
        }
    }

    fn send(&mut self, now: Nanos) -> Sent {
        let header = UnitHeader {
            number: self.sent,
            sent_ns: now,
        };
        let datagram = self.datagram.with(header);
        let sent = send_datagram(self.socket.as_fd(), datagram, self.target);
        if let Sent::Yes = sent {
            self.sent += 1;
            self.last_sent = now;
            self.probe.sent.add(1);
            if let Some(flow) = &self.flow {
                flow.record_connecting(now);
                flow.packets_sent.add(1);
                flow.bytes_sent.add(self.datagram.size_bytes());
            }
        }
        sent
    }

    /// Waits, after all probes were sent, until each is answered or lost.
    fn wait_for_last(&self, now: Nanos) -> Option<Wait> {
        let last = self.last_answer.unwrap_or(self.times.start);
        let lost_at = last.max(self.last_sent).saturating_add(self.quiet);
        if self.probe.answered.get() < self.sent && now < lost_at {
            return Some(Wait::readable().or_until(Some(lost_at)));
        }
        if let Some(flow) = &self.flow {
            flow.record_completion(last);
        }
        None
    }
}

impl Task for DatagramProbe {
    fn advance(&mut self, turn: &mut Turn) -> Option<Wait> {
        self.handle_answers(turn);
        for _ in 0..DATAGRAMS_PER_TURN {
            let now = turn.clock.now();
            let Some(due) = self.times.due(self.sent) else {
                return self.wait_for_last(now);
            };
            if now < due {
                return Some(Wait::readable().or_until(Some(due)));
            }
            match self.send(now) {
                Sent::Yes => {}
                Sent::MustWait => return Some(Wait::on(PollFlags::IN | PollFlags::OUT)),
                Sent::Never(error) => {
                    if let Some(flow) = &self.flow {
                        flow.record_failure(format!("sending: {error}"));
                    }
                    return None;
                }
            }
        }
        Some(Wait::readable().or_until(Some(0)))
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// Sends datagrams back to their source.
pub(super) struct DatagramEcho {
    socket: OwnedFd,
    /// Its flow; `None` for probes of `measure`.
    flow: Option<Arc<FlowRecord>>,
    buffer: Vec<u8>,
}

impl DatagramEcho {
    pub(super) fn new(socket: OwnedFd, flow: Option<Arc<FlowRecord>>) -> Self {
        Self {
            socket,
            flow,
            buffer: vec![0; LARGEST_DATAGRAM_BYTES],
        }
    }

    fn answer(&self, count: usize, from: Option<SocketAddrAny>, now: Nanos) {
        let datagram = &self.buffer[..count];
        let (Some(header), Some(from)) = (UnitHeader::at_start(datagram), from) else {
            return;
        };
        if let Some(flow) = &self.flow {
            flow.packets_received.add(1);
            flow.bytes_received.add(count as u64);
            flow.record_unit(header.number, count as u64, header.sent_ns, now);
        }
        // An answer that cannot be sent counts as lost.
        let _ = sendto(&self.socket, datagram, SendFlags::NOSIGNAL, &from);
    }
}

impl Task for DatagramEcho {
    fn advance(&mut self, turn: &mut Turn) -> Option<Wait> {
        for _ in 0..DATAGRAMS_PER_TURN {
            match recvfrom(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, count, from)) => self.answer(count, from, turn.clock.now()),
                // The socket is empty, or has nothing that could be a probe.
                Err(_) => break,
            }
        }
        Some(Wait::readable())
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// Bytes that wait until a connection takes them.
#[derive(Default)]
struct Outgoing(VecDeque<u8>);

impl Outgoing {
    /// Sends the bytes that the connection takes. Returns how many.
    fn flush(&mut self, stream: &mut dyn ByteStream) -> io::Result<u64> {
        let mut flushed = 0;
        while !self.0.is_empty() {
            let (bytes, _) = self.0.as_slices();
            match progress(stream.send(&[IoSlice::new(bytes)]))? {
                Progress::Done(count) => {
                    self.0.drain(..count);
                    flushed += count as u64;
                }
                Progress::MustWait => break,
            }
        }
        Ok(flushed)
    }

    fn events(&self) -> PollFlags {
        match self.0.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        }
    }
}

/// Splits a stream into messages of one size.
struct Messages {
    size_bytes: usize,
    partial: Vec<u8>,
}

impl Messages {
    fn new(size_bytes: u32) -> Self {
        Self {
            size_bytes: size_bytes as usize,
            partial: Vec::new(),
        }
    }

    /// Adds the next bytes. Returns the headers of the messages that they complete.
    fn take(&mut self, bytes: &[u8]) -> Vec<UnitHeader> {
        self.partial.extend_from_slice(bytes);
        let messages = self.partial.chunks_exact(self.size_bytes);
        let left = messages.remainder().len();
        let headers = messages.filter_map(UnitHeader::at_start).collect();
        self.partial.drain(..self.partial.len() - left);
        headers
    }
}

/// Sends probes in a connection and records their answers.
pub(super) struct StreamProbe {
    flow: Arc<FlowRecord>,
    probe: Arc<ProbeRecord>,
    times: ProbeTimes,
    datagram: Datagram,
    outgoing: Outgoing,
    answers: Messages,
    sent: u64,
    last_answer: Option<Nanos>,
    has_shut_down: bool,
}

impl StreamProbe {
    pub(super) fn new(
        flow: Arc<FlowRecord>,
        probe: Arc<ProbeRecord>,
        times: ProbeTimes,
        size_bytes: u32,
    ) -> Self {
        debug_assert!(size_bytes as usize >= UNIT_HEADER_BYTES);
        Self {
            flow,
            probe,
            times,
            datagram: Datagram::new(size_bytes),
            outgoing: Outgoing::default(),
            answers: Messages::new(size_bytes),
            sent: 0,
            last_answer: None,
            has_shut_down: false,
        }
    }

    fn handle_answers(&mut self, stream: &mut dyn ByteStream, clock: Clock) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while let Progress::Done(count) = progress(stream.receive(&mut buffer))? {
            if count == 0 {
                return Err(io::Error::other(
                    "the connection was closed by the other side",
                ));
            }
            let now = clock.now();
            for header in self.answers.take(&buffer[..count]) {
                self.last_answer = Some(now);
                self.probe
                    .record_answer(now, now.saturating_sub(header.sent_ns));
            }
        }
        Ok(())
    }

    /// Sends due probes. Returns when the next one is due.
    fn send_due(&mut self, stream: &mut dyn ByteStream, clock: Clock) -> io::Result<Option<Nanos>> {
        let next = loop {
            let now = clock.now();
            match self.times.due(self.sent) {
                Some(due) if due <= now => {
                    let header = UnitHeader {
                        number: self.sent,
                        sent_ns: now,
                    };
                    self.outgoing.0.extend(self.datagram.with(header));
                    self.sent += 1;
                    self.probe.sent.add(1);
                    self.flow.packets_sent.add(1);
                }
                next => break next,
            }
        };
        self.flow.bytes_sent.add(self.outgoing.flush(stream)?);
        Ok(next)
    }
}

impl End for StreamProbe {
    fn advance(&mut self, stream: &mut dyn ByteStream, clock: Clock) -> io::Result<Option<Wait>> {
        if self.has_shut_down {
            return wait_for_peer(stream);
        }
        self.handle_answers(stream, clock)?;
        let next = self.send_due(stream, clock)?;
        if next.is_none() && self.probe.answered.get() == self.sent {
            let at = self.last_answer.unwrap_or(self.flow.start());
            self.flow.record_completion(at);
            self.has_shut_down = true;
            stream.shut_down()?;
            return wait_for_peer(stream);
        }
        Ok(Some(Wait::on(self.outgoing.events()).or_until(next)))
    }
}

/// Sends everything back.
pub(super) struct StreamEcho {
    flow: Arc<FlowRecord>,
    requests: Messages,
    outgoing: Outgoing,
}

impl StreamEcho {
    pub(super) fn new(flow: Arc<FlowRecord>, size_bytes: u32) -> Self {
        Self {
            flow,
            requests: Messages::new(size_bytes),
            outgoing: Outgoing::default(),
        }
    }

    fn take(&mut self, bytes: &[u8], now: Nanos) {
        self.flow.bytes_received.add(bytes.len() as u64);
        for header in self.requests.take(bytes) {
            let size_bytes = self.requests.size_bytes as u64;
            self.flow.packets_received.add(1);
            self.flow
                .record_unit(header.number, size_bytes, header.sent_ns, now);
        }
        self.outgoing.0.extend(bytes);
    }
}

impl End for StreamEcho {
    fn advance(&mut self, stream: &mut dyn ByteStream, clock: Clock) -> io::Result<Option<Wait>> {
        let mut buffer = [0; 4096];
        while let Progress::Done(count) = progress(stream.receive(&mut buffer))? {
            if count == 0 {
                return Ok(None);
            }
            self.take(&buffer[..count], clock.now());
        }
        self.outgoing.flush(stream)?;
        Ok(Some(Wait::on(self.outgoing.events())))
    }
}
