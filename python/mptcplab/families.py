"""Metrics over the members of a family after their runs: each member's own and relative to a
reference, the best value, and crossings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mptcplab.errors import SpecError
from mptcplab.results import Spread, argmax, check_metric, crossover, difference, ratio, spread

if TYPE_CHECKING:
    from mptcplab.experiment import Experiment, FamilyMetric, Member, Resolved
    from mptcplab.recorded import Recorded
    from mptcplab.results import Bundle

Json = dict[str, Any]
#: Bundles of the repetitions of each member, by the member's name.
Repetitions = Mapping[str, Sequence["Bundle"]]


def check(work: Sequence[tuple[Member | Recorded | Experiment, Resolved]]) -> None:
    """Refuses family metrics of entities or metrics that no experiment of their family has. Raises
    SpecError.
    """
    families: dict[str, list[tuple[Member | Recorded | Experiment, Resolved]]] = {}
    for described, resolved in work:
        families.setdefault(_family_name(described), []).append((described, resolved))
    for family in families.values():
        for index, metric in enumerate(_family_metrics(family[0][0])):
            for name in _metrics_of(metric):
                _check_in_one(name, [resolved for _, resolved in family], f"family.{index}.{metric.kind}")


def _check_in_one(metric: str, family: Sequence[Resolved], field: str) -> None:
    problem: SpecError | None = None
    for resolved in family:
        try:
            check_metric(metric, resolved.data, field)
        except SpecError as error:
            problem = problem or error
        else:
            return
    if problem is not None:
        raise problem


def evaluate(members: Sequence[Member | Recorded], bundles: Sequence[Bundle]) -> list[Json]:
    """Returns one entry per family metric, or one per member for a ratio. A missing value is null,
    with the reason.

    Keys: ``family id kind metric over experiment value median ci95 why``; ``value`` is that of a
    parameter.
    """
    repetitions: dict[str, list[Bundle]] = {member.name: [] for member in members}
    for bundle in bundles:
        repetitions[bundle.record["experiment"]].append(bundle)
    families: dict[str, list[Member | Recorded]] = {}
    for member in members:
        families.setdefault(member.family, []).append(member)
    return [entry for family in families.values() for entry in _family(family, repetitions)]


def _family(members: Sequence[Member | Recorded], repetitions: Repetitions) -> Iterator[Json]:
    for metric in members[0].family_metrics:
        for entry in _EVALUATED[metric.kind](metric, members, repetitions):
            first = {"family": members[0].family, "id": metric.id, "kind": metric.kind}
            yield {**first, "metric": " ".join(_metrics_of(metric)), "over": metric.over, **entry}


def _ratios(metric: FamilyMetric, members: Sequence[Member | Recorded], repetitions: Repetitions) -> Iterator[Json]:
    entity, name = _split(metric.ratio or "")
    for member in members:
        reference, why = _reference(member, repetitions)
        found = ratio(repetitions[member.name], reference, entity, name) if reference is not None else None
        yield _entry(found, why or "no seed has the metric in both runs", experiment=member.name)


def _differences(
    metric: FamilyMetric, members: Sequence[Member | Recorded], repetitions: Repetitions
) -> Iterator[Json]:
    entity, name = _split(metric.difference or "")
    for member in members:
        reference, why = _reference(member, repetitions)
        found = difference(repetitions[member.name], reference, entity, name) if reference is not None else None
        yield _entry(found, why or "no seed has the metric in both runs", experiment=member.name)


def _values(metric: FamilyMetric, members: Sequence[Member | Recorded], repetitions: Repetitions) -> Iterator[Json]:
    for member in members:
        found = spread(repetitions[member.name], *_split(metric.value or ""))
        yield _entry(found, "no run has the metric", experiment=member.name)


def _reference(member: Member | Recorded, repetitions: Repetitions) -> tuple[Sequence[Bundle] | None, str | None]:
    """Returns the runs that a member is relative to, or the reason that there are none."""
    reference = repetitions.get(member.reference or "")
    if reference is None and member.why_no_reference is None:
        return None, f"the reference {member.reference} was not run"
    return reference, member.why_no_reference


def _best(metric: FamilyMetric, members: Sequence[Member | Recorded], repetitions: Repetitions) -> Iterator[Json]:
    found = argmax([repetitions[member.name] for member in members], metric.over or "", *_split(metric.argmax or ""))
    value, spread = found or (None, None)
    yield _entry(spread, "no run has the metric", value=value)


def _crossing(metric: FamilyMetric, members: Sequence[Member | Recorded], repetitions: Repetitions) -> Iterator[Json]:
    first, second = metric.crossover or ("", "")
    runs = [repetitions[member.name] for member in members]
    found = crossover(runs, metric.over or "", _split(first), _split(second))
    if found is None:
        yield _entry(None, "they do not cross in what was run")
    else:
        yield {**_entry(None, None, value=found.value), "ci95": [found.low, found.high]}


_EVALUATED = {"ratio": _ratios, "difference": _differences, "value": _values, "argmax": _best, "crossover": _crossing}


def _entry(spread: Spread | None, why: str | None, *, experiment: str | None = None, value: Any = None) -> Json:
    return {
        "experiment": experiment,
        "value": value,
        "median": spread.median if spread else None,
        "ci95": [spread.low, spread.high] if spread else None,
        "why": None if spread else why,
    }


def _family_metrics(described: Member | Recorded | Experiment) -> Sequence[FamilyMetric]:
    from mptcplab.experiment import Experiment  # the models load only when something is checked

    return described.family if isinstance(described, Experiment) else described.family_metrics


def _family_name(described: Member | Recorded | Experiment) -> str:
    from mptcplab.experiment import Experiment

    return described.name if isinstance(described, Experiment) else described.family


def _metrics_of(metric: FamilyMetric) -> list[str]:
    single = (metric.ratio, metric.difference, metric.value, metric.argmax)
    return [name for name in (*single, *(metric.crossover or [])) if name is not None]


def _split(metric: str) -> tuple[str, str]:
    """Splits ``flows.bulk.goodput_bps`` into the entity ``flows.bulk`` and the metric."""
    entity, _, name = metric.rpartition(".")
    return entity, name
