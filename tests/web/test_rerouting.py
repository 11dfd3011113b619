"""Tests of what viewers can do where switches are under control."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mptcplab.errors import SpecError
from mptcplab.experiment import Experiment, Resolved, load, parse_actions, resolve
from mptcplab.web.rerouting import HandMade, possible_reroutes

EXAMPLES = Path(__file__).parents[2] / "examples"


def network(**changes: str) -> Resolved:
    given = {"events": "[]", **{key.replace("__", "."): value for key, value in changes.items()}}
    [member, *_] = load(EXAMPLES / "disjoint-paths.yaml", given)
    return member.resolve()


def test_every_offered_way_is_an_action() -> None:
    resolved = network()
    offered = list(possible_reroutes(resolved.data))
    assert {(one["flow"], one["path"]) for one in offered} >= {(one["flow"], 1) for one in offered}
    assert len(offered) > 1
    for one in offered:
        [(_, action)] = parse_actions({"reroute": one["flow"], "path": one["path"], "over": one["over"]}, resolved)
        assert action["kind"] == "reroute"


TRIANGLE = """
name: triangle
hosts: {a: {}, b: {}}
nodes: {s1: {kind: openflow}, s2: {kind: openflow}, s3: {kind: openflow}}
links:
  first: {between: [a.eth0, s1]}
  last: {between: [b.eth0, s2]}
  direct: {between: [s1, s2]}
  up: {between: [s1, s3]}
  down: {between: [s3, s2]}
flows: {call: {from: a, to: b, transport: udp, app: {cbr: {rate: 1mbit, size: 500}}}}
duration: 1s
"""


def test_a_network_with_few_ways_offers_those_that_it_has() -> None:
    offered = list(possible_reroutes(resolve(Experiment.from_yaml(TRIANGLE)).data))
    assert [one["over"] for one in offered] == [["s1", "s2"], ["s1", "s3", "s2"]]


@pytest.mark.parametrize(
    ("recovery", "by", "is_noticed"),
    [
        ("none", "cut", False),
        ("{ip_reactive: {detect: 10ms}}", "cut", True),
        ("ip_reactive", "port_down", True),
    ],
)
def test_the_network_recovers_from_what_a_viewer_cuts(recovery: str, by: str, is_noticed: bool) -> None:
    resolved = network(control__recovery=recovery)
    hops: list[Any] = resolved.data["flows"][0]["paths"][0]["hops"]
    link = hops[1]["link"]
    actions = parse_actions({"outage": link, "for": "100ms", "by": by}, resolved)
    made = HandMade(resolved.data)
    follows = made.follows_from(1_000_000_000, actions)
    assert bool(follows) == is_noticed
    assert all(action["kind"] == "reroute" and action["by"] == "recovery" for _, action in follows)
    assert made.follows_from(2_000_000_000, []) == [], "nothing follows twice"


def test_a_cut_that_the_strategy_would_not_notice_is_refused_as_in_a_description() -> None:
    resolved = network(control__recovery="ip_reactive")
    with pytest.raises(SpecError, match="port status"):
        parse_actions({"down": "Lisbon-Paris"}, resolved)


@pytest.mark.parametrize("words", [{"recovery": "./other.py:Strategy"}, {"recovery": "ip_reactiv"}])
def test_a_viewer_chooses_no_class_that_the_description_does_not_name(words: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="allowed: none, optical, ip_preinstalled"):
        parse_actions(words, network())


def test_without_switches_there_is_no_recovery_to_choose() -> None:
    [member] = load(EXAMPLES / "two-paths-mptcp.yaml")
    with pytest.raises(SpecError, match="no path goes over OpenFlow switches"):
        parse_actions({"recovery": "ip_reactive"}, member.resolve())


def test_failures_by_hand_that_overlap_are_recovered_as_those_of_a_description() -> None:
    recovery = "{ip_reactive: {detect: 10ms}}"
    outages = {1_000: ("Lisbon-Paris", 1_000), 1_500: ("Paris-Zurich", 200), 1_600: ("Lisbon-Madrid", 1_000)}
    written = ", ".join(f"{{at: {at}ms, outage: {link}, for: {ms}ms}}" for at, (link, ms) in outages.items())
    described = network(control__recovery=recovery, events=f"[{written}]")
    resolved = network(control__recovery=recovery)
    made = HandMade(resolved.data)
    done: list[tuple[int, int, dict[str, Any]]] = []
    for at_ms, (link, ms) in outages.items():
        now_ns = at_ms * 1_000_000
        actions = parse_actions({"outage": link, "for": f"{ms}ms"}, resolved, now_ns)
        done += [(now_ns + after_ns, now_ns, action) for after_ns, action in made.follows_from(now_ns, actions)]
    by_hand = [(at_ns, action) for at_ns, _, action in sorted(done, key=lambda one: one[:2])]
    by_description = [
        (event["at_ns"], event["action"]) for event in described.data["events"] if event["action"]["kind"] == "reroute"
    ]
    assert by_description
    times = [at_ns for at_ns, _ in by_description + by_hand]
    assert [ways_at(by_hand, at_ns) for at_ns in times] == [ways_at(by_description, at_ns) for at_ns in times]


def ways_at(reroutes: list[tuple[int, Any]], at_ns: int) -> dict[tuple[str, int], Any]:
    """Returns the ways of the paths that reroutes have moved until then, without those that are
    back where they were.
    """
    found = {(action["flow"], action["path"]): action["there"] for since_ns, action in reroutes if since_ns <= at_ns}
    paths = {flow["id"]: flow["paths"] for flow in network().data["flows"]}
    return {(flow, number): way for (flow, number), way in found.items() if way != paths[flow][number]["hops"]}
