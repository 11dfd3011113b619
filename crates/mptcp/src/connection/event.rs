//! What a connection tells its user.

use super::Mode;
use crate::pm::FourTuple;
use crate::subflow::{CloseReason, Counters};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The initial subflow is established; data can be written. The mode can still change to [`Mode::Plain`].
    Connected {
        /// What is spoken.
        mode: Mode,
    },
    /// Multipath TCP was given up.
    FellBack,
    /// There is data to be read.
    Readable,
    /// There is room in the send buffer again.
    Writable,
    /// The peer has ended its stream, and everything before the end can be read.
    Finished,
    /// A further subflow is established.
    SubflowEstablished {
        /// Which; it stays the name of the subflow.
        id: u32,
        /// Its ends.
        four: FourTuple,
    },
    /// A subflow, perhaps the initial one, is no more.
    SubflowClosed {
        /// Which.
        id: u32,
        /// Its ends.
        four: FourTuple,
        /// Why.
        reason: CloseReason,
        /// All that happened on it.
        counters: Box<Counters>,
    },
    /// The connection is no more.
    Closed {
        /// Why: [`CloseReason::Finished`] if both streams arrived.
        reason: CloseReason,
    },
}
