"""The marks of congestion controls, from their runs, and the document that tells them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mptcplab import benchmark
from mptcplab.report_card.goals import Goal, Metrics, goodput
from mptcplab.report_card.trials import Examination
from mptcplab.report_card.worlds import Cell
from mptcplab.results import Bundle, Spread, digest

SCHEMA = "mptcplab/report-card/1"

Json = dict[str, Any]


@dataclass(frozen=True)
class Mark:
    """A control by one goal: the spread of its number over the seeds in each cell, None where a run
    is missing.
    """

    control: str
    goal: Goal
    cells: Mapping[Cell, Spread | None]

    @property
    def known(self) -> dict[Cell, float]:
        """The medians of the cells that have one."""
        return {cell: spread.median for cell, spread in self.cells.items() if spread is not None}

    @property
    def met(self) -> int:
        """The number of cells in which the goal is met."""
        return sum(self.goal.is_met(value) for value in self.known.values())

    @property
    def worst(self) -> tuple[Cell, float] | None:
        """The cell with the smallest margin, and its number."""
        known = self.known
        return min(known.items(), key=lambda one: self.goal.margin(one[1])) if known else None


def marks(examined: Examination, bundles: Iterable[Bundle]) -> list[Mark]:
    """Returns the mark of each control by each goal. Runs that are not `done` have no number."""
    done: dict[str, dict[int, Metrics]] = {}
    for bundle in bundles:
        if bundle.status == "done":
            done.setdefault(bundle.record["digest"], {})[bundle.record["seed"]] = bundle.record["metrics"]
    found: dict[tuple[str, str], dict[Cell, Spread | None]] = {}
    for trial in examined.trials:
        runs = {role: done.get(digest(one), {}) for role, one in trial.experiments.items()}
        of_cell = found.setdefault((trial.control, trial.goal.name), {})
        of_cell[trial.cell] = Spread.of(list(_values(trial.goal, runs)))
    return [Mark(name, goal, found[name, goal.name]) for name in examined.controls for goal in examined.goals]


def _values(goal: Goal, runs: Mapping[str, Mapping[int, Metrics]]) -> Iterator[float]:
    """Yields the number of a goal in each seed that all its runs have."""
    for seed, own in runs["own"].items():
        references = {path: runs[path].get(seed) for path in goal.references}
        if any(run is None or not goodput(run) for run in references.values()) or not goodput(own):
            continue
        yield goal.value(own, references["a"] or {}, references.get("b") or {})


def document(examined: Examination, found: Sequence[Mark], bundles: Sequence[Bundle]) -> Json:
    """Returns the JSON document of report cards, in the form `SCHEMA`."""
    own = {entry["name"]: entry for bundle in bundles for entry in bundle.record.get("user_code", ())}
    not_done = [bundle.record for bundle in bundles if bundle.status != "done"]
    return {
        "schema": SCHEMA,
        "on": examined.on,
        "seeds": sorted({bundle.record["seed"] for bundle in bundles}),
        "user_code": list(own.values()),
        "goals": [_goal(goal) for goal in examined.goals],
        "cards": [
            {
                "control": benchmark.short_name(name),
                "marks": [_mark(mark) for mark in found if mark.control == name],
            }
            for name in examined.controls
        ],
        "not_done": [{key: record[key] for key in ("experiment", "seed", "status", "why")} for record in not_done],
    }


def _goal(goal: Goal) -> Json:
    return {
        "name": goal.name,
        "words": goal.words,
        "measure": goal.measure,
        "source": goal.source,
        "limit": goal.limit,
    }


def _mark(mark: Mark) -> Json:
    worst = mark.worst
    return {
        "goal": mark.goal.name,
        "met": mark.met,
        "of": len(mark.known),
        "worst": worst and {**_cell(worst[0]), "value": worst[1]},
        "cells": [{**_cell(cell), **_number(mark.goal, spread)} for cell, spread in mark.cells.items()],
    }


def _cell(cell: Cell) -> Json:
    return {
        "subflows": cell.subflows,
        "rtt_ratio": cell.rtt_ratio,
        "loss": cell.loss,
        "rivals": cell.rivals,
        "words": cell.words,
        "short": cell.short,
    }


def _number(goal: Goal, spread: Spread | None) -> Json:
    if spread is None:
        return {"value": None}
    value = spread.median
    known = {"value": value, "range": [spread.low, spread.high], "n": spread.n}
    return {**known, "margin": goal.margin(value), "is_met": goal.is_met(value)}
