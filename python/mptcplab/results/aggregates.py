"""Statistics over repetitions, and metrics over a family of experiments. The seed is the unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mptcplab import metrics
from mptcplab.errors import UsageError
from mptcplab.results.bundle import Bundle
from mptcplab.results.entities import Json

#: An outlier differs from the median by more than this fraction of it.
LEAST_APART = 0.05


@dataclass(frozen=True)
class Spread:
    """Number of runs, median and its interval (below six runs the range)."""

    n: int
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Returns the spread of values, or None without values."""
        found = metrics.median_interval(values)
        return None if found is None else cls(len(values), *found)

    @classmethod
    def of_share(cls, values: Sequence[float]) -> Spread | None:
        """Returns the mean of values of 0 and 1 with its interval of 95 % by Wilson, or None
        without values.
        """
        found = metrics.share_interval(sum(value == 1 for value in values), len(values))
        return None if found is None else cls(len(values), *found)

    def scaled(self, factor: float) -> Spread:
        """Returns the spread in another unit. `factor` is positive."""
        return Spread(self.n, factor * self.median, factor * self.low, factor * self.high)


@dataclass(frozen=True)
class Crossing:
    """The value of a parameter at which two metrics cross, between two members."""

    value: float
    low: float
    high: float


def aggregates(records: Sequence[Json]) -> list[Json]:
    """Median, interval and range of every metric of every flow over the done runs of each
    experiment.

    ``apart`` has the seeds of runs that stand apart from the others, as ``metrics.standing_apart``
    tells them.

    ``records`` are those of bundles. Entries name the back-end only if there are several, for they
    are never mixed.
    """
    several = len({record["backend"] for record in records}) > 1
    values: dict[tuple[str, str, str, str], list[tuple[int, float]]] = {}
    for record in records:
        if record["status"] != "done":
            continue
        for flow, name, value in _flow_values(record):
            of_runs = values.setdefault((record["experiment"], record["backend"], flow, name), [])
            of_runs.append((record["seed"], value))
    return [
        _aggregate(experiment, flow, name, found, {"backend": backend} if several else {})
        for (experiment, backend, flow, name), found in values.items()
    ]


def spread(bundles: Sequence[Bundle], entity: str, metric: str) -> Spread | None:
    """Returns the spread of a metric over the done runs that have it, or None."""
    return Spread.of(list(_by_seed(bundles, entity, metric).values()))


def ratio(bundles: Sequence[Bundle], reference: Sequence[Bundle], entity: str, metric: str) -> Spread | None:
    """Returns the metric of a member / that of the reference, seed by seed, or None if no seed has
    both.
    """
    above, below = _by_seed(bundles, entity, metric), _by_seed(reference, entity, metric)
    return Spread.of([above[seed] / below[seed] for seed in above if below.get(seed)])


def difference(bundles: Sequence[Bundle], reference: Sequence[Bundle], entity: str, metric: str) -> Spread | None:
    """Returns the metric of a member less that of the reference, seed by seed, or None if no seed
    has both.
    """
    above, below = _by_seed(bundles, entity, metric), _by_seed(reference, entity, metric)
    return Spread.of([above[seed] - below[seed] for seed in above if seed in below])


def argmax(members: Sequence[Sequence[Bundle]], over: str, entity: str, metric: str) -> tuple[Any, Spread] | None:
    """Returns the value of `over` with the largest median, and that median, or None. Raises
    UsageError.
    """
    found = [(_parameter(member, over), spread(member, entity, metric)) for member in members if member]
    known = [(value, s) for value, s in found if s is not None]
    return max(known, key=lambda item: item[1].median) if known else None


def crossover(
    members: Sequence[Sequence[Bundle]], over: str, first: tuple[str, str], second: tuple[str, str]
) -> Crossing | None:
    """Where the medians of two metrics, each an (entity, metric), cross over a numeric parameter.

    None if they do not cross. Raises UsageError for a parameter that is not a number.
    """
    points: list[tuple[float, float, float]] = []
    for member in members:
        one, other = spread(member, *first), spread(member, *second)
        if member and one is not None and other is not None:
            points.append((_number(member, over), one.median, other.median))
    if not points:
        return None
    at = metrics.crossover(*zip(*sorted(points), strict=True))
    return None if at is None else Crossing(at[0], *at[1])


def _aggregate(experiment: str, flow: str, name: str, of_runs: Sequence[tuple[int, float]], extra: Json) -> Json:
    values = [value for _, value in of_runs]
    found = Spread.of(values)
    assert found is not None
    # What is a twentieth off is no collapse, however close together the others are.
    apart = metrics.standing_apart(values, LEAST_APART * abs(found.median))
    numbers = {
        "n": found.n,
        "median": found.median,
        "ci95": [found.low, found.high],
        "range": [min(values), max(values)],
        "apart": [of_runs[place][0] for place in apart],
    }
    return {"experiment": experiment, **extra, "flow": flow, "metric": name, **numbers}


def _flow_values(record: Json) -> list[tuple[str, str, float]]:
    return [
        (path.removeprefix("flows."), name, value)
        for path, values in record["metrics"].items()
        if path.startswith("flows.") and ".subflows." not in path
        for name, value in values.items()
        if value is not None
    ]


def _by_seed(bundles: Sequence[Bundle], entity: str, metric: str) -> dict[int, float]:
    values = {
        bundle.record["seed"]: bundle.record["metrics"].get(entity, {}).get(metric)
        for bundle in bundles
        if bundle.status == "done"
    }
    return {seed: value for seed, value in values.items() if value is not None}


def _parameter(member: Sequence[Bundle], name: str) -> Any:
    parameters = member[0].resolved["parameters"]
    if name not in parameters:
        experiment = member[0].record["experiment"]
        raise UsageError(f"{experiment} has no parameter {name!r}; it has {', '.join(parameters) or 'none'}")
    return parameters[name]


def _number(member: Sequence[Bundle], name: str) -> float:
    value = _parameter(member, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"a crossover needs a numeric parameter; {name} is {value!r}")
    return float(value)
