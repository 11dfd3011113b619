"""The report card of a congestion control: whether it meets the goals of RFC 6356, and uses all of
the capacity, in many conditions.

All worlds have path A, 10 Mbit/s with 20 ms, and path B of the same rate, whose round-trip time,
loss and rivals a cell sets. TCP with `reno` in place of the connection is the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from allpairspy import AllPairs

from mptcplab import algorithms, benchmark
from mptcplab.backends import backend
from mptcplab.errors import UsageError
from mptcplab.experiment import Experiment, resolve
from mptcplab.results import Bundle, Spread, digest

SCHEMA = "mptcplab/report-card/1"
RATE = "10mbit"
RTT_MS = 20
#: Of the rate of a path.
UDP_RATE = "5mbit"
DURATION = "30s"

Json = dict[str, Any]
Path = Literal["a", "b"]
PATHS: tuple[Path, ...] = ("a", "b")

#: Rivals by name: the fields of their flow.
RIVALS: Mapping[str, Json] = {
    "none": {},
    "1 TCP": {"transport": "tcp", "cc": "reno"},
    "4 TCP": {"transport": "tcp", "cc": "reno", "parallel": 4},
    "UDP": {"transport": "udp", "app": {"cbr": {"rate": UDP_RATE, "size": 1200}}},
}
SUBFLOWS = (1, 2, 4)
RTT_RATIOS = (1, 5, 20)
LOSSES = ("0%", "0.1%", "1%")


@dataclass(frozen=True)
class Cell:
    """A condition: the number of subflows on each path; of path B, how many times the round-trip
    time of path A it has, and its loss; and the rivals.
    """

    subflows: int
    rtt_ratio: int
    loss: str
    rivals: str

    @property
    def words(self) -> str:
        """The condition in words."""
        subflows = "1 subflow" if self.subflows == 1 else f"{self.subflows} subflows"
        return f"{subflows} on each path, RTT x{self.rtt_ratio}, loss {self.loss}, rivals {self.rivals}"

    @property
    def short(self) -> str:
        """The condition for narrow columns."""
        return f"{self.subflows}, x{self.rtt_ratio}, {self.loss}, {self.rivals}"


@dataclass(frozen=True)
class Connection:
    """What is between client and server: `control` over both paths, or TCP over one of them."""

    control: str | None
    paths: Sequence[Path]

    @property
    def flow(self) -> Json:
        """The fields of its flow."""
        ends: Json = {"from": "client", "to": "server"}
        if self.control is None:
            return {**ends, "transport": "tcp", "cc": "reno"}
        scheduler = ["min_rtt", "kernel_default"]
        return {**ends, "cc": self.control, "path_manager": "full_mesh", "scheduler": scheduler}

    def interfaces(self, path: Path, cell: Cell) -> list[str]:
        """The client's interfaces on a path, which are also the names of their links."""
        return [f"{path}{n + 1}" for n in range(1 if self.control is None else cell.subflows)]


def _disjoint(cell: Cell, connection: Connection, busy: Sequence[Path] = PATHS) -> Experiment:
    """Two paths without a common link. The rivals are on the paths `busy`, each with its own."""
    hosts: Json = {"client": {}, "server": {}}
    flows, links, nodes = {"tested": connection.flow}, {}, {}
    name = "report-card/disjoint"
    for path in connection.paths:
        ratio, loss = (cell.rtt_ratio, cell.loss) if path == "b" else (1, "0%")
        rivals = cell.rivals if path in busy else "none"
        router, rival = f"router_{path}", f"rival_{path}"
        nodes[router] = {"kind": "router"}
        for one in connection.interfaces(path, cell):
            links[one] = _access(f"client.{one}", router, rtt_ms=1)
        ends = [router, f"server.{path}"]
        links[f"path_{path}"] = {"between": ends, **_bottleneck(RTT_MS * ratio), "loss": loss}
        if rivals != "none":
            hosts[rival] = {}
            links[rival] = _access(f"{rival}.eth0", router, rtt_ms=1)
            flows[rival] = {"from": rival, "to": "server", **RIVALS[rivals]}
        name += f"/{path}-x{ratio}-{loss}-{rivals}"
    return _experiment(name, cell, connection, hosts=hosts, nodes=nodes, links=links, flows=flows)


def _one_busy(cell: Cell, connection: Connection) -> Experiment:
    """Two paths without a common link, and the rivals on path B."""
    return _disjoint(cell, connection, busy=("b",))


def _shared(cell: Cell, connection: Connection) -> Experiment:
    """Both paths have one bottleneck, which they share with the rivals."""
    links: Json = {"shared": {"between": ["router", "server.eth0"], **_bottleneck(RTT_MS // 2)}}
    for path in connection.paths:
        ratio, loss = (cell.rtt_ratio, cell.loss) if path == "b" else (1, "0%")
        for one in connection.interfaces(path, cell):
            links[one] = {**_access(f"client.{one}", "router", rtt_ms=RTT_MS * ratio - RTT_MS // 2), "loss": loss}
    links["rival"] = _access("rival.eth0", "router", rtt_ms=RTT_MS - RTT_MS // 2)
    flows = {"tested": connection.flow, "rival": {"from": "rival", "to": "server", **RIVALS[cell.rivals]}}
    name = f"report-card/shared/x{cell.rtt_ratio}-{cell.loss}-{cell.rivals}"
    if connection.control is None:
        name = f"report-card/shared/{cell.rivals}"
    hosts: Json = {"client": {}, "server": {}, "rival": {}}
    nodes = {"router": {"kind": "router"}}
    return _experiment(name, cell, connection, hosts=hosts, nodes=nodes, links=links, flows=flows)


def _access(interface: str, router: str, *, rtt_ms: int) -> Json:
    return {"between": [interface, router], "rate": "100mbit", "rtt": f"{rtt_ms}ms"}


def _bottleneck(rtt_ms: int) -> Json:
    """A link that queues what one round-trip time of path A, or of its own if longer, carries."""
    return {"rate": RATE, "rtt": f"{rtt_ms}ms", "queue": "1bdp" if rtt_ms >= RTT_MS else "2bdp"}


def _experiment(name: str, cell: Cell, connection: Connection, **parts: Json) -> Experiment:
    """Returns the experiment. Equal references have equal names, because they run only once."""
    tested = "tcp" if connection.control is None else f"{cell.subflows}-on-each-path"
    title = f"Report card: {cell.words}" if connection.control else "Report card: TCP for reference"
    name = f"{name}/{tested}".replace("%", "pc").replace(" ", "-")
    described = {"name": name, "title": title, "duration": DURATION, "measure": {"every": "500ms"}, **parts}
    return Experiment.model_validate(described)


#: The metrics of a run: of the control, or of TCP over path A or path B.
Metrics = Mapping[str, Mapping[str, float | None]]


def _goodput(run: Metrics) -> float:
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
    return _goodput(own) / max(_goodput(a), _goodput(b))


def _over_one(own: Metrics, a: Metrics, _b: Metrics) -> float:
    return _goodput(own) / _goodput(a)


def _of_shares(own: Metrics, a: Metrics, b: Metrics) -> float:
    return _share_of_b(own) * (_goodput(a) + _goodput(b)) / _goodput(b)


def _over_sum(own: Metrics, a: Metrics, b: Metrics) -> float:
    return _goodput(own) / (_goodput(a) + _goodput(b))


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
        _disjoint,
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
        _shared,
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
        _one_busy,
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
        _disjoint,
        ("none", "UDP"),
        _over_sum,
    ),
)


@dataclass(frozen=True)
class Trial:
    """A cell of a goal with a control: the resolved experiments, that of the control first."""

    goal: Goal
    cell: Cell
    control: str
    experiments: Mapping[str, Json]


@dataclass(frozen=True)
class Examination:
    """All trials of some controls on a back-end."""

    controls: tuple[str, ...]
    goals: tuple[Goal, ...]
    trials: tuple[Trial, ...]
    on: str

    def by_backend(self) -> dict[str, list[Json]]:
        """Returns the experiments of each back-end. A program runs only its own controls."""
        found: dict[str, list[Json]] = {}
        for trial in self.trials:
            for role, experiment in trial.experiments.items():
                is_own = role == "own" and algorithms.is_in_crate(trial.control)
                found.setdefault("sim" if "/" in self.on and not is_own else self.on, []).append(experiment)
        return found


def examination(
    controls: Sequence[str], on: str = "sim", goal: str | None = None, *, full: bool = False
) -> Examination:
    """Returns the trials of controls by all goals, or by one.

    In real time, only the rivals change, because all cells would take an hour. Raises UsageError
    for an unknown control or goal.
    """
    names = _controls(controls, on)
    goals = [one for one in GOALS if goal in (None, one.name)]
    if not goals:
        raise UsageError(f"--goal {goal}: unknown; allowed: {', '.join(one.name for one in GOALS)}")
    column = backend(on).in_real_time and not full
    trials = [
        Trial(one, cell, name, _experiments(one, cell, name))
        for one in goals
        for cell in one.cells(full=full, column=column)
        for name in names
    ]
    return Examination(names, tuple(goals), tuple(trials), on)


def _experiments(goal: Goal, cell: Cell, control: str) -> dict[str, Json]:
    connections = {"own": Connection(control, PATHS)} | {path: Connection(None, (path,)) for path in goal.references}
    return {role: resolve(goal.world(cell, one)).data for role, one in connections.items()}


def _controls(names: Sequence[str], on: str) -> tuple[str, ...]:
    """Returns the controls by their names in the engine. Raises UsageError."""
    if not names:
        raise UsageError(
            f"no congestion control is named; allowed: ./FILE.py:CLASS, or {', '.join(algorithms.CC.names)}"
        )
    if "/" in on or any(algorithms.is_in_crate(name) for name in names):
        benchmark.check_program(on, names)
    return tuple(dict.fromkeys(_control(name) for name in names))


def _control(name: str) -> str:
    found = name if algorithms.is_users(name) else algorithms.CC.find(name)
    if found is None:
        near = algorithms.as_users(name) or algorithms.nearest(name, algorithms.CC.names)
        hint = f", did you mean '{near}'?" if near else ""
        allowed = f"./FILE.py:CLASS, or one of {', '.join(algorithms.CC.names)}"
        raise UsageError(f"no congestion control is called {name!r}{hint}; allowed: {allowed}")
    return found


@dataclass(frozen=True)
class Mark:
    """A control by one goal: the spread of its number over the seeds in each cell, None where a run
    is missing.
    """

    control: str
    goal: Goal
    cells: Mapping[Cell, Spread | None]

    @property
    def known(self) -> dict[Cell, float]:
        """The medians of the cells that have one."""
        return {cell: spread.median for cell, spread in self.cells.items() if spread is not None}

    @property
    def met(self) -> int:
        """The number of cells in which the goal is met."""
        return sum(self.goal.is_met(value) for value in self.known.values())

    @property
    def worst(self) -> tuple[Cell, float] | None:
        """The cell with the smallest margin, and its number."""
        known = self.known
        return min(known.items(), key=lambda one: self.goal.margin(one[1])) if known else None


def marks(examined: Examination, bundles: Iterable[Bundle]) -> list[Mark]:
    """Returns the mark of each control by each goal. Runs that are not `done` have no number."""
    done: dict[str, dict[int, Metrics]] = {}
    for bundle in bundles:
        if bundle.status == "done":
            done.setdefault(bundle.record["digest"], {})[bundle.record["seed"]] = bundle.record["metrics"]
    found: dict[tuple[str, str], dict[Cell, Spread | None]] = {}
    for trial in examined.trials:
        runs = {role: done.get(digest(one), {}) for role, one in trial.experiments.items()}
        of_cell = found.setdefault((trial.control, trial.goal.name), {})
        of_cell[trial.cell] = Spread.of(list(_values(trial.goal, runs)))
    return [Mark(name, goal, found[name, goal.name]) for name in examined.controls for goal in examined.goals]


def _values(goal: Goal, runs: Mapping[str, Mapping[int, Metrics]]) -> Iterator[float]:
    """Yields the number of a goal in each seed that all its runs have."""
    for seed, own in runs["own"].items():
        references = {path: runs[path].get(seed) for path in goal.references}
        if any(run is None or not _goodput(run) for run in references.values()) or not _goodput(own):
            continue
        yield goal.value(own, references["a"] or {}, references.get("b") or {})


def document(examined: Examination, found: Sequence[Mark], bundles: Sequence[Bundle]) -> Json:
    """Returns the JSON document of report cards, in the form `SCHEMA`."""
    own = {entry["name"]: entry for bundle in bundles for entry in bundle.record.get("user_code", ())}
    not_done = [bundle.record for bundle in bundles if bundle.status != "done"]
    return {
        "schema": SCHEMA,
        "on": examined.on,
        "seeds": sorted({bundle.record["seed"] for bundle in bundles}),
        "user_code": list(own.values()),
        "goals": [_goal(goal) for goal in examined.goals],
        "cards": [
            {
                "control": benchmark.short_name(name),
                "marks": [_mark(mark) for mark in found if mark.control == name],
            }
            for name in examined.controls
        ],
        "not_done": [{key: record[key] for key in ("experiment", "seed", "status", "why")} for record in not_done],
    }


def _goal(goal: Goal) -> Json:
    return {
        "name": goal.name,
        "words": goal.words,
        "measure": goal.measure,
        "source": goal.source,
        "limit": goal.limit,
    }


def _mark(mark: Mark) -> Json:
    worst = mark.worst
    return {
        "goal": mark.goal.name,
        "met": mark.met,
        "of": len(mark.known),
        "worst": worst and {**_cell(worst[0]), "value": worst[1]},
        "cells": [{**_cell(cell), **_number(mark.goal, spread)} for cell, spread in mark.cells.items()],
    }


def _cell(cell: Cell) -> Json:
    return {
        "subflows": cell.subflows,
        "rtt_ratio": cell.rtt_ratio,
        "loss": cell.loss,
        "rivals": cell.rivals,
        "words": cell.words,
        "short": cell.short,
    }


def _number(goal: Goal, spread: Spread | None) -> Json:
    if spread is None:
        return {"value": None}
    value = spread.median
    known = {"value": value, "range": [spread.low, spread.high], "n": spread.n}
    return {**known, "margin": goal.margin(value), "is_met": goal.is_met(value)}
