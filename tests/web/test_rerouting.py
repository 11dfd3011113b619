"""Tests of what viewers can do where switches are under control."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mptcplab.experiment import Resolved, load, parse_actions
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


@pytest.mark.parametrize(
    ("recovery", "by", "is_noticed"),
    [
        ("none", "cut", False),
        ("{ip_reactive: {detect: 10ms}}", "cut", True),
        ("ip_reactive", "cut", False),
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
