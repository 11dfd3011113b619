use super::super::tests::{Side, connection, opened, remote_of, tuple};
use super::*;

fn local(link: u8) -> IpAddr {
    tuple(link, 0).local.ip()
}

fn endpoint(link: u8, flags: EndpointFlags) -> Endpoint {
    Endpoint {
        address: local(link),
        port: None,
        flags,
    }
}

/// A connection that has routes from every local address to every address of the peer. The pairs of
/// each link come first.
fn meshed(role: Role, links: u8) -> Connection {
    let mut connection = connection(role, links);
    let all = || 1..=links;
    let across = all().flat_map(|from| {
        all()
            .filter(move |to| *to != from)
            .map(move |to| (from, to))
    });
    let across = across.map(|(from, to)| AddressPair {
        local: local(from),
        remote: remote_of(to).ip(),
    });
    connection.pairs = connection.pairs.iter().copied().chain(across).collect();
    connection
}

fn side(role: Role, endpoints: &[Endpoint], subflows: usize) -> Side {
    let parameters = Parameters {
        endpoints: Some(endpoints.to_vec()),
        limits: Limits {
            subflows,
            ..Limits::default()
        },
        ..Parameters::default()
    };
    Side::new(Box::new(KernelEndpoints::new(
        &meshed(role, 8),
        &parameters,
    )))
}

fn established(link: u8) -> Event {
    Event::SubflowEstablished {
        subflow: tuple(link, 40_000),
        local_id: link,
        remote_id: link,
    }
}

fn announced(link: u8) -> Event {
    Event::Announced {
        id: link,
        address: remote_of(link).ip(),
        port: None,
    }
}

#[test]
fn what_no_route_leads_to_takes_no_place() {
    let parameters = Parameters {
        limits: Limits {
            subflows: 2,
            ..Limits::default()
        },
        ..Parameters::default()
    };
    let policy = KernelEndpoints::new(&connection(Role::Opener, 4), &parameters);
    let mut side = Side::new(Box::new(policy));
    assert!(side.handle(Event::Established).is_empty());
    let expected = [(local(3), 2, remote_of(3))];
    assert_eq!(opened(&side.handle(announced(3))), expected);
}

#[test]
fn an_address_of_the_other_family_is_not_connected_to_and_takes_no_place() {
    let mut side = side(Role::Opener, &[endpoint(2, EndpointFlags::SUBFLOW)], 2);
    side.handle(Event::Established);
    let of_ipv6 = Event::Announced {
        id: 9,
        address: "2001:db8::c1a0".parse().unwrap(),
        port: None,
    };
    assert_eq!(side.handle(of_ipv6), []);
    assert_eq!(
        opened(&side.handle(announced(3))),
        [(local(3), 2, remote_of(3))]
    );
}

#[test]
fn without_endpoints_the_opener_connects_to_the_initial_address_and_the_acceptor_announces() {
    let policy = |role| KernelEndpoints::new(&meshed(role, 3), &Parameters::default());
    let commands = Side::new(Box::new(policy(Role::Opener))).handle(Event::Established);
    let expected = [(local(2), 1, remote_of(1)), (local(3), 2, remote_of(1))];
    assert_eq!(opened(&commands), expected);
    let commands = Side::new(Box::new(policy(Role::Acceptor))).handle(Event::Established);
    let announce = |id, link| Command::Announce {
        id,
        address: local(link),
        port: None,
    };
    assert_eq!(commands, [announce(1, 2), announce(2, 3)]);
}

#[test]
fn an_announced_address_is_connected_to_from_where_routing_says() {
    let mut side = side(Role::Opener, &[endpoint(2, EndpointFlags::SUBFLOW)], 8);
    side.handle(Event::Established);
    assert_eq!(
        opened(&side.handle(announced(2))),
        [(local(2), 1, remote_of(2))]
    );
    assert_eq!(
        opened(&side.handle(announced(3))),
        [(local(3), 2, remote_of(3))]
    );
    assert_eq!(side.handle(announced(3)), [], "its subflow is opening");
    side.handle(established(3));
    assert_eq!(side.handle(announced(3)), [], "it has a subflow");
}

#[test]
fn an_endpoint_with_a_port_is_announced_with_it_at_the_initial_address_too() {
    let at_port = |link, port| Endpoint {
        port: Some(port),
        ..endpoint(link, EndpointFlags::SIGNAL)
    };
    let initial = tuple(1, 40_000).local.port();
    let endpoints = [at_port(1, initial), at_port(1, 7000), at_port(2, 7001)];
    let parameters = Parameters {
        endpoints: Some(endpoints.to_vec()),
        ..Parameters::default()
    };
    let mut policy = KernelEndpoints::new(&meshed(Role::Acceptor, 2), &parameters);
    let mut commands = Vec::new();
    policy.handle(0, &Event::Established, &mut commands);
    let announce = |id, link, port| Command::Announce {
        id,
        address: local(link),
        port: Some(port),
    };
    assert_eq!(commands, [announce(2, 1, 7000), announce(3, 2, 7001)]);
    let mut id = |link, port| policy.local_id(SocketAddr::new(local(link), port));
    assert_eq!(id(1, 7000), Some(0));
    assert_eq!(id(2, 7001), Some(3));
    assert_eq!(id(2, 5001), Some(4), "an implicit one");
}

#[test]
fn a_known_address_that_is_announced_with_another_port_is_joined_there_once() {
    let mut side = side(Role::Opener, &[], 8);
    side.handle(Event::Established);
    let SocketAddr::V4(mut remote) = remote_of(1) else {
        panic!("these are IPv4 addresses");
    };
    let announced = |port| Event::Announced {
        id: 1,
        address: remote_of(1).ip(),
        port: Some(port),
    };
    assert_eq!(side.handle(announced(remote.port())), []);
    remote.set_port(7000);
    let expected = [(local(1), 0, remote.into())];
    assert_eq!(opened(&side.handle(announced(7000))), expected);
    assert_eq!(side.handle(announced(7000)), [], "its subflow is opening");
}

#[test]
fn what_failed_makes_room_for_the_next_endpoint_and_is_not_tried_again() {
    let endpoints = [2, 3].map(|link| endpoint(link, EndpointFlags::SUBFLOW));
    let mut side = side(Role::Opener, &endpoints, 1);
    assert_eq!(
        opened(&side.handle(Event::Established)),
        [(local(2), 1, remote_of(1))]
    );
    let pair = tuple(2, 0).pair();
    let failed = Event::OpenFailed { pair };
    assert_eq!(
        opened(&side.handle(failed.clone())),
        [(local(3), 2, remote_of(1))]
    );
    assert_eq!(side.handle(failed), []);
}

#[test]
fn addresses_that_come_and_go_change_nothing() {
    let mut side = side(Role::Opener, &[endpoint(2, EndpointFlags::SUBFLOW)], 8);
    side.handle(Event::Established);
    side.handle(established(2));
    assert_eq!(side.handle(Event::AddressDown(local(2))), []);
    let subflow = tuple(2, 40_000);
    assert_eq!(side.handle(Event::SubflowClosed { subflow }), []);
    assert_eq!(side.handle(Event::AddressUp(local(2))), []);
}

#[test]
fn meshed_endpoints_connect_to_all_that_is_announced() {
    let flags = EndpointFlags::SUBFLOW | EndpointFlags::FULLMESH;
    let endpoints = [1, 2].map(|link| endpoint(link, flags));
    let mut side = side(Role::Opener, &endpoints, 8);
    assert_eq!(
        opened(&side.handle(Event::Established)),
        [(local(2), 2, remote_of(1))]
    );
    let expected = [(local(1), 0, remote_of(2)), (local(2), 2, remote_of(2))];
    assert_eq!(opened(&side.handle(announced(2))), expected);
}

#[test]
fn each_laminar_endpoint_serves_one_announced_address() {
    let endpoints = [2, 3].map(|link| endpoint(link, EndpointFlags::LAMINAR));
    let mut side = side(Role::Opener, &endpoints, 8);
    assert_eq!(side.handle(Event::Established), []);
    assert_eq!(
        opened(&side.handle(announced(5))),
        [(local(2), 1, remote_of(5))]
    );
    assert_eq!(
        opened(&side.handle(announced(6))),
        [(local(3), 2, remote_of(6))]
    );
    assert_eq!(side.handle(announced(7)), []);
}

#[test]
fn a_removed_address_makes_room_for_another_one() {
    let parameters = Parameters {
        endpoints: Some(Vec::new()),
        limits: Limits {
            subflows: 8,
            add_addr_accepted: 1,
        },
        ..Parameters::default()
    };
    let policy = KernelEndpoints::new(&meshed(Role::Opener, 8), &parameters);
    let mut side = Side::new(Box::new(policy));
    side.handle(Event::Established);
    assert_eq!(opened(&side.handle(announced(2))).len(), 1);
    assert_eq!(side.handle(announced(3)), []);
    side.handle(Event::Removed { id: 2 });
    assert_eq!(opened(&side.handle(announced(3))).len(), 1);
}

#[test]
fn the_acceptor_closes_what_is_beyond_its_limit() {
    let mut side = side(Role::Acceptor, &[], 1);
    side.handle(Event::Established);
    assert_eq!(side.handle(established(2)), []);
    let subflow = tuple(3, 40_000);
    assert_eq!(
        side.handle(established(3)),
        [Command::CloseSubflow { subflow }]
    );
}

#[test]
fn backup_endpoints_have_backup_subflows_also_the_initial_one() {
    let flags = EndpointFlags::SUBFLOW | EndpointFlags::BACKUP;
    let endpoints = [1, 2].map(|link| endpoint(link, flags));
    let commands = side(Role::Opener, &endpoints, 8).handle(Event::Established);
    let (subflow, backup) = (tuple(1, 40_000), true);
    assert_eq!(commands[0], Command::SetBackup { subflow, backup });
    assert!(matches!(
        commands[1],
        Command::OpenSubflow { backup: true, .. }
    ));
}
