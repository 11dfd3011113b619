//! The resolved experiment. The types mirror its JSON exactly: integers in named units, no
//! defaults, no unknown keys.

mod access;
mod action;
mod algorithm;
mod behaviour;
mod control;
mod direction;
mod experiment;
mod flow;
mod host;
mod middlebox;
mod schema;
mod trace;
mod validation;

pub use access::{
    Access, AccessCategory, Aggregation, ApFifo, ApFq, ApQueue, BEACON_INTERVAL_NS, BentPipe,
    BusyNeighbours, Cable, Cellular, DurationQuantile, Edca, Fade, Gaps, Handovers, Harq, Leo,
    LossInTime, NrLeg, Rrc, Scan, Signal, Snr, SnrPoint, Stall, Step, UplinkRequests, Wifi,
    WifiBand, WifiNeighbours, WifiRate, WifiStandard, WifiStation,
};
pub use action::{Action, LinkDownBy, RerouteBy};
pub use algorithm::{Algorithm, Origin, Parameters};
pub use behaviour::{
    AddAddress, Behaviour, BehaviourName, FailedAfter, OfferedWindow, Recreation, Reinjection,
    SubflowOrder, Timers,
};
pub use control::{Control, Install, LinkCost, Recovery, SharedRiskGroup};
pub use direction::{
    Codel, Direction, DropTail, FqCodel, Framing, GilbertElliott, InvalidDirection, Loss,
    LossPlace, Pie, Queue, Red,
};
pub use direction::{validate_overhead, validate_rate};
pub use experiment::{
    ChildKind, Event, Experiment, Interface, Layer, Link, Measure, Medium, NextHop, Node, NodeKind,
    ParentDevice, SCHEMA, Subnet, UserCode, Vary,
};
pub use flow::{Application, Flow, FlowEnd, Handshake, Hop, HopDirection, Path, Transport, Video};
pub use host::{Fallback, FirstHop, Host, HostJitter, JitterQuantiles, Machine, Stack};
pub use middlebox::{
    AcknowledgeEarly, ChangeBytes, Coalesce, Duplicate, Element, InsertBytes, Middlebox,
    MiddleboxDirection, Nat, OptionName, PiecesWithOptions, SegmentKind, Selection, Split,
};
pub use schema::schema;
pub use trace::{DelayStep, LossStep, RateStep, Trace, TraceStart, Train, Trains};
pub use validation::{LARGEST, ResolvedError};
