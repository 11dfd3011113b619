//! What is known of there being nothing to send, so that it is not asked again and again.

/// What has been found out since something happened that could change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing: it has to be asked.
    #[default]
    Unknown,
    /// There is no data to be sent, nor to be repeated; an acknowledgment may be due.
    NoData,
    /// There is nothing at all, as long as the receive window is no wider than so many bytes.
    Nothing { receive_window_bytes: u64 },
}

impl Rest {
    /// Whether there is nothing to be sent with that receive window.
    pub fn holds_with(self, receive_window_bytes: u64) -> bool {
        self.receive_window_bytes()
            .is_some_and(|most| receive_window_bytes <= most)
    }

    /// Up to which receive window there is nothing, if that is known.
    pub fn receive_window_bytes(self) -> Option<u64> {
        match self {
            Self::Nothing {
                receive_window_bytes,
            } => Some(receive_window_bytes),
            Self::Unknown | Self::NoData => None,
        }
    }

    /// Whether there is no data.
    pub fn lacks_data(self) -> bool {
        self != Self::Unknown
    }

    /// The peer knows of so wide a window: rounding may have made it wider than it was.
    pub fn cover(&mut self, offered_bytes: u64) {
        if let Self::Nothing {
            receive_window_bytes,
        } = self
        {
            *receive_window_bytes = offered_bytes.max(*receive_window_bytes);
        }
    }

    /// What remains of it when there may be something to acknowledge.
    pub fn without_acks(self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::NoData | Self::Nothing { .. } => Self::NoData,
        }
    }
}
