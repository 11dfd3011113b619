//! One direction of a link: rate, delay, loss, queue.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::trace::Trace;
use crate::time::Nanos;

/// The parameters of one direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// Serialization rate in bit/s, with `overhead_bytes` counted. `None` if infinitely fast or
    /// given by `trace`.
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate_bps: Option<u64>,
    /// Bytes per packet that the rate covers in addition to the IP length, at most 65535.
    pub overhead_bytes: u32,
    /// How the link layer frames a packet and its overhead.
    pub framing: Framing,
    /// Propagation delay.
    pub delay_ns: Nanos,
    /// Uniform extra delay in [0, `jitter_ns`).
    pub jitter_ns: Nanos,
    /// Whether jitter may reorder packets.
    pub reorder: bool,
    /// The loss model.
    pub loss: Loss,
    /// Where packets are lost.
    pub loss_at: LossPlace,
    /// The queue discipline.
    pub queue: Queue,
    /// Capacity, delay and loss over time.
    #[serde(deserialize_with = "Option::deserialize")]
    pub trace: Option<Trace>,
}

/// How the link layer sends a packet, including its overhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// As it is.
    Plain,
    /// In cells of 53 bytes, 48 of which carry data; the last cell is padded (ITU-T I.361,
    /// I.363.5).
    Atm,
    /// With one additional byte for each started block of 64 (IEEE 802.3, 61.3.3; ITU-T G.992.3,
    /// annex N).
    Ptm,
}

impl Framing {
    /// Returns the bytes on the wire of a packet that has `bytes`, overhead included.
    #[inline]
    pub fn wire_bytes(self, bytes: u32) -> u32 {
        match self {
            Self::Plain => bytes,
            Self::Atm => bytes.div_ceil(48).saturating_mul(53),
            Self::Ptm => bytes.saturating_add(bytes.div_ceil(64)),
        }
    }
}

/// A loss model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Loss {
    /// Nothing is lost.
    None {},
    /// Each packet is lost independently.
    Bernoulli {
        /// Probability of loss, 0 to 1.
        probability: f64,
    },
    /// A model with two states, each with its own probability of loss.
    GilbertElliott(GilbertElliott),
    /// Exactly the listed packets are lost.
    List {
        /// Indices, from 0, among the packets that reach the place of loss.
        packets: Vec<u64>,
    },
}

/// The Gilbert-Elliott model: a Markov chain of two states that steps once per packet and starts in
/// the good state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability per packet of a change from the good to the bad state.
    pub good_to_bad: f64,
    /// Probability per packet of a change from the bad to the good state.
    pub bad_to_good: f64,
    /// Probability of loss in the good state.
    pub loss_good: f64,
    /// Probability of loss in the bad state.
    pub loss_bad: f64,
}

/// Where packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossPlace {
    /// Before the queue. A lost packet uses no capacity of the link.
    Ingress,
    /// After the serializer. A lost packet has used its share of the link.
    Egress,
}

/// A queue discipline. Limits apply to queued packets, not to packets in service or in flight.
/// `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Queue {
    /// First in, first out. A packet that does not fit is dropped.
    DropTail(DropTail),
    /// Controlled delay (RFC 8289).
    Codel(Codel),
    /// Several flow queues, each under CoDel (RFC 8290).
    FqCodel(FqCodel),
    /// Random early detection (Floyd and Jacobson, 1993).
    Red(Red),
    /// Proportional integral controller enhanced (RFC 8033).
    Pie(Pie),
}

/// Parameters of drop-tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropTail {
    /// Largest number of packets queued.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit_packets: Option<u64>,
    /// Largest number of bytes queued, overhead included.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit_bytes: Option<u64>,
}

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Codel {
    /// Largest number of packets queued.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit_packets: Option<u64>,
    /// Largest number of bytes queued, overhead included.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit_bytes: Option<u64>,
    /// Acceptable standing queue delay.
    pub target_ns: Nanos,
    /// How long the delay must stay above the target before the first drop.
    pub interval_ns: Nanos,
}

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FqCodel {
    /// Largest number of packets queued, over all flows.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit_packets: Option<u64>,
    /// Largest number of bytes queued, overhead included, over all flows.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit_bytes: Option<u64>,
    /// Acceptable standing queue delay of each flow.
    pub target_ns: Nanos,
    /// How long the delay of a flow must stay above the target before its first drop.
    pub interval_ns: Nanos,
    /// Number of flow queues, 1 to 65536.
    pub flows: u32,
    /// Bytes a flow may send per round, at least 256.
    pub quantum_bytes: u32,
}

/// Parameters of RED, in byte mode.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Red {
    /// Largest number of packets queued.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit_packets: Option<u64>,
    /// Largest number of bytes queued, overhead included.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit_bytes: Option<u64>,
    /// Average queue length in bytes below which nothing is dropped.
    pub min_bytes: u64,
    /// Average queue length in bytes at or above which everything is dropped.
    pub max_bytes: u64,
    /// Drop probability just below `max_bytes`.
    pub max_probability: f64,
    /// Weight of a new sample in the average, in (0, 1].
    pub weight: f64,
}

/// Parameters of PIE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pie {
    /// Largest number of packets queued.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit_packets: Option<u64>,
    /// Largest number of bytes queued, overhead included.
    #[serde(deserialize_with = "Option::deserialize")]
    pub limit_bytes: Option<u64>,
    /// Target queue delay.
    pub target_ns: Nanos,
    /// Time between two updates of the drop probability, at least 1 us.
    pub update_ns: Nanos,
    /// Longest burst that passes without drops after an idle time.
    pub max_burst_ns: Nanos,
}

/// A value that is not allowed in a link direction, a medium or an access network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: found {found}, allowed is {allowed}")]
pub struct InvalidDirection {
    /// Field within it, as in the JSON.
    pub field: &'static str,
    /// The value found.
    pub found: String,
    /// The values allowed.
    pub allowed: Cow<'static, str>,
}

impl Direction {
    /// Returns the bytes on the wire of an IP packet.
    pub fn wire_bytes(&self, ip_bytes: u32) -> u32 {
        let bytes = ip_bytes.saturating_add(self.overhead_bytes);
        self.framing.wire_bytes(bytes)
    }

    /// Checks that the direction can begin with the queue of a host. That queue replaces its own
    /// and drops nothing.
    pub(super) fn validate_behind_host(&self) -> Result<(), InvalidDirection> {
        const UNLIMITED: &str = "drop_tail without limits, as packets wait in the host before it";
        let is_unlimited = self.queue.kind() == "drop_tail" && self.queue.limits() == (None, None);
        ensure(is_unlimited, "queue", self.queue.kind(), UNLIMITED)?;
        let is_behind = self.loss_at == LossPlace::Egress;
        let allowed = "egress, as packets wait in the host before it";
        ensure(is_behind, "loss_at", "ingress", allowed)
    }

    /// Checks the ranges that the types do not express.
    ///
    /// # Errors
    /// Returns the first field whose value is outside its range.
    pub fn validate(&self) -> Result<(), InvalidDirection> {
        validate_rate(self.rate_bps)?;
        validate_overhead(self.overhead_bytes)?;
        if let Some(trace) = &self.trace {
            if let Some(rate_bps) = self.rate_bps.filter(|_| trace.has_capacity()) {
                let found = format!("{rate_bps} beside a trace");
                return ensure(false, "rate_bps", found, "null");
            }
            trace.validate()?;
        }
        self.loss.validate()?;
        self.queue.validate()
    }
}

impl Loss {
    fn validate(&self) -> Result<(), InvalidDirection> {
        match self {
            Self::None {} | Self::List { .. } => Ok(()),
            Self::Bernoulli { probability } => ensure_probability("loss.probability", *probability),
            Self::GilbertElliott(chain) => {
                ensure_probability("loss.good_to_bad", chain.good_to_bad)?;
                ensure_probability("loss.bad_to_good", chain.bad_to_good)?;
                ensure_probability("loss.loss_good", chain.loss_good)?;
                ensure_probability("loss.loss_bad", chain.loss_bad)
            }
        }
    }
}

impl Queue {
    /// Returns the `kind` in the JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::DropTail(_) => "drop_tail",
            Self::Codel(_) => "codel",
            Self::FqCodel(_) => "fq_codel",
            Self::Red(_) => "red",
            Self::Pie(_) => "pie",
        }
    }

    /// Returns the limits in packets and in bytes.
    pub fn limits(&self) -> (Option<u64>, Option<u64>) {
        match self {
            Self::DropTail(queue) => (queue.limit_packets, queue.limit_bytes),
            Self::Codel(queue) => (queue.limit_packets, queue.limit_bytes),
            Self::FqCodel(queue) => (queue.limit_packets, queue.limit_bytes),
            Self::Red(queue) => (queue.limit_packets, queue.limit_bytes),
            Self::Pie(queue) => (queue.limit_packets, queue.limit_bytes),
        }
    }

    fn validate(&self) -> Result<(), InvalidDirection> {
        let (packets, bytes) = self.limits();
        ensure(
            packets != Some(0),
            "queue.limit_packets",
            0,
            "null or at least 1",
        )?;
        ensure(
            bytes != Some(0),
            "queue.limit_bytes",
            0,
            "null or at least 1",
        )?;
        match self {
            Self::DropTail(_) | Self::Codel(_) => Ok(()),
            Self::FqCodel(queue) => queue.validate(),
            Self::Red(queue) => queue.validate(),
            Self::Pie(queue) => {
                let update = queue.update_ns;
                ensure(update >= 1000, "queue.update_ns", update, "at least 1000")
            }
        }
    }
}

impl FqCodel {
    fn validate(&self) -> Result<(), InvalidDirection> {
        let flows = self.flows;
        ensure(
            (1..=65536).contains(&flows),
            "queue.flows",
            flows,
            "1 to 65536",
        )?;
        let quantum = self.quantum_bytes;
        ensure(
            quantum >= 256,
            "queue.quantum_bytes",
            quantum,
            "at least 256",
        )
    }
}

impl Red {
    fn validate(&self) -> Result<(), InvalidDirection> {
        let (min, max) = (self.min_bytes, self.max_bytes);
        ensure(max > min, "queue.max_bytes", max, "more than min_bytes")?;
        ensure_probability("queue.max_probability", self.max_probability)?;
        let weight = self.weight;
        let in_range = weight > 0.0 && weight <= 1.0;
        ensure(in_range, "queue.weight", weight, "more than 0, at most 1")
    }
}

/// Checks a rate in bit/s. `None` is infinite.
pub fn validate_rate(rate_bps: Option<u64>) -> Result<(), InvalidDirection> {
    ensure(rate_bps != Some(0), "rate_bps", 0, "null or at least 1")
}

/// Checks the overhead per packet, which cannot be longer than the longest packet.
pub fn validate_overhead(bytes: u32) -> Result<(), InvalidDirection> {
    ensure(bytes <= 65535, "overhead_bytes", bytes, "at most 65535")
}

pub(super) fn ensure_probability(field: &'static str, value: f64) -> Result<(), InvalidDirection> {
    ensure((0.0..=1.0).contains(&value), field, value, "0 to 1")
}

pub(super) fn ensure(
    holds: bool,
    field: &'static str,
    found: impl ToString,
    allowed: impl Into<Cow<'static, str>>,
) -> Result<(), InvalidDirection> {
    if holds {
        return Ok(());
    }
    Err(InvalidDirection {
        field,
        found: found.to_string(),
        allowed: allowed.into(),
    })
}
