"""Compares an algorithm with all others of its kind on a standard set of scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from mptcplab import algorithms, metrics
from mptcplab.backends import backend, user_code
from mptcplab.errors import UsageError
from mptcplab.experiment import Experiment, resolve
from mptcplab.results import METRICS, Bundle, Spread, digest

SCENARIOS = Path(__file__).parent / "scenarios"
SCHEMA = "mptcplab/bench-algorithm/2"
#: Smaller differences are ties, whatever their probability.
LEAST_DIFFERENCE = 0.01
#: A difference counts if its probability by chance, adjusted for all pairs of a measure, is below.
SIGNIFICANT = 0.05
CONFIDENCE = 0.95

Json = dict[str, Any]

ALL = ("cc", "scheduler", "path_manager")
#: The kinds of algorithms that each scenario tells apart.
KINDS: Mapping[str, tuple[str, ...]] = {
    "single-path": ("cc",),
    "beside-one-tcp": ("cc", "path_manager"),
    "beside-four-tcp": ("cc",),
    "disjoint-links": ("cc", "path_manager"),
    "lossy-path": ALL,
    "unequal-rtt": ALL,
    "failure": ALL,
    "short-flows": ALL,
    "fattree": ("cc", "path_manager"),
    "small-buffer": ("scheduler",),
    "bursts": ("scheduler",),
    "stream": ("scheduler", "path_manager"),
    "limited-rate": ("scheduler",),
    "lossy-rate": ("scheduler",),
}


@dataclass(frozen=True)
class Measure:
    """A metric of a scenario, its name in words, and whether larger values are better."""

    scenario: str
    entity: str
    metric: str
    words: str
    more_is_better: bool = True

    @property
    def short(self) -> str:
        """The name for narrow columns."""
        return self.words.replace(", 95th percentile", " p95").replace(", median", " p50")

    @property
    def unit(self) -> str:
        """The unit of the table of metrics; empty for a pure number."""
        unit = METRICS[_ENTITIES[self.entity.partition(".")[0]], self.metric].unit
        return "" if unit == "1" else unit


_ENTITIES: Mapping[str, Any] = {"flows": "flow", "events": "event", "run": "run"}


def _goodput(scenario: str) -> Measure:
    return Measure(scenario, "run", "goodput_bps", "Goodput")


def _fairness(scenario: str) -> Measure:
    return Measure(scenario, "run", "jain_index", "Fairness")


def _delay(scenario: str) -> Measure:
    return Measure(scenario, "flows.tested", "delay_p95_s", "Delay, 95th percentile", more_is_better=False)


#: The measures in the order of display.
MEASURES = (
    _goodput("single-path"),
    _delay("single-path"),
    _fairness("beside-one-tcp"),
    Measure("beside-one-tcp", "flows.rival", "goodput_bps", "TCP goodput"),
    _fairness("beside-four-tcp"),
    _goodput("disjoint-links"),
    _goodput("lossy-path"),
    _goodput("unequal-rtt"),
    _delay("unequal-rtt"),
    _goodput("failure"),
    Measure("failure", "events.cut", "recovery_s", "Recovery", more_is_better=False),
    _delay("short-flows"),
    _goodput("fattree"),
    _fairness("fattree"),
    _goodput("small-buffer"),
    _delay("small-buffer"),
    Measure("bursts", "flows.tested", "delay_p50_s", "Delay, median", more_is_better=False),
    _delay("bursts"),
    Measure("stream", "flows.tested", "stream_startup_s", "Start-up", more_is_better=False),
    _delay("stream"),
    _delay("limited-rate"),
    _delay("lossy-rate"),
)


def measures_of(kind: str) -> list[Measure]:
    """Returns the measures of the scenarios that tell algorithms of a kind apart."""
    return [measure for measure in MEASURES if kind in KINDS[measure.scenario]]


@dataclass(frozen=True)
class Contest:
    """The algorithm under test, those it is compared with, and the resolved experiments by scenario
    and algorithm.
    """

    family: algorithms.Family
    newcomer: str
    names: tuple[str, ...]
    experiments: Mapping[tuple[str, str], Json]
    on: str

    def by_backend(self) -> dict[str, list[Json]]:
        """Returns the experiments of each back-end. The program runs only its own algorithms, so
        that the runs of the built-in ones are the same for every program.
        """
        found: dict[str, list[Json]] = {}
        for (_, name), experiment in self.experiments.items():
            found.setdefault(self.on if algorithms.is_in_crate(name) else "sim", []).append(experiment)
        return found


@dataclass(frozen=True)
class Result:
    """An algorithm by one measure: spread over the seeds, ratio to the best with its interval,
    place, and ties.

    The ratio is None if a value is 0. The place counts the algorithms that are better beyond doubt,
    plus one.
    """

    spread: Spread
    ratio: tuple[float, tuple[float, float]] | None
    place: int
    tied: int


@dataclass(frozen=True)
class Standing:
    """The ranking by one measure: the result of each algorithm, best median first, without a value
    last.
    """

    measure: Measure
    title: str
    results: Mapping[str, Result | None]
    newcomer: str

    @property
    def own(self) -> Result | None:
        """The result of the algorithm under test."""
        return self.results[self.newcomer]


def contest(newcomer: str, kind: str | None = None, against: Sequence[str] = (), on: str = "sim") -> Contest:
    """Returns the experiments that compare an algorithm with `against`, by default with all of its
    kind.

    `kind` (`cc`, `scheduler`, `path_manager`) is needed only if the name is ambiguous. `on` is the
    path of the simulator that has the algorithms `crate:NAME`. Raises UsageError for an unknown
    name, and SpecError for a file that cannot be used.
    """
    check_program(on, [newcomer, *against])
    family = _family(newcomer, kind, on)
    name = newcomer if algorithms.is_users(newcomer) else family.find(newcomer) or newcomer
    others = [_known(family, one, on) for one in against] or list(family.names)
    names = tuple(dict.fromkeys([name, *others]))
    if len(names) < 2:
        raise UsageError(f"there is nothing to compare {name} with; name another {family.kind} with --against")
    scenarios = list(dict.fromkeys(measure.scenario for measure in measures_of(family.field)))
    experiments = {(scenario, one): _experiment(scenario, family.field, one) for scenario in scenarios for one in names}
    return Contest(family, name, names, experiments, on)


def _experiment(scenario: str, field: str, name: str) -> Json:
    described = Experiment.from_yaml(SCENARIOS / f"{scenario}.yaml")
    return resolve(described.override({f"flows.tested.{field}": name})).data


def check_program(on: str, names: Sequence[str]) -> None:
    """Raises UsageError if `on` is neither the simulator nor a program, or does
    not fit the names.
    """
    is_program = "/" in on
    if on != "sim" and not is_program:
        allowed = "sim, or the path of your own simulator, as in ./my-sim"
        raise UsageError(f"--on {on}: algorithms are compared in the simulator; allowed: {allowed}")
    of_a_crate = [name for name in names if algorithms.is_in_crate(name)]
    if of_a_crate and not is_program:
        raise UsageError(f"{of_a_crate[0]}: only your own simulator has it; name its path with --on PROGRAM")
    if is_program and not of_a_crate:
        raise UsageError(f"--on {on}: the program runs only algorithms of its own; allowed: crate:NAME")


def _fields_in_program(name: str, on: str) -> list[str]:
    """Returns the fields of a flow that can name an algorithm of a program. Raises UsageError if
    there are none.
    """
    program = backend(on)
    refused = {field: program.check(_experiment("disjoint-links", field, name)) for field in ALL}
    fields = [field for field, why in refused.items() if not why]
    if not fields:
        raise UsageError(f"{name}: {on} has no such algorithm; allowed: a name that its main registers")
    return fields


def _family(newcomer: str, kind: str | None, on: str) -> algorithms.Family:
    known = {family.field: family for family in (algorithms.CC, algorithms.SCHEDULER, algorithms.PATH_MANAGER)}
    if kind is not None and kind not in known:
        raise UsageError(f"--kind {kind}: allowed is {', '.join(known)}")
    if algorithms.is_in_crate(newcomer):
        fields = _fields_in_program(newcomer, on)
    elif algorithms.is_object(newcomer):
        fields = [algorithms.CC.field]
    elif kind is None and algorithms.file_of(newcomer) is not None:
        fields = user_code.fields_of(newcomer)
    else:
        fields = [field for field, family in known.items() if family.find(newcomer) is not None]
    if kind is not None:
        return known[kind]
    if len(fields) == 1:
        return known[fields[0]]
    if fields:
        raise UsageError(f"{newcomer} may be a {' or a '.join(fields)}: say which with --kind")
    names = [name for family in known.values() for name in family.names]
    raise UsageError(algorithms.unknown("algorithm", newcomer, names))


def _known(family: algorithms.Family, name: str, on: str) -> str:
    if algorithms.is_in_crate(name) and family.field not in _fields_in_program(name, on):
        raise UsageError(f"--against {name}: {on} has no {family.kind} of this name")
    found = name if algorithms.is_users(name) else family.find(name)
    if found is None:
        raise UsageError(f"--against: {algorithms.unknown(family.kind, name, family.names)}")
    return found


def standings(contest: Contest, bundles: Iterable[Bundle]) -> list[Standing]:
    """Returns the ranking by each measure. Runs that are not `done` have no value."""
    by_digest: dict[str, list[Bundle]] = {}
    for bundle in bundles:
        by_digest.setdefault(bundle.record["digest"], []).append(bundle)
    of = {key: by_digest.get(digest(experiment), []) for key, experiment in contest.experiments.items()}
    titles = {scenario: experiment["title"] for (scenario, _), experiment in contest.experiments.items()}
    return [
        Standing(
            measure,
            titles[measure.scenario],
            ranking(measure, {name: _by_seed(of[measure.scenario, name], measure) for name in contest.names}),
            contest.newcomer,
        )
        for measure in measures_of(contest.family.field)
    ]


#: The values of an algorithm by seed.
Values = Mapping[int, float]


def _by_seed(bundles: Sequence[Bundle], measure: Measure) -> Values:
    done = [bundle.record for bundle in bundles if bundle.status == "done"]
    found = {one["seed"]: one["metrics"].get(measure.entity, {}).get(measure.metric) for one in done}
    return {seed: value for seed, value in found.items() if value is not None}


def ranking(measure: Measure, values: Mapping[str, Values]) -> dict[str, Result | None]:
    """Returns the result of each algorithm, best median first, without a value last.

    Algorithms tie with the best of their group unless they are worse by more than
    `LEAST_DIFFERENCE`, beyond chance.
    """
    spreads = {name: found for name, of in values.items() if (found := Spread.of(list(of.values()))) is not None}
    order = sorted(spreads, key=lambda name: spreads[name].median, reverse=measure.more_is_better)
    groups = _groups(order, _worse(measure, values, order))
    results: dict[str, Result | None] = {}
    for group in groups:
        place = 1 + len(results)
        for name in group:
            ratio = _ratio(values[name], values[order[0]])
            results[name] = Result(spreads[name], ratio, place, len(group) - 1)
    return results | {name: None for name in values if name not in spreads}


def _worse(measure: Measure, values: Mapping[str, Values], order: Sequence[str]) -> set[tuple[str, str]]:
    """Returns the pairs (better, worse) that differ beyond doubt, by Holm's
    method over all pairs.
    """
    pairs = list(combinations(order, 2))
    chances = metrics.holm([_chance(measure, *_paired(values[low], values[high])) for high, low in pairs])
    return {pair for pair, chance in zip(pairs, chances, strict=True) if chance < SIGNIFICANT}


def _groups(order: Sequence[str], worse: set[tuple[str, str]]) -> list[list[str]]:
    groups: list[list[str]] = []
    for name in order:
        if groups and (groups[-1][0], name) not in worse:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def _paired(first: Values, second: Values) -> tuple[list[float], list[float]]:
    seeds = [seed for seed in first if seed in second]
    return [first[seed] for seed in seeds], [second[seed] for seed in seeds]


def _chance(measure: Measure, low: list[float], high: list[float]) -> float:
    """Returns the probability of such values of the worse one if it is at most `LEAST_DIFFERENCE`
    worse.
    """
    if len(low) < 2:
        return 1.0
    infinite = float("inf")
    if min(low + high) > 0:
        allowed = (1 - LEAST_DIFFERENCE, infinite) if measure.more_is_better else (0.0, 1 + LEAST_DIFFERENCE)
        return metrics.paired_ratio_outside(low, high, allowed) or 0.0
    # A value of 0 has no ratio: the difference is compared with the mean of the larger values.
    least = LEAST_DIFFERENCE * max(sum(low), sum(high)) / len(low)
    allowed = (-least, infinite) if measure.more_is_better else (-infinite, least)
    return metrics.paired_difference_outside(low, high, allowed) or 0.0


def _ratio(own: Values, best: Values) -> tuple[float, tuple[float, float]] | None:
    return metrics.ratio_of_pairs(*_paired(own, best), CONFIDENCE)


def short_name(name: str) -> str:
    """Returns a name that fits beside a bar: of a user's class, the file name
    without its folders.
    """
    return name.rpartition("/")[2]


def document(contest: Contest, found: Sequence[Standing], bundles: Sequence[Bundle]) -> Json:
    """Returns the JSON document of a contest, in the form `SCHEMA`."""
    own = {entry["name"]: entry for bundle in bundles for entry in bundle.record.get("user_code", ())}
    not_done = [bundle.record for bundle in bundles if bundle.status != "done"]
    return {
        "schema": SCHEMA,
        "algorithm": short_name(contest.newcomer),
        "kind": contest.family.field,
        "user_code": list(own.values()),
        "seeds": sorted({bundle.record["seed"] for bundle in bundles}),
        "least_difference": LEAST_DIFFERENCE,
        "measures": [_entry(standing) for standing in found],
        "not_done": [{key: record[key] for key in ("experiment", "seed", "status", "why")} for record in not_done],
    }


def _entry(standing: Standing) -> Json:
    measure, own = standing.measure, standing.own
    return {
        "scenario": measure.scenario,
        "title": standing.title,
        "metric": f"{measure.entity}.{measure.metric}",
        "words": measure.words,
        "unit": measure.unit,
        "better": "more" if measure.more_is_better else "less",
        "place": own and own.place,
        "tied": own and own.tied,
        "of": len(standing.results),
        "values": [{"algorithm": short_name(name), **_fields(one)} for name, one in standing.results.items()],
    }


def _fields(result: Result | None) -> Json:
    if result is None:
        return {}
    found = result.spread
    known = {"n": found.n, "median": found.median, "range": [found.low, found.high]}
    ratio = None if result.ratio is None else {"value": result.ratio[0], "interval": list(result.ratio[1])}
    return {**known, "ratio": ratio, "place": result.place, "tied": result.tied}
