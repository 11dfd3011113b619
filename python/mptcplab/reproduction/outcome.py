"""The outcome of a study: the verdict of each claim in each arm, with the
values that decided it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mptcplab import metrics
from mptcplab.backends import ON_KERNEL
from mptcplab.reproduction.agreement import agreements
from mptcplab.reproduction.arms import Arm
from mptcplab.reproduction.claims import Claim, Comparison
from mptcplab.reproduction.notation import Combination, Measure
from mptcplab.reproduction.observation import Observation
from mptcplab.reproduction.quantities import measured, of_each_flow
from mptcplab.reproduction.study import AS_DESCRIBED, Cell, Study, alternatives
from mptcplab.reproduction.verdict import Judged, Kind, flips, judge, judge_spread, together
from mptcplab.results import Absent, Spread

Json = dict[str, Any]
#: Values are equal, without an order, if the largest is at most this times the smallest.
ALIKE = 1.05
#: How the values of several experiments become one.
COMBINATIONS: dict[Combination, Callable[[Sequence[float]], float]] = {"sum": sum, "least": min, "largest": max}
#: The observations of each cell.
Observations = Mapping[tuple[Arm, str, str], Sequence[Observation]]


@dataclass(frozen=True)
class Compared:
    """A comparison in one experiment, or in all of a trend or a combination: its verdict, or why it
    has no values.
    """

    comparison: Comparison
    on: str
    judged: Judged
    #: The experiment of the divisor if it is another one, or the pattern of several.
    over: str | None = None
    why_not: str | None = None
    #: The number of done runs without a value, and the reason for the last of them.
    without: int = 0
    why_without: str | None = None

    @property
    def is_inside(self) -> bool | None:
        """Whether the median, or the value of a single run, is inside the tolerance; None without
        values.
        """
        spread = self.judged.spread
        return None if spread is None else self.comparison.allowed.holds_all(spread.median, spread.median)


@dataclass(frozen=True)
class Verdict:
    """The verdict of a claim in an arm. ``flipped`` lists the assumptions under which the opposite
    verdict holds.
    """

    claim: Claim
    arm: Arm
    kind: Kind
    compared: Sequence[Compared]
    flipped: Sequence[str] = ()
    #: The verdict under each other assumption or reading that was tried.
    tried: Mapping[str, Kind] = field(default_factory=dict)
    #: Whether it is from a quick study, which tries no other assumptions.
    quick: bool = False

    @property
    def provisional(self) -> bool:
        """Whether the study was quick, or has fewer repetitions than an interval of 95 % needs."""
        if self.as_described == "cannot be run":
            return False
        return self.quick or any(one.judged.provisional for one in self.compared)

    @property
    def decisive(self) -> Compared | None:
        """The comparison that decided: the first whose verdict is that of the claim."""
        return next((one for one in self.compared if one.judged.kind == self.as_described), None)

    @property
    def as_described(self) -> Kind:
        """The verdict under the assumptions as described, whatever other assumptions give."""
        return _kind(self.compared)


@dataclass(frozen=True)
class Outcome:
    """A study with the results of its runs."""

    study: Study
    observations: Observations
    verdicts: Sequence[Verdict]

    @classmethod
    def of(cls, study: Study, observations: Observations) -> Outcome:
        """Judges every claim in every arm."""
        verdicts = [_verdict(study, observations, claim, arm) for claim in study.claims for arm in study.arms]
        return cls(study, observations, verdicts)

    def verdict(self, claim: Claim, name: str) -> Verdict:
        """Returns the verdict for an arm's name: the kernel's if it ran, else that of the first
        back-end.
        """
        found = [one for one in self.verdicts if one.claim is claim and one.arm.name == name]
        able = [one for one in found if one.kind != "cannot be run"] or found
        return next((one for one in able if one.arm.backend == ON_KERNEL), able[0])

    @property
    def able(self) -> list[Arm]:
        """Returns the arms in which at least one claim could be tested."""
        return [arm for arm in self.study.arms if self._tested(arm)]

    def _tested(self, arm: Arm) -> bool:
        return any(part.why_not is None for one in self.verdicts if one.arm == arm for part in one.compared)

    def disagreements(self) -> list[tuple[Verdict, Verdict]]:
        """Returns pairs of verdicts in which two back-ends contradict each
        other in the same arm.
        """
        return [pair for agreement in agreements([self]) for pair in agreement.contrary]


def _kind(compared: Sequence[Compared]) -> Kind:
    return together([one.judged.kind for one in compared])


def _verdict(study: Study, observations: Observations, claim: Claim, arm: Arm) -> Verdict:
    if claim.untested is not None:
        return Verdict(claim, arm, "cannot be run", [])
    compared = compare(study, observations, claim, arm, AS_DESCRIBED)
    kind = _kind(compared)
    tried = {label: _kind(compare(study, observations, claim, arm, label)) for label in _labels(study, claim, arm)}
    assumptions = [one for one in study.paper.assumptions if claim.id in one.concerns]
    assumed = {one.label for assumption in assumptions for one in assumption.instead}
    flipped = [label for label, other in tried.items() if label in assumed and flips(kind, other)]
    return Verdict(claim, arm, "depends" if flipped else kind, compared, flipped, tried, study.quick)


def _labels(study: Study, claim: Claim, arm: Arm) -> list[str]:
    run = {variant for of_arm, variant, _ in study.cells if of_arm == arm}
    return [one.label for one, concerns in alternatives(study.paper) if claim.id in concerns and one.label in run]


def compare(study: Study, observations: Observations, claim: Claim, arm: Arm, variant: str) -> list[Compared]:
    """Returns every comparison of a claim, once for each experiment that its pattern matches."""
    return [
        one
        for comparison in claim.compare
        for one in (
            [_over_all(study, observations, comparison, arm, variant)]
            if comparison.trend or comparison.largest_at or comparison.above.of_several
            else _each(study, observations, comparison, arm, variant)
        )
    ]


def _each(study: Study, observations: Observations, comparison: Comparison, arm: Arm, variant: str) -> list[Compared]:
    cells = study.experiments(comparison.above.on or "", arm, variant)
    return [_one(study, observations, comparison, cell) for cell in cells]


def _one(study: Study, observations: Observations, comparison: Comparison, cell: Cell) -> Compared:
    over = _other(comparison, cell)
    if cell.chosen.why_not is not None:
        return _cannot(comparison, cell.name, cell.chosen.why_not, over)
    runs = _by_seed(observations, cell)
    if comparison.paired:
        divisor = study.cells[cell.arm, cell.variant, over or cell.name]
        return _paired(comparison, cell, over, runs, _by_seed(observations, divisor))
    if runs and all(run.busy for run in runs.values()):
        # Disturbed runs say nothing about the claim, not even that it cannot be tested.
        return Compared(comparison, cell.name, judge([], comparison.allowed), over, None, len(runs))
    values, absent = _values(comparison.above, runs, comparison.flow)
    divisors, why_not = _divisors(study, observations, comparison, cell, over, runs)
    why_not = why_not or (absent if not values else None)
    if why_not is not None:
        return _cannot(comparison, cell.name, why_not, over)
    ratios = [_ratio(value, divisors[seed]) for seed, value in values.items() if seed in divisors]
    known = [ratio for ratio in ratios if ratio is not None]
    judged = judge(known, comparison.allowed, share=comparison.share)
    return Compared(comparison, cell.name, judged, over, without=len(runs) - len(known), why_without=absent)


def _paired(
    comparison: Comparison,
    cell: Cell,
    over: str | None,
    runs: Mapping[int, Observation],
    divisors: Mapping[int, Observation],
) -> Compared:
    """Compares the flows of a group one by one, and takes the median of their
    ratios in each seed.
    """
    above, below = comparison.above, comparison.below or comparison.above
    medians = []
    for seed, run in runs.items():
        if run.busy or seed not in divisors or divisors[seed].busy:
            continue
        beside = of_each_flow(below, divisors[seed])
        ratios = [value / beside[flow] for flow, value in of_each_flow(above, run).items() if beside.get(flow)]
        if ratios:
            medians.append(metrics.median(ratios))
    if not medians:
        return _cannot(comparison, cell.name, f"no flow has {above.name} in both runs", over)
    return Compared(comparison, cell.name, judge(medians, comparison.allowed), over, without=len(runs) - len(medians))


def _other(comparison: Comparison, cell: Cell) -> str | None:
    """Returns the experiment of the divisor; None if it is the same one, or if
    there is no divisor.
    """
    on = None if comparison.below is None else comparison.below.on
    return None if on is None else on.format(**cell.experiment["parameters"])


def _by_seed(observations: Observations, cell: Cell) -> dict[int, Observation]:
    return {one.seed: one for one in observations.get(cell.key, ())}


def _divisors(
    study: Study,
    observations: Observations,
    comparison: Comparison,
    cell: Cell,
    over: str | None,
    runs: Mapping[int, Observation],
) -> tuple[dict[int, float], str | None]:
    """Returns the divisors by seed, and the reason if there are none."""
    if comparison.below is None:
        return dict.fromkeys(runs, 1.0), None
    if comparison.below.of_several is not None:
        return _combined(study, observations, comparison.below, over or "", cell.arm, cell.variant)
    divisor = cell if over is None else study.cells[cell.arm, cell.variant, over]
    if divisor.chosen.why_not is not None:
        return {}, divisor.chosen.why_not
    values, absent = _values(comparison.below, _by_seed(observations, divisor))
    return values, absent if not values else None


def _combined(
    study: Study, observations: Observations, measure: Measure, pattern: str, arm: Arm, variant: str
) -> tuple[dict[int, float], str | None]:
    """Returns the sum, the least or the largest over several experiments for each seed that all of
    them have.
    """
    combine = COMBINATIONS[measure.of_several or "sum"]
    series, why_not = _series(study, observations, measure, pattern, arm, variant)
    return {seed: combine([value for _, value in points]) for seed, points in series.items()}, why_not


def _over_all(study: Study, observations: Observations, comparison: Comparison, arm: Arm, variant: str) -> Compared:
    """Compares one number of all experiments of a pattern: a trend, a place of the largest, or a
    combination.
    """
    pattern = comparison.above.on or ""
    series, why_not = _series(study, observations, comparison.above, pattern, arm, variant, comparison.flow)
    if why_not is not None:
        return _cannot(comparison, pattern, why_not)
    if comparison.largest_at is not None:
        at = [_largest_at(_by_parameter(points, comparison.largest_at), comparison.tie) for points in series.values()]
        return Compared(comparison, pattern, judge_spread(_around(at), comparison.allowed))
    if comparison.trend is not None:
        of_parameter = [_by_parameter(points, comparison.trend) for points in series.values()]
        known = [_rank_correlation(*zip(*points, strict=True)) for points in of_parameter]
        return Compared(comparison, pattern, judge(known, comparison.allowed))
    combine = COMBINATIONS[comparison.above.of_several or "sum"]
    first = study.experiments(pattern, arm, variant)[0]
    over = _other(comparison, first)
    seen = _by_seed(observations, first)
    divisors, why_not = _divisors(study, observations, comparison, first, over, seen)
    if why_not is not None:
        return _cannot(comparison, pattern, why_not, over)
    combined = {seed: combine([value for _, value in points]) for seed, points in series.items()}
    ratios = [_ratio(value, divisors[seed]) for seed, value in combined.items() if seed in divisors]
    return Compared(comparison, pattern, judge([one for one in ratios if one is not None], comparison.allowed), over)


def _series(
    study: Study,
    observations: Observations,
    measure: Measure,
    pattern: str,
    arm: Arm,
    variant: str,
    flow: str | None = None,
) -> tuple[dict[int, list[tuple[Json, float]]], str | None]:
    """Returns the parameters and the value of each experiment of a pattern, for each seed that all
    of them have.

    The second part is the reason if there are none.
    """
    cells = study.experiments(pattern, arm, variant)
    why_not = next((cell.chosen.why_not for cell in cells if cell.chosen.why_not is not None), None)
    series: dict[int, list[tuple[Json, float]]] = {}
    for cell in cells if why_not is None else ():
        values, absent = _values(measure, _by_seed(observations, cell), flow)
        if not values:
            return {}, absent or "no run was done"
        for seed, value in values.items():
            series.setdefault(seed, []).append((cell.experiment["parameters"], value))
    return {seed: points for seed, points in series.items() if len(points) == len(cells)}, why_not


def _by_parameter(points: Sequence[tuple[Json, float]], parameter: str) -> list[tuple[float, float]]:
    return [(float(parameters[parameter]), value) for parameters, value in points]


def _largest_at(points: Sequence[tuple[float, float]], tie: float) -> tuple[float, float, float]:
    """Returns the parameter at which the value is largest, and the least and largest at which it is
    as large.
    """
    at, largest = max(points, key=lambda point: point[1])
    as_large = [parameter for parameter, value in points if value >= (1 - tie) * largest]
    return at, min(as_large), max(as_large)


def _around(places: Sequence[tuple[float, float, float]]) -> Spread | None:
    """Returns the median of the places, in an interval that contains what is as large."""
    of_parts = [Spread.of(part) for part in zip(*places, strict=True)]
    if not of_parts:
        return None
    at, low, high = (one for one in of_parts if one is not None)
    return Spread(at.n, at.median, low.low, high.high)


def _rank_correlation(parameters: Sequence[float], values: Sequence[float]) -> float:
    """Returns the rank correlation; 0 if all values are equal within ``ALIKE``."""
    if max(values) <= ALIKE * min(values):
        return 0.0
    return metrics.rank_correlation(parameters, values) or 0.0


def _values(
    measure: Measure, runs: Mapping[int, Observation], flow: str | None = None
) -> tuple[dict[int, float], str | None]:
    """Returns the values by seed, and why the last missing value is missing."""
    values: dict[int, float] = {}
    why: str | None = "no run was done" if not runs else None
    for seed, run in sorted(runs.items()):
        value = Absent(run.busy) if run.busy else measured(measure, run, flow)
        if isinstance(value, Absent):
            why = value.why
        else:
            values[seed] = value
    return values, why


def _ratio(value: float, divisor: float) -> float | None:
    """Returns the ratio: infinity for a divisor of 0, None if both numbers are 0.

    A run with infinity counts, because to omit it would favour the divisor.
    """
    if divisor:
        return value / divisor
    return math.inf if value else None


def _cannot(comparison: Comparison, on: str, why: str, over: str | None = None) -> Compared:
    return Compared(comparison, on, Judged("cannot be run", None, provisional=False), over, why)
