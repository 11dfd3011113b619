//! Parameters of all congestion controls, with their names and defaults.

use super::{Context, reno};
use crate::algorithm::{Parameter, Value};

/// Parameters of all congestion controls. Each one uses only its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Whether congestion avoidance counts acknowledged bytes or acknowledgments.
    pub ack_counting: AckCounting,
    /// Smallest slow start threshold in segments. If `None`, it is 2 (RFC 5681, section 3.1), but 1
    /// for OLIA and BALIA with several subflows, as in their drafts.
    pub ssthresh_floor_packets: Option<f64>,
    /// Largest growth of the window by one acknowledgment in slow start, in segments: 1 in RFC
    /// 5681, 2 in RFC 3465.
    pub slow_start_limit_packets: f64,
    /// Parameters of CUBIC. Used by `cubic`, `cubic-rfc9438` and `x-mpcubic`.
    pub cubic: Cubic,
    /// Parameters of BBR. Used by `bbr`.
    pub bbr: Bbr,
    /// Parameters of LIA. Used by `lia`.
    pub lia: Lia,
    /// Parameters of wVegas. Used by `wvegas` and `wvegas-oot`.
    pub wvegas: Wvegas,
    /// Parameters of EWTCP. Used by `ewtcp`.
    pub ewtcp: Ewtcp,
    /// Parameters of SEMICOUPLED. Used by `semicoupled`.
    pub semicoupled: Semicoupled,
    /// Parameters of the constant window. Used by `fixed_cwnd`.
    pub fixed_cwnd: FixedCwnd,
    /// Parameters of Dynamic Window Coupling. Used by `x-dwc`.
    pub dwc: Dwc,
    /// Parameters of the congestion controls of the out-of-tree kernel. Used by `lia-oot`.
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

/// What congestion avoidance counts.
pub(super) const ACK_COUNTING: Parameter<Parameters> = Parameter {
    name: "ack_counting",
    unit: "",
    meaning: "what congestion avoidance counts: acknowledged packets or acknowledgments",
    computed_default: None,
    value: Value::Choice {
        words: &["packets", "acks"],
        get: |given| match given.ack_counting {
            AckCounting::Packets => 0,
            AckCounting::Acks => 1,
        },
        set: |given, counting| {
            given.ack_counting = match counting {
                0 => AckCounting::Packets,
                _ => AckCounting::Acks,
            }
        },
    },
};

/// The smallest slow start threshold.
pub(super) const SSTHRESH_FLOOR: Parameter<Parameters> = Parameter {
    name: "ssthresh_floor_packets",
    unit: "packets",
    meaning: "the smallest slow start threshold",
    computed_default: None,
    value: Value::Number {
        least: 1.0,
        most: 1000.0,
        get: |given| {
            let own = given.ssthresh_floor_packets;
            own.or(Some(reno::SSTHRESH_FLOOR_PACKETS))
        },
        set: |given, packets| given.ssthresh_floor_packets = Some(packets),
    },
};

/// The same as [`SSTHRESH_FLOOR`], for OLIA and BALIA.
const LOW_SSTHRESH_FLOOR: Parameter<Parameters> = Parameter {
    computed_default: Some("1 with several subflows, else 2"),
    ..SSTHRESH_FLOOR
};

/// The largest growth of a window by one acknowledgment in slow start.
pub(super) const SLOW_START_LIMIT: Parameter<Parameters> = Parameter {
    name: "slow_start_limit_packets",
    unit: "packets",
    meaning: "the most by which one acknowledgment can grow the window in slow start: 1 in RFC 5681, 2 in RFC 3465",
    computed_default: Some("no limit"),
    value: Value::Number {
        least: 1.0,
        most: 1000.0,
        get: |given| Some(given.slow_start_limit_packets),
        set: |given, packets| given.slow_start_limit_packets = packets,
    },
};

/// Parameters of controls that differ from Reno only in how windows grow and shrink.
pub(super) const WINDOW_BASED: &[Parameter<Parameters>] =
    &[ACK_COUNTING, SSTHRESH_FLOOR, SLOW_START_LIMIT];

/// The same as [`WINDOW_BASED`], with the lower threshold of OLIA and BALIA.
pub(super) const WINDOW_BASED_LOW_FLOOR: &[Parameter<Parameters>] =
    &[ACK_COUNTING, LOW_SSTHRESH_FLOOR, SLOW_START_LIMIT];

/// Parameters of the variants of CUBIC.
pub(super) const CUBIC: &[Parameter<Parameters>] = &[
    SSTHRESH_FLOOR,
    SLOW_START_LIMIT,
    Parameter {
        name: "c",
        unit: "packets/s^3",
        meaning: "the steepness of the window's curve (RFC 9438, section 5); cubic rounds it to the nearest multiple of 10/1024, as Linux does",
        computed_default: None,
        value: Value::Number {
            least: 0.001,
            most: 100.0,
            get: |given| Some(given.cubic.c),
            set: |given, c| given.cubic.c = c,
        },
    },
    Parameter {
        name: "beta",
        unit: "",
        meaning: "the fraction of the window that remains after a loss (RFC 9438, section 4.6); cubic rounds it to the nearest multiple of 1/1024, as Linux does",
        computed_default: None,
        value: Value::Number {
            least: 0.1,
            most: 0.95,
            get: |given| Some(given.cubic.beta),
            set: |given, beta| given.cubic.beta = beta,
        },
    },
    Parameter {
        name: "fast_convergence",
        unit: "",
        meaning: "whether a flow gives up bandwidth if its latest loss came at a smaller window than the one before (RFC 9438, section 4.7)",
        computed_default: None,
        value: Value::Flag {
            get: |given| given.cubic.fast_convergence,
            set: |given, gives_way| given.cubic.fast_convergence = gives_way,
        },
    },
    Parameter {
        name: "slow_start",
        unit: "",
        meaning: "what ends slow start: the first loss, HyStart as in Linux, or HyStart++ (RFC 9406)",
        computed_default: None,
        value: Value::Choice {
            words: &["until_loss", "hystart", "hystart_plus_plus"],
            get: |given| match given.cubic.slow_start {
                SlowStart::UntilLoss => 0,
                SlowStart::HyStart => 1,
                SlowStart::HyStartPlusPlus => 2,
            },
            set: |given, end| {
                given.cubic.slow_start = match end {
                    0 => SlowStart::UntilLoss,
                    1 => SlowStart::HyStart,
                    _ => SlowStart::HyStartPlusPlus,
                }
            },
        },
    },
];

impl Parameters {
    pub(super) fn growth(&self) -> Growth {
        Growth {
            ack_counting: self.ack_counting,
            ssthresh_floor_packets: self.ssthresh_floor_packets,
            slow_start_limit_packets: self.slow_start_limit_packets,
        }
    }
}

/// Parameters that all window-based controls share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    ack_counting: AckCounting,
    pub(super) ssthresh_floor_packets: Option<f64>,
    pub(super) slow_start_limit_packets: f64,
}

impl Growth {
    /// Returns the bytes that congestion avoidance counts for an acknowledgment of `bytes`.
    pub(super) fn counted_bytes(&self, bytes: f64, context: &Context<'_>) -> f64 {
        match self.ack_counting {
            AckCounting::Packets => bytes,
            AckCounting::Acks => f64::from(context.this().mss_bytes),
        }
    }
}

/// What congestion avoidance counts to grow a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckCounting {
    /// Acknowledged bytes, in units of segments (RFC 3465). Papers mean this by "per ACK".
    Packets,
    /// Acknowledgments, each as one segment. The window grows more slowly if acknowledgments are
    /// delayed.
    Acks,
}

/// Parameters of CUBIC (RFC 9438). `cubic` rounds them to the nearest 1024ths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cubic {
    /// Steepness C of the curve in segments per cubic second (RFC 9438, section 5).
    pub c: f64,
    /// Fraction of the window that remains after a loss (RFC 9438, section 4.6).
    pub beta: f64,
    /// Whether a flow yields capacity if it has a loss before it reaches its former window (RFC
    /// 9438, section 4.7).
    pub fast_convergence: bool,
    /// The condition under which slow start ends.
    pub slow_start: SlowStart,
}

/// The conditions under which slow start ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowStart {
    /// Slow start ends at the first loss (RFC 5681).
    UntilLoss,
    /// Slow start ends when delays grow or acknowledgments fill half a round trip (HyStart, as in
    /// Linux).
    HyStart,
    /// Slow start ends when delays stay increased for several rounds (HyStart++, RFC 9406).
    HyStartPlusPlus,
}

/// Parameters of BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bbr {
    /// Seed for the choice of the phase in which ProbeBW starts. Connections need different seeds,
    /// because they would otherwise probe at the same time.
    pub seed: u64,
}

/// Parameters of LIA (RFC 6356).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lia {
    /// Which published form of LIA to use.
    pub form: LiaForm,
}

/// The published forms of LIA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiaForm {
    /// RFC 6356, section 3, in floating-point arithmetic.
    Real,
    /// RFC 6356, section 4.1, in integer arithmetic.
    Integer {
        /// `alpha_scale` of RFC 6356: the factor by which alpha is multiplied, 512 in the RFC.
        alpha_scale: u32,
    },
    /// Wischik et al., NSDI 2011: the smallest increase over all sets of paths that contain the
    /// path. The RFC considers only the set of all paths and the path alone.
    Nsdi,
}

/// Parameters of wVegas. All are whole numbers of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wvegas {
    /// Number of packets that all subflows together aim to keep queued in the network.
    pub total_alpha_packets: u32,
    /// Number of packets that a subflow aims to keep queued before its weight is known.
    pub initial_alpha_packets: u32,
    /// Number of queued packets above which slow start ends.
    pub gamma_packets: u32,
}

/// Parameters of EWTCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ewtcp {
    /// Weight of each subflow. If `None`, the weight is 1/n^2 for n subflows.
    pub a: Option<f64>,
}

/// Parameters of SEMICOUPLED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Semicoupled {
    /// Aggressiveness of all subflows together. The window grows by a/W packets per acknowledged
    /// packet, where W is the sum of all windows in packets.
    pub a: f64,
}

/// Parameters of the constant window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedCwnd {
    /// The window of each subflow in segments.
    pub packets: f64,
}

/// Parameters of Dynamic Window Coupling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dwc {
    /// The threshold of the smoothed round-trip time above which a subflow counts as congested, as
    /// a fraction of the way from the smallest (0) to the largest (1) smoothed round-trip time of
    /// the subflow.
    pub delay_fraction: f64,
}

/// Parameters of the out-of-tree kernel's congestion controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oot {
    /// Order of the kernel's list of subflows. Of paths that its integer arithmetic makes equally
    /// good, `lia-oot` uses the last in this order.
    pub subflow_order: SubflowOrder,
}

/// The order of subflows in the kernel's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubflowOrder {
    /// The latest subflow first, because v0.8x and v0.9x insert at the head.
    NewestFirst,
    /// The initial subflow first.
    OldestFirst,
}
