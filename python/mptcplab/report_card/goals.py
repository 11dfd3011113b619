"""The goals of a report card: what is measured in which world, and its bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from allpairspy import AllPairs

from mptcplab.experiment import Experiment
from mptcplab.report_card.worlds import (
    LOSSES,
    PATHS,
    RIVALS,
    RTT_RATIOS,
    SUBFLOWS,
    Cell,
    Connection,
    Path,
    disjoint,
    one_busy,
    shared,
)

#: The metrics of a run: of the control, or of TCP over path A or path B.
Metrics = Mapping[str, Mapping[str, float | None]]


def goodput(run: Metrics) -> float:
    return run["flows.tested"]["goodput_bps"] or 0.0


def _share_of_b(run: Metrics) -> float:
    """Returns the share of path B in what the client sends."""
    sent = {path: sum(_wire_rates(run, path)) for path in PATHS}
    return sent["b"] / sum(sent.values())


def _wire_rates(run: Metrics, path: Path) -> Iterator[float]:
    for entity, of in run.items():
        if entity.startswith(f"links.{path}") and entity.endswith(".forward"):
            yield of["wire_rate_bps"] or 0.0


def _over_best(own: Metrics, a: Metrics, b: Metrics) -> float:
    return goodput(own) / max(goodput(a), goodput(b))


def _over_one(own: Metrics, a: Metrics, _b: Metrics) -> float:
    return goodput(own) / goodput(a)


def _of_shares(own: Metrics, a: Metrics, b: Metrics) -> float:
    return _share_of_b(own) * (goodput(a) + goodput(b)) / goodput(b)


def _over_sum(own: Metrics, a: Metrics, b: Metrics) -> float:
    return goodput(own) / (goodput(a) + goodput(b))


@dataclass(frozen=True)
class Goal:
    """A goal: its number in words, the bound, and the world and the rivals with which it is tried."""

    name: str
    words: str
    measure: str
    source: str
    bound: float
    is_at_most: bool
    world: Callable[[Cell, Connection], Experiment]
    rivals: tuple[str, ...]
    value: Callable[[Metrics, Metrics, Metrics], float]
    #: The paths over which TCP is run for reference.
    references: tuple[Path, ...] = PATHS

    @property
    def limit(self) -> str:
        """The bound as text: ``>= 0.95``."""
        return f"{'<=' if self.is_at_most else '>='} {self.bound:g}"

    def is_met(self, value: float) -> bool:
        """Returns whether a value is within the bound."""
        return value <= self.bound if self.is_at_most else value >= self.bound

    def margin(self, value: float) -> float:
        """Returns the value in comparison with the bound; 1 or more meets the goal."""
        if self.is_at_most:
            return self.bound / value if value else float("inf")
        return value / self.bound

    def cells(self, *, full: bool = False, column: bool = False) -> list[Cell]:
        """Returns the cells: those in which each two values of two factors meet, all with `full`.

        With `column`, returns those with one subflow on each path, equal paths and no loss.
        """
        factors: list[Sequence[Any]] = [SUBFLOWS, RTT_RATIOS, LOSSES, self.rivals]
        if column:
            return [Cell(SUBFLOWS[0], RTT_RATIOS[0], LOSSES[0], one) for one in self.rivals]
        return [Cell(*values) for values in (product(*factors) if full else AllPairs(factors))]


GOALS = (
    Goal(
        "improve",
        "At least what TCP has on the best path",
        "goodput over that of TCP on the better path",
        "RFC 6356, section 2, goal 1",
        0.95,
        False,
        disjoint,
        tuple(RIVALS),
        _over_best,
    ),
    Goal(
        "harm",
        "No more of a shared bottleneck than one TCP",
        "goodput over that of TCP in its place",
        "RFC 6356, section 2, goal 2",
        1.1,
        True,
        shared,
        ("1 TCP", "4 TCP"),
        _over_one,
        ("a",),
    ),
    Goal(
        "balance",
        "Less on the busy path than TCP on each path",
        "share of path B over its share with TCP on each path",
        "RFC 6356, section 2, goal 3",
        0.95,
        True,
        one_busy,
        ("1 TCP", "4 TCP"),
        _of_shares,
    ),
    Goal(
        "capacity",
        "All of the capacity",
        "goodput over that of TCP on both paths together",
        "efficient use of paths, which RFC 6356 does not ask for",
        0.95,
        False,
        disjoint,
        ("none", "UDP"),
        _over_sum,
    ),
)
