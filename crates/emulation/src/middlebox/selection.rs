//! Removes MPTCP options, or drops the segments that carry them.

use experiment::resolved::{self, MiddleboxDirection, OptionName, SegmentKind};
use experiment::time::Nanos;
use mptcp::wire::{Flags, MptcpOption, MptcpOptionV0, Packet};

use super::connections::{Connections, Streams};
use super::{Heading, Middlebox, Outlet, Passing};

/// Selects packets by their options.
struct Selection {
    described: resolved::Selection,
    direction: MiddleboxDirection,
    connections: Connections<Streams>,
}

impl Selection {
    fn new(described: &resolved::Selection, direction: MiddleboxDirection) -> Self {
        Self {
            described: described.clone(),
            direction,
            connections: Connections::new(),
        }
    }

    /// Returns whether a packet carries a selected option.
    fn selects(&mut self, heading: Heading, packet: &Packet) -> bool {
        let streams = self.connections.of(heading, packet, Streams::default);
        let carried = streams.carried();
        streams.record(heading, packet);
        heading.is_covered_by(self.direction)
            && carried >= self.described.after_bytes
            && self.described.segments.contains(&kind(packet))
            && packet.segment.options.mptcp.iter().any(|it| self.names(it))
    }

    fn names(&self, option: &MptcpOption) -> bool {
        self.described.options.contains(&name(option))
    }
}

fn kind(packet: &Packet) -> SegmentKind {
    let flags = packet.segment.flags;
    match (flags.contains(Flags::SYN), flags.contains(Flags::ACK)) {
        (true, false) => SegmentKind::Syn,
        (true, true) => SegmentKind::SynAck,
        (false, _) => SegmentKind::NonSyn,
    }
}

fn name(option: &MptcpOption) -> OptionName {
    match option {
        MptcpOption::Capable(_) => OptionName::MpCapable,
        MptcpOption::Join(_) => OptionName::MpJoin,
        MptcpOption::Dss(_) => OptionName::Dss,
        MptcpOption::AddAddress(_) => OptionName::AddAddr,
        MptcpOption::RemoveAddress(_) => OptionName::RemoveAddr,
        MptcpOption::Priority { .. } => OptionName::MpPrio,
        MptcpOption::Fail { .. } => OptionName::MpFail,
        MptcpOption::FastClose { .. } => OptionName::MpFastclose,
        MptcpOption::Reset(_) => OptionName::MpTcprst,
        MptcpOption::Version0(option) => match **option {
            MptcpOptionV0::Priority { .. } => OptionName::MpPrio,
            _ => OptionName::AddAddr,
        },
    }
}

/// Removes the selected options.
pub(super) struct Strip(Selection);

impl Strip {
    pub(super) fn new(described: &resolved::Selection, direction: MiddleboxDirection) -> Self {
        Self(Selection::new(described, direction))
    }
}

impl Middlebox for Strip {
    fn handle(&mut self, _now: Nanos, heading: Heading, mut passing: Passing, out: &mut Outlet) {
        if self.0.selects(heading, passing.packet()) {
            let options = &mut passing.change().segment.options.mptcp;
            let kept = options.iter().filter(|option| !self.0.names(option));
            *options = kept.cloned().collect();
        }
        out.pass(heading, passing);
    }
}

/// Drops segments that carry a selected option.
pub(super) struct Drop(Selection);

impl Drop {
    pub(super) fn new(described: &resolved::Selection, direction: MiddleboxDirection) -> Self {
        Self(Selection::new(described, direction))
    }
}

impl Middlebox for Drop {
    fn handle(&mut self, _now: Nanos, heading: Heading, passing: Passing, out: &mut Outlet) {
        if self.0.selects(heading, passing.packet()) {
            out.drop(passing);
        } else {
            out.pass(heading, passing);
        }
    }
}
