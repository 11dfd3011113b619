//! Why a run in real time cannot start or go on.

use std::io;

use netlab::resolved::InvalidDirection;
use netlab::samples::TableError;
use netlab::trace::CaptureError;
use thiserror::Error;

/// Everything that can go wrong in this crate.
#[derive(Debug, Error)]
pub enum LiveError {
    /// This machine or this user cannot do it, and what helps.
    #[error("{what}: {remedy}")]
    Machine {
        /// What is missing.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The system refused something.
    #[error("{doing}: {source}")]
    System {
        /// What was being done, and to what.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The network that was built does not do what the description says.
    #[error("the network is not as described: {0}")]
    Verification(String),
    /// What was asked for is wrong, or cannot be done here.
    #[error("{0}")]
    Refused(String),
    /// Something outside was not as expected; what, and where.
    #[error("{0}")]
    Failed(String),
    /// The link model refuses a direction.
    #[error(transparent)]
    Direction(#[from] InvalidDirection),
    /// A capture cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl LiveError {
    /// For `map_err`: what was being done when the system refused.
    pub(crate) fn while_<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |source| Self::System {
            doing,
            source: source.into(),
        }
    }

    /// The same, with the place where it happened in front.
    pub(crate) fn at(self, place: &str) -> Self {
        match self {
            Self::Machine { what, remedy } => Self::Machine {
                what: format!("{place}: {what}"),
                remedy,
            },
            Self::System { doing, source } => Self::System {
                doing: format!("{place}: {doing}"),
                source,
            },
            Self::Verification(what) => Self::Verification(format!("{place}: {what}")),
            Self::Failed(what) => Self::Failed(format!("{place}: {what}")),
            Self::Refused(what) => Self::Refused(format!("{place}: {what}")),
            error => error,
        }
    }
}
