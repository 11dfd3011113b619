//! Helpers that the tests of all policies share, and tests that hold for all policies.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::*;

/// The subflow over parallel link `link`: 10.1.LINK.1 to 10.1.LINK.2, port 5001.
pub(super) fn tuple(link: u8, local_port: u16) -> FourTuple {
    FourTuple {
        local: SocketAddr::new(address(link, 1), local_port),
        remote: remote_of(link),
    }
}

pub(super) fn remote_of(link: u8) -> SocketAddr {
    SocketAddr::new(address(link, 2), 5001)
}

fn address(link: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 1, link, host))
}

/// A connection over `links` parallel links. Its initial subflow is on the first link.
pub(super) fn connection(role: Role, links: u8) -> Connection {
    Connection {
        role,
        initial: tuple(1, 40_000),
        pairs: (1..=links).map(|link| tuple(link, 0).pair()).collect(),
        down: BTreeSet::new(),
        backup: BTreeSet::new(),
    }
}

/// Local address, local ID and remote end of each opened subflow. Panics on any other command.
pub(super) fn opened(commands: &[Command]) -> Vec<(IpAddr, AddressId, SocketAddr)> {
    let opened = commands.iter().map(|command| match command {
        Command::OpenSubflow {
            local,
            local_id,
            remote,
            ..
        } => (*local, *local_id, *remote),
        other => panic!("found {other:?}"),
    });
    opened.collect()
}

/// A policy with a clock.
pub(super) struct Side {
    policy: Box<dyn PathManager>,
    now: Nanos,
}

impl Side {
    pub(super) fn new(policy: Box<dyn PathManager>) -> Self {
        Self { policy, now: 0 }
    }

    pub(super) fn handle(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        self.policy.handle(self.now, &event, &mut commands);
        commands
    }

    /// Advances the clock.
    pub(super) fn pass(&mut self, time_ns: Nanos) {
        self.now += time_ns;
    }

    /// Time until the policy's timeout.
    pub(super) fn wait(&self) -> Option<Nanos> {
        self.policy.poll_timeout().map(|at| at - self.now)
    }

    /// Advances the clock to the policy's timeout and handles it.
    pub(super) fn expire(&mut self) -> Vec<Command> {
        self.now = self.policy.poll_timeout().expect("it waits for something");
        let mut commands = Vec::new();
        self.policy.handle_timeout(self.now, &mut commands);
        commands
    }
}

#[test]
fn names_are_found_and_others_not() {
    for name in names() {
        assert!(by_name(name).is_some());
    }
    assert!(by_name("fullmesh").is_none());
}

#[test]
fn passive_opens_and_announces_nothing() {
    for role in [Role::Opener, Role::Acceptor] {
        let policy = by_name("passive").expect("it exists");
        let mut side = Side::new(policy(&connection(role, 8), &Parameters::default()));
        let local = address(2, 1);
        for event in [
            Event::Established,
            Event::AddressDown(local),
            Event::AddressUp(local),
        ] {
            assert_eq!(side.handle(event), []);
        }
    }
}

#[test]
fn every_policy_makes_the_initial_subflow_a_backup_one_if_it_is_to_be() {
    for Entry { description, make } in PATH_MANAGERS {
        let name = description.name;
        let mut connection = connection(Role::Opener, 1);
        connection.backup.insert(address(1, 1));
        let parameters = Parameters {
            subflows: Some(1),
            ..Parameters::default()
        };
        let mut side = Side::new(make(&connection, &parameters));
        let subflow = connection.initial;
        let backup = true;
        let expected = [Command::SetBackup { subflow, backup }];
        assert_eq!(side.handle(Event::Established), expected, "{name}");
    }
}
