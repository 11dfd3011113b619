"""Compares the simulator with the kernel, seed by seed: one row for each measure of each case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import Literal

from mptcplab import metrics
from mptcplab.fidelity.bounds import DIFFERENCES, Bounds, Exemption, Interval

#: Probability of a miss by chance.
LEVEL = 0.05
#: Smallest number of pairs that are compared.
FEWEST = 3
#: Shorter recoveries count as this long, because recovery has the resolution of the samples and is
#: often 0.
SHORTEST_RECOVERY_S = 0.1

Verdict = Literal["holds", "undecided", "misses", "exempt", "exempt no longer"]
BySeed = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class Row:
    """A measure of a case on both sides: medians, the median ratio or difference of the pairs, and
    its interval.
    """

    case: str
    measure: str
    kind: str
    pairs: int
    of: int
    simulated: float
    measured: float
    apart: float
    interval: Interval | None
    allowed: Interval
    p_outside: float | None
    exemption: Exemption | None
    verdict: Verdict = "undecided"


def judged(
    simulated: Mapping[str, BySeed], measured: Mapping[str, BySeed], bounds: Bounds, *, together: bool
) -> list[Row]:
    """Returns the rows of all cases that both sides have.

    A measure holds if the median of its pairs is within its bound. Otherwise it misses if chance is
    an unlikely cause, and is undecided if not. An exempt measure must be in the range of its
    exemption, by the same rule.

    With `together`, probabilities are adjusted for the number of rows (Holm). This is for new runs.
    Recorded results do not change, so a miss there is examined instead of drawn again.
    """
    rows = [
        row
        for case, runs in simulated.items()
        if case in measured
        for measure in _measures(runs, measured[case])
        if (row := _row(case, measure, runs, measured[case], bounds)) is not None
    ]
    tested = [row for row in rows if row.p_outside is not None]
    p_values = [row.p_outside for row in tested if row.p_outside is not None]
    used = metrics.holm(p_values) if together else p_values
    by_row = {id(row): p_value for row, p_value in zip(tested, used, strict=True)}
    return [replace(row, verdict=_verdict(row, by_row.get(id(row), 1.0), bounds)) for row in rows]


def _measures(runs: BySeed, others: BySeed) -> Iterator[str]:
    yield from dict.fromkeys(measure for side in (others, runs) for of in side.values() for measure in of)


def _row(case: str, measure: str, runs: BySeed, others: BySeed, bounds: Bounds) -> Row | None:
    """Returns the row of a measure, or None if neither side has it in enough runs."""
    common = [seed for seed in runs if seed in others]
    is_share = bounds.kind(measure) == "share"
    both = [seed for seed in common if is_share or (measure in runs[seed] and measure in others[seed])]
    if len(both) < FEWEST:
        return None
    kind = bounds.kind(measure)
    least = SHORTEST_RECOVERY_S if kind == "recovery" else 0.0
    one, other = ([max(least, side[seed].get(measure, 0.0)) for seed in both] for side in (runs, others))
    exemption = bounds.exemption(case, measure)
    allowed = exemption.holds if exemption else bounds.allowed(measure)
    if kind in DIFFERENCES:
        apart = median(a - b for a, b in zip(one, other, strict=True))
        found = metrics.difference_of_pairs(one, other)
        p_outside = metrics.paired_difference_outside(one, other, allowed)
    else:
        apart = median(a / b if b else inf for a, b in zip(one, other, strict=True))
        found = metrics.ratio_of_pairs(one, other)
        p_outside = metrics.paired_ratio_outside(one, other, allowed)
    interval = found[1] if found else None
    sides = median(one), median(other)
    return Row(case, measure, kind, len(both), len(common), *sides, apart, interval, allowed, p_outside, exemption)


def _verdict(row: Row, p_value: float, bounds: Bounds) -> Verdict:
    low, high = row.allowed
    if row.exemption is not None:
        usual = bounds.allowed(row.measure)
        if usual[0] <= row.apart <= usual[1]:
            return "exempt no longer"
        return "misses" if not low <= row.apart <= high and p_value < LEVEL else "exempt"
    if low <= row.apart <= high:
        return "holds"
    return "misses" if p_value < LEVEL else "undecided"


def misses(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows that make the check fail."""
    return [row for row in rows if row.verdict == "misses"]
