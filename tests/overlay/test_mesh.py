"""Tests of meshes, routes and memberships."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest
from mptcplab.errors import SpecError
from mptcplab.overlay.membership import BEAT_S, MISSED, Membership
from mptcplab.overlay.mesh import full, nearest, routes

NAMES = "abcd"


def test_each_site_has_a_tunnel_to_its_nearest_ones() -> None:
    draw = random.Random(1)
    places = [(draw.random(), draw.random()) for _ in range(60)]
    distance = {
        (a, b): ((places[a][0] - places[b][0]) ** 2 + (places[a][1] - places[b][1]) ** 2) ** 0.5
        for a, b in combinations(range(60), 2)
    }
    mesh = nearest(60, 3, distance)
    for site in range(60):
        others = sorted(
            (other for other in range(60) if other != site), key=lambda b: distance[min(site, b), max(site, b)]
        )
        assert all((min(site, other), max(site, other)) in mesh for other in others[:3])


def test_groups_that_are_far_apart_are_joined_once() -> None:
    # Two groups of three sites, 1 s apart.
    rtt_s = {(a, b): 1.0 if (a < 3) != (b < 3) else 0.01 for a, b in full(6)}
    across = [(a, b) for a, b in nearest(6, 2, rtt_s) if (a < 3) != (b < 3)]
    assert len(across) == 1


def test_routes_of_a_host_share_no_tunnel() -> None:
    mesh: dict[tuple[int, int], float | None] = {(0, 1): 0.01, (1, 3): 0.01, (0, 2): 0.01, (2, 3): 0.05, (0, 3): 0.5}
    found = routes("edge_disjoint", mesh, [0, 1], [3], NAMES)
    assert {node: route[-1] for node, route in found.items()} == {0: 3, 1: 3}
    used = [tuple(sorted(pair)) for route in found.values() for pair in pairwise(route)]
    assert len(used) == len(set(used))
    assert found == {0: [0, 2, 3], 1: [1, 3]}


def test_a_route_may_be_the_exit_alone() -> None:
    assert routes("edge_disjoint", {(0, 1): 0.01}, [0, 1], [1], NAMES) == {0: [0, 1], 1: [1]}


def test_the_nearest_exit_is_taken() -> None:
    assert routes("shortest", {(0, 1): 0.05, (0, 2): 0.01}, [0], [1, 2], NAMES) == {0: [0, 2]}


def test_a_policy_without_enough_routes_refuses() -> None:
    with pytest.raises(SpecError, match="minimum cut is b - c"):
        routes("edge_disjoint", {(0, 1): 0.01, (1, 2): 0.01}, [0, 1], [2], NAMES)
    with pytest.raises(SpecError, match="exit"):
        routes("shortest", {(0, 1): 0.01}, [0], [], NAMES)


def test_a_site_is_dropped_after_three_heartbeats_and_comes_back() -> None:
    sites = Membership([0, 1])
    assert sites.present == frozenset()
    assert sites.beat(0, 0.0)
    assert sites.beat(1, 0.0)
    assert not sites.beat(1, BEAT_S)
    assert sites.drop_silent(MISSED * BEAT_S - 0.01) == []
    assert sites.drop_silent(MISSED * BEAT_S) == [0]
    assert sites.present == {1}
    assert sites.beat(0, 20.0)
