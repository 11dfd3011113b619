"""Tests that every claim of every paper can come out either way, and the quantities that claims
measure in samples.

The first half gives each comparison values that hold, values that do not, and both in turn: labels
that are permuted in half of the seeds. The second half makes samples whose quantities are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mptcplab.catalogue import find
from mptcplab.reproduction import (
    Arm,
    Claim,
    Comparison,
    Figure,
    Observation,
    Study,
    load,
    needed,
    observe,
    papers,
    study,
)
from mptcplab.reproduction import outcome as judged
from mptcplab.reproduction.notation import Measure, Range
from mptcplab.reproduction.quantities import QUANTITIES, is_known, measured
from mptcplab.results import Absent, Bundle, RunData, Samples, Table, Units
from mptcplab.runner import Nobody, execute, plan

THEN = Arm("then", "sim")
SEEDS = range(1, 13)
#: Whether a seed has a value that holds.
Holding = Callable[[int], bool]


# ---- Every claim, either way
# -----------------------------------------------------------------------


CLAIMS = [pytest.param(paper, one, id=one.id) for paper in papers() for one in load(paper).claims if one.compare]


@cache
def quick_study(paper: str) -> Study:
    return study(load(paper), ["sim"], quick=True)


def value_in(allowed: Range) -> float:
    """Returns a number inside a range, away from its ends if it has some."""
    if np.isfinite(allowed.low) and np.isfinite(allowed.high):
        return (allowed.low + allowed.high) / 2
    if np.isfinite(allowed.low):
        return allowed.low + abs(allowed.low) / 2 + 0.1
    return allowed.high - abs(allowed.high) / 2 - 0.1


class World:
    """The values of one comparison: the quotient is inside or outside of what it allows."""

    def __init__(self, comparison: Comparison, holds: Holding) -> None:
        self.comparison, self.holds = comparison, holds

    def target(self, seed: int) -> float:
        allowed = self.comparison.allowed
        return value_in(allowed if self.holds(seed) else allowed.outside[0])

    def measured(self, measure: Measure, run: Observation, _flow: str | None = None) -> float:
        comparison, target = self.comparison, self.target(run.seed)
        if comparison.share:
            return float((comparison.allowed.low >= 0.5) == self.holds(run.seed))
        if comparison.trend is not None:
            allowed = [comparison.allowed] if self.holds(run.seed) else comparison.allowed.outside
            slope = next(one for one in (-1.0, 0.0, 1.0) if any(part.holds_all(one, one) for part in allowed))
            return float(3000 + slope * 100 * run.parameters[comparison.trend])
        if comparison.largest_at is not None:
            return 1000 / (1 + abs(run.parameters[comparison.largest_at] - target))
        if measure == comparison.below:
            return 1.0
        return target * (self.divided_by if measure.of_several is None else 1.0)

    divided_by = 1.0

    def of_each_flow(self, measure: Measure, run: Observation) -> dict[str, float]:
        is_above = measure.on == self.comparison.above.on
        return {f"bulk.{place}": place * (self.target(run.seed) if is_above else 1.0) for place in (1, 2, 3)}


def verdicts(monkeypatch: pytest.MonkeyPatch, planned: Study, claim: Claim, holds: Holding) -> set[str]:
    """Returns the verdicts of all comparisons of a claim in a world."""
    empty = made({}).run.samples
    observations = {
        key: [Observation(seed, "made", {}, {}, RunData(cell.experiment, {}, empty, Units())) for seed in SEEDS]
        for key, cell in planned.cells.items()
    }
    found = set()
    for comparison in claim.compare:
        world = World(comparison, holds)
        if comparison.below is not None and comparison.below.of_several == "sum":
            world.divided_by = len(planned.experiments(comparison.below.on or "", THEN, ""))
        monkeypatch.setattr(judged, "measured", world.measured)
        monkeypatch.setattr(judged, "of_each_flow", world.of_each_flow)
        alone = claim.model_copy(update={"compare": [comparison]})
        found |= {one.judged.kind for one in judged.compare(planned, observations, alone, THEN, "")}
    return found


@pytest.mark.parametrize(("paper", "claim"), CLAIMS)
def test_every_claim_can_come_out_either_way(paper: str, claim: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = quick_study(paper)
    assert verdicts(monkeypatch, planned, claim, lambda _seed: True) == {"reproduced"}
    assert verdicts(monkeypatch, planned, claim, lambda _seed: False) == {"refuted"}
    assert verdicts(monkeypatch, planned, claim, lambda seed: seed % 2 == 0) == {"undecided"}


@pytest.mark.parametrize("paper", papers())
def test_every_comparison_measures_what_there_is(paper: str) -> None:
    planned = quick_study(paper)
    for claim in planned.claims:
        for comparison in claim.compare:
            for measure in comparison.measures:
                assert measure.is_rate or measure.name.startswith("parameters.") or is_known(measure), measure
            for cell in planned.experiments(comparison.above.on or "", THEN, ""):
                flows = {flow["id"] for flow in cell.experiment["flows"]}
                assert comparison.flow is None or comparison.flow in flows, f"{claim.id}: {comparison.flow}"
                links = {link["id"] for link in cell.experiment["links"]}
                for measure in comparison.measures:
                    if measure.on in (None, comparison.above.on) and measure.name.startswith("links."):
                        assert measure.name.split(".")[1] in links, f"{claim.id}: {measure.name}"


@pytest.mark.parametrize("paper", papers())
def test_a_claim_that_is_not_tested_says_why(paper: str) -> None:
    assert all(len(one.untested) > 40 for one in load(paper).claims if one.untested is not None)


@pytest.mark.parametrize("paper", papers())
def test_what_quick_shortens_are_experiments_of_the_paper(paper: str) -> None:
    table = load(paper)
    quick, full = quick_study(paper), study(table.model_copy(update={"quick": []}), ["sim"], quick=True)
    for one in table.quick:
        for pattern in one.on:
            assert full.experiments(pattern, THEN, ""), pattern
    for key, cell in quick.cells.items():
        assert cell.experiment["duration_ns"] <= full.cells[key].experiment["duration_ns"]


# ---- What an observation keeps
# -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_seconds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of an experiment with two subflows."""
    out = tmp_path_factory.mktemp("kept")
    (member,) = find("sonkoly2014/fig7/uk_de/1%", {"duration": "2s"})
    jobs = plan([member.resolve().data], "sim", seed=1, repeat=1, out=out)
    (bundle,) = execute(jobs, Nobody())
    return bundle.path


MEASURES = [*QUANTITIES, "share_over.uk-de", "recovered_by.rto", "rate_of links.uk-de.forward.wire_bytes"]


@pytest.mark.parametrize("text", MEASURES)
def test_an_observation_keeps_what_its_measures_need(text: str, two_seconds: Path) -> None:
    measure = Measure.parse(f"{text} 0.5..1.5")
    bundle = Bundle.open(two_seconds)
    kept = observe(two_seconds, needed([measure])).of(bundle.resolved)
    whole = replace(kept, run=bundle.load())
    assert isinstance(measured(measure, whole), float)
    assert measured(measure, kept) == measured(measure, whole)


# ---- What claims measure, from samples
# --------------------------------------------------------------


def made(series: dict[tuple[str, str], Any], *, fallback: str | None = None, established: bool = True) -> Observation:
    """Returns a run of 60 s over two links, with one value of each series per second."""
    number = np.repeat(np.arange(len(series), dtype=np.int32), 61)
    samples = Samples(
        Table(
            {
                "time_ns": np.tile(np.arange(61) * 1_000_000_000, len(series)),
                "entity": (number, [entity for entity, _ in series]),
                "metric": (number, [metric for _, metric in series]),
                "value": np.concatenate([*series.values(), np.zeros(0)]),
            }
        )
    )
    hop = {"eth": "a.eth0", "wifi": "a.wlan0"}
    paths = [
        {"local": local, "remote": f"b.{link}", "hops": [{"link": link, "direction": "forward"}]}
        for link, local in hop.items()
    ]
    flows = [{"id": name, "transport": "mptcp", "paths": paths} for name in ("bulk", "rival")]
    links = [{"id": link, "a": local, "b": f"b.{link}"} for link, local in hop.items()]
    subflows = [
        {
            "id": n,
            "local": f"10.0.{n}.1:1",
            "remote": f"10.0.{n}.2:2",
            "interface": local,
            "remote_interface": f"b.{link}",
            "bytes": 0,
        }
        for n, (link, local) in enumerate(hop.items())
    ]
    result = {
        "end_ns": 60_000_000_000,
        "events": [],
        "flows": [
            {
                "id": name,
                "start_ns": 0,
                "end_ns": None,
                "subflows": subflows,
                "fallback": fallback,
                "established_ns": 5 if established else None,
            }
            for name in ("bulk", "rival")
        ],
    }
    return Observation(1, "made", {}, {}, RunData({"flows": flows, "links": links}, result, samples, Units()))


def value(text: str, run: Observation, flow: str | None = None) -> Any:
    return measured(Measure.parse(text), run, flow)


SECONDS = np.arange(61.0)


def test_the_rate_of_any_counter_in_a_window() -> None:
    carried = np.where(SECONDS < 30, SECONDS * 1e6, 30e6 + (SECONDS - 30) * 5e6)
    run = made({("links.eth.forward", "wire_bytes"): carried, ("links.eth.forward", "dropped_loss"): SECONDS * 3})
    assert value("rate_of links.eth.forward.wire_bytes 0..30", run) == pytest.approx(8e6)
    assert value("rate_of links.eth.forward.wire_bytes 40..50", run) == pytest.approx(40e6)
    assert value("rate_of links.eth.forward.dropped_loss 40..50", run) == pytest.approx(3)
    assert isinstance(value("rate_of links.wifi.forward.wire_bytes 40..50", run), Absent)


def test_the_share_of_a_link_in_a_flow() -> None:
    half = {
        ("flows.bulk.subflows.0", "bytes_received"): SECONDS * 3,
        ("flows.bulk.subflows.1", "bytes_received"): SECONDS,
    }
    run = made(half)
    assert value("share_over.eth 10..20", run) == pytest.approx(0.75)
    assert value("share_over.wifi 10..20", run) == pytest.approx(0.25)
    late = made({**half, ("flows.bulk.subflows.1", "bytes_received"): np.maximum(0, SECONDS - 30) * 9})
    assert value("share_over.eth 10..20", late) == 1
    assert value("share_over.eth 40..50", late) == pytest.approx(0.25)


def test_how_often_another_path_carries_nearly_everything() -> None:
    def carried(is_first: Any) -> Observation:
        first = np.cumsum(np.where(is_first, 1e6, 1e4))
        second = np.cumsum(np.where(is_first, 1e4, 1e6))
        entities = ("flows.bulk.subflows.0", "flows.bulk.subflows.1")
        return made({(one, "bytes_received"): of for one, of in zip(entities, (first, second), strict=True)})

    assert value("path_changes 0..60", carried(SECONDS < 100)) == 0
    assert value("path_changes 0..60", carried((SECONDS < 20) | (SECONDS > 40))) == 2
    # Both carry half of each bin.
    assert value("path_changes 0..60", carried(SECONDS % 2 == 0)) == 0


def test_another_flow_than_the_first() -> None:
    run = made({("flows.bulk", "bytes_in_order"): SECONDS * 1e6, ("flows.rival", "bytes_in_order"): SECONDS * 2e6})
    assert value("mean_bps 10..20", run) == pytest.approx(8e6)
    assert value("mean_bps 10..20", run, "rival") == pytest.approx(16e6)


@pytest.mark.parametrize(
    ("fallback", "established", "as_mptcp", "as_tcp"),
    [(None, True, 1, 0), ("no_option", True, 0, 1), (None, False, 0, 0), ("no_option", False, 0, 0)],
)
def test_how_a_connection_was_established(fallback: str | None, established: bool, as_mptcp: int, as_tcp: int) -> None:
    run = made({}, fallback=fallback, established=established)
    assert (value("established_as.mptcp", run), value("established_as.tcp", run)) == (as_mptcp, as_tcp)


def test_the_class_of_a_recovery() -> None:
    from_12_s = np.where(SECONDS >= 12, 1.0, 0.0)
    counters = {
        (f"flows.bulk.subflows.{n}", name): 0 * SECONDS for n in (0, 1) for name in ("rto_count", "retransmitted_bytes")
    }
    fast = made({**counters, ("flows.bulk.subflows.0", "retransmitted_bytes"): from_12_s * 1400})
    assert [value(f"recovered_by.{kind} 10..20", fast) for kind in ("rto", "fast", "none")] == [0, 1, 0]
    assert value("recovered_by.none 20..30", fast) == 1
    assert (value("recovered_by.fast.eth 10..20", fast), value("recovered_by.none.wifi 10..20", fast)) == (1, 1)
    timeout = made({**counters, ("flows.bulk.subflows.1", "rto_count"): from_12_s})
    assert [value(f"recovered_by.{kind} 10..20", timeout) for kind in ("rto", "fast", "none")] == [1, 0, 0]
    assert value("recovered_by.none.eth 10..20", timeout) == 1


# ---- The notation
# -----------------------------------------------------------------------------------


def test_the_notation_of_several_experiments_and_of_rates() -> None:
    summed = Measure.parse("sum flows.bulk.goodput_bps @ goal4/tcp_*")
    assert summed == Measure("flows.bulk.goodput_bps", None, "goal4/tcp_*", "sum")
    rate = Measure.parse("rate_of links.eth.forward.wire_bytes 40..50 @ A.1")
    assert rate.counter == ("links.eth.forward", "wire_bytes")
    with pytest.raises(ValueError, match="least needs '@ EXPERIMENTS'"):
        Measure.parse("least mean_bps 1..2")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"trend": "n", "largest_at": "n"}, "only one is allowed"),
        ({"largest_at": "n", "over": "run.goodput_bps"}, "has no divisor"),
        ({"share": True, "of": "sum mean_bps @ a/*"}, "only one is allowed"),
        ({"over": "mean_bps @ b/*"}, "means several experiments"),
    ],
)
def test_what_does_not_go_together_is_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Comparison.model_validate({"of": "mean_bps @ a/*", "holds": "> 1", **keys})


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"draw": ["curves"], "over": "n"}, "'of' belongs to"),
        ({"draw": ["curves"], "of": "run.goodput_bps"}, "'curves' and 'over' belong together"),
        ({"draw": ["goodput"], "of": "run.goodput_bps"}, "'of' belongs to"),
    ],
)
def test_a_figure_has_what_it_draws(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Figure.model_validate({"id": "f", "title": "F", "on": "a/*", **keys})


def test_the_place_of_the_largest_covers_what_is_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peak at 10 is decided only if no other number of subflows is within the tie."""
    planned = quick_study("ghosh")
    claim = next(one for one in planned.claims if one.id == "CL-B5")

    def kind(goodput: Callable[[float], float]) -> set[str]:
        def of_run(_measure: Measure, run: Observation, _flow: str | None = None) -> float:
            return goodput(run.parameters["n"])

        monkeypatch.setattr(World, "measured", lambda _world, *arguments: of_run(*arguments))
        return verdicts(monkeypatch, planned, claim, lambda _seed: True)

    assert kind(lambda n: 100 - abs(n - 10)) == {"reproduced"}
    assert kind(lambda n: 100 - abs(n - 10) / 4) == {"undecided"}
    assert kind(lambda n: 100 - n) == {"refuted"}
