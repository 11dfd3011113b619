//! `n_diff_ports`: keeps several subflows between the two initial addresses, from different ports.

use super::Entry;
use super::retry::{Failures, Recreation, Waits};
use super::subflows::Subflows;
use super::{Command, Connection, Event, FourTuple, Nanos, Parameters, PathManager, Role};
use crate::algorithm::{Description, Parameter, Value};

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "n_diff_ports",
        aliases: &[],
        summary: "Opens subflows between the two initial addresses from different source ports",
        source: "ndiffports of the out-of-tree kernel",
        parameters: &[Parameter {
            name: "subflows",
            unit: "subflows",
            meaning: "the number of subflows between the initial pair of addresses, including the initial one",
            computed_default: None,
            value: Value::Integer {
                least: 1,
                most: 64,
                get: |given| Some(given.subflows.unwrap_or(DEFAULT_SUBFLOWS)),
                set: |given, value| given.subflows = Some(value),
            },
        }],
    },
    make: |connection, given| Box::new(NDiffPorts::new(connection, given)),
};

/// Number of subflows, including the initial one, if the parameters give none.
const DEFAULT_SUBFLOWS: u32 = 2;

/// The path manager `n_diff_ports`: keeps a fixed number of subflows between the two initial
/// addresses, from different ports.
///
/// Meant for networks that distribute flows over equal-cost paths by their ports. Address changes
/// are ignored, as in the out-of-tree kernel.
#[derive(Clone, Debug)]
pub struct NDiffPorts {
    role: Role,
    initial: FourTuple,
    wanted: usize,
    recreation: Recreation,
    subflows: Subflows,
    opening: usize,
    /// Whether a further subflow was ruled out ([`Event::Unfit`]).
    is_unfit: bool,
    failures: Failures,
    retry_at: Option<Nanos>,
}

impl NDiffPorts {
    /// Creates the policy for the new connection `connection`. Uses only `subflows` and
    /// `recreation` of `parameters`. `subflows` is the number of subflows, including the initial
    /// one; the default is 2.
    pub fn new(connection: &Connection, parameters: &Parameters) -> Self {
        Self {
            role: connection.role,
            initial: connection.initial,
            wanted: parameters.subflows.unwrap_or(DEFAULT_SUBFLOWS) as usize,
            recreation: parameters.recreation,
            subflows: Subflows::new(connection),
            opening: 0,
            is_unfit: false,
            failures: Failures::default(),
            retry_at: None,
        }
    }

    fn open_missing(&mut self, commands: &mut Vec<Command>) {
        if self.role == Role::Acceptor {
            return;
        }
        let there = self.subflows.count(self.initial.pair()) + self.opening;
        let local = self.initial.local.ip();
        let missing = self.wanted.saturating_sub(there);
        commands.extend((0..missing).map(|_| Command::OpenSubflow {
            local,
            local_id: 0,
            remote: self.initial.remote,
            backup: self.subflows.is_backup(local),
            via: Vec::new(),
        }));
        self.opening += missing;
    }

    fn closed(&mut self, now: Nanos, was_there: bool) {
        if !was_there {
            self.opening = self.opening.saturating_sub(1);
        }
        match self.recreation {
            Recreation::Never => self.wanted = self.wanted.saturating_sub(1),
            Recreation::Backoff(waits) => self.try_again(now, waits),
        }
    }

    fn open_failed(&mut self, now: Nanos) {
        self.opening = self.opening.saturating_sub(1);
        self.try_again(now, self.recreation.waits_after_refusal());
    }

    /// Schedules a retry. Subflows that fail while one is scheduled are retried together.
    fn try_again(&mut self, now: Nanos, waits: Waits) {
        let may_retry = !self.is_unfit || self.subflows.are_none();
        if self.role == Role::Opener && self.retry_at.is_none() && may_retry {
            self.retry_at = Some(self.failures.next_try(now, waits));
        }
    }
}

impl PathManager for NDiffPorts {
    fn handle(&mut self, now: Nanos, event: &Event, commands: &mut Vec<Command>) {
        let pair = self.initial.pair();
        let before = self.subflows.count(pair);
        self.subflows.handle(event, commands);
        match event {
            Event::Established => self.open_missing(commands),
            Event::SubflowEstablished { .. } if self.subflows.count(pair) > before => {
                self.opening = self.opening.saturating_sub(1);
            }
            Event::Progress => self.failures.forget(),
            Event::Unfit { pair: refused } => self.is_unfit |= *refused == pair,
            Event::SubflowClosed { subflow } if subflow.pair() == pair => {
                let was_there = self.subflows.count(pair) < before;
                self.closed(now, was_there);
            }
            Event::OpenFailed { pair: failed } if *failed == pair => self.open_failed(now),
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        self.retry_at
    }

    fn handle_timeout(&mut self, now: Nanos, commands: &mut Vec<Command>) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.open_missing(commands);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Side, connection, opened, tuple};
    use super::*;

    fn policy(connection: &Connection, subflows: Option<u32>, recreation: Recreation) -> Side {
        let parameters = Parameters {
            subflows,
            recreation,
            ..Parameters::default()
        };
        Side::new(Box::new(NDiffPorts::new(connection, &parameters)))
    }

    fn side(connection: &Connection, subflows: Option<u32>) -> Side {
        policy(connection, subflows, Recreation::default())
    }

    #[test]
    fn the_opener_fills_up_to_the_number_on_the_initial_pair() {
        let connection = connection(Role::Opener, 3);
        let mut side = side(&connection, Some(5));
        let commands = side.handle(Event::Established);
        assert_eq!(opened(&commands).len(), 4);
        assert!(opened(&commands).iter().all(|(local, id, remote)| {
            (*local, *id, *remote) == (connection.initial.local.ip(), 0, connection.initial.remote)
        }));
    }

    #[test]
    fn without_a_number_there_are_two() {
        let connection = connection(Role::Opener, 1);
        let mut side = side(&connection, None);
        assert_eq!(opened(&side.handle(Event::Established)).len(), 1);
    }

    #[test]
    fn the_acceptor_opens_nothing() {
        let connection = connection(Role::Acceptor, 1);
        let mut side = side(&connection, Some(5));
        assert_eq!(side.handle(Event::Established), []);
    }

    #[test]
    fn those_that_fail_are_tried_again_together_and_later_each_time() {
        let connection = connection(Role::Opener, 1);
        let pair = connection.initial.pair();
        let mut side = side(&connection, Some(3));
        side.handle(Event::Established);
        for expected_ns in [100_000_000, 200_000_000] {
            side.handle(Event::OpenFailed { pair });
            side.handle(Event::OpenFailed { pair });
            assert_eq!(side.wait(), Some(expected_ns));
            assert_eq!(opened(&side.expire()).len(), 2);
        }
    }

    #[test]
    fn what_is_not_opened_again_is_no_longer_wanted() {
        let connection = connection(Role::Opener, 1);
        let pair = connection.initial.pair();
        let mut side = policy(&connection, Some(3), Recreation::Never);
        assert_eq!(opened(&side.handle(Event::Established)).len(), 2);
        side.handle(Event::SubflowClosed {
            subflow: tuple(1, 40_001),
        });
        assert_eq!(side.wait(), None);
        side.handle(Event::OpenFailed { pair });
        assert_eq!(opened(&side.expire()).len(), 1, "that one was never tried");
    }

    #[test]
    fn addresses_that_come_and_go_change_nothing() {
        let connection = connection(Role::Opener, 2);
        let local = connection.initial.local.ip();
        let mut side = side(&connection, Some(3));
        side.handle(Event::Established);
        assert_eq!(side.handle(Event::AddressDown(local)), []);
        assert_eq!(side.handle(Event::AddressUp(local)), []);
    }
}
