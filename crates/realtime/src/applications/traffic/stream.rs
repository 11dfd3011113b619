//! A byte stream of data units in one direction: bulk, constant bit rate and streaming.

use std::io::{self, IoSlice};
use std::sync::Arc;

use experiment::time::Nanos;
use experiment::traffic::{DataStream, Shape};

use super::byte_stream::{ByteStream, Progress, progress};
use super::connection::End;
use super::pattern::{BYTES_PER_CALL, pattern};
use super::record::{FlowRecord, Journal};
use super::unit_header::{UNIT_HEADER_BYTES, UnitHeader};
use super::worker::Wait;
use crate::Clock;

/// Units in one call. Each takes up to two of the 1024 slices that a call may have.
const UNITS_PER_CALL: u64 = 128;
/// Calls before other tasks of the thread get their turn.
const CALLS_PER_TURN: usize = 16;

/// Sends a stream.
pub(super) struct StreamSender {
    flow: Arc<FlowRecord>,
    data: DataStream,
    /// The header of a stream of one unit whose number and start are given.
    given: Option<UnitHeader>,
    sent: u64,
    /// The header of the unit that is partly sent.
    header: [u8; UNIT_HEADER_BYTES],
    /// Whether the sender closes after the last byte. Otherwise the receiver does, which knows how
    /// much arrives.
    closes: bool,
    is_done: bool,
}

impl StreamSender {
    pub(super) fn new(flow: Arc<FlowRecord>, data: DataStream) -> Self {
        Self {
            flow,
            data,
            given: None,
            sent: 0,
            header: [0; UNIT_HEADER_BYTES],
            closes: true,
            is_done: false,
        }
    }

    /// Sends one unit with this header.
    pub(super) fn of_one_unit(
        flow: Arc<FlowRecord>,
        bytes: u64,
        header: UnitHeader,
        closes: bool,
    ) -> Self {
        Self {
            given: Some(header),
            closes,
            ..Self::new(flow, DataStream::of_one_unit(bytes))
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        let duration = self.data.duration?;
        Some(self.flow.start().saturating_add(duration))
    }

    /// Returns the stream offset up to which data may be sent now.
    fn released(&self, now: Nanos) -> u64 {
        let after_start = now.saturating_sub(self.flow.start());
        self.data.released(after_start)
    }

    fn is_complete(&self, now: Nanos) -> bool {
        let has_all = self
            .data
            .shape
            .bytes
            .is_some_and(|bytes| self.sent >= bytes);
        has_all || self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Waits until the next piece is due.
    fn wait_for_release(&self) -> Wait {
        let due = self.data.pace.map_or(0, |pace| {
            pace.due(self.sent / pace.piece_bytes)
                .saturating_add(self.flow.start())
        });
        let at = self.deadline().map_or(due, |deadline| due.min(deadline));
        Wait::until(at)
    }

    /// Sends the bytes that are due, up to the size of one call.
    fn send(
        &mut self,
        stream: &mut dyn ByteStream,
        released: u64,
        now: Nanos,
    ) -> io::Result<usize> {
        let unit_bytes = self.data.shape.unit_bytes;
        let first = self.sent / unit_bytes;
        let end = released
            .min(self.sent + BYTES_PER_CALL)
            .min((first + UNITS_PER_CALL).saturating_mul(unit_bytes));
        let headers = self.headers(first, (end - 1) / unit_bytes, now);
        let mut slices = Vec::with_capacity(2 * headers.len());
        for (number, header) in (first..).zip(&headers) {
            let begin = number * unit_bytes;
            let from = self.sent.saturating_sub(begin) as usize;
            let to = (end.min(self.data.shape.end_of_unit(begin)) - begin) as usize;
            if from < UNIT_HEADER_BYTES {
                slices.push(IoSlice::new(&header[from..to.min(UNIT_HEADER_BYTES)]));
            }
            let from = from.max(UNIT_HEADER_BYTES);
            if from < to {
                slices.push(IoSlice::new(pattern(begin + from as u64, to - from)));
            }
        }
        let count = stream.send(&slices)?;
        self.sent += count as u64;
        if let Some(header) = headers.get((self.sent / unit_bytes - first) as usize) {
            self.header = *header;
        }
        self.flow.bytes_sent.add(count as u64);
        Ok(count)
    }

    /// Returns the headers of units. A unit that is partly sent keeps its header.
    fn headers(&self, first: u64, last: u64, now: Nanos) -> Vec<[u8; UNIT_HEADER_BYTES]> {
        let header = |number| match self.given {
            Some(given) => given.to_bytes(),
            None => UnitHeader {
                number,
                sent_ns: now,
            }
            .to_bytes(),
        };
        let mut headers: Vec<_> = (first..=last).map(header).collect();
        if !self.sent.is_multiple_of(self.data.shape.unit_bytes) {
            headers[0] = self.header;
        }
        headers
    }
}

impl End for StreamSender {
    fn advance(&mut self, stream: &mut dyn ByteStream, clock: Clock) -> io::Result<Option<Wait>> {
        if self.is_done {
            return wait_for_peer(stream);
        }
        for _ in 0..CALLS_PER_TURN {
            let now = clock.now();
            if self.is_complete(now) {
                self.is_done = true;
                if self.closes {
                    stream.shut_down()?;
                }
                return wait_for_peer(stream);
            }
            let released = self.released(now);
            if released <= self.sent {
                return Ok(Some(self.wait_for_release()));
            }
            match progress(self.send(stream, released, now))? {
                Progress::Done(_) => {}
                Progress::MustWait => break,
            }
        }
        Ok(Some(Wait::writable().or_until(self.deadline())))
    }
}

/// Waits until the peer has closed too. Returns an error if the connection breaks before.
pub(super) fn wait_for_peer(stream: &mut dyn ByteStream) -> io::Result<Option<Wait>> {
    let mut ignored = [0_u8; 4096];
    match progress(stream.receive(&mut ignored))? {
        Progress::Done(0) => Ok(None),
        Progress::Done(_) | Progress::MustWait => Ok(Some(Wait::readable())),
    }
}

/// How a receiver learns a unit's number and when it was sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbering {
    /// From its header, which must have the next number.
    InOrder,
    /// From its header, whatever the number.
    AsSent,
    /// From the receiver itself, which asked for it.
    Known(UnitHeader),
}

/// Finds the units in the data that arrives.
struct UnitReader {
    shape: Shape,
    numbering: Numbering,
    received: u64,
    header: [u8; UNIT_HEADER_BYTES],
}

impl UnitReader {
    /// Adds the next bytes. Calls `note` with each unit that they complete and its size.
    fn take(&mut self, mut bytes: &[u8], mut note: impl FnMut(UnitHeader, u64)) -> io::Result<()> {
        while !bytes.is_empty() {
            let number = self.received / self.shape.unit_bytes;
            let begin = number * self.shape.unit_bytes;
            let offset = (self.received - begin) as usize;
            let left = self.shape.end_of_unit(begin) - self.received;
            if left == 0 {
                return Err(io::Error::other("more arrived than was sent"));
            }
            let (here, rest) = bytes.split_at(bytes.len().min(left as usize));
            if offset < UNIT_HEADER_BYTES {
                let to = UNIT_HEADER_BYTES.min(offset + here.len());
                self.header[offset..to].copy_from_slice(&here[..to - offset]);
            }
            let skipped = UNIT_HEADER_BYTES.saturating_sub(offset).min(here.len());
            let (at, rest_of_unit) = (self.received + skipped as u64, &here[skipped..]);
            if *rest_of_unit != *pattern(at, rest_of_unit.len()) {
                return Err(wrong_bytes(at, rest_of_unit.len()));
            }
            self.received += here.len() as u64;
            bytes = rest;
            if here.len() as u64 == left {
                self.complete(begin, &mut note)?;
            }
        }
        Ok(())
    }

    /// Ends the stream. A partial unit is complete with the bytes it has.
    fn finish(&mut self, note: impl FnMut(UnitHeader, u64)) -> io::Result<()> {
        let begin = self.received / self.shape.unit_bytes * self.shape.unit_bytes;
        // A last unit of `bytes` was completed already.
        let is_complete = self.shape.bytes.is_some_and(|bytes| self.received >= bytes);
        match is_complete || begin == self.received {
            true => Ok(()),
            false => self.complete(begin, note),
        }
    }

    fn complete(&self, begin: u64, mut note: impl FnMut(UnitHeader, u64)) -> io::Result<()> {
        let bytes = self.received - begin;
        let header = match self.numbering {
            Numbering::Known(header) => header,
            // It is too short for a header: its bytes count, but it is not a unit.
            _ if bytes < UNIT_HEADER_BYTES as u64 => return Ok(()),
            _ => UnitHeader::from_bytes(&self.header),
        };
        let expected = begin / self.shape.unit_bytes;
        if matches!(self.numbering, Numbering::InOrder) && header.number != expected {
            let found = header.number;
            return Err(io::Error::other(format!(
                "unit {found} arrived where unit {expected} was expected"
            )));
        }
        note(header, bytes);
        Ok(())
    }
}

fn wrong_bytes(at: u64, len: usize) -> io::Error {
    let end = at + len as u64;
    io::Error::other(format!(
        "other bytes than were sent arrived between byte {at} and byte {end}"
    ))
}

/// Returns the size of the buffer for one call. It is never 0, because a read of 0 bytes would look
/// like the end.
fn buffer_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(1).min(BYTES_PER_CALL)
}

/// Receives a stream.
pub(super) struct StreamReceiver {
    flow: Arc<FlowRecord>,
    units: UnitReader,
    buffer: Vec<u8>,
    /// Whether the receiver closes after the last byte.
    closes: bool,
    last_arrival: Option<Nanos>,
}

impl StreamReceiver {
    pub(super) fn new(flow: Arc<FlowRecord>, shape: Shape, numbering: Numbering) -> Self {
        Self {
            flow,
            units: UnitReader {
                shape,
                numbering,
                received: 0,
                header: [0; UNIT_HEADER_BYTES],
            },
            closes: false,
            buffer: vec![0; shape.bytes.map_or(BYTES_PER_CALL, buffer_bytes) as usize],
            last_arrival: None,
        }
    }

    /// Receives one unit.
    pub(super) fn of_one_unit(
        flow: Arc<FlowRecord>,
        bytes: u64,
        numbering: Numbering,
        closes: bool,
    ) -> Self {
        let shape = Shape::of_one_unit(bytes);
        Self {
            closes,
            ..Self::new(flow, shape, numbering)
        }
    }

    fn has_all(&self) -> bool {
        self.units.shape.bytes == Some(self.units.received)
    }

    fn take(&mut self, count: usize, now: Nanos) -> io::Result<()> {
        self.last_arrival = Some(now);
        let Self { flow, units, .. } = self;
        units.take(&self.buffer[..count], |header, bytes| {
            flow.record_unit(header.number, bytes, header.sent_ns, now);
        })?;
        flow.bytes_received.add(count as u64);
        if self.has_all() {
            self.flow.record_completion(now);
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let Self { flow, units, .. } = self;
        let at = self.last_arrival.unwrap_or(flow.start());
        units.finish(|header, bytes| {
            flow.record_unit(header.number, bytes, header.sent_ns, at);
        })?;
        if let Some(bytes) = units.shape.bytes
            && units.received < bytes
        {
            let received = units.received;
            return Err(io::Error::other(format!(
                "the connection was closed after {received} of {bytes} bytes"
            )));
        }
        flow.record_completion(at);
        Ok(())
    }
}

impl End for StreamReceiver {
    fn advance(&mut self, stream: &mut dyn ByteStream, clock: Clock) -> io::Result<Option<Wait>> {
        for _ in 0..CALLS_PER_TURN {
            match progress(stream.receive(&mut self.buffer))? {
                Progress::Done(0) => {
                    self.finish()?;
                    return Ok(None);
                }
                Progress::Done(count) => {
                    self.take(count, clock.now())?;
                    if self.closes && self.has_all() {
                        stream.shut_down()?;
                        return Ok(None);
                    }
                    // No more has arrived; another call would return nothing.
                    if count < self.buffer.len() {
                        break;
                    }
                }
                Progress::MustWait => break,
            }
        }
        Ok(Some(Wait::readable()))
    }
}
