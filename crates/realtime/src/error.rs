//! Errors: why a run in real time cannot start or continue.

use std::io;

use capture::CaptureError;
use experiment::resolved::InvalidDirection;
use experiment::run::RunError;
use experiment::samples::TableError;
use thiserror::Error;

/// Errors of this crate.
#[derive(Debug, Error)]
pub enum LiveError {
    /// This machine or this user lacks something that the run needs.
    #[error("{what}: {remedy}")]
    Machine {
        /// What is missing.
        what: String,
        /// How to supply it.
        remedy: String,
    },
    /// The operating system refused an operation.
    #[error("{doing}: {source}")]
    System {
        /// The operation and its object.
        doing: String,
        /// The error that the operating system returned.
        source: io::Error,
    },
    /// The network that was built differs from the description.
    #[error("the network is not as described: {0}")]
    Verification(String),
    /// The request is wrong or cannot be carried out here.
    #[error("{0}")]
    Refused(String),
    /// Something outside this crate failed; the text says what and where.
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

impl From<LiveError> for RunError {
    fn from(error: LiveError) -> Self {
        match error {
            LiveError::Table(_) => Self::File(error.into()),
            LiveError::Refused(_) | LiveError::Direction(_) => Self::Refused(error.into()),
            error => Self::Machine(error.into()),
        }
    }
}

impl LiveError {
    /// Returns a closure for `map_err` that adds what was being done when the system refused.
    pub(crate) fn while_<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |source| Self::System {
            doing,
            source: source.into(),
        }
    }

    /// Puts the place where the error happened in front of its text.
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
