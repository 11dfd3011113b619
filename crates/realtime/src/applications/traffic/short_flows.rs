//! Short transfers, each in a connection of its own. A transfer is a unit; it lasts from the call
//! of connect to its last byte.
//!
//! The acceptor closes first. A connection in TIME-WAIT (RFC 9293, section 3.6.1) then occupies
//! none of the opener's ports, of which there are about 28 000.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use experiment::time::Nanos;
use experiment::traffic::Intervals;

use super::StreamEnd;
use super::connection::{End, Opener, Owner};
use super::record::{FlowRecord, Journal};
use super::role::Opened;
use super::sockets::{Addresses, StreamKind, stream_socket};
use super::stream::{Numbering, StreamReceiver, StreamSender};
use super::unit_header::UnitHeader;
use super::worker::{Task, Turn, Wait};

/// Transfers opened before other tasks of the thread get their turn.
const TRANSFERS_PER_TURN: usize = 64;

/// Reports the events of one transfer to its flow.
struct TransferJournal {
    flow: Arc<FlowRecord>,
    number: u64,
}

impl Journal for TransferJournal {
    fn record_connecting(&self, now: Nanos) {
        self.flow.record_connecting(now);
    }

    fn record_established(&self, now: Nanos) {
        self.flow.record_established(now);
    }

    fn record_completion(&self, _at: Nanos) {}

    fn record_failure(&self, error: String) {
        let number = self.number;
        self.flow
            .record_failure(format!("transfer {number}: {error}"));
    }
}

/// Returns the application of the host that accepts transfers.
pub(super) fn accepted_end(flow: &Arc<FlowRecord>, end: StreamEnd, bytes: u64) -> Box<dyn End> {
    let flow = Arc::clone(flow);
    match end {
        StreamEnd::Receiver => {
            let numbering = Numbering::AsSent;
            Box::new(StreamReceiver::of_one_unit(flow, bytes, numbering, true))
        }
        StreamEnd::Sender => {
            // The opener knows the number and the time; its record counts.
            let header = UnitHeader {
                number: 0,
                sent_ns: 0,
            };
            Box::new(StreamSender::of_one_unit(flow, bytes, header, true))
        }
    }
}

/// The transfers that the opener of a flow starts.
pub(crate) struct Transfers {
    flow: Arc<FlowRecord>,
    /// Whether the opener sends or receives the data.
    end: StreamEnd,
    bytes: u64,
    intervals: Intervals,
    next_at: Nanos,
    started: u64,
}

impl Transfers {
    pub(super) fn new(
        flow: Arc<FlowRecord>,
        end: StreamEnd,
        bytes: u64,
        intervals: Intervals,
    ) -> Self {
        Self {
            next_at: flow.scheduled_start(),
            flow,
            end,
            bytes,
            intervals,
            started: 0,
        }
    }

    /// Returns when the next transfer starts.
    pub(super) fn next_at(&self) -> Nanos {
        self.next_at
    }

    /// Returns the next transfer, which starts now.
    pub(super) fn start(&mut self, now: Nanos) -> Opened {
        let number = self.started;
        self.started += 1;
        self.next_at = self.next_at.saturating_add(self.intervals.draw());
        let header = UnitHeader {
            number,
            sent_ns: now,
        };
        let flow = Arc::clone(&self.flow);
        let bytes = self.bytes;
        let end: Box<dyn End> = match self.end {
            StreamEnd::Sender => Box::new(StreamSender::of_one_unit(flow, bytes, header, false)),
            StreamEnd::Receiver => {
                let numbering = Numbering::Known(header);
                Box::new(StreamReceiver::of_one_unit(flow, bytes, numbering, false))
            }
        };
        let journal = Arc::new(TransferJournal {
            flow: Arc::clone(&self.flow),
            number,
        });
        Opened { end, journal }
    }
}

/// Opens a connection at the start of each transfer.
pub(super) struct TransferStarter {
    pub(super) transfers: Transfers,
    pub(super) addresses: Addresses,
    pub(super) kind: StreamKind,
    pub(super) owner: Owner,
}

impl TransferStarter {
    fn start(&mut self, turn: &mut Turn) {
        let now = turn.clock.now();
        let opened = self.transfers.start(now);
        let socket = match stream_socket(self.addresses.source, &self.kind) {
            Ok(socket) => socket,
            Err(error) => return opened.journal.record_failure(error.to_string()),
        };
        let owner = self.owner.clone();
        let opener = Opener::new(now, self.addresses, owner, opened, socket);
        turn.spawned.push(Box::new(opener));
    }
}

impl Task for TransferStarter {
    fn advance(&mut self, turn: &mut Turn) -> Option<Wait> {
        for _ in 0..TRANSFERS_PER_TURN {
            if turn.clock.now() < self.transfers.next_at() {
                break;
            }
            self.start(turn);
        }
        Some(Wait::until(self.transfers.next_at()))
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
