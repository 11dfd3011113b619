//! Probes over a connection. Each is echoed, which yields a round-trip time.

use std::collections::VecDeque;

use experiment::time::Nanos;

use super::{Session, Streams, Turn, read, write};

/// Sends probes and records their answers.
pub(super) struct Probe {
    streams: Streams,
    every: Nanos,
    size_bytes: u64,
    duration: Option<Nanos>,
    /// Number of probes due so far.
    due: u64,
    sent: u64,
    echoed: u64,
    /// When each unanswered probe was due, the oldest first.
    waiting: VecDeque<Nanos>,
}

impl Probe {
    pub(super) fn new(
        streams: Streams,
        every: Nanos,
        size_bytes: u32,
        duration: Option<Nanos>,
    ) -> Self {
        Self {
            streams,
            every,
            size_bytes: size_bytes.into(),
            duration,
            due: 0,
            sent: 0,
            echoed: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Returns when the next probe is due, counted from the start. `None` after the last one.
    fn next_due(&self) -> Option<Nanos> {
        let due = self.every.saturating_mul(self.due);
        let is_over = self.duration.is_some_and(|duration| due >= duration);
        (!is_over).then_some(due)
    }

    fn handle_answers(&mut self, turn: &mut Turn<'_>) {
        let before = self.echoed / self.size_bytes;
        self.echoed += read(turn, self.streams.data, self.echoed);
        for _ in before..self.echoed / self.size_bytes {
            if let Some(sent) = self.waiting.pop_front() {
                turn.notes.answers.push((turn.record.flow, turn.now - sent));
                turn.record.probes_answered += 1;
            }
        }
    }
}

impl Session for Probe {
    fn advance(&mut self, turn: &mut Turn<'_>) -> Option<Nanos> {
        self.handle_answers(turn);
        let start = turn.record.start();
        while let Some(due) = self.next_due().filter(|due| start + due <= turn.now) {
            self.due += 1;
            self.waiting.push_back(start + due);
            turn.record.begin_unit(turn.now);
            turn.record.probes_sent += 1;
        }
        let left = self.due * self.size_bytes - self.sent;
        let sent = write(turn.connection, self.streams.data, self.sent, left);
        self.sent += sent;
        turn.record.bytes_sent += sent;
        let next = self.next_due().map(|due| start.saturating_add(due));
        if next.is_none() && self.waiting.is_empty() {
            turn.record.complete(turn.now);
            turn.connection.close();
        }
        next
    }
}

/// Echoes the bytes that arrive.
pub(super) struct Echo {
    streams: Streams,
    size_bytes: u64,
    received: u64,
    sent: u64,
}

impl Echo {
    pub(super) fn new(streams: Streams, size_bytes: u32) -> Self {
        Self {
            streams,
            size_bytes: size_bytes.into(),
            received: 0,
            sent: 0,
        }
    }
}

impl Session for Echo {
    fn advance(&mut self, turn: &mut Turn<'_>) -> Option<Nanos> {
        let before = self.received / self.size_bytes;
        let read = read(turn, self.streams.data, self.received);
        self.received += read;
        turn.record.bytes_received += read;
        for number in before..self.received / self.size_bytes {
            turn.record
                .complete_unit(number, self.size_bytes, turn.now, turn.notes);
        }
        let left = self.received - self.sent;
        self.sent += write(turn.connection, self.streams.data, self.sent, left);
        if turn.connection.peer_has_ended() && self.sent == self.received {
            turn.connection.close();
        }
        None
    }
}
