//! Caches that a subflow has nothing to send, to avoid polling it repeatedly.

/// What is known about segments to send since the last event that could change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing is known: the subflow must be polled.
    #[default]
    Unknown,
    /// There is no data to send or retransmit. An acknowledgment may be due.
    NoData,
    /// There is nothing to send while the receive window is at most `receive_window_bytes`.
    Nothing { receive_window_bytes: u64 },
}

impl Rest {
    /// Returns whether there is nothing to send with a receive window of `receive_window_bytes`.
    pub fn holds_with(self, receive_window_bytes: u64) -> bool {
        self.receive_window_bytes()
            .is_some_and(|most| receive_window_bytes <= most)
    }

    /// Returns the largest receive window, in bytes, with which there is nothing to send. Returns
    /// `None` if it is not known.
    pub fn receive_window_bytes(self) -> Option<u64> {
        match self {
            Self::Nothing {
                receive_window_bytes,
            } => Some(receive_window_bytes),
            Self::Unknown | Self::NoData => None,
        }
    }

    /// Returns whether it is known that there is no data to send.
    pub fn lacks_data(self) -> bool {
        self != Self::Unknown
    }

    /// Raises the limit to `offered_bytes`, the window that was offered to the peer. Rounding may
    /// have made this window larger than the limit.
    pub fn cover(&mut self, offered_bytes: u64) {
        if let Self::Nothing {
            receive_window_bytes,
        } = self
        {
            *receive_window_bytes = offered_bytes.max(*receive_window_bytes);
        }
    }

    /// Returns what is still known after an acknowledgment may have become due.
    pub fn without_acks(self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::NoData | Self::Nothing { .. } => Self::NoData,
        }
    }
}
