//! Packets of one direction under block acknowledgment: what an A-MPDU carries, what failed, and
//! the order at the receiver (IEEE Std 802.11-2020, section 10.25).

use std::collections::VecDeque;

use experiment::resolved::Aggregation;
use experiment::time::Nanos;

use super::phy::{Phy, Rate};
use crate::link::pipe::Sizes;

/// Delimiter of an MPDU in an A-MPDU.
const DELIMITER_BYTES: u32 = 4;

/// What is known of the packets from the first one that the receiver cannot hand up, in order. The
/// packets themselves are in service at their station.
pub(super) struct Window {
    mpdus: VecDeque<Mpdu>,
    /// MPDUs that wait for a retransmission or for their first transmission.
    unsent: usize,
    /// IP bytes of these.
    unsent_bytes: u64,
    limits: Aggregation,
}

struct Mpdu {
    sizes: Sizes,
    tries: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It waits for a transmission.
    Waiting,
    /// It is in the transmission on the channel.
    Sent,
    /// The receiver has it.
    Received,
    /// It was tried too often.
    GivenUp,
}

/// What a transmission carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) mpdus: u32,
    pub(super) bytes: u32,
    /// Whether it would carry another packet if there were one.
    pub(super) has_room: bool,
}

impl Carried {
    /// Takes another packet, unless that exceeds the budget. A single packet may have any length.
    #[inline]
    fn take(&mut self, sizes: Sizes, terms: &Terms<'_>, budget: Budget) -> bool {
        let bytes = subframe_bytes(terms.phy.mpdu_bytes(sizes.ip_bytes));
        let is_too_long = self.mpdus > 0 && self.bytes + bytes > budget.bytes;
        if is_too_long || self.mpdus >= budget.mpdus {
            return false;
        }
        self.mpdus += 1;
        self.bytes += bytes;
        true
    }
}

/// What a transmission may carry at most.
#[derive(Clone, Copy, Debug)]
struct Budget {
    mpdus: u32,
    bytes: u32,
}

/// The rules for one transmission.
pub(super) struct Terms<'a> {
    pub(super) phy: &'a Phy,
    pub(super) rate: &'a Rate,
    pub(super) longest_ppdu: Nanos,
    pub(super) max_mpdus: u32,
}

/// The result of a transmission, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) received: u32,
    pub(super) failed: u32,
    /// Of the failed ones.
    pub(super) given_up: u32,
}

impl Window {
    pub(super) fn new(limits: Aggregation) -> Self {
        Self {
            mpdus: VecDeque::new(),
            unsent: 0,
            unsent_bytes: 0,
            limits,
        }
    }

    /// Returns the number of packets in the window.
    pub(super) fn packets(&self) -> u64 {
        self.mpdus.len() as u64
    }

    /// Returns the IP bytes of the packets that wait for a transmission.
    pub(super) fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    /// Puts as many packets into a transmission as its terms allow: those that wait in the window
    /// first, then those that `next` returns.
    pub(super) fn fill(
        &mut self,
        terms: &Terms<'_>,
        mut next: impl FnMut() -> Option<Sizes>,
    ) -> Carried {
        let budget = self.budget(terms);
        let mut carried = Carried::default();
        let is_waiting = |mpdu: &&mut Mpdu| mpdu.state == State::Waiting;
        for mpdu in self.mpdus.iter_mut().filter(is_waiting) {
            if !carried.take(mpdu.sizes, terms, budget) {
                break;
            }
            mpdu.state = State::Sent;
            self.unsent -= 1;
            self.unsent_bytes -= u64::from(mpdu.sizes.ip_bytes);
        }
        while self.unsent == 0
            && carried.mpdus < budget.mpdus
            && self.mpdus.len() < self.limits.max_mpdus as usize
        {
            let Some(sizes) = next() else {
                carried.has_room = true;
                break;
            };
            let is_sent = carried.take(sizes, terms, budget);
            self.push(sizes, is_sent);
        }
        if carried.mpdus == 1 {
            carried.bytes = self.only_sent(terms.phy);
        }
        carried
    }

    /// Returns what a transmission may carry at most.
    fn budget(&self, terms: &Terms<'_>) -> Budget {
        let longest = self.limits.max_ppdu_ns.min(terms.longest_ppdu);
        Budget {
            mpdus: self.limits.max_mpdus.min(terms.max_mpdus),
            bytes: self.limits.max_bytes.min(terms.rate.most_bytes(longest)),
        }
    }

    /// Puts a packet into the window that is sent, or waits for the next transmission.
    #[inline]
    fn push(&mut self, sizes: Sizes, is_sent: bool) {
        if !is_sent {
            self.unsent += 1;
            self.unsent_bytes += u64::from(sizes.ip_bytes);
        }
        let state = if is_sent { State::Sent } else { State::Waiting };
        self.mpdus.push_back(Mpdu {
            sizes,
            tries: 0,
            state,
        });
    }

    /// Returns the length of the only MPDU of a transmission, which needs no delimiter.
    fn only_sent(&self, phy: &Phy) -> u32 {
        let sent = self.mpdus.iter().find(|mpdu| mpdu.state == State::Sent);
        sent.map_or(0, |mpdu| phy.mpdu_bytes(mpdu.sizes.ip_bytes))
    }

    /// Takes the packets of a transmission back, as if it had not begun.
    pub(super) fn take_back(&mut self) {
        for mpdu in self
            .mpdus
            .iter_mut()
            .filter(|mpdu| mpdu.state == State::Sent)
        {
            mpdu.state = State::Waiting;
            self.unsent += 1;
            self.unsent_bytes += u64::from(mpdu.sizes.ip_bytes);
        }
    }

    /// Ends a transmission. Packets of which `fails` returns true wait again, unless they have been
    /// tried `retry_limit` times.
    pub(super) fn conclude(
        &mut self,
        retry_limit: u32,
        mut fails: impl FnMut() -> bool,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        for mpdu in self
            .mpdus
            .iter_mut()
            .filter(|mpdu| mpdu.state == State::Sent)
        {
            mpdu.tries += 1;
            if !fails() {
                outcome.received += 1;
                mpdu.state = State::Received;
                continue;
            }
            outcome.failed += 1;
            if mpdu.tries >= retry_limit {
                outcome.given_up += 1;
                mpdu.state = State::GivenUp;
            } else {
                mpdu.state = State::Waiting;
                self.unsent += 1;
                self.unsent_bytes += u64::from(mpdu.sizes.ip_bytes);
            }
        }
        outcome
    }

    /// Removes the next packet that the receiver hands up, or that was given up. Returns its bytes
    /// on the link, and whether the receiver has it.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u32, bool)> {
        let first = self.mpdus.front()?.state;
        if matches!(first, State::Waiting | State::Sent) {
            return None;
        }
        let mpdu = self.mpdus.pop_front()?;
        Some((mpdu.sizes.wire_bytes, first == State::Received))
    }

    /// Removes all packets.
    pub(super) fn clear(&mut self) {
        (self.unsent, self.unsent_bytes) = (0, 0);
        self.mpdus.clear();
    }
}

pub(super) fn subframe_bytes(mpdu_bytes: u32) -> u32 {
    (mpdu_bytes.saturating_add(DELIMITER_BYTES)).next_multiple_of(4)
}
