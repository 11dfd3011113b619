//! Events that a connection reports to the application.

use super::Mode;
use crate::pm::FourTuple;
use crate::subflow::{CloseReason, Counters};

/// An event that a connection reports to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The initial subflow is established, and data can be written. The mode can still change to
    /// [`Mode::Plain`].
    Connected {
        /// The protocol that the connection uses at this time.
        mode: Mode,
    },
    /// The connection fell back to plain TCP.
    FellBack,
    /// The receive buffer has data to read.
    Readable,
    /// The send buffer has room again.
    Writable,
    /// The peer has ended its stream, and all data before the end has arrived and can be read.
    Finished,
    /// A further subflow is established.
    SubflowEstablished {
        /// The number of the subflow, which never changes.
        id: u32,
        /// The addresses and ports of the subflow.
        four: FourTuple,
    },
    /// A subflow closed. It can be the initial one.
    SubflowClosed {
        /// The number of the subflow.
        id: u32,
        /// The addresses and ports of the subflow.
        four: FourTuple,
        /// The reason why the subflow closed.
        reason: CloseReason,
        /// The counters of the subflow when it closed.
        counters: Box<Counters>,
    },
    /// The connection closed.
    Closed {
        /// The reason why the connection closed: [`CloseReason::Finished`] if both streams were
        /// delivered completely.
        reason: CloseReason,
    },
}
