"""Tests middleboxes in descriptions: their resolved form, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from mptcplab import Experiment, resolve
from mptcplab.errors import SpecError

TWO_HOSTS = """
name: boxes
hosts: {client: {}, server: {}}
nodes: {core: {kind: router}, hub: {kind: switch}}
links:
  wifi: {between: [client.wlan0, server.eth0]}
  access: {between: [client.eth1, core.p1]}
  uplink: {between: [core.p2, server.eth1]}
  office: {between: [client.eth2, hub.p1]}
middleboxes:
"""


def resolved(middleboxes: str) -> list[dict[str, Any]]:
    """Returns the resolved middleboxes of a description with these middleboxes."""
    data = resolve(Experiment.from_yaml(TWO_HOSTS + middleboxes)).data
    return list(data["middleboxes"])


def test_without_any_the_resolved_form_has_an_empty_list() -> None:
    assert resolve(Experiment.from_yaml(TWO_HOSTS + "  []")).data["middleboxes"] == []


def test_a_list_of_interfaces_means_one_before_each() -> None:
    boxes = resolved("  - {at: [client.wlan0, 'core.p[1-2]'], duplicate: {probability: 5%}}")
    assert [box["at"] for box in boxes] == ["client.wlan0", "core.p1", "core.p2"]
    assert {box["direction"] for box in boxes} == {"both"}
    assert boxes[0]["element"] == {"kind": "duplicate", "probability": 0.05}


def test_options_and_segments_default_to_all() -> None:
    [box] = resolved("  - {at: client.wlan0, direction: leaving, strip_options: {segments: syn, after: 8kB}}")
    element = box["element"]
    assert (box["direction"], element["segments"], element["after_bytes"]) == ("leaving", ["syn"], 8000)
    assert len(element["options"]) == 9


def test_each_nat_has_addresses_of_its_own() -> None:
    boxes = resolved("  - {at: [client.wlan0, client.eth1], nat: {}}\n  - {at: core.p2, direction: arriving, nat: {}}")
    assert [box["direction"] for box in boxes] == ["leaving", "leaving", "arriving"]
    assert [box["element"]["ipv4"] for box in boxes] == ["100.64.0.1", "100.64.0.2", "100.64.0.3"]


def test_a_strict_host_says_so_and_others_do_not() -> None:
    text = TWO_HOSTS.replace("client: {}", "client: {fallback: strict}") + "  []"
    client, server = resolve(Experiment.from_yaml(text)).data["hosts"]
    assert (client["fallback"], server["fallback"]) == ("strict", "rfc")


@pytest.mark.parametrize(
    ("middleboxes", "field", "message"),
    [
        ("  - {at: client.wlan1, nat: {}}", "middleboxes.0.at", "did you mean 'client.wlan0'"),
        ("  - {at: client.wlan0}", "middleboxes.0", "found none"),
        ("  - {at: client.wlan0, nat: {}, split: {}}", "middleboxes.0", "found nat and split"),
        ("  - {at: client.wlan0, direction: both, nat: {}}", "middleboxes.0.direction", "a NAT hides one side"),
        ("  - {at: core.p2, nat: {}}", "middleboxes.0.at", "hide core, which is not a host"),
        ("  - {at: client.eth2, nat: {}}", "middleboxes.0.at", "cannot be on a link of a switch"),
        ("  - {at: client.wlan0, split: {largest: 0}}", "middleboxes.0.split.largest", "out of range"),
        ("  - {at: client.wlan0, coalesce: {largest: 1MB}}", "middleboxes.0.coalesce.largest", "out of range"),
        ("  - {at: client.wlan0, insert_bytes: {bytes: 1kB, after: 0}}", "middleboxes.0.insert_bytes.bytes", "range"),
        ("  - {at: client.wlan0, change_bytes: {}}", "middleboxes.0.change_bytes", "exactly one"),
        ("  - {at: client.wlan0, strip_options: {options: mp_capabel}}", "middleboxes.0.strip_options", "mp_capable"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(middleboxes: str, field: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        resolved(middleboxes)
    assert field in str(refused.value)
    assert message in str(refused.value)
