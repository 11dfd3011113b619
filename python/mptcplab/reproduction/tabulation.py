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

#: Between the metrics of a run whose total was published.
PLUS = " + "
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

    @property
    def is_total(self) -> bool:
        """Whether it is the total of several metrics."""
        return PLUS in self.metric


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
        return all(map(is_known, _measures(metric)))
    except ValueError:
        return False


def _measures(metric: str) -> list[Measure]:
    """Returns what a metric measures, of which a total has several."""
    return [Measure.parse(part) for part in metric.split(PLUS)]


def _spread(outcome: Outcome, name: str, published: Published, arm: Arm) -> Spread | None:
    measures = _measures(published.metric)
    runs = outcome.observations.get((arm, AS_DESCRIBED, name), ())
    spread = Spread.of(list(_values(measures, runs)))
    return None if spread is None else spread.scaled(1 / UNITS.get(published.unit or "", 1.0))


def _values(measures: Sequence[Measure], runs: Sequence[Observation]) -> Iterator[float]:
    """Yields the total of the measures in each run that has all of them."""
    for run in runs:
        values = [Absent(run.busy) if run.busy else measured(measure, run) for measure in measures]
        there = [value for value in values if not isinstance(value, Absent)]
        if len(there) == len(measures):
            yield sum(there)
