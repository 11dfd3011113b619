//! Forward RTO-Recovery (RFC 5682): whether a retransmission timeout was a mistake, told by what is acknowledged after it. It
//! needs no option of TCP, but new data to send.

use super::acknowledgment::News;
use super::flight::Record;
use super::{Control, Subflow};
use crate::seq::SeqNr;
use crate::time::Nanos;

/// Segments of new data that are sent to learn more (step 2b).
pub(super) const NEW_SEGMENTS: u32 = 2;

/// The window in segments after a timeout that was none by mistake (step 3a).
const WINDOW_SEGMENTS: f64 = 3.0;

/// What is waited for after a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Frto {
    /// Nothing: what is lost is sent again.
    #[default]
    Off,
    /// That the first segment, which was sent again, is acknowledged (step 2).
    Retransmission,
    /// What comes next; meanwhile new data goes out in place of what may be lost (step 3).
    NewData,
}

/// What an acknowledgment says of the data in flight at the timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// Data that was sent once is acknowledged in order.
    arrived_in_order: bool,
    /// Such data is reported out of order.
    arrived: bool,
    /// Data that was sent after the timeout has arrived.
    is_new: bool,
}

impl Evidence {
    /// A record is newly acknowledged, or reported; `point` is where the flight ended at the timeout.
    pub fn add(&mut self, record: &Record, is_selective: bool, point: SeqNr) {
        let is_new = record.end().is_after(point);
        let is_original = !is_new && !record.was_retransmitted();
        self.is_new |= is_new;
        self.arrived |= is_original && is_selective;
        self.arrived_in_order |= is_original && !is_selective;
    }
}

impl Subflow {
    /// An acknowledgment after a timeout.
    pub(super) fn judge_timeout(&mut self, now: Nanos, news: &News, control: &mut Control<'_>) {
        let is_blind_duplicate = news.is_duplicate && !self.has_sack;
        match self.recovery.frto {
            Frto::Off => {}
            Frto::Retransmission if is_blind_duplicate => self.recovery.frto = Frto::Off,
            Frto::Retransmission if news.advanced => self.ask_with_new_data(),
            Frto::Retransmission => {}
            Frto::NewData => self.take_answer(now, news, is_blind_duplicate, control),
        }
    }

    /// Step 2: an acknowledgment of the whole flight says nothing about it, as the segment sent again may have filled a hole.
    fn ask_with_new_data(&mut self) {
        self.recovery.frto = Frto::Off;
        if self.una.is_before(self.recovery.point) {
            self.recovery.frto = Frto::NewData;
            self.recovery.point = self.nxt;
        }
    }

    /// Step 3: what comes in order now was never lost. If only new data arrives, the old is.
    fn take_answer(
        &mut self,
        now: Nanos,
        news: &News,
        is_blind_duplicate: bool,
        control: &mut Control<'_>,
    ) {
        let evidence = news.evidence;
        if evidence.arrived_in_order || (evidence.arrived && !evidence.is_new) {
            self.undo(now, control);
            self.recovery.frto = Frto::Off;
        } else if evidence.is_new || is_blind_duplicate {
            self.recovery.frto = Frto::Off;
            if !control.owns_window() {
                let window = control.window_mut();
                let most = WINDOW_SEGMENTS * f64::from(window.mss_bytes);
                window.cwnd_bytes = window.cwnd_bytes.min(most);
            }
        }
    }
}
