//! Events that a connection reports to the application.

use super::Mode;
use crate::pm::FourTuple;
use crate::subflow::{CloseReason, Counters};

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The initial subflow is established, and data can be written. The mode can still change to
    /// [`Mode::Plain`].
    Connected {
        /// The protocol at this time.
        mode: Mode,
    },
    /// The connection fell back to plain TCP.
    FellBack,
    /// The receive buffer has data to read.
    Readable,
    /// The send buffer has room again.
    Writable,
    /// The peer has ended its stream, and all data before the end can be read.
    Finished,
    /// A further subflow is established.
    SubflowEstablished {
        /// The number of the subflow, which never changes.
        id: u32,
        /// Its addresses and ports.
        four: FourTuple,
    },
    /// A subflow closed; it can be the initial one.
    SubflowClosed {
        /// The number of the subflow.
        id: u32,
        /// Its addresses and ports.
        four: FourTuple,
        /// Why it closed.
        reason: CloseReason,
        /// Its counters at the end.
        counters: Box<Counters>,
    },
    /// The connection closed.
    Closed {
        /// Why it closed: [`CloseReason::Finished`] if both streams arrived.
        reason: CloseReason,
    },
}
