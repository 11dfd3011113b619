//! Forward RTO-Recovery (RFC 5682): determines from the acknowledgments after a retransmission
//! timeout whether the timeout was spurious. F-RTO needs new data to send but no TCP option.

use super::acknowledgment::News;
use super::flight::Record;
use super::{Control, Subflow};
use crate::seq::SeqNr;
use crate::time::Nanos;

/// Segments of new data that step 2b sends.
pub(super) const NEW_SEGMENTS: u32 = 2;

/// The window in segments after a genuine timeout (step 3a).
const WINDOW_SEGMENTS: f64 = 3.0;

/// The next step of F-RTO (RFC 5682).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Frto {
    /// F-RTO is off: lost data is retransmitted.
    #[default]
    Off,
    /// Waits for an acknowledgment of the first segment, which was retransmitted (step 2).
    Retransmission,
    /// Waits for the acknowledgment of new data, which is sent instead of retransmissions (step 3).
    NewData,
}

/// What acknowledgments show about the data that was in flight at the timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// Whether data that was sent once was acknowledged in order.
    arrived_in_order: bool,
    /// Whether data that was sent once was SACKed.
    arrived: bool,
    /// Whether data sent after the timeout arrived.
    is_new: bool,
}

impl Evidence {
    /// Records that `record` was acknowledged for the first time: by SACK if `is_selective`,
    /// otherwise cumulatively. `point` is the end of the flight at the timeout.
    pub fn add(&mut self, record: &Record, is_selective: bool, point: SeqNr) {
        let is_new = record.end().is_after(point);
        let is_original = !is_new && !record.was_retransmitted();
        self.is_new |= is_new;
        self.arrived |= is_original && is_selective;
        self.arrived_in_order |= is_original && !is_selective;
    }
}

impl Subflow {
    /// Applies the next step of F-RTO to an acknowledgment, described by `news`, after a timeout.
    /// Undoes the reduction of the window if the timeout was spurious.
    pub(super) fn judge_timeout(&mut self, now: Nanos, news: &News, control: &mut Control<'_>) {
        let is_blind_duplicate = news.is_duplicate && !self.has_sack;
        match self.recovery.frto {
            Frto::Off => {}
            Frto::Retransmission if is_blind_duplicate => self.recovery.frto = Frto::Off,
            Frto::Retransmission if news.advanced => self.probe_with_new_data(),
            Frto::Retransmission => {}
            Frto::NewData => self.handle_answer(now, news, is_blind_duplicate, control),
        }
    }

    /// Applies step 2. An acknowledgment of the whole flight does not show whether the timeout was
    /// spurious, because the retransmission may have filled a gap.
    fn probe_with_new_data(&mut self) {
        self.recovery.frto = Frto::Off;
        if self.una.is_before(self.recovery.point) {
            self.recovery.frto = Frto::NewData;
            self.recovery.point = self.nxt;
        }
    }

    /// Applies step 3. Old data that now arrives in order was not lost. If only new data arrives,
    /// the old data was lost.
    fn handle_answer(
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
