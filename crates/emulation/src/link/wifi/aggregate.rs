//! Packets of one direction under block acknowledgment: what an A-MPDU carries, what failed, and
//! the order at the receiver (IEEE Std 802.11-2020, section 10.25).

use std::collections::VecDeque;

use experiment::resolved::Aggregation;
use experiment::time::Nanos;

use super::phy::{Phy, Rate};
use crate::link::Packet;
use crate::link::queue::Queued;

/// Delimiter of an MPDU in an A-MPDU.
const DELIMITER_BYTES: u32 = 4;

/// The packets from the first one that the receiver cannot hand up, in order.
pub(super) struct Window<P> {
    mpdus: VecDeque<Mpdu<P>>,
    /// MPDUs that wait for a retransmission or for their first transmission.
    unsent: usize,
    /// IP bytes of these.
    unsent_bytes: u64,
    limits: Aggregation,
}

struct Mpdu<P> {
    packet: Queued<P>,
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

impl<P: Packet> Window<P> {
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
        mut next: impl FnMut() -> Option<Queued<P>>,
    ) -> Carried {
        let most_mpdus = self.limits.max_mpdus.min(terms.max_mpdus);
        let longest = self.limits.max_ppdu_ns.min(terms.longest_ppdu);
        let most_bytes = self.limits.max_bytes.min(terms.rate.most_bytes(longest));
        let mut carried = Carried::default();
        let mut index = 0;
        while carried.mpdus < most_mpdus {
            if index == self.mpdus.len() {
                if self.mpdus.len() >= self.limits.max_mpdus as usize {
                    break;
                }
                let Some(packet) = next() else {
                    carried.has_room = true;
                    break;
                };
                self.push(packet);
            }
            let mpdu = &mut self.mpdus[index];
            index += 1;
            if mpdu.state != State::Waiting {
                continue;
            }
            let ip_bytes = mpdu.packet.packet.ip_bytes();
            let bytes = subframe_bytes(terms.phy.mpdu_bytes(ip_bytes));
            if carried.mpdus > 0 && carried.bytes + bytes > most_bytes {
                break;
            }
            mpdu.state = State::Sent;
            self.unsent -= 1;
            self.unsent_bytes -= u64::from(ip_bytes);
            carried.mpdus += 1;
            carried.bytes += bytes;
        }
        if carried.mpdus == 1 {
            carried.bytes = self.only_sent(terms.phy);
        }
        carried
    }

    #[inline]
    fn push(&mut self, packet: Queued<P>) {
        self.unsent += 1;
        self.unsent_bytes += u64::from(packet.packet.ip_bytes());
        self.mpdus.push_back(Mpdu {
            packet,
            tries: 0,
            state: State::Waiting,
        });
    }

    /// Returns the length of the only MPDU of a transmission, which needs no delimiter.
    fn only_sent(&self, phy: &Phy) -> u32 {
        let sent = self.mpdus.iter().find(|mpdu| mpdu.state == State::Sent);
        sent.map_or(0, |mpdu| phy.mpdu_bytes(mpdu.packet.packet.ip_bytes()))
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
            self.unsent_bytes += u64::from(mpdu.packet.packet.ip_bytes());
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
                self.unsent_bytes += u64::from(mpdu.packet.packet.ip_bytes());
            }
        }
        outcome
    }

    /// Removes and returns the next packet that the receiver hands up, or that was given up, and
    /// whether the receiver has it.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Queued<P>, bool)> {
        let first = self.mpdus.front()?.state;
        if matches!(first, State::Waiting | State::Sent) {
            return None;
        }
        let mpdu = self.mpdus.pop_front()?;
        Some((mpdu.packet, first == State::Received))
    }

    /// Removes and returns all packets.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Queued<P>> {
        (self.unsent, self.unsent_bytes) = (0, 0);
        self.mpdus.drain(..).map(|mpdu| mpdu.packet)
    }
}

pub(super) fn subframe_bytes(mpdu_bytes: u32) -> u32 {
    (mpdu_bytes.saturating_add(DELIMITER_BYTES)).next_multiple_of(4)
}
