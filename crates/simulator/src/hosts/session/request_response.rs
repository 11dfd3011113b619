//! A request, its response, the next request. The responses are the data of the flow. Each is a
//! unit.

use experiment::time::Nanos;

use super::{Session, Streams, Turn, read, write};

/// Sends requests and receives responses.
pub(super) struct Requester {
    streams: Streams,
    request_bytes: u64,
    response_bytes: u64,
    count: Option<u64>,
    duration: Option<Nanos>,
    /// Number of requests begun. `asked_at` is when the last one was.
    asked: u64,
    asked_at: Nanos,
    sent: u64,
    received: u64,
    last_response: Option<Nanos>,
    is_over: bool,
}

impl Requester {
    pub(super) fn new(
        streams: Streams,
        [request_bytes, response_bytes]: [u64; 2],
        count: Option<u64>,
        duration: Option<Nanos>,
    ) -> Self {
        Self {
            streams,
            request_bytes,
            response_bytes,
            count,
            duration,
            asked: 0,
            asked_at: 0,
            sent: 0,
            received: 0,
            last_response: None,
            is_over: false,
        }
    }

    /// Sends the next request, or ends the flow, once the last request is answered.
    fn ask(&mut self, turn: &mut Turn<'_>) {
        let deadline = self
            .duration
            .map(|duration| turn.record.start().saturating_add(duration));
        let is_late = deadline.is_some_and(|deadline| turn.now >= deadline);
        if self.count == Some(self.asked) || is_late {
            let end = self.last_response.unwrap_or(turn.record.start());
            turn.record.complete(end);
            turn.connection.close();
            self.is_over = true;
            return;
        }
        self.asked += 1;
        self.asked_at = turn.now;
    }
}

impl Session for Requester {
    fn advance(&mut self, turn: &mut Turn<'_>) -> Option<Nanos> {
        let read = read(turn, self.streams.data, self.received);
        self.received += read;
        turn.record.bytes_received += read;
        if read > 0 && self.received == self.asked * self.response_bytes {
            self.last_response = Some(turn.now);
            let number = self.asked - 1;
            turn.record.record_unit(
                number,
                self.response_bytes,
                self.asked_at,
                turn.now,
                turn.notes,
            );
        }
        if turn.connection.peer_has_ended() && !self.is_over {
            let why = "the connection was closed by the other side".to_owned();
            turn.record.fail(why);
            self.is_over = true;
        }
        if self.received == self.asked * self.response_bytes && !self.is_over {
            self.ask(turn);
        }
        let left = self.asked * self.request_bytes - self.sent;
        self.sent += write(turn.connection, self.streams.requests, self.sent, left);
        None
    }
}

/// Receives requests and sends responses.
pub(super) struct Responder {
    streams: Streams,
    request_bytes: u64,
    response_bytes: u64,
    received: u64,
    sent: u64,
}

impl Responder {
    pub(super) fn new(streams: Streams, [request_bytes, response_bytes]: [u64; 2]) -> Self {
        Self {
            streams,
            request_bytes,
            response_bytes,
            received: 0,
            sent: 0,
        }
    }
}

impl Session for Responder {
    fn advance(&mut self, turn: &mut Turn<'_>) -> Option<Nanos> {
        self.received += read(turn, self.streams.requests, self.received);
        let answered = self.received / self.request_bytes * self.response_bytes;
        let left = answered - self.sent;
        let sent = write(turn.connection, self.streams.data, self.sent, left);
        self.sent += sent;
        turn.record.bytes_sent += sent;
        if turn.connection.peer_has_ended() && self.sent == answered {
            turn.connection.close();
        }
        None
    }
}
