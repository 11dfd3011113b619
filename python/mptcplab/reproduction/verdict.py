"""The verdict on a claim from the values of runs. The interval of the median decides, never the
median alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mptcplab.metrics import SMALLEST_SAMPLE
from mptcplab.reproduction.notation import Range
from mptcplab.results import Spread

Kind = Literal["reproduced", "refuted", "undecided", "depends", "cannot be run"]
#: Fewer values say nothing about how far they scatter.
FEWEST = 2


@dataclass(frozen=True)
class Judged:
    """A verdict, the spread that it is based on, and whether it is provisional."""

    kind: Kind
    spread: Spread | None
    provisional: bool


def judge(values: Sequence[float], allowed: Range, *, share: bool = False) -> Judged:
    """Judges a comparison with one value per seed: reproduced if the whole interval is allowed,
    refuted if none of it is.

    Below six values the interval is their range, and the verdict is provisional. With `share` the
    values are 0 or 1, and the spread is that of the share of ones.
    """
    return judge_spread(Spread.of_share(list(values)) if share else Spread.of(list(values)), allowed)


def judge_spread(spread: Spread | None, allowed: Range) -> Judged:
    """Judges a comparison by the spread of its values."""
    if spread is None or spread.n < FEWEST:
        return Judged("undecided", spread, provisional=True)
    provisional = spread.n < SMALLEST_SAMPLE
    if allowed.holds_all(spread.low, spread.high):
        return Judged("reproduced", spread, provisional)
    if any(one.holds_all(spread.low, spread.high) for one in allowed.outside):
        return Judged("refuted", spread, provisional)
    return Judged("undecided", spread, provisional)


def together(kinds: Sequence[Kind]) -> Kind:
    """Judges a claim by its comparisons: refuted if one is, reproduced only if all are."""
    for kind in ("refuted", "cannot be run", "undecided"):
        if kind in kinds:
            return kind
    return "reproduced" if kinds else "undecided"


def flips(first: Kind, second: Kind) -> bool:
    """Returns whether two verdicts contradict each other."""
    return {first, second} == {"reproduced", "refuted"}
