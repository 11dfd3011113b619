//! A byte stream in data units from one end to the other: bulk, constant bit rate, streaming and
//! short transfers.

use experiment::time::Nanos;
use experiment::traffic::{DataStream, Shape};

use super::{Session, Transfer, Turn, read, write};

/// Sends a stream.
pub(super) struct Sender {
    stream: u32,
    data: DataStream,
    /// Whether to record the time at which units are handed over. A short transfer is timed from
    /// the opening of its connection instead.
    notes_units: bool,
    /// Whether it closes after sending everything. Otherwise the receiver closes, which knows the
    /// length.
    closes: bool,
    sent: u64,
}

impl Sender {
    pub(super) fn new(stream: u32, data: DataStream) -> Self {
        Self {
            stream,
            data,
            notes_units: true,
            closes: true,
            sent: 0,
        }
    }

    /// Returns the sender of a short transfer.
    pub(super) fn of_one_unit(stream: u32, bytes: u64, closes: bool) -> Self {
        Self {
            notes_units: false,
            closes,
            ..Self::new(stream, DataStream::of_one_unit(bytes))
        }
    }

    /// Hands over all released bytes that fit. Records the start of the units that begin with them.
    fn send(&mut self, turn: &mut Turn<'_>, released: u64) {
        let before = self.sent;
        self.sent += write(turn.connection, self.stream, before, released - before);
        turn.record.bytes_sent += self.sent - before;
        if self.notes_units {
            let units = |offset: u64| offset.div_ceil(self.data.shape.unit_bytes);
            (units(before)..units(self.sent)).for_each(|_| turn.record.begin_unit(turn.now));
        }
    }
}

impl Session for Sender {
    fn advance(&mut self, turn: &mut Turn<'_>) -> Option<Nanos> {
        // The peer sends nothing, but the end of its stream must be read.
        while turn.connection.recv().is_some() {}
        let start = turn.record.start();
        let deadline = self
            .data
            .duration
            .map(|duration| start.saturating_add(duration));
        if deadline.is_none_or(|deadline| turn.now < deadline) {
            let released = self.data.released(turn.now.saturating_sub(start));
            self.send(turn, released);
        }
        let has_all = self
            .data
            .shape
            .bytes
            .is_some_and(|bytes| self.sent >= bytes);
        if has_all || deadline.is_some_and(|deadline| turn.now >= deadline) {
            if self.closes || turn.connection.peer_has_ended() {
                turn.connection.close();
            }
            return None;
        }
        let due = self
            .data
            .pace
            .map(|pace| pace.due(self.sent / pace.piece_bytes).saturating_add(start));
        // A unit that is already due waits for room, not for time.
        let due = due.filter(|due| *due > turn.now);
        due.into_iter().chain(deadline).min()
    }
}

/// How a receiver identifies units.
#[derive(Clone, Copy, Debug)]
pub(super) enum Units {
    /// Units follow one another.
    InOrder,
    /// Everything is this one transfer.
    One(Transfer),
}

/// Receives a stream.
pub(super) struct Receiver {
    stream: u32,
    shape: Shape,
    units: Units,
    /// Whether it closes after receiving everything.
    closes: bool,
    received: u64,
    last_arrival: Option<Nanos>,
}

impl Receiver {
    pub(super) fn new(stream: u32, shape: Shape, units: Units, closes: bool) -> Self {
        Self {
            stream,
            shape,
            units,
            closes,
            received: 0,
            last_arrival: None,
        }
    }

    fn has_all(&self) -> bool {
        self.shape.bytes == Some(self.received)
    }

    /// Records the units completed by the bytes after `before`.
    fn record_units(&self, turn: &mut Turn<'_>, before: u64) {
        let mut offset = before;
        while offset < self.received && self.shape.end_of_unit(offset) <= self.received {
            let end = self.shape.end_of_unit(offset);
            let number = offset / self.shape.unit_bytes;
            self.record_unit(turn, number, end - number * self.shape.unit_bytes, turn.now);
            offset = end;
        }
    }

    fn record_unit(&self, turn: &mut Turn<'_>, number: u64, bytes: u64, at: Nanos) {
        match self.units {
            Units::InOrder => turn.record.complete_unit(number, bytes, at, turn.notes),
            Units::One(transfer) => {
                let Transfer { number, started } = transfer;
                turn.record
                    .record_unit(number, bytes, started, at, turn.notes);
            }
        }
    }

    /// Handles the end of the stream. The unit in progress ends there.
    fn finish(&self, turn: &mut Turn<'_>) {
        let at = self.last_arrival.unwrap_or(turn.record.start());
        let rest = self.received % self.shape.unit_bytes;
        if rest > 0 && !self.has_all() {
            self.record_unit(turn, self.received / self.shape.unit_bytes, rest, at);
        }
        match self.shape.bytes.filter(|bytes| self.received < *bytes) {
            Some(bytes) => {
                let received = self.received;
                turn.record.fail(format!(
                    "the connection was closed after {received} of {bytes} bytes"
                ));
            }
            None => turn.record.complete(at),
        }
    }
}

impl Session for Receiver {
    fn advance(&mut self, turn: &mut Turn<'_>) -> Option<Nanos> {
        let before = self.received;
        let read = read(turn, self.stream, before);
        if read > 0 {
            self.received += read;
            self.last_arrival = Some(turn.now);
            turn.record.bytes_received += read;
            self.record_units(turn, before);
        }
        if read > 0 && self.has_all() {
            turn.record.complete(turn.now);
        }
        if turn.connection.peer_has_ended() {
            self.finish(turn);
        }
        if turn.connection.peer_has_ended() || (self.closes && self.has_all()) {
            turn.connection.close();
        }
        None
    }
}
