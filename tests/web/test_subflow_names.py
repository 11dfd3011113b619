"""Tests that the page names subflows by the paths that they take, before the result of a run tells
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mptcplab.experiment import load
from mptcplab.plots import colours
from mptcplab.results import subflows_of
from mptcplab.runner import execute, plan
from mptcplab.web.subflows import Subflows, named_paths

EXAMPLES = Path(__file__).parents[2] / "examples"


class Told:
    """An observer that keeps what `Subflows` tells at each sample."""

    def __init__(self, experiment: Mapping[str, Any]) -> None:
        self._subflows = Subflows(experiment)
        self.labels: dict[str, dict[str, Any]] = {}
        self.notes: list[str] = []

    def advanced(self, _job: object, _run: object, tick: Any) -> None:
        for message in self._subflows.messages(tick.time_ns / 1e9, tick.values):
            if message["kind"] == "note":
                self.notes.append(message["text"])
            else:
                self.labels[message["entity"]] = message

    def finished(self, _job: object, bundle: Any) -> None:
        self.corrections = list(self._subflows.corrected(bundle.record["result"]["flows"]))


@pytest.mark.parametrize("name", ["two-paths-mptcp", "commute", "equal-paths", "handover"])
def test_a_subflow_is_never_named_by_a_path_that_it_does_not_take(name: str, tmp_path: Path) -> None:
    [member, *_] = load(EXAMPLES / f"{name}.yaml")
    experiment = member.resolve().data
    told = Told(experiment)
    [bundle] = execute(plan([experiment], "sim", seed=1, repeat=1, out=tmp_path), told)
    run = bundle.load()
    paths = {flow["id"]: named_paths(flow) for flow in experiment["flows"]}
    for flow in experiment["flows"]:
        for subflow in subflows_of(run, flow["id"]):
            message = told.labels.get(subflow.entity)
            if message is None or message["label"] == f"subflow {subflow.id}":
                continue
            [path] = [one for one in paths[flow["id"]] if one.ends == (subflow.interface, subflow.remote_interface)]
            assert message["label"] == f"{path.name}, subflow {subflow.id}"


def test_names_colours_and_lives_of_subflows_are_told_during_the_run(tmp_path: Path) -> None:
    [member] = load(EXAMPLES / "two-paths-mptcp.yaml")
    experiment = member.resolve().data
    told = Told(experiment)
    [bundle] = execute(plan([experiment], "sim", seed=1, repeat=1, out=tmp_path), told)
    labels = {entity.rpartition(".")[2]: message for entity, message in told.labels.items()}
    assert {number: message["label"] for number, message in labels.items()} == {
        "0": "wifi, subflow 0",
        "1": "lte, subflow 1",
        "2": "wifi, subflow 2",
    }
    assert told.corrections == []
    run = bundle.load()
    subflows = subflows_of(run, "download")
    numbers = colours.address_pairs(run, subflows, {one.addresses: str(one.interface) for one in subflows})
    assert {str(one.id): numbers[one.addresses] for one in subflows} == {
        number: message["colour"] for number, message in labels.items()
    }, "the report has the same colours"
    assert told.notes[0] == "subflow 0 of download has opened over wifi"
    assert "subflow 0 of download has closed" in told.notes
    assert labels["1"]["interface"] == "phone.wwan0"


def test_paths_with_one_first_link_are_named_by_their_last_one() -> None:
    [member] = load(EXAMPLES / "commute.yaml")
    flows = {flow["id"]: flow for flow in member.resolve().data["flows"]}
    assert [path.name for path in named_paths(flows["download"])] == ["wifi", "lte"]
