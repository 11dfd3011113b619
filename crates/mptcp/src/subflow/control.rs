//! Access of a subflow to the congestion control of its connection.

use crate::cc::{Acked, Congestion, CongestionControl, Context, Window};
use crate::time::Nanos;

/// The congestion control, the windows of all subflows, and the index of this subflow.
#[derive(Debug)]
pub struct Control<'a> {
    cc: &'a mut dyn CongestionControl,
    windows: &'a mut [Window],
    subflow: usize,
}

impl<'a> Control<'a> {
    /// Creates the control of the subflow whose window is `windows[which]`.
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

    /// Returns the window of the subflow.
    pub fn window(&self) -> &Window {
        &self.windows[self.subflow]
    }

    /// Returns the window of the subflow for changes by the engine.
    pub fn window_mut(&mut self) -> &mut Window {
        &mut self.windows[self.subflow]
    }

    /// See [`CongestionControl::acked`].
    pub fn acked(&mut self, now: Nanos, acked: &Acked) {
        self.cc
            .acked(&mut Context::new(now, self.windows, self.subflow), acked);
    }

    /// See [`CongestionControl::congestion`]. Also stores in the window the bytes acknowledged
    /// since the last loss.
    pub fn congestion(&mut self, now: Nanos, congestion: Congestion) {
        let window = self.window_mut();
        window.acked_between_losses_bytes = std::mem::take(&mut window.acked_since_loss_bytes);
        let mut context = Context::new(now, self.windows, self.subflow);
        self.cc.congestion(&mut context, congestion);
    }

    /// See [`CongestionControl::segment_sent`].
    pub fn segment_sent(&mut self, now: Nanos, bytes: u32) {
        let mut context = Context::new(now, self.windows, self.subflow);
        self.cc.segment_sent(&mut context, bytes);
    }

    /// See [`CongestionControl::recovery_exited`].
    pub fn recovery_exited(&mut self, now: Nanos) {
        let mut context = Context::new(now, self.windows, self.subflow);
        self.cc.recovery_exited(&mut context);
    }

    /// See [`CongestionControl::undone`].
    pub fn undone(&mut self, now: Nanos) {
        let mut context = Context::new(now, self.windows, self.subflow);
        self.cc.undone(&mut context);
    }

    /// See [`CongestionControl::restarted_after_idle`].
    pub fn restarted_after_idle(&mut self, now: Nanos, idle: Nanos) {
        let mut context = Context::new(now, self.windows, self.subflow);
        self.cc.restarted_after_idle(&mut context, idle);
    }

    /// See [`CongestionControl::owns_window`].
    pub fn owns_window(&self) -> bool {
        self.cc.owns_window()
    }

    /// See [`CongestionControl::pacing_rate`].
    pub fn pacing_rate(&mut self, now: Nanos) -> Option<f64> {
        self.cc
            .pacing_rate(&Context::new(now, self.windows, self.subflow))
    }
}
