"""Tests events: their order, their expansion to actions, and contradictions between them."""

from __future__ import annotations

from typing import Any

import pytest
from mptcplab.errors import SpecError
from mptcplab.experiment import Experiment, resolve


def events_of(*events: dict[str, object], **fields: object) -> list[dict[str, Any]]:
    """Returns the resolved events of eight parallel links."""
    description = {
        "name": "x",
        "topology": {"parallel_links": {"n": 8, "rate": "1mbit", "delay": "10ms", "queue": "50p"}},
        "flows": {"bulk": {"from": "client", "to": "server"}},
        "events": list(events),
    }
    resolved = resolve(Experiment.model_validate(description | fields))
    found: list[dict[str, Any]] = resolved.data["events"]
    return found


def brief(events: list[dict[str, Any]]) -> list[tuple[str, float, str, str]]:
    return [
        (
            event["id"],
            event["at_ns"] / 1e9,
            event["action"]["kind"],
            event["action"].get("interface") or event["action"]["link"],
        )
        for event in events
    ]


def test_a_sequence_fails_and_restores_in_order() -> None:
    sequence = {"down": "eth[1-2]", "on": ["client", "server"], "every": "2s", "then": "restore"}
    assert brief(events_of({"id": "s", "at": "10s", "sequence": sequence})) == [
        ("s.1", 10, "interface_down", "client.eth1"),
        ("s.2", 10, "interface_down", "server.eth1"),
        ("s.3", 12, "interface_down", "client.eth2"),
        ("s.4", 12, "interface_down", "server.eth2"),
        ("s.5", 14, "interface_up", "client.eth1"),
        ("s.6", 14, "interface_up", "server.eth1"),
        ("s.7", 16, "interface_up", "client.eth2"),
        ("s.8", 16, "interface_up", "server.eth2"),
    ]


def test_a_sequence_comes_back_when_and_in_which_order_it_says() -> None:
    sequence = {"down": "eth[1-2]", "on": ["client"], "every": "2s", "then": "restore_in_reverse", "pause": "10s"}
    assert brief(events_of({"id": "s", "at": "10s", "sequence": sequence}))[2:] == [
        ("s.3", 22, "interface_up", "client.eth2"),
        ("s.4", 24, "interface_up", "client.eth1"),
    ]


def test_what_stays_down_has_no_pause() -> None:
    sequence = {"down": "eth[1-2]", "on": ["client"], "every": "2s", "pause": "10s"}
    with pytest.raises(SpecError, match=r"pause: nothing comes back; allowed: with then: restore"):
        events_of({"at": "10s", "sequence": sequence})


def test_a_handover_breaks_before_it_makes() -> None:
    handover = {"from": "client.eth1", "to": "client.eth2", "gap": "200ms", "address": "1s", "auth": "3.5s"}
    hosts = {"client": {"interfaces": {"eth2": {"up": False}}}}
    assert brief(events_of({"id": "h", "at": "30s", "handover": handover}, hosts=hosts)) == [
        ("h.1", 30, "interface_down", "client.eth1"),
        ("h.2", 30.2, "address_remove", "client.eth2"),
        ("h.3", 30.2, "interface_up", "client.eth2"),
        ("h.4", 34.7, "address_add", "client.eth2"),
    ]


def test_events_are_sorted_but_keep_the_order_of_an_instant() -> None:
    events = events_of(
        {"at": "5s", "outage": "link3", "for": "100ms", "by": "drop_rule"},
        {"id": "first", "at": "1s", "down": "client.eth1"},
        {"id": "then", "at": "1s", "down": "client.eth2"},
    )
    assert [event["id"] for event in events] == ["first", "then", "e1.1", "e1.2"]
    assert [event["parent"] for event in events] == [None, None, "e1", "e1"]
    assert events[3]["action"] == {"kind": "link_up", "link": "link3", "by": "drop_rule"}


def test_set_carries_whole_values_as_they_stand() -> None:
    first, second = events_of(
        {"at": "20s", "set": "link1", "rate": {"forward": "2mbit"}, "queue": "1bdp"},
        {"at": "10s", "set": "link1", "delay": "50ms", "loss": "1%"},
    )
    assert first["at_ns"] == 10_000_000_000
    assert first["action"]["forward"]["queue"]["limit_packets"] == 50
    changed = second["action"]
    assert changed["forward"]["loss"] == {"kind": "bernoulli", "probability": 0.01}
    assert changed["forward"]["queue"]["limit_bytes"] == 25_000
    assert changed["backward"]["rate_bps"] == 1_000_000
    assert changed["backward"]["delay_ns"] == 50_000_000


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{"at": "1s", "up": "client.eth1"}], "client.eth1 is already up from the start"),
        ([{"at": "1s", "add_address": "client.eth1"}], "client.eth1 already has its address from the start"),
        (
            [{"at": "3s", "up": "link1"}, {"at": "1s", "down": "link1"}, {"at": "2s", "down": "link1"}],
            "link1 is already down since event e2",
        ),
        (
            [{"at": "1s", "outage": "link1", "for": "10s"}, {"at": "5s", "down": "link1"}],
            "link1 is already down since event e1",
        ),
        ([{"id": "a", "at": "1s", "down": "link1"}, {"id": "a", "at": "2s", "up": "link1"}], "'a' is also event 1"),
        ([{"at": "1s", "exec": "clint", "argv": ["true"]}], "unknown host 'clint', did you mean 'client'?"),
        (
            [{"at": "1s", "outage": "link1", "for": "1s", "by": "port_down"}],
            "events.0.outage: port_down takes down ports of routers, switches and access points, and link1 joins two "
            "hosts; allowed: by: cut, or by: drop_rule",
        ),
    ],
)
def test_contradictions(events: list[dict[str, object]], message: str) -> None:
    with pytest.raises(SpecError) as error:
        events_of(*events)
    assert message in str(error.value)
