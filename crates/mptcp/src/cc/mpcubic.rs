//! `x-mpcubic`: CUBIC (RFC 9438) whose increase is shared among subflows in proportion to their
//! rates, but not slower than LIA. Published multipath CUBICs differ from each other, and their
//! definitions were not accessible; this one is mptcplab's own. On n equal paths, the windows
//! together grow like one CUBIC; on a single path it is CUBIC.

use super::Control;
use super::cubic_rfc9438::Cubic;
use super::fluid;
use super::parameters;
use super::parameters::Parameters;
use super::paths::{Path, Paths};
use super::{Acked, Congestion, CongestionControl, Context, lia};
use crate::algorithm::Description;

/// Its name, parameters and constructor.
pub(in crate::cc) const ROW: Control = Control {
    description: Description {
        name: "x-mpcubic",
        aliases: &[],
        summary: "Divides CUBIC's increase among the subflows in proportion to their rates, but never grows more slowly than lia",
        source: "mptcplab, on RFC 9438",
        parameters: parameters::CUBIC,
    },
    make: control,
    fluid: Err(fluid::GROWS_WITH_TIME),
};

/// Returns the number of packets by which the window of `paths[this]` grows per acknowledged
/// packet. `cubic_increase` is the same number for CUBIC alone. The result is the share of
/// `cubic_increase` by rate, but at least the increase of LIA.
pub fn increase(cubic_increase: f64, paths: &[Path], this: usize) -> f64 {
    let total_rate: f64 = paths.iter().map(Path::rate).sum();
    let share = paths[this].rate() / total_rate;
    (cubic_increase * share).max(lia::increase(paths, this))
}

#[derive(Debug)]
struct MpCubic {
    cubic: Cubic,
    paths: Paths,
}

impl CongestionControl for MpCubic {
    fn subflow_added(&mut self, context: &mut Context<'_>) {
        self.cubic.subflow_added(context);
    }

    fn subflow_removed(&mut self, subflow: usize) {
        self.cubic.subflow_removed(subflow);
    }

    fn segment_sent(&mut self, context: &mut Context<'_>, bytes: u32) {
        self.cubic.segment_sent(context, bytes);
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        let paths = &mut self.paths;
        self.cubic
            .acked_coupled(context, acked, |context, cubic_bytes, acked_bytes| {
                let (paths, this) = paths.of(context);
                if paths.len() == 1 {
                    return cubic_bytes;
                }
                increase(cubic_bytes / acked_bytes, paths, this) * acked_bytes
            });
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        self.cubic.congestion(context, congestion);
    }

    fn undone(&mut self, context: &mut Context<'_>) {
        self.cubic.undone(context);
    }

    fn state(&self, subflow: usize) -> Vec<(&'static str, f64)> {
        self.cubic.state(subflow)
    }
}

pub(super) fn control(parameters: &Parameters) -> Box<dyn CongestionControl> {
    Box::new(MpCubic {
        cubic: Cubic::new(parameters),
        paths: Paths::default(),
    })
}
