//! Two path managers with an arbitrarily faulty network between them: what always holds, and what
//! holds in the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use mptcp::pm::{
    AddressId, AddressPair, Command, Connection, Event, FourTuple, Limits, Nanos, Parameters,
    PathManager, Role, by_name,
};
use proptest::prelude::*;

const LINKS: u8 = 3;
const PORT: u16 = 5001;

/// An event outside the path managers.
#[derive(Clone, Debug)]
enum Incident {
    AddressDown(usize, u8),
    AddressUp(usize, u8),
    /// The subflow over a link is reset.
    Reset(u8),
    /// Sets whether subflows over a link are refused from now on.
    Refuse(u8, bool),
    Backup(usize, u8, bool),
    /// Sets whether announcements are lost from now on.
    Deafen(bool),
    /// Sets whether a host learns that the peer has closed a subflow on a link that was down.
    Mute(bool),
    Wait(Nanos),
}

fn incidents() -> impl Strategy<Value = Vec<Incident>> {
    let side = 0..2_usize;
    let link = 1..=LINKS;
    let incident = prop_oneof![
        (side.clone(), link.clone()).prop_map(|(side, link)| Incident::AddressDown(side, link)),
        (side.clone(), link.clone()).prop_map(|(side, link)| Incident::AddressUp(side, link)),
        link.clone().prop_map(Incident::Reset),
        (link.clone(), any::<bool>()).prop_map(|(link, on)| Incident::Refuse(link, on)),
        (side, link, any::<bool>()).prop_map(|(side, link, on)| Incident::Backup(side, link, on)),
        any::<bool>().prop_map(Incident::Deafen),
        any::<bool>().prop_map(Incident::Mute),
        (0..5_000_000_000_u64).prop_map(Incident::Wait),
    ];
    prop::collection::vec(incident, 0..40)
}

fn address(side: usize, link: u8) -> IpAddr {
    Ipv4Addr::new(10, 1, link, side as u8 + 1).into()
}

fn link_of(pair: AddressPair) -> u8 {
    match pair.local {
        IpAddr::V4(address) => address.octets()[2],
        IpAddr::V6(_) => panic!("found {pair:?}"),
    }
}

fn turned(subflow: FourTuple) -> FourTuple {
    FourTuple {
        local: subflow.remote,
        remote: subflow.local,
    }
}

/// Two hosts; side 0 is the opener. Subflows are as it sees them, with the IDs of its own and the
/// peer's address.
struct World {
    policies: Vec<Box<dyn PathManager>>,
    now: Nanos,
    up: [BTreeSet<u8>; 2],
    refused: BTreeSet<u8>,
    subflows: BTreeMap<FourTuple, [AddressId; 2]>,
    /// IDs that the acceptor's stack has assigned.
    given: BTreeMap<IpAddr, AddressId>,
    backup: BTreeSet<IpAddr>,
    is_backup: BTreeSet<FourTuple>,
    pending: VecDeque<(usize, Event)>,
    is_deaf: bool,
    is_mute: bool,
    /// Subflows that only this side still has, because the peer could not report their end. It
    /// learns of it when the link works again.
    left_over: BTreeMap<(usize, FourTuple), [AddressId; 2]>,
    next_port: u16,
}

impl World {
    fn new(name: &str) -> Self {
        let initial = FourTuple {
            local: SocketAddr::new(address(0, 1), 40_000),
            remote: SocketAddr::new(address(1, 1), PORT),
        };
        let policy = |side: usize| {
            let (role, initial) = match side {
                0 => (Role::Opener, initial),
                _ => (Role::Acceptor, turned(initial)),
            };
            let pairs = (1..=LINKS).map(|link| AddressPair {
                local: address(side, link),
                remote: address(1 - side, link),
            });
            let connection = Connection {
                role,
                initial,
                pairs: pairs.collect(),
                down: BTreeSet::new(),
                backup: BTreeSet::new(),
            };
            let parameters = Parameters {
                subflows: Some(3),
                ..Parameters::default()
            };
            by_name(name).unwrap()(&connection, &parameters)
        };
        let all: BTreeSet<u8> = (1..=LINKS).collect();
        let mut world = Self {
            policies: vec![policy(0), policy(1)],
            now: 0,
            up: [all.clone(), all],
            refused: BTreeSet::new(),
            subflows: BTreeMap::from([(initial, [0, 0])]),
            given: BTreeMap::from([(address(1, 1), 0)]),
            backup: BTreeSet::new(),
            is_backup: BTreeSet::new(),
            pending: VecDeque::from([(0, Event::Established), (1, Event::Established)]),
            is_deaf: false,
            is_mute: false,
            left_over: BTreeMap::new(),
            next_port: 40_001,
        };
        world.settle();
        world
    }

    fn happen(&mut self, incident: &Incident) {
        match *incident {
            Incident::AddressDown(side, link) => {
                if self.up[side].remove(&link) {
                    self.handle(side, Event::AddressDown(address(side, link)));
                }
            }
            Incident::AddressUp(side, link) => {
                if self.up[side].insert(link) {
                    self.handle(side, Event::AddressUp(address(side, link)));
                    self.clear_left_over(link);
                }
            }
            Incident::Reset(link) => {
                let of_link = |subflow: &&FourTuple| link_of(subflow.pair()) == link;
                let found = self.subflows.keys().find(of_link).copied();
                if let Some(subflow) = found {
                    self.close(subflow);
                }
            }
            Incident::Refuse(link, true) => drop(self.refused.insert(link)),
            Incident::Refuse(link, false) => drop(self.refused.remove(&link)),
            Incident::Backup(side, link, on) => {
                let local = address(side, link);
                match on {
                    true => self.backup.insert(local),
                    false => self.backup.remove(&local),
                };
                self.handle(side, Event::Backup { local, on });
            }
            Incident::Deafen(is_deaf) => self.is_deaf = is_deaf,
            Incident::Mute(is_mute) => self.is_mute = is_mute,
            Incident::Wait(wait_ns) => self.wait_until(self.now + wait_ns),
        }
        self.settle();
    }

    fn handle(&mut self, side: usize, event: Event) {
        self.pending.push_back((side, event));
    }

    /// Runs until no event is pending.
    fn settle(&mut self) {
        let mut steps = 0;
        while let Some((side, event)) = self.pending.pop_front() {
            let mut commands = Vec::new();
            self.policies[side].handle(self.now, &event, &mut commands);
            self.obey(side, commands);
            steps += 1;
            assert!(steps < 10_000, "they keep each other busy");
        }
    }

    fn wait_until(&mut self, end: Nanos) {
        let timeouts = |world: &Self| {
            let all = world.policies.iter().enumerate();
            let all = all.filter_map(|(side, policy)| Some((policy.poll_timeout()?, side)));
            all.min().filter(|(at, _)| *at <= end)
        };
        while let Some((at, side)) = timeouts(self) {
            self.now = self.now.max(at);
            let mut commands = Vec::new();
            self.policies[side].handle_timeout(self.now, &mut commands);
            self.obey(side, commands);
            self.settle();
        }
        self.now = end;
    }

    fn obey(&mut self, side: usize, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::OpenSubflow {
                    local,
                    local_id,
                    remote,
                    backup,
                    via,
                } => {
                    assert_eq!(via, [] as [Ipv4Addr; 0]);
                    assert_eq!(side, 0, "the acceptor opens nothing");
                    assert_eq!(backup, self.backup.contains(&local));
                    self.open(local, local_id, remote);
                }
                Command::CloseSubflow { subflow } => {
                    self.close_at(side, subflow);
                }
                Command::Remove { id, .. } => self.remove(side, id),
                Command::Announce { id, address, port } => {
                    assert_ne!(id, 0, "ID 0 cannot be announced");
                    let has_left_over = self.left_over.keys().any(|(whose, _)| *whose == side);
                    let is_heard = !self.subflows.is_empty();
                    assert!(is_heard || has_left_over, "there is no way to tell");
                    if is_heard && !self.is_deaf {
                        self.handle(1 - side, Event::Announced { id, address, port });
                    }
                }
                Command::SetBackup { subflow, backup } => {
                    let seen = if side == 0 { subflow } else { turned(subflow) };
                    let is_left_over = self.left_over.contains_key(&(side, subflow));
                    let is_there = is_left_over || self.subflows.contains_key(&seen);
                    assert!(is_there, "{subflow:?} is not there");
                    match backup {
                        true => self.is_backup.insert(subflow),
                        false => self.is_backup.remove(&subflow),
                    };
                }
            }
        }
    }

    fn open(&mut self, local: IpAddr, local_id: AddressId, remote: SocketAddr) {
        let link = (1..=LINKS).find(|&link| local == address(0, link));
        let link = link.filter(|&link| remote.ip() == address(1, link));
        let link = link.expect("only routed pairs are opened");
        let pair = AddressPair {
            local,
            remote: remote.ip(),
        };
        if !self.up[0].contains(&link) {
            return self.handle(0, Event::OpenFailed { pair });
        }
        let subflow = FourTuple {
            local: SocketAddr::new(local, self.next_port),
            remote,
        };
        self.next_port = self.next_port.checked_add(1).unwrap_or(10_000);
        if self.refused.contains(&link) || !self.up[1].contains(&link) {
            return self.handle(0, Event::SubflowClosed { subflow });
        }
        let free = (1..).find(|id| !self.given.values().any(|taken| taken == id));
        let remote_id = *self.given.entry(remote.ip()).or_insert(free.unwrap());
        if self.backup.contains(&local) {
            self.is_backup.insert(subflow);
        }
        self.subflows.insert(subflow, [local_id, remote_id]);
        for (side, subflow, [local_id, remote_id]) in [
            (0, subflow, [local_id, remote_id]),
            (1, turned(subflow), [remote_id, local_id]),
        ] {
            self.handle(
                side,
                Event::SubflowEstablished {
                    subflow,
                    local_id,
                    remote_id,
                },
            );
        }
    }

    /// Closes a subflow at both ends.
    fn close(&mut self, subflow: FourTuple) {
        if self.subflows.remove(&subflow).is_some() {
            for (side, subflow) in [(0, subflow), (1, turned(subflow))] {
                self.handle(side, Event::SubflowClosed { subflow });
            }
        }
    }

    /// Closes a subflow at one end. The other learns of it if the link works.
    fn close_at(&mut self, side: usize, subflow: FourTuple) {
        self.handle(side, Event::SubflowClosed { subflow });
        let seen = if side == 0 { subflow } else { turned(subflow) };
        if self.left_over.remove(&(side, subflow)).is_some() {
            return;
        }
        let Some(ids) = self.subflows.remove(&seen) else {
            return;
        };
        let (peer, of_peer) = (1 - side, turned(subflow));
        let link = link_of(subflow.pair());
        if self.up.iter().all(|up| up.contains(&link)) {
            let subflow = of_peer;
            self.handle(peer, Event::SubflowClosed { subflow });
        } else {
            self.left_over.insert((peer, of_peer), ids);
        }
    }

    /// Resets what one side still has on a link, if the link works.
    fn clear_left_over(&mut self, link: u8) {
        if self.is_mute || !self.up.iter().all(|up| up.contains(&link)) {
            return;
        }
        let concerned = self.left_over.keys().copied();
        let concerned = concerned.filter(|(_, subflow)| link_of(subflow.pair()) == link);
        for (side, subflow) in concerned.collect::<Vec<_>>() {
            self.left_over.remove(&(side, subflow));
            self.handle(side, Event::SubflowClosed { subflow });
        }
    }

    /// Withdraws an address. The peer learns of it if there is another path, and closes its
    /// subflows to that address.
    fn remove(&mut self, side: usize, id: AddressId) {
        if self.subflows.values().all(|ids| ids[side] == id) {
            return;
        }
        let peer = 1 - side;
        self.handle(peer, Event::Removed { id });
        let left_over = self.left_over.iter();
        let left_over = left_over.filter(|((whose, _), ids)| *whose == peer && ids[side] == id);
        for (_, subflow) in left_over.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.left_over.remove(&(peer, subflow));
            self.handle(peer, Event::SubflowClosed { subflow });
        }
        let concerned = self.subflows.iter().filter(|(_, ids)| ids[side] == id);
        for subflow in concerned.map(|(subflow, _)| *subflow).collect::<Vec<_>>() {
            self.close(subflow);
        }
    }

    /// Repairs everything, for long enough that all retries are made.
    fn recover(&mut self) {
        self.is_deaf = false;
        for link in 1..=LINKS {
            self.happen(&Incident::Refuse(link, false));
            for side in [0, 1] {
                self.happen(&Incident::AddressUp(side, link));
            }
        }
        self.wait_until(self.now + 60_000_000_000);
        if self.subflows.is_empty() {
            // A host notices the end of such subflows at last by its own timeouts.
            self.is_mute = false;
            (1..=LINKS).for_each(|link| self.clear_left_over(link));
            self.settle();
            self.wait_until(self.now + 60_000_000_000);
        }
    }

    fn links(&self) -> Vec<u8> {
        let links = self.subflows.keys().map(|subflow| link_of(subflow.pair()));
        links.collect()
    }

    /// Checks that every subflow has the priority that was requested last, at both ends.
    fn check_priorities(&self) {
        for subflow in self.subflows.keys().flat_map(|&one| [one, turned(one)]) {
            let expected = self.backup.contains(&subflow.local.ip());
            assert_eq!(self.is_backup.contains(&subflow), expected, "{subflow:?}");
        }
    }
}

proptest! {
    #[test]
    fn full_mesh_has_every_pair_once_when_all_is_well_again(incidents in incidents()) {
        let mut world = World::new("full_mesh");
        for incident in &incidents {
            world.happen(incident);
            let links = world.links();
            let distinct: BTreeSet<u8> = links.iter().copied().collect();
            prop_assert_eq!(distinct.len(), links.len(), "a pair has two subflows");
            world.check_priorities();
        }
        world.recover();
        prop_assert_eq!(world.links(), (1..=LINKS).collect::<Vec<_>>());
        world.check_priorities();
    }

    #[test]
    fn full_mesh_has_no_subflow_on_an_address_that_is_gone(incidents in incidents()) {
        let mut world = World::new("full_mesh");
        for incident in &incidents {
            world.happen(incident);
            let links = world.links();
            for link in &links {
                // The acceptor cannot open subflows, so it keeps its last one.
                let [opener, acceptor] = world.up.each_ref().map(|up| up.contains(link));
                prop_assert!(opener && (acceptor || links == [*link]));
            }
        }
    }

    #[test]
    fn n_diff_ports_has_its_number_again_after_errors(resets in 0..20_usize) {
        let mut world = World::new("n_diff_ports");
        prop_assert_eq!(world.links(), [1, 1, 1]);
        for _ in 0..resets {
            world.happen(&Incident::Reset(1));
        }
        world.recover();
        prop_assert_eq!(world.links(), [1, 1, 1]);
    }

    #[test]
    fn passive_has_never_more_than_its_initial_subflow(incidents in incidents()) {
        let mut world = World::new("passive");
        for incident in &incidents {
            world.happen(incident);
            prop_assert!(world.links().iter().all(|&link| link == 1));
            prop_assert!(world.subflows.len() <= 1);
        }
    }

    #[test]
    fn kernel_endpoints_keep_to_their_limit_and_open_no_pair_twice(
        happenings in prop::collection::vec(happening(), 0..60),
        subflows in 0..5_usize,
    ) {
        let mut opener = Opener::new(subflows);
        for happening in &happenings {
            opener.happen(happening);
            prop_assert!(opener.opening.len() + opener.present.len() <= subflows);
            let distinct: BTreeSet<_> = opener.opening.iter().collect();
            prop_assert_eq!(distinct.len(), opener.opening.len());
        }
    }
}

/// An event of an opener's subflows, each identified by its index among those that are opening or
/// present.
#[derive(Clone, Debug)]
enum Happening {
    Announced(u8),
    Removed(u8),
    Established(usize),
    Failed(usize),
    Closed(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    let which = 0..LINKS as usize;
    prop_oneof![
        (1..=LINKS).prop_map(Happening::Announced),
        (1..=LINKS).prop_map(Happening::Removed),
        which.clone().prop_map(Happening::Established),
        which.clone().prop_map(Happening::Failed),
        which.prop_map(Happening::Closed),
    ]
}

/// The opener of a connection with `kernel_endpoints`.
struct Opener {
    policy: Box<dyn PathManager>,
    opening: Vec<FourTuple>,
    present: Vec<FourTuple>,
    next_port: u16,
}

impl Opener {
    fn new(subflows: usize) -> Self {
        let pairs = (1..=LINKS).map(|link| AddressPair {
            local: address(0, link),
            remote: address(1, link),
        });
        let connection = Connection {
            role: Role::Opener,
            initial: FourTuple {
                local: SocketAddr::new(address(0, 1), 40_000),
                remote: SocketAddr::new(address(1, 1), PORT),
            },
            pairs: pairs.collect(),
            down: BTreeSet::new(),
            backup: BTreeSet::new(),
        };
        let limits = Limits {
            subflows,
            ..Limits::default()
        };
        let parameters = Parameters {
            limits,
            ..Parameters::default()
        };
        let mut opener = Self {
            policy: by_name("kernel_endpoints").unwrap()(&connection, &parameters),
            opening: Vec::new(),
            present: Vec::new(),
            next_port: 40_001,
        };
        opener.handle(&Event::Established);
        opener
    }

    fn handle(&mut self, event: &Event) {
        let mut commands = Vec::new();
        self.policy.handle(0, event, &mut commands);
        for command in commands {
            let Command::OpenSubflow { local, remote, .. } = command else {
                panic!("found {command:?}");
            };
            // Only established subflows are told apart by their ports.
            let local = SocketAddr::new(local, 0);
            self.opening.push(FourTuple { local, remote });
        }
    }

    fn happen(&mut self, happening: &Happening) {
        let port = None;
        match *happening {
            Happening::Announced(id) => {
                let address = address(1, id);
                self.handle(&Event::Announced { id, address, port });
            }
            Happening::Removed(id) => self.handle(&Event::Removed { id }),
            Happening::Established(which) => {
                if which < self.opening.len() {
                    let mut subflow = self.opening.remove(which);
                    subflow.local.set_port(self.next_port);
                    self.next_port += 1;
                    self.present.push(subflow);
                    let (local_id, remote_id) = (1, 1);
                    self.handle(&Event::SubflowEstablished {
                        subflow,
                        local_id,
                        remote_id,
                    });
                }
            }
            Happening::Failed(which) => {
                if which < self.opening.len() {
                    let pair = self.opening.remove(which).pair();
                    self.handle(&Event::OpenFailed { pair });
                }
            }
            Happening::Closed(which) => {
                if which < self.present.len() {
                    let subflow = self.present.remove(which);
                    self.handle(&Event::SubflowClosed { subflow });
                }
            }
        }
    }
}
