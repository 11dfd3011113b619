"""Tables of a paper: each published value of the catalogue beside what both stacks gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mptcplab.experiment import Published
from mptcplab.reproduction.arms import Arm
from mptcplab.reproduction.claims import PublishedTable
from mptcplab.reproduction.notation import Measure
from mptcplab.reproduction.observation import Observation
from mptcplab.reproduction.outcome import Outcome
from mptcplab.reproduction.quantities import is_known, measured
from mptcplab.reproduction.study import AS_DESCRIBED
from mptcplab.results import Absent, Spread

#: How many of the base unit of a metric are one unit of a published value.
UNITS = {"Mbit/s": 1e6, "kbit/s": 1e3, "ms": 1e-3, "MB": 1e6, "%": 1e-2}


@dataclass(frozen=True)
class TableRow:
    """A published value in its unit, and the spread of what each arm measured; None without a
    value.
    """

    experiment: str
    metric: str
    published: Published
    measured: Sequence[Spread | None]


def tabulated(outcome: Outcome, table: PublishedTable, arms: Sequence[Arm]) -> list[TableRow]:
    """Returns the rows of a table in the order of the catalogue.

    Values in words, lists, and those that no metric measures have no row.
    """
    names = dict.fromkeys(name for arm, variant, name in outcome.study.cells if variant == AS_DESCRIBED)
    return [
        TableRow(name, published.metric, published, [_spread(outcome, name, published, arm) for arm in arms])
        for name in names
        for published in outcome.study.published.get(name, ())
        if published.source == table.source and isinstance(published.value, float) and _is_measured(published.metric)
    ]


def _is_measured(metric: str) -> bool:
    try:
        return is_known(Measure.parse(metric))
    except ValueError:
        return False


def _spread(outcome: Outcome, name: str, published: Published, arm: Arm) -> Spread | None:
    measure = Measure.parse(published.metric)
    runs = outcome.observations.get((arm, AS_DESCRIBED, name), ())
    spread = Spread.of(list(_values(measure, runs)))
    return None if spread is None else spread.scaled(1 / UNITS.get(published.unit or "", 1.0))


def _values(measure: Measure, runs: Sequence[Observation]) -> Iterator[float]:
    for run in runs:
        value = Absent(run.busy) if run.busy else measured(measure, run)
        if not isinstance(value, Absent):
            yield value
