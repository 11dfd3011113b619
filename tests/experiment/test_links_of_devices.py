"""Tests real links in a description."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from mptcplab import _core, consent
from mptcplab.errors import SpecError
from mptcplab.experiment import Experiment, resolve
from mptcplab.resolved_versions import SCHEMA, in_earliest_version, upgraded
from mptcplab.results import digest

REAL = """
name: real
profile: alenazi2019
machines: {lab2: {at: ssh://root@192.0.2.7, touch: true}}
hosts:
  client: {interfaces: {eth0: {device: enp1s0, child: ipvlan}}}
  server: {on: lab2, interfaces: {eth0: {device: enp3s0}}}
links:
  lan: {between: [client.eth0, server.eth0], real: true}
  lte: {between: [client.lte0, server.eth1], rate: 1mbit}
flows: {bulk: {from: client, to: server, path_manager: full_mesh}}
"""


def resolved(text: str = REAL) -> dict[str, Any]:
    return resolve(Experiment.from_yaml(text)).data


def test_interfaces_have_devices_and_the_link_is_not_shaped() -> None:
    data = resolved()
    devices = {one["id"]: one["device"] for one in data["interfaces"]}
    assert devices == {
        "client.eth0": {"name": "enp1s0", "child": "ipvlan"},
        "server.eth0": {"name": "enp3s0", "child": None},
        "client.lte0": None,
        "server.eth1": None,
    }
    lan, lte = data["links"]
    assert (lan["real"], lte["real"], lan["layer"]) == (True, False, 2)
    for side in ("forward", "backward"):
        assert (lan[side]["rate_bps"], lan[side]["delay_ns"], lan[side]["queue"]["limit_packets"]) == (None, 0, None)
    assert data["flows"][0]["ceiling_bps"] is None


def test_only_experiments_with_real_links_have_another_digest() -> None:
    real = resolved()
    emulated = resolved(
        REAL.replace(", real: true", "")
        .replace("{interfaces: {eth0: {device: enp1s0, child: ipvlan}}}", "{}")
        .replace(", interfaces: {eth0: {device: enp3s0}}", "")
    )
    assert in_earliest_version(real)["schema"] == SCHEMA
    assert upgraded(in_earliest_version(real)) == real
    earliest = in_earliest_version(emulated)
    assert all("device" not in one for one in earliest["interfaces"])
    assert all("real" not in one for one in earliest["links"])
    assert upgraded(earliest) == emulated
    assert digest(real) != digest(emulated)


def test_each_device_needs_consent_in_real_time() -> None:
    told = [str(one) for one in consent.brought_by(resolved(), in_real_time=True)]
    assert told == [
        "machines.lab2: ssh://root@192.0.2.7",
        "interfaces.client.eth0: device enp1s0 of this machine",
        "interfaces.server.eth0: device enp3s0 of lab2",
    ]
    assert consent.brought_by(resolved(), in_real_time=False) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("real: true", "real: true, delay: 1ms", "'delay' has no effect on a real link, which is not emulated"),
        ("real: true", "real: true, profile: lte", "'profile' has no effect on a real link"),
        (", touch: true", "", "hosts may not use devices of machine lab2; allowed: touch: true on machines.lab2"),
        (", interfaces: {eth0: {device: enp3s0}}", "", "server.eth0 at a real link has no device; allowed: device of"),
        (", real: true", "", "'device' has no effect, because link lan is emulated; allowed: real: true on lan"),
        ("device: enp1s0, child: ipvlan", "child: ipvlan", "'child' has no effect without device"),
        ("flows:", "events: [{at: 1s, set: lan, rate: 1mbit}]\nflows:", "link lan is real, and events change only"),
        ("flows:", "events: [{at: 1s, down: lan}]\nflows:", "down and up of its interfaces, client.eth0 and server"),
        ("flows:", "measure: {captures: server.eth0}\nflows:", "server.eth0 is at a real link, whose packets"),
        ("flows:", "middleboxes: [{at: [client.eth0], nat: {}}]\nflows:", "client.eth0 is at a real link"),
    ],
)
def test_what_a_real_link_cannot_have_is_refused_in_one_line(old: str, new: str, words: str) -> None:
    assert old in REAL
    with pytest.raises(SpecError) as refused:
        resolved(REAL.replace(old, new))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_both_ends_cannot_be_at_one_device() -> None:
    text = REAL.replace("machines: {lab2: {at: ssh://root@192.0.2.7, touch: true}}\n", "").replace("on: lab2, ", "")
    assert resolved(text)["links"][0]["real"]
    with pytest.raises(SpecError, match="both ends are at the device enp1s0; allowed: two devices"):
        resolved(text.replace("enp3s0", "enp1s0"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data["interfaces"][0].update(device=None), "interfaces.client.eth0.device: found none"),
        (
            lambda data: data["links"][0].update(real=False),
            "interfaces.client.eth0.device: found enp1s0, allowed is none",
        ),
        (lambda data: data["links"][0]["forward"].update(rate_bps=1), "links.lan.forward: found a direction that is"),
        (
            lambda data: data["hosts"][1].update(machine=None) or data["interfaces"][1]["device"].update(name="enp1s0"),
            "links.lan.real: found enp1s0 at both ends, allowed is two devices",
        ),
        (lambda data: data["measure"].update(captures=["client.eth0"]), "measure.captures: found the real link lan"),
        (
            lambda data: data["events"].append(CUT),
            "events.cut.action.link: found the real link lan, allowed is an emulated link",
        ),
    ],
)
def test_the_core_refuses_a_resolved_form_that_contradicts_itself(
    change: Callable[[dict[str, Any]], None], words: str
) -> None:
    data = copy.deepcopy(resolved())
    assert _core.check(json.dumps(data)) != []
    change(data)
    with pytest.raises(ValueError, match=re.escape(words)):
        _core.check(json.dumps(data))


CUT = {
    "id": "cut",
    "parent": None,
    "at_ns": 1,
    "action": {"kind": "link_down", "link": "lan", "by": "cut"},
}


def test_its_interfaces_can_go_down() -> None:
    data = resolved(REAL.replace("flows:", "events: [{at: 1s, down: client.eth0}, {at: 2s, up: client.eth0}]\nflows:"))
    assert [event["action"]["kind"] for event in data["events"]] == ["interface_down", "interface_up"]
