//! A connection of the engine as applications see it.

use std::io::{self, ErrorKind, IoSlice};

use experiment::engine_config::why_closed;
use mptcp::connection::Connection;
use mptcp::payload::Payload;
use mptcp::subflow::CloseReason;

use crate::applications::traffic::ByteStream;

/// Data passed between an application and its connection.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    /// Data taken from the connection and not read yet.
    unread: Payload,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            sent_bytes: 0,
            received_bytes: 0,
            unread: Payload::EMPTY,
        }
    }
}

impl Progress {
    /// Returns whether a read returns data or the end.
    pub(crate) fn is_readable(&self, connection: &Connection) -> bool {
        let has_data = !self.unread.is_empty() || connection.unread_bytes() > 0;
        has_data || has_ended(connection)
    }
}

/// Returns whether nothing more can arrive.
fn has_ended(connection: &Connection) -> bool {
    connection.peer_has_ended() || connection.closed().is_some()
}

/// Returns the error of a connection that ended without the end of both streams.
fn broken(connection: &Connection) -> Option<io::Error> {
    let is_broken = |reason: &CloseReason| *reason != CloseReason::Finished;
    let reason = connection.closed().filter(is_broken)?;
    Some(io::Error::other(why_closed(reason)))
}

/// A connection during its application's turn.
pub(crate) struct EngineStream<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) progress: &'a mut Progress,
}

impl ByteStream for EngineStream<'_> {
    fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(broken) = broken(self.connection) {
            return Err(broken);
        }
        // Offers one byte more than there is room for. This tells the engine that the application
        // waits for room.
        let room = usize::try_from(self.connection.send_capacity()).unwrap_or(usize::MAX);
        let most = room.saturating_add(1);
        let offered: usize = parts.iter().map(|part| part.len()).sum();
        let mut bytes = Vec::with_capacity(offered.min(most));
        for part in parts {
            let left = most - bytes.len();
            bytes.extend_from_slice(&part[..part.len().min(left)]);
        }
        let taken = self.connection.send(&Payload::literal(bytes));
        self.progress.sent_bytes += u64::from(taken);
        match taken {
            0 => Err(ErrorKind::WouldBlock.into()),
            taken => Ok(taken as usize),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Progress { unread, .. } = &mut self.progress;
        let mut filled = 0;
        while filled < buffer.len() {
            if unread.is_empty() {
                match self.connection.recv() {
                    Some(next) => *unread = next,
                    None => break,
                }
            }
            let count = unread.len().min((buffer.len() - filled) as u32);
            unread.slice(0..count).for_each_chunk(|chunk| {
                buffer[filled..filled + chunk.len()].copy_from_slice(chunk);
                filled += chunk.len();
            });
            unread.cut_front(count);
        }
        self.progress.received_bytes += filled as u64;
        match (filled, broken(self.connection)) {
            (0, Some(broken)) => Err(broken),
            (0, None) if has_ended(self.connection) => Ok(0),
            (0, None) => Err(ErrorKind::WouldBlock.into()),
            (filled, _) => Ok(filled),
        }
    }

    fn shut_down(&mut self) -> io::Result<()> {
        self.connection.close();
        Ok(())
    }
}
