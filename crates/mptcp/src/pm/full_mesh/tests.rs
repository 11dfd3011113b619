use super::super::tests::{Side, connection, opened, remote_of, tuple};
use super::*;

fn opener(links: u8) -> Side {
    Side::new(Box::new(FullMesh::new(
        &connection(Role::Opener, links),
        Recreation::default(),
    )))
}

fn acceptor(links: u8) -> Side {
    Side::new(Box::new(FullMesh::new(
        &connection(Role::Acceptor, links),
        Recreation::default(),
    )))
}

fn announced_by_us(id: AddressId, address: IpAddr) -> Command {
    let port = None;
    Command::Announce { id, address, port }
}

/// The commands after an address was lost.
fn gone(id: AddressId, subflow: FourTuple) -> [Command; 2] {
    let address = subflow.local.ip();
    [
        Command::Remove { id, address },
        Command::CloseSubflow { subflow },
    ]
}

/// An opener's connection over all links, with every subflow established.
fn complete(links: u8) -> Side {
    let mut side = opener(links);
    side.handle(Event::Established);
    for link in 2..=links {
        side.handle(Event::SubflowEstablished {
            subflow: tuple(link, 40_000),
            local_id: link - 1,
            remote_id: link - 1,
        });
    }
    side
}

#[test]
fn exactly_the_routed_pairs_are_opened() {
    let commands = opener(8).handle(Event::Established);
    let expected: Vec<_> = (2..=8)
        .map(|link| (tuple(link, 0).local.ip(), link - 1, remote_of(link)))
        .collect();
    assert_eq!(opened(&commands), expected);
}

#[test]
fn one_local_address_keeps_its_id_towards_all_remotes() {
    let mut connection = connection(Role::Opener, 2);
    let crossed = |local: u8, remote: u8| AddressPair {
        local: tuple(local, 0).local.ip(),
        remote: tuple(remote, 0).remote.ip(),
    };
    let routed = connection.pairs.iter().copied();
    let pairs = routed.chain([crossed(1, 2), crossed(2, 1)]);
    connection.pairs = pairs.collect();
    let mut side = Side::new(Box::new(FullMesh::new(&connection, Recreation::default())));
    let commands = side.handle(Event::Established);
    let ids: Vec<_> = opened(&commands)
        .iter()
        .map(|(local, id, _)| (*local, *id))
        .collect();
    let (first, second) = (crossed(1, 1).local, crossed(2, 2).local);
    assert_eq!(ids, [(second, 1), (first, 0), (second, 1)]);
}

#[test]
fn nothing_is_opened_twice() {
    let mut side = opener(3);
    side.handle(Event::Established);
    let (id, address) = (2, tuple(3, 0).remote.ip());
    assert_eq!(
        side.handle(Event::Announced {
            id,
            address,
            port: None
        }),
        []
    );
    let mut side = complete(3);
    assert_eq!(
        side.handle(Event::Announced {
            id,
            address,
            port: None
        }),
        []
    );
}

#[test]
fn a_removal_also_concerns_subflows_under_another_id_of_the_address() {
    let mut side = complete(2);
    let subflow = tuple(1, 40_000);
    let (id, address) = (5, subflow.remote.ip());
    let port = None;
    assert_eq!(side.handle(Event::Announced { id, address, port }), []);
    let expected = [Command::CloseSubflow { subflow }];
    assert_eq!(side.handle(Event::Removed { id }), expected);
}

#[test]
fn an_id_that_is_announced_with_another_address_means_the_new_one() {
    let mut side = complete(3);
    let (id, port) = (4, None);
    for link in [2, 3] {
        let address = tuple(link, 0).remote.ip();
        side.handle(Event::Announced { id, address, port });
    }
    let subflow = tuple(3, 40_000);
    let expected = [Command::CloseSubflow { subflow }];
    assert_eq!(side.handle(Event::Removed { id }), expected);
}

#[test]
fn a_pair_that_was_refused_for_good_waits_for_a_new_announcement() {
    let mut side = opener(2);
    side.handle(Event::Established);
    let subflow = tuple(2, 40_000);
    let pair = subflow.pair();
    side.handle(Event::Unfit { pair });
    side.handle(Event::SubflowClosed { subflow });
    assert_eq!(side.wait(), None);
    let (id, address, port) = (1, pair.remote, None);
    let commands = side.handle(Event::Announced { id, address, port });
    assert_eq!(opened(&commands).len(), 1);
}

#[test]
fn before_it_is_established_nothing_is_opened() {
    let mut side = opener(3);
    assert_eq!(side.handle(Event::AddressUp(tuple(2, 0).local.ip())), []);
}

#[test]
fn an_address_that_is_down_waits_for_its_return() {
    let mut connection = connection(Role::Opener, 2);
    let local = tuple(2, 0).local.ip();
    connection.down.insert(local);
    let mut side = Side::new(Box::new(FullMesh::new(&connection, Recreation::default())));
    assert_eq!(side.handle(Event::Established), []);
    assert_eq!(opened(&side.handle(Event::AddressUp(local))).len(), 1);
}

#[test]
fn a_lost_address_is_removed_and_its_return_opens_it_again() {
    let mut side = complete(3);
    let subflow = tuple(2, 40_000);
    let local = subflow.local.ip();
    assert_eq!(side.handle(Event::AddressDown(local)), gone(1, subflow));
    assert_eq!(side.handle(Event::SubflowClosed { subflow }), []);
    assert_eq!(
        opened(&side.handle(Event::AddressUp(local))),
        [(local, 1, remote_of(2))]
    );
}

#[test]
fn the_initial_pair_too_is_opened_again() {
    let mut side = complete(2);
    let subflow = tuple(1, 40_000);
    let local = subflow.local.ip();
    let commands = side.handle(Event::AddressDown(local));
    assert_eq!(commands, gone(0, subflow));
    side.handle(Event::SubflowClosed { subflow });
    assert_eq!(
        opened(&side.handle(Event::AddressUp(local))),
        [(local, 0, remote_of(1))]
    );
}

#[test]
fn what_the_peer_removed_is_opened_again_when_announced() {
    let mut side = complete(2);
    side.handle(Event::Removed { id: 1 });
    let subflow = tuple(2, 40_000);
    assert_eq!(side.handle(Event::SubflowClosed { subflow }), []);
    assert_eq!(side.wait(), None);
    let announced = Event::Announced {
        id: 5,
        address: subflow.remote.ip(),
        port: Some(99),
    };
    let expected = (
        subflow.local.ip(),
        1,
        SocketAddr::new(subflow.remote.ip(), 99),
    );
    assert_eq!(opened(&side.handle(announced)), [expected]);
}

#[test]
fn what_is_not_opened_again_waits_for_an_address() {
    let connection = connection(Role::Opener, 3);
    let mut side = Side::new(Box::new(FullMesh::new(&connection, Recreation::Never)));
    let subflow = tuple(2, 40_000);
    let reopened = [(subflow.local.ip(), 1, subflow.remote)];
    side.handle(Event::Established);
    side.handle(Event::SubflowClosed { subflow });
    assert_eq!(side.wait(), None);
    let other = tuple(3, 0).local.ip();
    side.handle(Event::AddressDown(other));
    let commands = side.handle(Event::AddressUp(other));
    assert_eq!(opened(&commands), [(other, 2, remote_of(3))]);
    let (id, address, port) = (4, subflow.remote.ip(), None);
    let announced = side.handle(Event::Announced { id, address, port });
    assert_eq!(opened(&announced), reopened);
    side.handle(Event::SubflowClosed { subflow });
    side.handle(Event::AddressDown(subflow.local.ip()));
    let commands = side.handle(Event::AddressUp(subflow.local.ip()));
    assert_eq!(opened(&commands), reopened);
}

#[test]
fn waits_are_those_that_were_given() {
    let recreation = Recreation::Backoff(Waits {
        first: 1,
        longest: 5,
    });
    let mut side = Side::new(Box::new(FullMesh::new(
        &connection(Role::Opener, 2),
        recreation,
    )));
    side.handle(Event::Established);
    let subflow = tuple(2, 40_000);
    for expected_ns in [1, 2, 4, 5, 5] {
        side.handle(Event::SubflowClosed { subflow });
        assert_eq!(side.wait(), Some(expected_ns));
        side.expire();
    }
}

#[test]
fn what_failed_is_tried_again_later_each_time_up_to_a_limit() {
    let mut side = opener(2);
    side.handle(Event::Established);
    let pair = tuple(2, 0).pair();
    let mut waits_ms = Vec::new();
    for _ in 0..11 {
        assert_eq!(side.handle(Event::OpenFailed { pair }), []);
        waits_ms.push(side.wait().expect("it waits") / 1_000_000);
        assert_eq!(opened(&side.expire()).len(), 1);
    }
    assert_eq!(waits_ms[..3], [100, 200, 400]);
    assert_eq!(waits_ms[8..], [25_600, 30_000, 30_000]);
}

#[test]
fn what_does_not_last_is_tried_less_and_less_often() {
    let mut side = opener(2);
    side.handle(Event::Established);
    let subflow = tuple(2, 40_000);
    let (local_id, remote_id) = (1, 1);
    let established = Event::SubflowEstablished {
        subflow,
        local_id,
        remote_id,
    };
    for wait_ms in [100, 200, 400] {
        side.handle(established.clone());
        side.handle(Event::SubflowClosed { subflow });
        assert_eq!(side.wait(), Some(wait_ms * 1_000_000));
        side.expire();
    }
    side.handle(established);
    side.pass(61_000_000_000);
    side.handle(Event::SubflowClosed { subflow });
    assert_eq!(side.wait(), Some(100_000_000));
}

#[test]
fn the_waits_do_not_grow_while_data_get_through() {
    let mut side = complete(1);
    let subflow = tuple(1, 40_000);
    for (progress, wait_ms) in [
        (false, 100),
        (false, 200),
        (true, 100),
        (true, 100),
        (false, 200),
    ] {
        if progress {
            side.handle(Event::Progress);
        }
        side.handle(Event::SubflowClosed { subflow });
        assert_eq!(side.wait(), Some(wait_ms * 1_000_000));
        side.expire();
        side.handle(Event::SubflowEstablished {
            subflow,
            local_id: 0,
            remote_id: 0,
        });
    }
}

#[test]
fn of_two_subflows_on_a_pair_the_newest_stays() {
    let mut side = complete(2);
    let subflow = tuple(2, 40_000);
    let newest = Event::SubflowEstablished {
        subflow: tuple(2, 40_001),
        local_id: 1,
        remote_id: 1,
    };
    assert_eq!(side.handle(newest), [Command::CloseSubflow { subflow }]);
}

#[test]
fn the_acceptor_opens_nothing_and_announces_what_came_back() {
    let mut side = acceptor(2);
    assert_eq!(side.handle(Event::Established), []);
    let subflow = tuple(2, 40_000);
    side.handle(Event::SubflowEstablished {
        subflow,
        local_id: 9,
        remote_id: 1,
    });
    let address = subflow.local.ip();
    assert_eq!(side.handle(Event::AddressDown(address)), gone(9, subflow));
    let expected = [announced_by_us(9, address)];
    assert_eq!(side.handle(Event::AddressUp(address)), expected);
}

#[test]
fn the_acceptor_keeps_its_last_subflow_for_an_address_that_may_come_back() {
    let mut side = acceptor(2);
    side.handle(Event::Established);
    let address = tuple(1, 0).local.ip();
    assert_eq!(side.handle(Event::AddressDown(address)), []);
    assert_eq!(side.handle(Event::AddressUp(address)), []);
}

#[test]
fn what_came_back_is_announced_until_there_is_a_subflow_to_it() {
    let mut side = acceptor(2);
    side.handle(Event::Established);
    let subflow = tuple(2, 40_000);
    let address = subflow.local.ip();
    let expected = [announced_by_us(1, address)];
    assert_eq!(side.handle(Event::AddressUp(address)), expected);
    let id = 1;
    let again = [
        Command::Remove { id, address },
        announced_by_us(id, address),
    ];
    for seconds in [5, 10, 20, 30, 30] {
        assert_eq!(side.wait(), Some(seconds * 1_000_000_000));
        assert_eq!(side.expire(), again);
    }
    let (local_id, remote_id) = (1, 1);
    let established = Event::SubflowEstablished {
        subflow,
        local_id,
        remote_id,
    };
    assert_eq!(side.handle(established), []);
    assert_eq!(side.wait(), None);
}

#[test]
fn without_any_subflow_announcements_wait_for_the_next() {
    let mut side = acceptor(2);
    side.handle(Event::Established);
    let [initial, further] = [1, 2].map(|link| tuple(link, 40_000));
    side.handle(Event::AddressDown(initial.local.ip()));
    side.handle(Event::SubflowClosed { subflow: initial });
    assert_eq!(side.handle(Event::AddressUp(initial.local.ip())), []);
    assert_eq!(side.wait(), None);
    let (id, address) = (1, initial.local.ip());
    let established = Event::SubflowEstablished {
        subflow: further,
        local_id: 7,
        remote_id: 1,
    };
    assert_eq!(side.handle(established), [announced_by_us(id, address)]);
}

#[test]
fn the_initial_address_is_announced_with_an_id_of_its_own() {
    let mut side = acceptor(2);
    side.handle(Event::Established);
    side.handle(Event::SubflowEstablished {
        subflow: tuple(2, 40_000),
        local_id: 1,
        remote_id: 1,
    });
    let subflow = tuple(1, 40_000);
    let address = subflow.local.ip();
    for _ in 0..2 {
        assert_eq!(side.handle(Event::AddressDown(address)), gone(0, subflow));
        side.handle(Event::SubflowClosed { subflow });
        let expected = [announced_by_us(2, address)];
        assert_eq!(side.handle(Event::AddressUp(address)), expected);
        side.handle(Event::SubflowEstablished {
            subflow,
            local_id: 0,
            remote_id: 0,
        });
    }
}

#[test]
fn an_address_that_is_not_routed_is_not_announced() {
    let mut side = acceptor(2);
    side.handle(Event::Established);
    assert_eq!(side.handle(Event::AddressUp(tuple(7, 0).local.ip())), []);
}

#[test]
fn priority_follows_the_address_and_lasts() {
    let mut side = complete(2);
    let subflow = tuple(2, 40_000);
    let local = subflow.local.ip();
    let backup = true;
    let expected = [Command::SetBackup { subflow, backup }];
    assert_eq!(side.handle(Event::Backup { local, on: true }), expected);
    side.handle(Event::AddressDown(local));
    side.handle(Event::SubflowClosed { subflow });
    let commands = side.handle(Event::AddressUp(local));
    assert!(matches!(
        commands[..],
        [Command::OpenSubflow { backup: true, .. }]
    ));
}
