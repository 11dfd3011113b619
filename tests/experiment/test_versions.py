"""Experiments of version 1 of the resolved form, which bundles of earlier versions hold.

`version_1/experiment.json` is what mptcplab resolved `version_1/description.yaml` to when version 1
was the form.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from mptcplab import _core
from mptcplab.behaviours import presets
from mptcplab.errors import SpecError
from mptcplab.experiment import Experiment, resolve
from mptcplab.recorded import Recorded
from mptcplab.resolved_versions import SCHEMA, VERSION_1, VERSION_2, in_earliest_version, upgraded
from mptcplab.results import digest

PLACE = Path(__file__).parent / "version_1"
#: The digest that the bundles had.
DIGEST = "2e96d8068dd9aa483ebf6c3376a087a1617e18d3761232d9200518d9e5a366f7"


@pytest.fixture
def old() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((PLACE / "experiment.json").read_text())
    assert document["schema"] == VERSION_1
    return document


@pytest.fixture
def today() -> dict[str, Any]:
    return resolve(Experiment.from_yaml((PLACE / "description.yaml").read_text())).data


def test_an_experiment_of_version_1_becomes_what_its_description_resolves_to(
    old: dict[str, Any], today: dict[str, Any]
) -> None:
    assert upgraded(old) == today | {"origins": old["origins"]}
    assert _core.check(json.dumps(upgraded(old))) == []


def test_it_counts_as_the_same_experiment(old: dict[str, Any], today: dict[str, Any]) -> None:
    assert (digest(old), digest(today), digest(upgraded(old))) == (DIGEST, DIGEST, DIGEST)


def test_what_version_1_cannot_express_has_a_digest_of_its_own(today: dict[str, Any]) -> None:
    today["hosts"][0]["behaviour"][0]["offered_window"] = "share_of_payload"
    assert in_earliest_version(today)["schema"] == VERSION_2
    assert digest(today) != DIGEST


def test_an_experiment_older_than_the_presets_of_kernels_is_that_of_today(today: dict[str, Any]) -> None:
    old = copy.deepcopy(today)
    for host in old["hosts"]:
        for behaviour in host["behaviour"]:
            for key in ("narrows_subflow_window", "prunes_out_of_order", "repeats_several_pieces"):
                del behaviour[key]
    assert (upgraded(old), digest(old)) == (today, digest(today))


def test_the_presets_of_kernels_have_digests_of_their_own(today: dict[str, Any]) -> None:
    digests = {digest(today)}
    for name in ("mainline-6.12", "mainline-6.18", "mainline-7.3"):
        today["hosts"][0]["behaviour"] = [presets()[name]]
        earliest = in_earliest_version(today)
        assert (earliest["schema"], upgraded(earliest)) == (today["schema"], today)
        digests.add(digest(today))
    assert len(digests) == 4


def test_an_experiment_of_version_2_is_that_of_today_without_control(today: dict[str, Any]) -> None:
    today["hosts"][0]["behaviour"][0]["offered_window"] = "share_of_payload"
    of_version_2 = in_earliest_version(today)
    assert (upgraded(of_version_2), digest(of_version_2)) == (today, digest(today))


def test_version_0_of_mptcp_needs_version_3_of_the_form(today: dict[str, Any]) -> None:
    before = digest(today)
    today["hosts"][0]["behaviour"][0]["mptcp_version"] = 0
    assert in_earliest_version(today)["schema"] == SCHEMA
    assert digest(today) != before


def test_experiments_older_than_some_keys_mean_what_they_meant(old: dict[str, Any]) -> None:
    for host in old["hosts"]:
        del host["host_jitter"]
        for behaviour in host["behaviour"]:
            for key in ("timers", "recreation", "recreation_first_ns", "recreation_longest_ns"):
                del behaviour[key]
    del old["vary"]["events_ppm"]
    found = upgraded(old)
    assert _core.check(json.dumps(found)) == []
    assert [host["host_jitter"]["kind"] for host in found["hosts"]] == ["unstated"] * 2
    assert {one["timers"] for host in found["hosts"] for one in host["behaviour"]} == {"exact"}
    assert {one["recreation"] for host in found["hosts"] for one in host["behaviour"]} == {"backoff"}


def test_a_file_of_version_1_can_be_run_again(today: dict[str, Any]) -> None:
    assert Recorded.read(PLACE / "experiment.json").resolve().data["hosts"] == today["hosts"]


def test_a_file_of_version_2_can_be_run_again(today: dict[str, Any], tmp_path: Path) -> None:
    today["hosts"][0]["behaviour"][0]["offered_window"] = "share_of_payload"
    of_version_2 = in_earliest_version(today)
    assert of_version_2["schema"] == VERSION_2
    (tmp_path / "experiment.json").write_text(json.dumps(of_version_2))
    assert Recorded.read(tmp_path / "experiment.json").resolve().data["hosts"] == today["hosts"]


CHANGED = """
name: changed
topology: {geant5: {attach: 2}}
control: {policy: edge_disjoint, recovery: {ip_reactive: {install: 20ms}}}
flows: {bulk: {from: h-uk, to: h-de, path_manager: full_mesh}}
events:
  - {id: cut, at: 1s, outage: uk-de, for: 4s, by: port_down}
  - {id: change, at: 2s, recovery: none}
  - {id: again, at: 3s, recovery: ip_reactive}
duration: 10s
"""


def test_strategies_in_turn_are_those_of_the_actions_that_change_them(tmp_path: Path) -> None:
    today = resolve(Experiment.from_yaml(CHANGED)).data
    parameters = today["control"]["recovery"]["parameters"]
    in_turn = [
        {"event": None, "at_ns": 0, "strategy": "ip_reactive", "parameters": parameters},
        {"event": "change", "at_ns": 2_000_000_000, "strategy": "none", "parameters": {}},
        {"event": "again", "at_ns": 3_000_000_000, "strategy": "ip_reactive", "parameters": parameters},
    ]
    before = json.loads(json.dumps(today))
    before["control"]["recovery"] |= {"strategy": "in_turn", "parameters": {"strategies": in_turn}}
    before["events"] = [event for event in before["events"] if event["action"]["kind"] != "set_recovery"]
    for event in before["events"]:
        if event["parent"] in ("change", "again"):
            event["action"]["by"] = "description"
    (tmp_path / "experiment.json").write_text(json.dumps(before))
    found = Recorded.read(tmp_path / "experiment.json").resolve().data
    assert found["control"] == today["control"]
    assert [(event["at_ns"], event["action"]) for event in found["events"]] == [
        (event["at_ns"], event["action"]) for event in today["events"]
    ]
    assert len({event["id"] for event in found["events"]}) == len(found["events"])


def test_a_damaged_file_of_version_1_is_refused(old: dict[str, Any], tmp_path: Path) -> None:
    del old["hosts"]
    (tmp_path / "experiment.json").write_text(json.dumps(old))
    with pytest.raises(SpecError, match="'hosts'"):
        Recorded.read(tmp_path / "experiment.json")
