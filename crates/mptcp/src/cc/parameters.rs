//! Parameters of all congestion controls, their names and defaults in one place.

use super::Context;

/// What a description can set. A control reads what concerns it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// What congestion avoidance counts.
    pub ack_counting: AckCounting,
    /// The least slow start threshold in segments. Without it each control has its own: 2 (RFC 5681, section 3.1),
    /// but 1 for OLIA and BALIA while there are several subflows, as their drafts say.
    pub ssthresh_floor_packets: Option<f64>,
    /// The most segments by which one acknowledgment grows the window in slow start: 1 in RFC 5681, 2 in RFC 3465.
    pub slow_start_limit_packets: f64,
    /// CUBIC, Linux's and the RFC's, also that of `x-mpcubic`.
    pub cubic: Cubic,
    /// BBR.
    pub bbr: Bbr,
    /// LIA.
    pub lia: Lia,
    /// wVegas, also `wvegas-oot`.
    pub wvegas: Wvegas,
    /// EWTCP.
    pub ewtcp: Ewtcp,
    /// SEMICOUPLED.
    pub semicoupled: Semicoupled,
    /// The constant window.
    pub fixed_cwnd: FixedCwnd,
    /// Dynamic Window Coupling.
    pub dwc: Dwc,
    /// The controls of the out-of-tree kernel.
    pub oot: Oot,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            ack_counting: AckCounting::Packets,
            ssthresh_floor_packets: None,
            slow_start_limit_packets: f64::INFINITY,
            cubic: Cubic {
                c: 0.4,
                beta: 0.7,
                fast_convergence: true,
                slow_start: SlowStart::HyStart,
            },
            bbr: Bbr { seed: 0 },
            lia: Lia {
                form: LiaForm::Real,
            },
            wvegas: Wvegas {
                total_alpha_packets: 10,
                initial_alpha_packets: 2,
                gamma_packets: 1,
            },
            ewtcp: Ewtcp { a: None },
            semicoupled: Semicoupled { a: 1.0 },
            fixed_cwnd: FixedCwnd { packets: 10.0 },
            dwc: Dwc {
                delay_fraction: 0.5,
            },
            oot: Oot {
                subflow_order: SubflowOrder::NewestFirst,
            },
        }
    }
}

impl Parameters {
    pub(super) fn growth(&self) -> Growth {
        Growth {
            ack_counting: self.ack_counting,
            ssthresh_floor_packets: self.ssthresh_floor_packets,
            slow_start_limit_packets: self.slow_start_limit_packets,
        }
    }
}

/// Those that all controls of windows have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    ack_counting: AckCounting,
    pub(super) ssthresh_floor_packets: Option<f64>,
    pub(super) slow_start_limit_packets: f64,
}

impl Growth {
    /// What congestion avoidance counts of `bytes` that one acknowledgment brought.
    pub(super) fn counted_bytes(&self, bytes: f64, context: &Context<'_>) -> f64 {
        match self.ack_counting {
            AckCounting::Packets => bytes,
            AckCounting::Acks => f64::from(context.this().mss_bytes),
        }
    }
}

/// What congestion avoidance counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckCounting {
    /// Bytes acknowledged, in segments (RFC 3465): what the papers mean by "per ACK".
    Packets,
    /// Acknowledgments, each as one segment: slower when they are delayed.
    Acks,
}

/// CUBIC (RFC 9438). Linux's has the nearest of its fractions of 1024.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cubic {
    /// How steep the curve is, in segments per cubic second (section 5).
    pub c: f64,
    /// What is left of the window after a loss (section 4.6).
    pub beta: f64,
    /// Whether a flow that lost before it reached its former window gives way (section 4.7).
    pub fast_convergence: bool,
    /// How slow start ends.
    pub slow_start: SlowStart,
}

/// How slow start ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowStart {
    /// With the first loss (RFC 5681).
    UntilLoss,
    /// When delays grow or acknowledgments fill half a round trip, as in Linux.
    HyStart,
    /// When delays grow for several rounds (RFC 9406).
    HyStartPlusPlus,
}

/// BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bbr {
    /// Chooses the phase in which ProbeBW begins; connections need different ones not to probe all at once.
    pub seed: u64,
}

/// LIA (RFC 6356).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lia {
    /// Which of its forms.
    pub form: LiaForm,
}

/// The forms in which LIA was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiaForm {
    /// RFC 6356, section 3, in real numbers.
    Real,
    /// RFC 6356, section 4.1, in integers; alpha is scaled by so much (512 there).
    Integer {
        /// `alpha_scale`.
        alpha_scale: u32,
    },
    /// Wischik et al., NSDI 2011: the least increase over all sets of paths that contain the path, where the RFC
    /// looks only at the set of all and at the path alone.
    Nsdi,
}

/// wVegas. Queued packets are counted whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wvegas {
    /// Packets that all subflows together keep queued.
    pub total_alpha_packets: u32,
    /// Packets that a subflow keeps queued before it knows its weight.
    pub initial_alpha_packets: u32,
    /// Packets queued at which slow start ends.
    pub gamma_packets: u32,
}

/// EWTCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ewtcp {
    /// The weight of each subflow; without it 1/n^2, n being the number of subflows.
    pub a: Option<f64>,
}

/// SEMICOUPLED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Semicoupled {
    /// How aggressive all subflows together are.
    pub a: f64,
}

/// The constant window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedCwnd {
    /// The window in segments.
    pub packets: f64,
}

/// Dynamic Window Coupling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dwc {
    /// Where between its least and largest delay a subflow has to be to count as congested.
    pub delay_fraction: f64,
}

/// What the out-of-tree kernel does by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oot {
    /// The order of its list of subflows: LIA takes the last of those that its integers make equal.
    pub subflow_order: SubflowOrder,
}

/// An order of subflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubflowOrder {
    /// The latest subflow first: v0.8x and v0.9x insert at the head.
    NewestFirst,
    /// The initial subflow first.
    OldestFirst,
}
