"""Compares an algorithm with all others of its kind on a standard set of scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mptcplab import algorithms
from mptcplab.backends import user_code
from mptcplab.errors import UsageError
from mptcplab.experiment import Experiment, resolve
from mptcplab.results import METRICS, Bundle, Spread, digest, spread

SCENARIOS = Path(__file__).parent / "scenarios"
SCHEMA = "mptcplab/bench-algorithm/1"

Json = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """A metric of a scenario, and whether larger values are better."""

    scenario: str
    entity: str
    metric: str
    more_is_better: bool = True

    @property
    def unit(self) -> str:
        """The unit of the table of metrics; empty for a pure number."""
        unit = METRICS[_KINDS[self.entity.partition(".")[0]], self.metric].unit
        return "" if unit == "1" else unit


_KINDS: Mapping[str, Any] = {"flows": "flow", "events": "event", "run": "run"}

#: The measures in the order of display.
MEASURES = (
    Measure("single-path", "run", "goodput_bps"),
    Measure("single-path", "flows.tested", "delay_p95_s", more_is_better=False),
    Measure("beside-one-tcp", "run", "jain_index"),
    Measure("beside-one-tcp", "flows.rival", "goodput_bps"),
    Measure("beside-four-tcp", "run", "jain_index"),
    Measure("disjoint-links", "run", "goodput_bps"),
    Measure("lossy-path", "run", "goodput_bps"),
    Measure("unequal-rtt", "run", "goodput_bps"),
    Measure("unequal-rtt", "flows.tested", "delay_p95_s", more_is_better=False),
    Measure("failure", "run", "goodput_bps"),
    Measure("failure", "events.cut", "recovery_s", more_is_better=False),
    Measure("short-flows", "flows.tested", "delay_p95_s", more_is_better=False),
    Measure("fattree", "run", "goodput_bps"),
    Measure("fattree", "run", "jain_index"),
)


@dataclass(frozen=True)
class Contest:
    """The algorithm under test, those it is compared with, and the resolved experiments by scenario and algorithm."""

    family: algorithms.Family
    newcomer: str
    names: tuple[str, ...]
    experiments: Mapping[tuple[str, str], Json]


@dataclass(frozen=True)
class Standing:
    """The ranking by one measure: the spread over the seeds of each algorithm, best first, without a value last."""

    measure: Measure
    title: str
    spreads: Mapping[str, Spread | None]
    newcomer: str

    @property
    def place(self) -> int | None:
        """The rank of the algorithm under test; None if it has no value."""
        own = self.spreads[self.newcomer]
        if own is None:
            return None
        known = [found.median for found in self.spreads.values() if found is not None]
        sign = 1 if self.measure.more_is_better else -1
        return 1 + sum(sign * median > sign * own.median for median in known)

    @property
    def others(self) -> list[tuple[str, Spread]]:
        """All other algorithms that have a value, best first."""
        return [(name, one) for name, one in self.spreads.items() if name != self.newcomer and one is not None]


def contest(newcomer: str, kind: str | None = None, against: Sequence[str] = ()) -> Contest:
    """Returns the experiments that compare an algorithm with `against`, by default with all of its kind.

    `kind` (`cc`, `scheduler`, `path_manager`) is needed only if the name is ambiguous. Raises
    UsageError for an unknown name, and SpecError for a file that cannot be used.
    """
    family = _family(newcomer, kind)
    name = newcomer if algorithms.is_users(newcomer) else family.find(newcomer) or newcomer
    others = [_known(family, one) for one in against] or list(family.names)
    names = tuple(dict.fromkeys([name, *others]))
    if len(names) < 2:
        raise UsageError(f"there is nothing to compare {name} with; name another {family.kind} with --against")
    scenarios = list(dict.fromkeys(measure.scenario for measure in MEASURES))
    described = {scenario: Experiment.from_yaml(SCENARIOS / f"{scenario}.yaml") for scenario in scenarios}
    experiments = {
        (scenario, one): resolve(described[scenario].override({f"flows.tested.{family.field}": one})).data
        for scenario in scenarios
        for one in names
    }
    return Contest(family, name, names, experiments)


def _family(newcomer: str, kind: str | None) -> algorithms.Family:
    known = {family.field: family for family in (algorithms.CC, algorithms.SCHEDULER, algorithms.PATH_MANAGER)}
    if kind is not None and kind not in known:
        raise UsageError(f"--kind {kind}: allowed is {', '.join(known)}")
    if kind is not None:
        return known[kind]
    if algorithms.is_object(newcomer):
        fields = [algorithms.CC.field]
    elif algorithms.file_of(newcomer) is not None:
        fields = user_code.fields_of(newcomer)
    else:
        fields = [field for field, family in known.items() if family.find(newcomer) is not None]
    if len(fields) == 1:
        return known[fields[0]]
    if fields:
        raise UsageError(f"{newcomer} may be a {' or a '.join(fields)}: say which with --kind")
    raise UsageError(f"no algorithm is called {newcomer!r}; allowed: ./FILE.py:CLASS, or a name from docs/reference")


def _known(family: algorithms.Family, name: str) -> str:
    found = name if algorithms.is_users(name) else family.find(name)
    if found is None:
        raise UsageError(f"--against {name}: no {family.kind} is called so; allowed: {', '.join(family.names)}")
    return found


def standings(contest: Contest, bundles: Iterable[Bundle]) -> list[Standing]:
    """Returns the ranking by each measure. Runs that are not `done` have no value."""
    by_digest: dict[str, list[Bundle]] = {}
    for bundle in bundles:
        by_digest.setdefault(bundle.record["digest"], []).append(bundle)
    of = {key: by_digest.get(digest(experiment), []) for key, experiment in contest.experiments.items()}
    titles = {scenario: experiment["title"] for (scenario, _), experiment in contest.experiments.items()}
    return [_standing(contest, measure, titles[measure.scenario], of) for measure in MEASURES]


def _standing(
    contest: Contest, measure: Measure, title: str, of: Mapping[tuple[str, str], Sequence[Bundle]]
) -> Standing:
    found = {name: spread(of[measure.scenario, name], measure.entity, measure.metric) for name in contest.names}
    known = [(name, one) for name, one in found.items() if one is not None]
    known.sort(key=lambda item: item[1].median, reverse=measure.more_is_better)
    absent: dict[str, Spread | None] = {name: None for name, one in found.items() if one is None}
    return Standing(measure, title, dict(known) | absent, contest.newcomer)


def short_name(name: str) -> str:
    """Returns a name that fits beside a bar: of a user's class, the file name without its folders."""
    return name.rpartition("/")[2]


def document(contest: Contest, found: Sequence[Standing], bundles: Sequence[Bundle]) -> Json:
    """Returns the JSON document of a contest, `mptcplab/bench-algorithm/1`."""
    own = {entry["name"]: entry for bundle in bundles for entry in bundle.record.get("user_code", ())}
    not_done = [bundle.record for bundle in bundles if bundle.status != "done"]
    return {
        "schema": SCHEMA,
        "algorithm": short_name(contest.newcomer),
        "kind": contest.family.field,
        "user_code": list(own.values()),
        "seeds": sorted({bundle.record["seed"] for bundle in bundles}),
        "measures": [_entry(standing) for standing in found],
        "not_done": [{key: record[key] for key in ("experiment", "seed", "status", "why")} for record in not_done],
    }


def _entry(standing: Standing) -> Json:
    measure = standing.measure
    values = [
        {
            "algorithm": short_name(name),
            **({} if one is None else {"n": one.n, "median": one.median, "range": [one.low, one.high]}),
        }
        for name, one in standing.spreads.items()
    ]
    return {
        "scenario": measure.scenario,
        "title": standing.title,
        "metric": f"{measure.entity}.{measure.metric}",
        "unit": measure.unit,
        "better": "more" if measure.more_is_better else "less",
        "place": standing.place,
        "of": len(standing.spreads),
        "values": values,
    }
