//! Access of a subflow to the congestion control of its connection.

use crate::cc::{Acked, Congestion, CongestionControl, Context, Window};
use crate::time::Nanos;

/// Gives a subflow access to the congestion control of its connection and to its own window.
#[derive(Debug)]
pub struct Control<'a> {
    cc: &'a mut dyn CongestionControl,
    windows: &'a mut [Window],
    subflow: usize,
}

impl<'a> Control<'a> {
    /// Creates a `Control` for the subflow with the index `subflow`. `windows` holds the windows of
    /// all subflows of the connection, and `cc` is its congestion control.
    pub fn new(
        cc: &'a mut dyn CongestionControl,
        windows: &'a mut [Window],
        subflow: usize,
    ) -> Self {
        Self {
            cc,
            windows,
            subflow,
        }
    }

    /// Returns the congestion window of the subflow.
    pub fn window(&self) -> &Window {
        &self.windows[self.subflow]
    }

    /// Returns a mutable reference to the congestion window of the subflow, with which the engine
    /// updates measurements and reductions.
    pub fn window_mut(&mut self) -> &mut Window {
        &mut self.windows[self.subflow]
    }

    /// Reports to the congestion control that the subflow's data was newly acknowledged at `now`,
    /// as `acked` describes ([`CongestionControl::acked`]).
    pub fn acked(&mut self, now: Nanos, acked: &Acked) {
        self.cc
            .acked(&mut Context::new(now, self.windows, self.subflow), acked);
    }

    /// Reports `congestion` of the subflow at `now` to the congestion control
    /// ([`CongestionControl::congestion`]). First moves `acked_since_loss_bytes` of the window to
    /// `acked_between_losses_bytes`, because a new interval between losses begins.
    pub fn congestion(&mut self, now: Nanos, congestion: Congestion) {
        let window = self.window_mut();
        window.acked_between_losses_bytes = std::mem::take(&mut window.acked_since_loss_bytes);
        let mut context = Context::new(now, self.windows, self.subflow);
        self.cc.congestion(&mut context, congestion);
    }

    /// Reports to the congestion control that the subflow sent a segment with `bytes` of data at
    /// `now` ([`CongestionControl::segment_sent`]).
    pub fn segment_sent(&mut self, now: Nanos, bytes: u32) {
        let mut context = Context::new(now, self.windows, self.subflow);
        self.cc.segment_sent(&mut context, bytes);
    }

    /// Reports to the congestion control that a recovery of the subflow ended at `now`
    /// ([`CongestionControl::recovery_exited`]).
    pub fn recovery_exited(&mut self, now: Nanos) {
        let mut context = Context::new(now, self.windows, self.subflow);
        self.cc.recovery_exited(&mut context);
    }

    /// Reports to the congestion control that the last reduction of the window was spurious and was
    /// undone at `now` ([`CongestionControl::undone`]).
    pub fn undone(&mut self, now: Nanos) {
        let mut context = Context::new(now, self.windows, self.subflow);
        self.cc.undone(&mut context);
    }

    /// Reports to the congestion control that the subflow sends again at `now` after `idle`
    /// nanoseconds without sending ([`CongestionControl::restarted_after_idle`]).
    pub fn restarted_after_idle(&mut self, now: Nanos, idle: Nanos) {
        let mut context = Context::new(now, self.windows, self.subflow);
        self.cc.restarted_after_idle(&mut context, idle);
    }

    /// Returns whether the congestion control alone sets cwnd, without PRR and without a reduction
    /// after idle times ([`CongestionControl::owns_window`]).
    pub fn owns_window(&self) -> bool {
        self.cc.owns_window()
    }

    /// Returns the pacing rate of the subflow in bytes per second, or `None` if the congestion
    /// control does not pace ([`CongestionControl::pacing_rate`]).
    pub fn pacing_rate(&mut self, now: Nanos) -> Option<f64> {
        self.cc
            .pacing_rate(&Context::new(now, self.windows, self.subflow))
    }
}
