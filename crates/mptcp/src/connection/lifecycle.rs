//! The life of a subflow in its connection, from the first SYN to its removal (RFC 8684, sections
//! 3.2 to 3.6).
//!
//! ```text
//! Connecting ------------------------- HandshakeCompleted --+
//! Accepting -------------------------- JoinCompleted -------+--> Active
//! Opening -- SynAckVerified --> Confirming -- JoinCompleted +
//!
//! Active -- RetirementRequested --> Retiring -- FinQueued --> Retired
//! any phase -- Reset, Removed --> Closed
//! ```
//!
//! [`Phase::after`] holds all transitions, and only [`Lifecycle::apply`] calls it. Each event is
//! legal, ignored or illegal in each phase. `lifecycle.txt` shows all of them, and a test compares
//! it with the code.
//!
//! # Facts outside
//! - The state of TCP ([`crate::subflow::State`]). FINs, timeouts and RSTs move TCP alone, until
//!   the connection resets, retires or removes the subflow.
//!   [`super::subflow_context::SubflowContext::can_send`] needs both.
//! - Whether the subflow is the initial one. This never changes.
//! - Whether it delivers ([`super::delivery::Delivery`]). It can fail and recover in each phase
//!   after the handshake, even while it is tested or retires.
//! - Whether either host marked it as backup (section 3.3.8). MP_PRIO changes the mark at any time.
//! - Whether its local address was withdrawn. The address can be lost in each phase, and it can
//!   come back before the subflow has closed.
//! - Until when data waits for a mapping (section 3.3.1). Data arrives in each phase after the
//!   handshake, even after the local FIN.

use std::mem;
use std::ops::Deref;

use super::keys::Nonces;
use super::retirement::Suspicion;
use crate::time::Nanos;
use crate::wire::{AddressId, ResetReason, Token};

/// The phase of a subflow. It dereferences to the phase for reading, and only an event changes it.
#[derive(Debug)]
pub(super) struct Lifecycle(Phase);

/// Where in its life a subflow is, with the values that exist only there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The handshake of the initial subflow runs (section 3.1).
    Connecting,
    /// This host has sent the SYN of a join (section 3.2).
    Opening {
        address_id: AddressId,
        nonces: Nonces,
        token: Token,
    },
    /// This host has sent the SYN/ACK of a join and waits for the HMAC in the third packet.
    Accepting {
        address_id: AddressId,
        nonces: Nonces,
    },
    /// This host has sent the third packet of a join and waits for the fourth. Until then it sends
    /// no data (section 3.2).
    Confirming(Confirmation),
    /// The subflow carries data.
    Active(Established),
    /// The subflow carries data until the connection can do without it. It is then closed with FIN
    /// (section 3.3.3).
    Retiring(Established),
    /// The FIN is queued while the connection continues. The path manager knows that the subflow
    /// closes.
    Retired {
        established: Established,
        /// When the subflow is reset if its FIN exchange has not completed.
        until: Nanos,
    },
    /// A host has reset the subflow, or it is removed.
    Closed(End),
}

/// The wait for the fourth packet of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Confirmation {
    /// When the handshake of TCP completed.
    pub(super) established_at: Nanos,
    pub(super) nonces: Nonces,
    /// When the third packet is repeated.
    pub(super) repeat_at: Nanos,
    /// The last wait before a repetition.
    pub(super) wait: Nanos,
}

/// Values of a subflow that carries data, or did until it was retired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Established {
    /// When the handshake of TCP completed.
    at: Nanos,
    /// Set while keepalive probes test the subflow after an address of it was removed. A test can
    /// begin before and after the subflow was asked to retire, and it continues after the FIN.
    suspicion: Option<Box<Suspicion>>,
}

/// What remains of a closed subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    /// When the handshake of TCP completed, if it did.
    established_at: Option<Nanos>,
    /// Whether the path manager knows of the end, because the subflow was closed with FIN.
    pub(super) is_reported: bool,
    /// Whether it was reset for a reason that is not transient (section 3.6).
    pub(super) is_unfit: bool,
    /// Whether a middlebox changed the subflow, so that data acknowledged on it may not have
    /// reached the stream.
    pub(super) may_have_lost_acked: bool,
}

/// An event in the life of a subflow.
#[derive(Clone, Debug)]
pub(super) enum LifecycleEvent {
    /// TCP is established on the initial subflow.
    HandshakeCompleted { at: Nanos },
    /// The SYN/ACK of a join has the right HMAC, and the third packet is due.
    SynAckVerified(Confirmation),
    /// The fourth packet did not arrive in time, and the third is repeated.
    AckRepeated { now: Nanos },
    /// Both hosts of a join have proved that they know the keys.
    JoinCompleted { at: Nanos },
    /// An address of the subflow was removed, and the first keepalive probe is due.
    TestStarted(Box<Suspicion>),
    /// A keepalive probe was not answered in time, and the next one is due.
    ProbeRepeated { now: Nanos },
    /// The peer has answered a keepalive probe.
    TestPassed,
    /// The path manager closes the subflow, or a FIN of the peer has arrived.
    RetirementRequested,
    /// The connection can do without the subflow, and its FIN is queued.
    FinQueued { until: Nanos },
    /// Either host has reset the subflow for a reason (MP_TCPRST).
    Reset(ResetReason),
    /// The connection removes the subflow, because TCP has ended or another initial subflow was
    /// answered first.
    Removed,
}

/// Result of an event.
#[derive(Debug)]
enum Outcome {
    /// The subflow passes to this phase, or its values change.
    Next(Phase),
    /// The event is legal and changes nothing.
    Ignored(Phase),
    /// The event cannot happen in this phase.
    Illegal(Phase),
}

use LifecycleEvent as Event;
use Outcome::{Ignored, Illegal, Next};
use Phase::{Accepting, Active, Closed, Confirming, Connecting, Opening, Retired, Retiring};

impl Lifecycle {
    /// Starts with the handshake of the initial subflow.
    pub(super) fn connecting() -> Self {
        Self(Connecting)
    }

    /// Starts with the SYN of a join, which this host sends.
    pub(super) fn opening(address_id: AddressId, nonces: Nonces, token: Token) -> Self {
        Self(Opening {
            address_id,
            nonces,
            token,
        })
    }

    /// Starts with the SYN of a join, which the peer has sent.
    pub(super) fn accepting(address_id: AddressId, nonces: Nonces) -> Self {
        Self(Accepting { address_id, nonces })
    }

    /// Applies an event. The phase changes in no other way.
    ///
    /// # Panics
    /// With debug assertions, if the event is illegal. Without them, the phase stays.
    pub(super) fn apply(&mut self, event: LifecycleEvent) {
        let name = event.name();
        self.0 = match mem::replace(&mut self.0, Connecting).after(event) {
            Next(phase) | Ignored(phase) => phase,
            Illegal(phase) => {
                debug_assert!(false, "{name} in {phase:?}");
                phase
            }
        };
    }
}

impl Deref for Lifecycle {
    type Target = Phase;

    fn deref(&self) -> &Phase {
        &self.0
    }
}

impl Phase {
    /// Returns whether the handshake of TCP runs.
    pub(super) fn is_connecting(&self) -> bool {
        matches!(self, Connecting | Opening { .. } | Accepting { .. })
    }

    /// Returns whether the connection may assign data to the subflow, as far as TCP can send it.
    pub(super) fn takes_data(&self) -> bool {
        matches!(self, Active(_) | Retiring(_))
    }

    /// Returns whether both hosts have completed the handshake, and neither has reset the subflow.
    pub(super) fn is_established(&self) -> bool {
        self.established().is_some()
    }

    fn established(&self) -> Option<&Established> {
        match self {
            Active(established) | Retiring(established) | Retired { established, .. } => {
                Some(established)
            }
            Connecting | Opening { .. } | Accepting { .. } | Confirming(_) | Closed(_) => None,
        }
    }

    /// Returns when the handshake of TCP completed.
    pub(super) fn established_at(&self) -> Option<Nanos> {
        self.end().established_at
    }

    /// Returns the wait for the fourth packet of a join.
    pub(super) fn confirmation(&self) -> Option<&Confirmation> {
        match self {
            Confirming(confirmation) => Some(confirmation),
            _ => None,
        }
    }

    /// Returns the running test of the subflow.
    pub(super) fn suspicion(&self) -> Option<&Suspicion> {
        self.established()?.suspicion.as_deref()
    }

    /// Returns when the subflow is reset if its FIN exchange has not completed.
    pub(super) fn retired_until(&self) -> Option<Nanos> {
        match self {
            Retired { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// Returns what remains of the subflow if it ends now.
    pub(super) fn end(&self) -> End {
        let (established_at, is_reported) = match self {
            Connecting | Opening { .. } | Accepting { .. } => (None, false),
            Confirming(confirmation) => (Some(confirmation.established_at), false),
            Active(established) | Retiring(established) => (Some(established.at), false),
            Retired { established, .. } => (Some(established.at), true),
            Closed(end) => return *end,
        };
        End {
            established_at,
            is_reported,
            ..End::default()
        }
    }

    /// Returns the phase after an event. Each case below names every phase, so that a new phase
    /// does not compile until it is in each of them.
    fn after(self, event: LifecycleEvent) -> Outcome {
        match event {
            Event::HandshakeCompleted { at } => self.handshake_completed(at),
            Event::SynAckVerified(confirmation) => self.syn_ack_verified(confirmation),
            Event::AckRepeated { now } => self.ack_repeated(now),
            Event::JoinCompleted { at } => self.join_completed(at),
            Event::TestStarted(suspicion) => self.test_started(suspicion),
            Event::ProbeRepeated { now } => self.probe_repeated(now),
            Event::TestPassed => self.test_passed(),
            Event::RetirementRequested => self.retirement_requested(),
            Event::FinQueued { until } => self.fin_queued(until),
            Event::Reset(reason) => Next(Closed(self.end().with(reason))),
            Event::Removed => self.removed(),
        }
    }

    fn handshake_completed(self, at: Nanos) -> Outcome {
        match self {
            Connecting => Next(Active(Established::new(at))),
            Opening { .. } | Accepting { .. } | Confirming(_) => Illegal(self),
            Active(_) | Retiring(_) | Retired { .. } | Closed(_) => Illegal(self),
        }
    }

    fn syn_ack_verified(self, confirmation: Confirmation) -> Outcome {
        match self {
            Opening { .. } => Next(Confirming(confirmation)),
            Connecting | Accepting { .. } | Confirming(_) => Illegal(self),
            Active(_) | Retiring(_) | Retired { .. } | Closed(_) => Illegal(self),
        }
    }

    fn ack_repeated(self, now: Nanos) -> Outcome {
        match self {
            Confirming(confirmation) => Next(Confirming(confirmation.repeated(now))),
            Connecting | Opening { .. } | Accepting { .. } => Illegal(self),
            Active(_) | Retiring(_) | Retired { .. } | Closed(_) => Illegal(self),
        }
    }

    /// The opener learns from the fourth packet that the third has arrived. The acceptor needs only
    /// the third (section 3.2).
    fn join_completed(self, at: Nanos) -> Outcome {
        match self {
            Confirming(its) => Next(Active(Established::new(its.established_at))),
            Accepting { .. } => Next(Active(Established::new(at))),
            Connecting | Opening { .. } => Illegal(self),
            Active(_) | Retiring(_) | Retired { .. } | Closed(_) => Illegal(self),
        }
    }

    /// A subflow is tested only while it carries data, and not twice at a time.
    fn test_started(self, suspicion: Box<Suspicion>) -> Outcome {
        match self {
            Active(its) if !its.is_tested() => Next(Active(its.with(Some(suspicion)))),
            Retiring(its) if !its.is_tested() => Next(Retiring(its.with(Some(suspicion)))),
            Connecting | Opening { .. } | Accepting { .. } | Confirming(_) => Illegal(self),
            Active(_) | Retiring(_) | Retired { .. } | Closed(_) => Illegal(self),
        }
    }

    fn probe_repeated(self, now: Nanos) -> Outcome {
        match self {
            Active(its) if its.is_tested() => Next(Active(its.probed_again(now))),
            Retiring(its) if its.is_tested() => Next(Retiring(its.probed_again(now))),
            Retired { established, until } if established.is_tested() => Next(Retired {
                established: established.probed_again(now),
                until,
            }),
            Connecting | Opening { .. } | Accepting { .. } | Confirming(_) => Illegal(self),
            Active(_) | Retiring(_) | Retired { .. } | Closed(_) => Illegal(self),
        }
    }

    fn test_passed(self) -> Outcome {
        match self {
            Active(its) if its.is_tested() => Next(Active(its.with(None))),
            Retiring(its) if its.is_tested() => Next(Retiring(its.with(None))),
            Retired { established, until } if established.is_tested() => Next(Retired {
                established: established.with(None),
                until,
            }),
            Connecting | Opening { .. } | Accepting { .. } | Confirming(_) => Illegal(self),
            Active(_) | Retiring(_) | Retired { .. } | Closed(_) => Illegal(self),
        }
    }

    fn retirement_requested(self) -> Outcome {
        match self {
            Active(established) => Next(Retiring(established)),
            // The path manager and a FIN of the peer may both be the reason.
            Retiring(_) => Ignored(self),
            // The peer answers the local FIN with its own.
            Retired { .. } => Ignored(self),
            // The segment with the peer's FIN was a reason for a reset. The removal is reported.
            Closed(_) => Ignored(self),
            Connecting | Opening { .. } | Accepting { .. } | Confirming(_) => Illegal(self),
        }
    }

    fn fin_queued(self, until: Nanos) -> Outcome {
        match self {
            Retiring(established) => Next(Retired { established, until }),
            Connecting | Opening { .. } | Accepting { .. } | Confirming(_) => Illegal(self),
            Active(_) | Retired { .. } | Closed(_) => Illegal(self),
        }
    }

    fn removed(self) -> Outcome {
        match self {
            // It was reset before.
            Closed(_) => Ignored(self),
            Connecting | Opening { .. } | Accepting { .. } | Confirming(_) => {
                Next(Closed(self.end()))
            }
            Active(_) | Retiring(_) | Retired { .. } => Next(Closed(self.end())),
        }
    }
}

impl LifecycleEvent {
    fn name(&self) -> &'static str {
        match self {
            Event::HandshakeCompleted { .. } => "HandshakeCompleted",
            Event::SynAckVerified(_) => "SynAckVerified",
            Event::AckRepeated { .. } => "AckRepeated",
            Event::JoinCompleted { .. } => "JoinCompleted",
            Event::TestStarted(_) => "TestStarted",
            Event::ProbeRepeated { .. } => "ProbeRepeated",
            Event::TestPassed => "TestPassed",
            Event::RetirementRequested => "RetirementRequested",
            Event::FinQueued { .. } => "FinQueued",
            Event::Reset(_) => "Reset",
            Event::Removed => "Removed",
        }
    }
}

impl Confirmation {
    /// Returns the wait after this one, which is twice as long (section 3.2).
    fn repeated(self, now: Nanos) -> Self {
        let wait = self.next_wait();
        Self {
            repeat_at: now + wait,
            wait,
            ..self
        }
    }

    /// Returns how long the wait after this one is.
    pub(super) fn next_wait(&self) -> Nanos {
        2 * self.wait
    }
}

impl Established {
    fn new(at: Nanos) -> Self {
        Self {
            at,
            suspicion: None,
        }
    }

    fn is_tested(&self) -> bool {
        self.suspicion.is_some()
    }

    fn with(self, suspicion: Option<Box<Suspicion>>) -> Self {
        Self { suspicion, ..self }
    }

    fn probed_again(mut self, now: Nanos) -> Self {
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.probed_again(now);
        }
        self
    }
}

impl End {
    /// Adds the reason of a RST. Both hosts may send one, and each reason counts.
    fn with(self, reason: ResetReason) -> Self {
        Self {
            is_unfit: self.is_unfit || !reason.is_transient(),
            may_have_lost_acked: self.may_have_lost_acked || reason.code == ResetReason::MIDDLEBOX,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::iter::successors;

    use super::*;

    const TABLE: &str = include_str!("lifecycle.txt");
    const TABLE_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/connection/lifecycle.txt");

    const NONCES: Nonces = Nonces {
        local: 1,
        remote: 2,
    };
    const CONFIRMATION: Confirmation = Confirmation {
        established_at: 1,
        nonces: NONCES,
        repeat_at: 2,
        wait: 1,
    };

    fn untested() -> Established {
        Established::new(1)
    }

    fn tested() -> Established {
        untested().with(Some(Box::new(Suspicion::new(1, 1, 1))))
    }

    fn end() -> End {
        End {
            established_at: Some(1),
            ..End::default()
        }
    }

    /// Returns the phase that follows in the table. It names every phase, so that a new one does
    /// not compile until it has a place in the table.
    fn next_phase(phase: &Phase) -> Option<Phase> {
        Some(match phase {
            Connecting => Opening {
                address_id: 1,
                nonces: NONCES,
                token: 3,
            },
            Opening { .. } => Accepting {
                address_id: 1,
                nonces: NONCES,
            },
            Accepting { .. } => Confirming(CONFIRMATION),
            Confirming(_) => Active(untested()),
            Active(its) if !its.is_tested() => Active(tested()),
            Active(_) => Retiring(untested()),
            Retiring(its) if !its.is_tested() => Retiring(tested()),
            Retiring(_) => Retired {
                established: untested(),
                until: 9,
            },
            Retired { established, until } if !established.is_tested() => Retired {
                established: tested(),
                until: *until,
            },
            Retired { .. } => Closed(end()),
            Closed(its) => Closed(next_end(*its)?),
        })
    }

    fn next_end(end: End) -> Option<End> {
        let next = match end {
            End {
                may_have_lost_acked: true,
                ..
            } => return None,
            End { is_unfit: true, .. } => End {
                may_have_lost_acked: true,
                ..end
            },
            End {
                is_reported: true, ..
            } => End {
                is_reported: false,
                is_unfit: true,
                ..end
            },
            _ => End {
                is_reported: true,
                ..end
            },
        };
        Some(next)
    }

    /// Returns the event that follows in the table, like [`next_phase`].
    fn next_event(event: &LifecycleEvent) -> Option<LifecycleEvent> {
        Some(match event {
            Event::HandshakeCompleted { .. } => Event::SynAckVerified(CONFIRMATION),
            Event::SynAckVerified(_) => Event::AckRepeated { now: 5 },
            Event::AckRepeated { .. } => Event::JoinCompleted { at: 5 },
            Event::JoinCompleted { .. } => Event::TestStarted(Box::new(Suspicion::new(5, 1, 1))),
            Event::TestStarted(_) => Event::ProbeRepeated { now: 5 },
            Event::ProbeRepeated { .. } => Event::TestPassed,
            Event::TestPassed => Event::RetirementRequested,
            Event::RetirementRequested => Event::FinQueued { until: 9 },
            Event::FinQueued { .. } => Event::Reset(ResetReason::of(ResetReason::UNSPECIFIED)),
            Event::Reset(its) if its.code == ResetReason::UNSPECIFIED => {
                Event::Reset(ResetReason::of(ResetReason::MPTCP_ERROR))
            }
            Event::Reset(its) if its.code == ResetReason::MPTCP_ERROR => {
                Event::Reset(ResetReason::of(ResetReason::MIDDLEBOX))
            }
            Event::Reset(_) => Event::Removed,
            Event::Removed => return None,
        })
    }

    fn phases() -> impl Iterator<Item = Phase> {
        successors(Some(Connecting), next_phase)
    }

    fn events() -> impl Iterator<Item = LifecycleEvent> {
        let first = Event::HandshakeCompleted { at: 5 };
        successors(Some(first), next_event)
    }

    fn label(phase: &Phase) -> String {
        match phase {
            Connecting => String::from("Connecting"),
            Opening { .. } => String::from("Opening"),
            Accepting { .. } => String::from("Accepting"),
            Confirming(_) => String::from("Confirming"),
            Active(its) => format!("Active{}", test_label(its)),
            Retiring(its) => format!("Retiring{}", test_label(its)),
            Retired { established, .. } => format!("Retired{}", test_label(established)),
            Closed(end) => format!("Closed{}", end_label(*end)),
        }
    }

    fn test_label(established: &Established) -> &'static str {
        match established.is_tested() {
            true => ", tested",
            false => "",
        }
    }

    fn end_label(end: End) -> String {
        let flags = [
            (end.is_reported, ", reported"),
            (end.is_unfit, ", unfit"),
            (end.may_have_lost_acked, ", lost"),
        ];
        let held = flags.iter().filter(|(is_held, _)| *is_held);
        held.map(|(_, label)| *label).collect()
    }

    fn event_label(event: &LifecycleEvent) -> String {
        match event {
            Event::Reset(reason) if reason.is_transient() => String::from("Reset (transient)"),
            Event::Reset(reason) if reason.code == ResetReason::MIDDLEBOX => {
                String::from("Reset (middlebox)")
            }
            Event::Reset(_) => String::from("Reset (lasting)"),
            other => String::from(other.name()),
        }
    }

    /// Appends the row of a phase: a line for each legal event, and the illegal events.
    fn write_row(table: &mut String, phase: &Phase) {
        let mut illegal = Vec::new();
        writeln!(table, "\n{}", label(phase)).expect("it grows");
        for event in events() {
            let event_label = event_label(&event);
            let outcome = match phase.clone().after(event) {
                Next(next) => label(&next),
                Ignored(_) => String::from("(ignored)"),
                Illegal(_) => {
                    illegal.push(event_label);
                    continue;
                }
            };
            writeln!(table, "  {event_label:20} {outcome}").expect("it grows");
        }
        if !illegal.is_empty() {
            writeln!(table, "  illegal: {}", illegal.join(", ")).expect("it grows");
        }
    }

    /// Returns the table of all transitions.
    fn table() -> String {
        let mut table = String::from(
            "The life of a subflow: for each phase, each event and the phase after it.\n\
             tested: keepalive probes run; reported: the path manager knows of the end;\n\
             unfit: reset for a lasting reason; lost: acknowledged data may be lost.\n",
        );
        phases().for_each(|phase| write_row(&mut table, &phase));
        table
    }

    #[test]
    fn transitions_are_as_reviewed() {
        let table = table();
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(TABLE_PATH, &table).expect("the file can be written");
            return;
        }
        for (number, (is, was)) in table.lines().zip(TABLE.lines()).enumerate() {
            assert_eq!(is, was, "line {} of {TABLE_PATH}", number + 1);
        }
        assert_eq!(table, TABLE);
    }

    #[test]
    fn an_event_that_is_not_legal_changes_nothing() {
        for phase in phases() {
            for event in events() {
                if let Ignored(after) | Illegal(after) = phase.clone().after(event) {
                    assert_eq!(after, phase);
                }
            }
        }
    }

    #[test]
    fn the_end_of_the_handshake_stays_known_until_the_removal() {
        let mut life = Lifecycle::accepting(1, NONCES);
        assert_eq!(life.established_at(), None);
        life.apply(Event::JoinCompleted { at: 7 });
        life.apply(Event::RetirementRequested);
        life.apply(Event::FinQueued { until: 9 });
        life.apply(Event::Reset(ResetReason::of(ResetReason::MIDDLEBOX)));
        life.apply(Event::Removed);
        let end = life.end();
        assert_eq!(life.established_at(), Some(7));
        assert!(end.is_reported && end.is_unfit && end.may_have_lost_acked);
    }

    #[test]
    fn a_third_packet_waits_twice_as_long_each_time() {
        let mut life = Lifecycle::opening(1, NONCES, 3);
        life.apply(Event::SynAckVerified(CONFIRMATION));
        life.apply(Event::AckRepeated { now: 10 });
        life.apply(Event::AckRepeated { now: 20 });
        let due = life.confirmation().map(|its| (its.wait, its.repeat_at));
        assert_eq!(due, Some((4, 24)));
        life.apply(Event::JoinCompleted { at: 30 });
        assert_eq!(life.established_at(), Some(CONFIRMATION.established_at));
    }
}
