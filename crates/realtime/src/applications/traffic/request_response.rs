//! Requests and responses in turn. Each response is a data unit; requests are not.

use std::io::{self, IoSlice};
use std::sync::Arc;

use experiment::time::Nanos;

use super::byte_stream::{ByteStream, Progress, progress};
use super::connection::End;
use super::pattern::{BYTES_PER_CALL, pattern};
use super::record::{FlowRecord, Journal};
use super::stream::wait_for_peer;
use super::worker::Wait;
use crate::Clock;

/// Calls before other tasks of the thread get their turn.
const CALLS_PER_TURN: usize = 64;

/// Sizes of a request and of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) request_bytes: u64,
    pub(super) response_bytes: u64,
}

/// The bytes of a message that are still to be sent or received.
struct Remaining(u64);

impl Remaining {
    /// Sends some of them. Returns how many.
    fn send(&mut self, stream: &mut dyn ByteStream) -> io::Result<Progress<u64>> {
        let size = self.0.min(BYTES_PER_CALL) as usize;
        let sent = stream.send(&[IoSlice::new(pattern(0, size))]);
        Ok(match progress(sent)? {
            Progress::Done(count) => {
                self.0 -= count as u64;
                Progress::Done(count as u64)
            }
            Progress::MustWait => Progress::MustWait,
        })
    }

    /// Receives some of them. Returns how many, and 0 if the peer has closed.
    fn receive(
        &mut self,
        stream: &mut dyn ByteStream,
        buffer: &mut [u8],
    ) -> io::Result<Progress<u64>> {
        let size = self.0.min(buffer.len() as u64) as usize;
        let received = stream.receive(&mut buffer[..size]);
        Ok(match progress(received)? {
            Progress::Done(count) => {
                self.0 -= count as u64;
                Progress::Done(count as u64)
            }
            Progress::MustWait => Progress::MustWait,
        })
    }
}

enum Asking {
    Sending { since: Nanos, left: Remaining },
    Receiving { since: Nanos, left: Remaining },
    Over,
}

/// Sends requests and receives responses.
pub(super) struct Requester {
    flow: Arc<FlowRecord>,
    sizes: Sizes,
    count: Option<u64>,
    duration: Option<Nanos>,
    state: Option<Asking>,
    answered: u64,
    last_response: Option<Nanos>,
    buffer: Vec<u8>,
}

impl Requester {
    pub(super) fn new(
        flow: Arc<FlowRecord>,
        sizes: Sizes,
        count: Option<u64>,
        duration: Option<Nanos>,
    ) -> Self {
        Self {
            flow,
            sizes,
            count,
            duration,
            state: None,
            answered: 0,
            last_response: None,
            buffer: vec![0; BYTES_PER_CALL as usize],
        }
    }

    /// Returns the state after the next request, or ends the flow.
    fn ask(&self, stream: &mut dyn ByteStream, now: Nanos) -> io::Result<Asking> {
        let is_over = self
            .duration
            .is_some_and(|duration| now >= self.flow.start().saturating_add(duration));
        if self.count == Some(self.answered) || is_over {
            let end = self.last_response.unwrap_or(self.flow.start());
            self.flow.record_completion(end);
            stream.shut_down()?;
            return Ok(Asking::Over);
        }
        Ok(Asking::Sending {
            since: now,
            left: Remaining(self.sizes.request_bytes),
        })
    }

    fn record_response(&mut self, since: Nanos, now: Nanos) {
        let bytes = self.sizes.response_bytes;
        self.flow.record_unit(self.answered, bytes, since, now);
        self.answered += 1;
        self.last_response = Some(now);
    }

    /// Takes one step. Returns what to wait for if it cannot go on.
    fn step(&mut self, stream: &mut dyn ByteStream, clock: Clock) -> io::Result<Step> {
        match self.state.take() {
            None => self.state = Some(self.ask(stream, clock.now())?),
            Some(Asking::Sending { since, mut left }) => {
                let progress = left.send(stream)?;
                self.state = Some(match left.0 {
                    0 => Asking::Receiving {
                        since,
                        left: Remaining(self.sizes.response_bytes),
                    },
                    _ => Asking::Sending { since, left },
                });
                if let Progress::MustWait = progress {
                    return Ok(Step::Wait(Wait::writable()));
                }
            }
            Some(Asking::Receiving { since, mut left }) => {
                let progress = left.receive(stream, &mut self.buffer)?;
                match progress {
                    Progress::Done(0) => return Err(closed()),
                    Progress::Done(count) => self.flow.bytes_received.add(count),
                    Progress::MustWait => {}
                }
                if left.0 == 0 {
                    self.record_response(since, clock.now());
                    return Ok(Step::Again);
                }
                self.state = Some(Asking::Receiving { since, left });
                if let Progress::MustWait = progress {
                    return Ok(Step::Wait(Wait::readable()));
                }
            }
            Some(Asking::Over) => {
                self.state = Some(Asking::Over);
                return Ok(wait_for_peer(stream)?.map_or(Step::Over, Step::Wait));
            }
        }
        Ok(Step::Again)
    }
}

enum Step {
    Again,
    Wait(Wait),
    Over,
}

fn closed() -> io::Error {
    io::Error::other("the connection was closed by the other side")
}

impl End for Requester {
    fn advance(&mut self, stream: &mut dyn ByteStream, clock: Clock) -> io::Result<Option<Wait>> {
        for _ in 0..CALLS_PER_TURN {
            match self.step(stream, clock)? {
                Step::Again => {}
                Step::Wait(wait) => return Ok(Some(wait)),
                Step::Over => return Ok(None),
            }
        }
        Ok(Some(Wait::until(0)))
    }
}

/// Receives requests and sends responses.
pub(super) struct Responder {
    flow: Arc<FlowRecord>,
    sizes: Sizes,
    request: Remaining,
    response: Remaining,
    buffer: Vec<u8>,
}

impl Responder {
    pub(super) fn new(flow: Arc<FlowRecord>, sizes: Sizes) -> Self {
        Self {
            flow,
            sizes,
            request: Remaining(sizes.request_bytes),
            response: Remaining(0),
            buffer: vec![0; BYTES_PER_CALL as usize],
        }
    }

    fn step(&mut self, stream: &mut dyn ByteStream) -> io::Result<Step> {
        if self.response.0 > 0 {
            return Ok(match self.response.send(stream)? {
                Progress::Done(count) => {
                    self.flow.bytes_sent.add(count);
                    Step::Again
                }
                Progress::MustWait => Step::Wait(Wait::writable()),
            });
        }
        match self.request.receive(stream, &mut self.buffer)? {
            Progress::MustWait => return Ok(Step::Wait(Wait::readable())),
            Progress::Done(0) => return Ok(Step::Over),
            Progress::Done(_) => {}
        }
        if self.request.0 == 0 {
            self.request = Remaining(self.sizes.request_bytes);
            self.response = Remaining(self.sizes.response_bytes);
        }
        Ok(Step::Again)
    }
}

impl End for Responder {
    fn advance(&mut self, stream: &mut dyn ByteStream, _clock: Clock) -> io::Result<Option<Wait>> {
        for _ in 0..CALLS_PER_TURN {
            match self.step(stream)? {
                Step::Again => {}
                Step::Wait(wait) => return Ok(Some(wait)),
                Step::Over => return Ok(None),
            }
        }
        Ok(Some(Wait::until(0)))
    }
}
