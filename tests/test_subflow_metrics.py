"""Tests the metrics of connections and subflows of a kernel run."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from made_kernel_run import made_kernel_run
from made_run import event, made_run, resolved
from mptcplab import load, run
from mptcplab.errors import SpecError
from mptcplab.plots.subflows import stacked
from mptcplab.results import Absent, Evaluation, check, evaluated


def number(evaluation: Evaluation, path: str, metric: str) -> float:
    value = evaluation.value(path, metric)
    assert not isinstance(value, Absent), value.why
    return value


@pytest.mark.parametrize(
    ("path", "metric", "expected"),
    [
        ("flows.bulk", "connect_time_s", 0.041),
        ("flows.bulk", "connection_established", 1),
        ("flows.bulk", "connection_survived", 1),
        ("flows.bulk", "subflows_opened", 3),
        ("flows.bulk", "subflows_reused", 0),
        ("flows.bulk", "subflows_recreated", 1),
        ("flows.bulk", "load_balance", 9.5 / 29.6),
        ("flows.bulk.subflows.1", "share", 29.6 / 49.1),
        ("flows.bulk.subflows.1", "cwnd_limited_ratio", 48 / 299),
        ("flows.bulk.subflows.1", "smallest_cwnd_ratio", 0),
        ("flows.bulk.subflows.1", "bytes_sent", 3.6e6 * 29.6 / 8),
        ("flows.bulk.subflows.0", "closed_s", 10.5),
        ("flows.bulk.subflows.2", "opened_s", 20.5),
        ("events.cut", "subflows_recreated", 1),
        ("events.cut", "subflows_reused", 0),
        ("links.wifi.forward", "late_s", 40e-6),
        ("run", "connections", 1),
    ],
)
def test_value(path: str, metric: str, expected: float) -> None:
    assert number(Evaluation(made_kernel_run()), path, metric) == pytest.approx(expected, rel=1e-3)


def test_a_subflow_that_goes_on_after_the_outage_is_reused() -> None:
    evaluation = Evaluation(made_kernel_run(after="reused"))
    assert number(evaluation, "events.cut", "subflows_reused") == 1
    assert number(evaluation, "flows.bulk", "subflows_reused") == 1
    assert number(evaluation, "events.cut", "subflows_recreated") == 0
    assert number(evaluation, "flows.bulk.subflows.0", "smallest_cwnd_ratio") == pytest.approx(9 / 29.95, rel=0.01)


def test_each_new_subflow_counts_for_the_last_failure_on_its_path() -> None:
    down, up = ({"kind": f"interface_{way}", "interface": "client.wlan0"} for way in ("down", "up"))
    other = {"kind": "link_down", "link": "lte", "by": "cut"}
    events = [event("first", 5, down), event("a", 6, up), event("second", 10, down), event("b", 20, up)]
    evaluation = Evaluation(made_kernel_run(resolved(events=[*events, event("elsewhere", 21, other)], expect=[])))
    assert number(evaluation, "events.first", "subflows_recreated") == 0
    assert number(evaluation, "events.second", "subflows_recreated") == 1
    assert number(evaluation, "events.elsewhere", "subflows_recreated") == 0
    assert number(evaluation, "events.first", "subflows_reused") == 1
    nothing = evaluation.value("events.b", "subflows_reused")
    assert isinstance(nothing, Absent)


def test_a_connection_that_ended_with_an_error_did_not_survive() -> None:
    run = made_kernel_run()
    run.result["flows"][0]["error"] = "connection reset by peer"
    assert number(Evaluation(run), "flows.bulk", "connection_survived") == 0
    run.result["flows"][0] |= {"established_ns": None, "error": "no route to host"}
    assert number(Evaluation(run), "flows.bulk", "connection_established") == 0
    assert isinstance(Evaluation(run).value("flows.bulk", "connect_time_s"), Absent)


@pytest.mark.parametrize(
    ("path", "metric", "why"),
    [
        ("flows.voice", "connection_established", "datagrams"),
        ("flows.voice", "subflows_reused", "not an MPTCP connection"),
        ("flows.bulk", "duplicate_bytes", "back-end kernel does not supply it: the kernel does not report it"),
        ("flows.bulk.subflows.7", "cwnd_bytes", "the run had no such subflow"),
        ("flows.bulk.subflows.1", "closed_s", "open when the run ended"),
    ],
)
def test_what_does_not_exist_says_why(path: str, metric: str, why: str) -> None:
    value = Evaluation(made_kernel_run()).value(path, metric)
    assert isinstance(value, Absent)
    assert why in value.why


def test_the_reason_is_that_of_the_back_end() -> None:
    value = Evaluation(made_run()).value("flows.bulk", "duplicate_bytes")
    assert value == Absent("back-end sim does not supply it: needs an analysis of captures")


def test_subflows_exist_as_far_as_the_run_had_them() -> None:
    def found(evaluation: Evaluation) -> list[str]:
        return [path for path, entity in evaluation.entities.items() if entity.kind == "subflow"]

    assert found(Evaluation(made_kernel_run())) == [f"flows.bulk.subflows.{number}" for number in (0, 1, 2)]
    assert found(Evaluation(made_run())) == []


def test_expectations_may_name_any_subflow_of_a_connection() -> None:
    check(["flows.bulk.subflows.11.share < 0.5"], resolved())
    with pytest.raises(SpecError, match=r"there is no 'flows\.voice\.subflows\.0'"):
        check(["flows.voice.subflows.0.share < 0.5"], resolved())


def test_the_summary_tells_of_subflows_in_seconds() -> None:
    flow = evaluated(made_kernel_run())["flows"][0]
    first = flow["subflows"][0]
    assert (first["local"], first["opened_s"], first["closed_s"]) == ("10.1.1.1:40001", 0.05, 10.5)
    schema = json.loads((Path(__file__).parents[1] / "docs" / "schemas" / "summary.json").read_text())
    jsonschema.validate(flow, {"$ref": "#/$defs/flow", "$defs": schema["$defs"]})


def test_no_more_is_drawn_as_carried_than_the_links_carry(tmp_path: Path) -> None:
    description = tmp_path / "slow.yaml"
    description.write_text(
        "name: slow\n"
        "topology: {parallel_links: {n: 2, between: [client, server], rate: 1mbit, delay: 10ms, queue: 100p}}\n"
        "flows: {bulk: {from: client, to: server, transport: mptcp, app: bulk}}\n"
        "duration: 10s\n"
    )
    (bundle,) = run(*load(description), out=tmp_path)
    drawing = stacked(bundle.load())
    assert drawing is not None
    assert drawing.title == "Arrived in order on each subflow of bulk"
    together = np.sum([line.y for line in drawing.lines if line.label != "goodput"], axis=0)
    until_s = drawing.lines[0].x + 0.5 * np.diff(drawing.lines[0].x)[0]
    carried_mbit = np.cumsum(together) * np.diff(drawing.lines[0].x)[0]
    # At any time since the start, because bytes behind a loss count when it is repaired.
    assert np.all(carried_mbit <= 2.0 * until_s)
    assert carried_mbit[-1] > 1.7 * until_s[-1]


def test_what_was_only_sent_is_called_so() -> None:
    drawing = stacked(made_kernel_run())
    assert drawing is not None
    assert drawing.title == "Sent on each subflow of bulk"
