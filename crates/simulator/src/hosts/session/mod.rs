//! The applications at the ends of connections.

mod probe;
mod request_response;
mod transfer;
mod video;

use experiment::resolved::{Application, FlowEnd};
use experiment::time::Nanos;
use experiment::traffic::{DataStream, Shape, StreamEnd, stream_end};
use mptcp::connection::Connection;
use mptcp::payload::Payload;

use super::record::{FlowRecord, Notes, Transfer};
use probe::{Echo, Probe};
use request_response::{Requester, Responder};
use transfer::{Receiver, Sender, Units};
pub(crate) use video::VideoRecord;
use video::{Player, Server};

/// What a session can use when it acts.
pub(super) struct Turn<'a> {
    pub(super) now: Nanos,
    pub(super) connection: &'a mut Connection,
    pub(super) record: &'a mut FlowRecord,
    pub(super) notes: &'a mut Notes,
}

/// An application at one end of a connection.
pub(super) trait Session: Send {
    /// Reads available data and writes what fits. Returns when it acts next if nothing happens
    /// before.
    fn advance(&mut self, turn: &mut Turn<'_>) -> Option<Nanos>;
}

/// Returns the session of a flow at one end of an established connection.
pub(super) fn session(
    app: &Application,
    side: FlowEnd,
    unit_bytes: u64,
    record: &FlowRecord,
    transfer: Transfer,
    opens: bool,
) -> Box<dyn Session> {
    let streams = Streams::of(record.flow);
    if let Some(data) = DataStream::of(app, unit_bytes) {
        return match side {
            FlowEnd::From => Box::new(Sender::new(streams.data, data)),
            FlowEnd::To => Box::new(Receiver::new(
                streams.data,
                data.shape,
                Units::InOrder,
                false,
            )),
        };
    }
    match *app {
        Application::Video(ref video) => match side {
            FlowEnd::From => Box::new(Server::new(streams)),
            FlowEnd::To => Box::new(Player::new(streams, video)),
        },
        Application::RequestResponse {
            request_bytes,
            response_bytes,
            count,
            duration_ns,
        } => match side {
            FlowEnd::From => Box::new(Requester::new(
                streams,
                [request_bytes, response_bytes],
                count,
                duration_ns,
            )),
            FlowEnd::To => Box::new(Responder::new(streams, [request_bytes, response_bytes])),
        },
        Application::Probe {
            every_ns,
            size_bytes,
            duration_ns,
        } => match side {
            FlowEnd::From => Box::new(Probe::new(streams, every_ns, size_bytes, duration_ns)),
            FlowEnd::To => Box::new(Echo::new(streams, size_bytes)),
        },
        Application::ShortFlows { bytes, .. } => {
            // The acceptor closes first, because it has enough ports for connections in TIME-WAIT.
            match stream_end(app, side) {
                StreamEnd::Sender => Box::new(Sender::of_one_unit(streams.data, bytes, !opens)),
                StreamEnd::Receiver => {
                    let (shape, units) = (Shape::of_one_unit(bytes), Units::One(transfer));
                    Box::new(Receiver::new(streams.data, shape, units, !opens))
                }
            }
        }
        _ => unreachable!("a stream of data, or a program, which check refuses"),
    }
}

/// The symbolic streams of a flow, one each way.
#[derive(Clone, Copy, Debug)]
struct Streams {
    /// The data of the flow.
    data: u32,
    /// The requests for it.
    requests: u32,
}

impl Streams {
    fn of(flow: usize) -> Self {
        let first = 2 * flow as u32;
        Self {
            data: first,
            requests: first + 1,
        }
    }
}

/// Writes `bytes` of a symbolic stream from `offset`. Returns how many bytes were accepted.
fn write(connection: &mut Connection, stream: u32, offset: u64, bytes: u64) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let len = u32::try_from(bytes).unwrap_or(u32::MAX);
    u64::from(connection.send(&Payload::stream(stream, offset, len)))
}

/// Reads all available bytes of a symbolic stream and returns their number. A byte that differs
/// from the one sent fails the flow.
fn read(turn: &mut Turn<'_>, stream: u32, offset: u64) -> u64 {
    let mut read = 0;
    while let Some(payload) = turn.connection.recv() {
        let sent = Payload::stream(stream, offset + read, payload.len());
        if payload != sent {
            let at = offset + read;
            turn.record.fail(format!(
                "other bytes than were sent arrived between byte {at} and byte {}",
                at + u64::from(payload.len())
            ));
        }
        read += u64::from(payload.len());
    }
    read
}
