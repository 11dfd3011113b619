//! Relays bytes between two sides, in both directions, until both byte streams have ended or one
//! side breaks.
//!
//! At most [`PIECE_BYTES`] in each direction are read from one side and not yet taken by the other.
//! Beyond that, the buffers of the sides fill and their senders wait.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};

use crate::applications::traffic::ByteStream;

/// Bytes that are relayed at a time.
const PIECE_BYTES: usize = 1 << 16;

/// The connections of one kind.
pub(super) trait Side {
    /// Identifies a connection.
    type Id: Copy + Ord;

    /// Calls `action` with a connection; returns `None` if the connection no longer exists.
    fn with_stream<T>(
        &mut self,
        id: Self::Id,
        action: impl FnOnce(&mut dyn ByteStream) -> T,
    ) -> Option<T>;

    /// Resets a connection at once.
    fn reset(&mut self, id: Self::Id);

    /// Releases a connection that is no longer read or written. Written data still arrives.
    fn release(&mut self, id: Self::Id);
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Way {
    /// Bytes read from one side and not yet taken by the other.
    carried: Vec<u8>,
    has_ended: bool,
}

impl Way {
    /// Relays what it can without blocking.
    ///
    /// # Errors
    /// One of the two connections has broken.
    fn carry<A: Side, B: Side>(
        &mut self,
        from: (&mut A, A::Id),
        to: (&mut B, B::Id),
        piece: &mut [u8],
    ) -> io::Result<()> {
        let ((source, source_id), (target, target_id)) = (from, to);
        while !self.has_ended {
            if !self.carried.is_empty() {
                let taken = hand_over(target, target_id, &self.carried)?;
                self.carried.drain(..taken);
                if !self.carried.is_empty() {
                    return Ok(());
                }
            }
            let received = source.with_stream(source_id, |stream| stream.receive(piece));
            match received.unwrap_or(Ok(0)) {
                Ok(0) => {
                    self.has_ended = true;
                    let told = target.with_stream(target_id, |stream| stream.shut_down());
                    told.unwrap_or(Ok(()))?;
                }
                Ok(count) => {
                    let taken = hand_over(target, target_id, &piece[..count])?;
                    self.carried.extend_from_slice(&piece[taken..count]);
                }
                Err(error) if is_later(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Writes bytes to a connection. Returns how many it took.
fn hand_over<S: Side>(side: &mut S, id: S::Id, bytes: &[u8]) -> io::Result<usize> {
    let gone = || Err(ErrorKind::BrokenPipe.into());
    let sent = side.with_stream(id, |stream| stream.send(&[IoSlice::new(bytes)]));
    match sent.unwrap_or_else(gone) {
        Err(error) if is_later(&error) => Ok(0),
        result => result,
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

struct Relay<L> {
    local: L,
    inward: Way,
    outward: Way,
}

/// The connections of a network side `N`, each joined to one of a local side `L`.
pub(super) struct Relays<N: Side, L: Side> {
    relays: BTreeMap<N::Id, Relay<L::Id>>,
    by_local: BTreeMap<L::Id, N::Id>,
    piece: Vec<u8>,
}

impl<N: Side, L: Side> Relays<N, L> {
    pub(super) fn new() -> Self {
        Self {
            relays: BTreeMap::new(),
            by_local: BTreeMap::new(),
            piece: vec![0; PIECE_BYTES],
        }
    }

    /// Joins two connections.
    pub(super) fn join(&mut self, network: N::Id, local: L::Id) {
        let relay = Relay {
            local,
            inward: Way::default(),
            outward: Way::default(),
        };
        self.relays.insert(network, relay);
        self.by_local.insert(local, network);
    }

    /// Relays for a connection of the local side that has news.
    pub(super) fn advance_local(&mut self, sides: (&mut N, &mut L), local: L::Id) {
        if let Some(&network) = self.by_local.get(&local) {
            self.advance(sides, network);
        }
    }

    /// Relays for a connection of the network side that has news.
    pub(super) fn advance(&mut self, (outer, inner): (&mut N, &mut L), network: N::Id) {
        let Some(relay) = self.relays.get_mut(&network) else {
            return;
        };
        let (local, piece) = (relay.local, &mut self.piece);
        let carried = relay
            .inward
            .carry((&mut *outer, network), (&mut *inner, local), piece)
            .and_then(|()| {
                relay
                    .outward
                    .carry((&mut *inner, local), (&mut *outer, network), piece)
            });
        match carried {
            Ok(()) if !(relay.inward.has_ended && relay.outward.has_ended) => return,
            Ok(()) => {
                outer.release(network);
                inner.release(local);
            }
            Err(_) => {
                outer.reset(network);
                inner.reset(local);
            }
        }
        self.relays.remove(&network);
        self.by_local.remove(&local);
    }
}
