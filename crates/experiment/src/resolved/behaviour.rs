//! The behaviour of an MPTCP implementation where RFC 8684 leaves it open, and its presets.

use mptcp::failure::{self, AddAddressTimer};
use mptcp::pm::{self, Waits};
use mptcp::sched;
use mptcp::wire::Version;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// The behaviour of an MPTCP implementation. It has every value that follows from a preset, so
/// nothing else depends on the name of the preset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// The preset from which the values come. Messages and preference lists use it.
    pub name: BehaviourName,
    /// The only version of MPTCP that the host supports: 0 (RFC 6824) or 1 (RFC 8684).
    #[schemars(range(max = 1))]
    pub mptcp_version: u8,
    /// When a subflow counts as failed.
    pub failed_after: FailedAfter,
    /// Number of measurement intervals without progress after which a subflow is stale.
    pub stale_intervals: u32,
    /// When data is reinjected on another subflow.
    pub reinjection: Reinjection,
    /// Whether all data assigned to a failed subflow is reinjected, rather than only the data that
    /// it sent.
    pub reinject_whole_queue: bool,
    /// How long the path manager waits after an address event.
    pub path_manager_delay_ns: Nanos,
    /// Whether the path manager opens a failed subflow again.
    pub recreation: Recreation,
    /// How long it waits after the first failure.
    pub recreation_first_ns: Nanos,
    /// The longest wait. Waits double up to this limit.
    pub recreation_longest_ns: Nanos,
    /// The order in which equal subflows are used.
    pub subflow_order: SubflowOrder,
    /// When timers expire.
    pub timers: Timers,
    /// Whether the announcement of an address is repeated until it is echoed.
    pub add_address: AddAddress,
    /// Whether the receive threshold of a connection grows with the data of all its subflows. If
    /// false, each subflow has its own.
    pub shares_receive_threshold: bool,
    /// Whether data in the out-of-order queue of a connection reduces the receive window.
    pub counts_out_of_order: bool,
    /// Whether window updates after the application has read are sent only if the window has
    /// doubled.
    pub tells_doubled_window: bool,
    /// Whether acknowledgments that would shrink the window wait until the application has read.
    pub acks_wait_for_reader: bool,
    /// Whether the window of a subflow may shrink to that of the connection.
    pub narrows_subflow_window: bool,
    /// Whether an overfull receive buffer removes data from the end of the out-of-order queue.
    pub prunes_out_of_order: bool,
    /// Whether each expiry of the connection's timer sends a piece of the oldest data again on each
    /// idle subflow, rather than one piece.
    pub repeats_several_pieces: bool,
    /// The part of a receive buffer that is offered as a window.
    pub offered_window: OfferedWindow,
    /// Whether segments leave in packets of several. Where the host feels its first link
    /// ([`FirstHop::Host`](super::FirstHop::Host)), they leave one by one nevertheless, and the
    /// memory of each counts in the send buffer.
    pub segmentation_offload: bool,
}

impl Behaviour {
    /// Returns the presets. The engine defines what concerns connections ([`failure::Behaviour`]).
    pub fn presets() -> [Self; 5] {
        BehaviourName::ALL.map(|name| {
            let behaviour = Self::of_connections(name, &name.of_engine());
            match name {
                BehaviourName::Oot => behaviour,
                _ => Self {
                    timers: Timers::Wheel,
                    offered_window: OfferedWindow::ShareOfPayload,
                    segmentation_offload: true,
                    ..behaviour
                },
            }
        })
    }

    /// Returns a behaviour with what the engine defines, and otherwise as with the out-of-tree
    /// kernel.
    fn of_connections(name: BehaviourName, engine: &failure::Behaviour) -> Self {
        let (failed_after, stale_intervals) = match engine.failed_after {
            failure::FailedAfter::FirstRto => (FailedAfter::FirstRto, 0),
            failure::FailedAfter::StaleIntervals(intervals) => (FailedAfter::Stale, intervals),
        };
        let (recreation, waits) = match engine.recreation {
            pm::Recreation::Never => (Recreation::Never, Waits::OF_SUBFLOW),
            pm::Recreation::Backoff(waits) => (Recreation::Backoff, waits),
        };
        Self {
            name,
            mptcp_version: 1,
            failed_after,
            stale_intervals,
            reinjection: engine.reinjection.into(),
            reinject_whole_queue: engine.reinject_whole_queue,
            path_manager_delay_ns: engine.path_manager_delay,
            recreation,
            recreation_first_ns: waits.first,
            recreation_longest_ns: waits.longest,
            subflow_order: engine.subflow_order.into(),
            timers: Timers::Exact,
            add_address: engine.add_address.into(),
            shares_receive_threshold: engine.shares_receive_threshold,
            counts_out_of_order: engine.counts_out_of_order,
            tells_doubled_window: engine.tells_doubled_window,
            acks_wait_for_reader: engine.acks_wait_for_reader,
            narrows_subflow_window: engine.narrows_subflow_window,
            prunes_out_of_order: engine.prunes_out_of_order,
            repeats_several_pieces: engine.repeats_several_pieces,
            offered_window: OfferedWindow::Half,
            segmentation_offload: false,
        }
    }

    /// Returns what concerns the connections of the engine.
    pub fn of_engine(&self) -> failure::Behaviour {
        failure::Behaviour {
            failed_after: match self.failed_after {
                FailedAfter::FirstRto => failure::FailedAfter::FirstRto,
                FailedAfter::Stale => failure::FailedAfter::StaleIntervals(self.stale_intervals),
            },
            reinjection: self.reinjection.into(),
            reinject_whole_queue: self.reinject_whole_queue,
            path_manager_delay: self.path_manager_delay_ns,
            recreation: self.recreation(),
            subflow_order: self.subflow_order.into(),
            add_address: self.add_address.into(),
            shares_receive_threshold: self.shares_receive_threshold,
            counts_out_of_order: self.counts_out_of_order,
            tells_doubled_window: self.tells_doubled_window,
            acks_wait_for_reader: self.acks_wait_for_reader,
            narrows_subflow_window: self.narrows_subflow_window,
            prunes_out_of_order: self.prunes_out_of_order,
            repeats_several_pieces: self.repeats_several_pieces,
        }
    }

    /// Returns the version of MPTCP for the engine.
    pub fn version(&self) -> Version {
        match self.mptcp_version {
            0 => Version::Zero,
            _ => Version::One,
        }
    }

    /// Returns when the path manager opens failed subflows again.
    pub fn recreation(&self) -> pm::Recreation {
        match self.recreation {
            Recreation::Never => pm::Recreation::Never,
            Recreation::Backoff => pm::Recreation::Backoff(Waits {
                first: self.recreation_first_ns,
                longest: self.recreation_longest_ns,
            }),
        }
    }
}

/// Presets of [`Behaviour`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BehaviourName {
    /// The current Linux kernel.
    Mainline,
    /// Linux 6.12, as of 6.12.117.
    #[serde(rename = "mainline-6.12")]
    Mainline612,
    /// Linux 6.18, as of 6.18.15.
    #[serde(rename = "mainline-6.18")]
    Mainline618,
    /// Linux 7.3, as of 7.3.4.
    #[serde(rename = "mainline-7.3")]
    Mainline73,
    /// The out-of-tree kernel used by older papers.
    Oot,
}

impl BehaviourName {
    /// All presets; the default comes first.
    pub const ALL: [Self; 5] = [
        Self::Mainline,
        Self::Mainline612,
        Self::Mainline618,
        Self::Mainline73,
        Self::Oot,
    ];

    /// Returns what concerns the connections of the engine.
    fn of_engine(self) -> failure::Behaviour {
        match self {
            Self::Mainline => failure::Behaviour::mainline(),
            Self::Mainline612 => failure::Behaviour::mainline_6_12(),
            Self::Mainline618 => failure::Behaviour::mainline_6_18(),
            Self::Mainline73 => failure::Behaviour::mainline_7_3(),
            Self::Oot => failure::Behaviour::oot(),
        }
    }
}

/// When a subflow counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailedAfter {
    /// At the first retransmission timeout.
    FirstRto,
    /// After several intervals without progress.
    Stale,
}

/// What happens to a subflow that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recreation {
    /// It is opened again only when an address comes back.
    Never,
    /// It is opened again after waits that double.
    Backoff,
}

/// When timers expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Timers {
    /// Exactly when they are due.
    Exact,
    /// At the ticks of the Linux timer wheel.
    Wheel,
}

/// The part of a receive buffer that is offered as a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OfferedWindow {
    /// Half of the memory (`tcp_adv_win_scale` 1).
    Half,
    /// The share that payload has in the memory of full-sized segments (`scaling_ratio`).
    ShareOfPayload,
}

/// Defines an enum of the resolved form with a counterpart in the engine, and the conversions.
macro_rules! counterpart {
    (
        $(#[$doc:meta])* $name:ident of $engine:ty {
            $($(#[$of_variant:meta])* $variant:ident = $counterpart:path $(, $inner:path)?;)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$of_variant])* $variant,)+
        }

        impl From<$engine> for $name {
            fn from(engine: $engine) -> Self {
                match engine {
                    $($counterpart $(($inner))? => Self::$variant,)+
                }
            }
        }

        impl From<$name> for $engine {
            fn from(resolved: $name) -> Self {
                match resolved {
                    $($name::$variant => $counterpart $(($inner))?,)+
                }
            }
        }
    };
}

counterpart! {
    /// When data is reinjected on another subflow.
    Reinjection of failure::Reinjection {
        /// Never.
        None = failure::Reinjection::None;
        /// At a retransmission timeout.
        OnRto = failure::Reinjection::OnRto;
        /// When its subflow is stale.
        OnStale = failure::Reinjection::OnStale;
        /// When its subflow closes.
        OnClose = failure::Reinjection::OnClose;
        /// Whenever the data blocks the window.
        Opportunistic = failure::Reinjection::Opportunistic;
    }
}

counterpart! {
    /// The order in which equal subflows are used.
    SubflowOrder of sched::SubflowOrder {
        /// The most recently created first.
        NewestFirst = sched::SubflowOrder::NewestFirst;
        /// The first created first.
        OldestFirst = sched::SubflowOrder::OldestFirst;
    }
}

counterpart! {
    /// Whether the announcement of an address is repeated until it is echoed.
    AddAddress of Option<AddAddressTimer> {
        /// It is sent once.
        Once = Option::None;
        /// It is repeated after a fixed time.
        Fixed = Option::Some, AddAddressTimer::Fixed;
        /// It is repeated after a time that follows the round-trip times.
        Adaptive = Option::Some, AddAddressTimer::Adaptive;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_those_of_the_engine() {
        let names = Behaviour::presets().map(|preset| preset.name);
        assert_eq!(names, BehaviourName::ALL);
        let of_engine = Behaviour::presets().map(|preset| preset.of_engine());
        assert_eq!(of_engine, names.map(BehaviourName::of_engine));
    }
}
