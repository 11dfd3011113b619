"""Findings of a sweep: the best combination, or where two arms cross, with intervals over the
seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from mptcplab import metrics
from mptcplab.errors import UsageError
from mptcplab.metrics import SMALLEST_SAMPLE
from mptcplab.sweep.combinations import Combination, Sweep, Values
from mptcplab.sweep.factors import Factor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mptcplab.metrics.arrays import Floats
    from mptcplab.results import Bundle

Json = dict[str, Any]
#: The done runs of each combination, in the order of the sweep.
Runs = Sequence[Sequence["Bundle"]]

KINDS = ("max", "min", "crossover")
RESAMPLES = 2000
#: Percentiles that contain 95 % of the resamples.
INTERVAL = (2.5, 97.5)


@dataclass(frozen=True)
class Find:
    """A value of ``--find``: the largest or smallest median of a metric, or where the medians of
    two arms cross.
    """

    kind: str
    metric: str

    @classmethod
    def parse(cls, text: str) -> Find:
        """Parses ``max:ENTITY.METRIC``. Raises UsageError."""
        kind, colon, metric = text.partition(":")
        if kind not in KINDS or not colon or not metric:
            allowed = ", ".join(f"{kind}:METRIC" for kind in KINDS)
            raise UsageError(f"--find {text}: allowed: {allowed}, for example max:flows.bulk.goodput_bps")
        return cls(kind, metric)

    def __str__(self) -> str:
        return f"{self.kind}:{self.metric}"


@dataclass(frozen=True)
class Axis:
    """The axis of a crossing, and its two arms."""

    over: Factor
    arms: Factor


def crossing_axis(factors: Sequence[Factor]) -> Axis:
    """Returns the axis of a crossing: the first numeric factor, with two values of a non-numeric
    factor as the arms.

    The arms are the first non-numeric factor with two values, or else a second numeric factor with
    two values. Raises UsageError if there is none.
    """
    arms = [factor for factor in factors if factor.numbers is None and len(factor.values) == 2]
    numeric = [factor for factor in factors if factor.numbers is not None]
    arms += [factor for factor in numeric[1:] if len(factor.values) == 2]
    if not numeric or not arms:
        found = ", ".join(f"{factor.name} ({', '.join(factor.values)})" for factor in factors)
        raise UsageError(
            f"--find crossover: found {found}; needed are a factor of numbers and one with two values, the arms, "
            "for example --set links.lte.delay=10ms,20ms,40ms --set flows.bulk.transport=tcp,mptcp"
        )
    return Axis(numeric[0], arms[0])


def evaluate(find: Find, sweep: Sweep, runs: Runs, seed: int) -> list[Json]:
    """Returns the findings: of a crossing, one entry for each combination of the other factors.

    Keys: ``find kind metric at over arms value unit interval between share n provisional why``.
    ``at`` holds values of factors. Intervals are percentiles of ``RESAMPLES`` bootstrap resamples
    of the seeds, drawn from ``seed``. ``share`` is the part of the resamples in which the same
    combination is best, or in which there is a crossing.
    """
    values = [_by_seed(of_one, find.metric) for of_one in runs]
    if find.kind == "crossover":
        return list(_crossings(find, sweep, values, seed))
    return [_best(find, sweep.combinations, values, seed)]


def _best(find: Find, combinations: Sequence[Combination], values: Sequence[Mapping[int, float]], seed: int) -> Json:
    known = [place for place, found in enumerate(values) if found]
    table = _paired([values[place] for place in known])
    if not table.size:
        return _entry(find, 0, why="no seed has the metric in all combinations" if known else "no run has the metric")
    choose = np.argmax if find.kind == "max" else np.argmin
    medians = np.median(table, axis=0)
    best = int(choose(medians))
    resampled = [np.median(sample, axis=0) for sample in _resamples(table, seed)]
    wins = Counter(int(choose(sample)) for sample in resampled)
    return _entry(
        find,
        len(table),
        at=combinations[known[best]].values,
        value=float(medians[best]),
        interval=_interval([float(sample[best]) for sample in resampled]),
        share=wins[best] / len(resampled) if resampled else None,
    )


def _crossings(find: Find, sweep: Sweep, values: Sequence[Mapping[int, float]], seed: int) -> Iterator[Json]:
    axis = crossing_axis(sweep.factors)
    by_values = {tuple(c.values.items()): found for c, found in zip(sweep.combinations, values, strict=True)}
    others = [factor for factor in sweep.factors if factor not in (axis.over, axis.arms)]
    for picked in product(*(factor.values for factor in others)):
        at = dict(zip((factor.name for factor in others), picked, strict=True))
        yield _crossing(find, axis, at, _Curves.of(sweep.factors, axis, at, by_values), seed)


@dataclass(frozen=True)
class _Curves:
    """Values of both arms at the points where both have some: `table[seed, arm, point]` at
    ascending `numbers`.
    """

    numbers: list[float]
    labels: list[str]
    table: Floats

    @classmethod
    def of(
        cls,
        factors: Sequence[Factor],
        axis: Axis,
        at: Values,
        by_values: Mapping[tuple[tuple[str, str], ...], Mapping[int, float]],
    ) -> _Curves:
        def values(number: str, arm: str) -> Mapping[int, float]:
            picked = {**at, axis.over.name: number, axis.arms.name: arm}
            return by_values.get(tuple((factor.name, picked[factor.name]) for factor in factors), {})

        points = sorted(zip(axis.over.numbers or (), axis.over.values, strict=True))
        both = [(number, label) for number, label in points if all(values(label, arm) for arm in axis.arms.values)]
        table = _paired([values(label, arm) for arm in axis.arms.values for _, label in both])
        return cls(
            [number for number, _ in both], [label for _, label in both], table.reshape(len(table), 2, len(both))
        )

    def crossing(self, table: Floats) -> tuple[float, tuple[float, float]] | None:
        first, second = np.median(table, axis=0)
        return metrics.crossover(self.numbers, first, second)

    def label(self, number: float) -> str:
        return self.labels[self.numbers.index(number)]


def _crossing(find: Find, axis: Axis, at: Values, curves: _Curves, seed: int) -> Json:
    about: Json = {"at": at, "over": axis.over.name, "arms": list(axis.arms.values), "unit": axis.over.unit}
    n = len(curves.table)
    if not curves.table.size:
        return _entry(find, 0, **about, why="no seed has the metric in both arms")
    resampled = [curves.crossing(sample) for sample in _resamples(curves.table, seed)]
    crossed = [found[0] for found in resampled if found is not None]
    share = len(crossed) / len(resampled) if resampled else None
    found = curves.crossing(curves.table)
    if found is None:
        return _entry(find, n, **about, share=share, why="the arms do not cross in what was run")
    value, between = found
    return _entry(
        find,
        n,
        **about,
        value=value,
        interval=_interval(crossed),
        between=[curves.label(number) for number in between],
        share=share,
    )


def _entry(find: Find, n: int, **found: Any) -> Json:
    nothing = dict.fromkeys(("at", "over", "arms", "value", "unit", "interval", "between", "share"))
    first = {"find": str(find), "kind": find.kind, "metric": find.metric}
    return first | nothing | {"n": n, "provisional": n < SMALLEST_SAMPLE, "why": None} | found


def _by_seed(runs: Sequence[Bundle], metric: str) -> dict[int, float]:
    entity, _, name = metric.rpartition(".")
    values = {run.record["seed"]: run.record["metrics"].get(entity, {}).get(name) for run in runs}
    return {seed: value for seed, value in values.items() if value is not None}


def _paired(values: Sequence[Mapping[int, float]]) -> Floats:
    """Returns a row for each common seed, and a column for each sample."""
    seeds = sorted(set.intersection(*(set(found) for found in values))) if values else []
    return np.array([[found[seed] for found in values] for seed in seeds]).reshape(len(seeds), len(values))


def _resamples(table: Floats, seed: int) -> Iterator[Floats]:
    """Yields tables of rows drawn with replacement. A table with a single row yields none."""
    if len(table) < 2:
        return
    rng = np.random.default_rng(seed)
    for rows in rng.integers(0, len(table), (RESAMPLES, len(table))):
        yield table[rows]


def _interval(resampled: Sequence[float]) -> list[float] | None:
    if not resampled:
        return None
    low, high = np.percentile(resampled, INTERVAL)
    return [float(low), float(high)]
