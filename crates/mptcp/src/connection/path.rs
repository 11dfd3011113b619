//! A subflow of a connection, with what the connection knows of it beyond TCP.

use std::collections::VecDeque;

use super::keys::Nonces;
use super::mappings::Mappings;
use crate::failure::StaleDetector;
use crate::pm::FourTuple;
use crate::sched::Range;
use crate::seq::DataSeq;
use crate::subflow::{Chunk, State, Subflow};
use crate::time::{Nanos, SECOND};
use crate::wire::{AddressId, Hops, MptcpOption, ResetReason, Token};

/// The longest wait for the fourth packet of a join; what would take longer is given up.
const LONGEST_JOIN_WAIT: Nanos = 60 * SECOND;

/// How far the handshake of MP_JOIN is (RFC 8684, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// It is the initial subflow.
    Initial,
    /// We sent the SYN.
    Opening {
        address_id: AddressId,
        nonces: Nonces,
        token: Token,
    },
    /// We sent the third packet and wait for the fourth; until then no data goes out.
    Confirming {
        nonces: Nonces,
        /// When the third packet is repeated, and how long the last wait was.
        repeat_at: Nanos,
        wait: Nanos,
    },
    /// We sent the SYN/ACK.
    Accepting {
        address_id: AddressId,
        nonces: Nonces,
    },
    /// Both sides have proved that they know the keys.
    Done,
}

/// What is to be said on a path.
#[derive(Debug)]
pub(super) struct PathSignals {
    pub(super) join: Join,
    /// Whether we asked the peer not to send here while others do.
    pub(super) is_backup_local: bool,
    /// Options for the next acknowledgments, one in each.
    pub(super) pending: VecDeque<MptcpOption>,
    /// The next acknowledgment has the DATA_FIN.
    pub(super) says_fin: bool,
    /// A reset is a MP_FASTCLOSE.
    pub(super) closes_fast: bool,
    /// A reset has this reason.
    pub(super) reset_reason: Option<ResetReason>,
    /// MP_FAIL is to be said, with this number.
    pub(super) failed_from: Option<DataSeq>,
    /// Plain TCP begins at this byte of our stream.
    pub(super) infinite_from: Option<u64>,
}

/// A subflow of a connection.
#[derive(Debug)]
pub(super) struct Path {
    /// Never used again.
    pub(super) id: u32,
    pub(super) four: FourTuple,
    pub(super) local_id: AddressId,
    pub(super) remote_id: AddressId,
    /// Routers that its packets have to pass.
    pub(super) via: Hops,
    pub(super) subflow: Subflow,
    pub(super) mappings: Mappings,
    pub(super) signals: PathSignals,
    /// Whether the peer asked us not to send here while others do.
    pub(super) is_backup_remote: bool,
    /// It was given up at a timeout, until something arrives on it.
    pub(super) has_failed: bool,
    pub(super) stale: StaleDetector,
    /// When its handshake was complete.
    pub(super) established_at: Option<Nanos>,
    /// Back-off of its retransmission timer when it was last looked at.
    pub(super) seen_backoff: u32,
}

impl Path {
    pub(super) fn new(
        id: u32,
        four: FourTuple,
        ids: (AddressId, AddressId),
        subflow: Subflow,
        join: Join,
    ) -> Self {
        Self {
            id,
            four,
            local_id: ids.0,
            remote_id: ids.1,
            via: Hops::new(),
            subflow,
            mappings: Mappings::new(),
            signals: PathSignals::new(join),
            is_backup_remote: false,
            has_failed: false,
            stale: StaleDetector::default(),
            established_at: None,
            seen_backoff: 0,
        }
    }

    /// When the third packet of the join is repeated, if the fourth has not come.
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        match self.signals.join {
            Join::Confirming { repeat_at, .. } => Some(repeat_at),
            _ => None,
        }
    }

    /// Repeats the third packet of the join if it is time; twice as long is waited after each (RFC 8684, section 3.2), and
    /// in the end it is given up.
    pub(super) fn repeat_join_ack(&mut self, now: Nanos) {
        if let Join::Confirming {
            repeat_at, wait, ..
        } = &mut self.signals.join
            && *repeat_at <= now
        {
            *wait *= 2;
            *repeat_at = now + *wait;
            match *wait > LONGEST_JOIN_WAIT {
                true => self.reset(ResetReason::UNSPECIFIED),
                false => self.subflow.send_ack(),
            }
        }
    }

    /// Whether data may go out on it.
    pub(super) fn can_send(&self) -> bool {
        let is_joined = matches!(self.signals.join, Join::Initial | Join::Done);
        let is_open = matches!(self.subflow.state(), State::Established | State::CloseWait);
        is_joined && is_open && self.established_at.is_some()
    }

    pub(super) fn is_backup(&self) -> bool {
        self.signals.is_backup_local || self.is_backup_remote
    }

    /// Whether nothing seems to arrive on it.
    pub(super) fn is_stale(&self) -> bool {
        self.has_failed || self.stale.is_stale()
    }

    /// Whether it is the choice for what has to arrive.
    pub(super) fn is_healthy(&self) -> bool {
        self.can_send() && !self.is_stale()
    }

    /// Says an option with an acknowledgment of its own.
    pub(super) fn signal(&mut self, option: MptcpOption) {
        self.signals.pending.push_back(option);
        self.subflow.send_ack();
    }

    /// Ends it at once with a reset.
    pub(super) fn reset(&mut self, code: u8) {
        self.signals.reset_reason = Some(ResetReason { flags: 0, code });
        self.subflow.abort();
    }

    /// Whether the first byte of a range was sent on it, or waits in its queue, and is not acknowledged there.
    pub(super) fn holds(&self, range: Range) -> bool {
        self.end_of_chunk_with(range.start).is_some()
    }

    /// Where the data ends that it was given together with that byte of the stream.
    pub(super) fn end_of_chunk_with(&self, offset: u64) -> Option<u64> {
        let mut chunks = self.subflow.unacked().chain(self.subflow.queued());
        let found = chunks.find(|chunk| chunk.offset <= offset && offset < chunk.end());
        found.map(Chunk::end)
    }
}

impl PathSignals {
    fn new(join: Join) -> Self {
        Self {
            join,
            is_backup_local: false,
            pending: VecDeque::new(),
            says_fin: false,
            closes_fast: false,
            reset_reason: None,
            failed_from: None,
            infinite_from: None,
        }
    }
}
