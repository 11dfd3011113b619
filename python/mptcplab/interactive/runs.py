"""Runs experiments from Python, and holds their bundles as a sequence with frames and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from mptcplab import card, consent, families
from mptcplab.errors import UsageError
from mptcplab.experiment import Experiment, Member, resolve
from mptcplab.interactive import frames
from mptcplab.interactive.experiments import check_count, load
from mptcplab.interactive.figure import as_image
from mptcplab.interactive.frames import Library
from mptcplab.interactive.plot import RunPlot, RunsPlot
from mptcplab.recorded import Recorded
from mptcplab.report.comparison import arms_of
from mptcplab.report.quantities import head, quantity
from mptcplab.results import METRICS, Bundle, find
from mptcplab.results.entities import Json
from mptcplab.results.offered import is_limited_by_application, steady_bps
from mptcplab.runner import Nobody, execute, plan

if TYPE_CHECKING:
    from mptcplab.interactive.comparison import Comparison

#: What a notebook shows of each flow, beside the part of the offered rate.
SHOWN = ("goodput_bps", "ceiling_ratio", "delay_p50_s", "delay_p95_s", "recovery_s")
HEADS = (*map(head, SHOWN[:2]), "of offered", *map(head, SHOWN[2:]))


class Run(Bundle):
    """The bundle of a run, with its figures."""

    @classmethod
    def of(cls, bundle: Bundle) -> Run:
        """Returns the run of a bundle."""
        run = cls(bundle.path, bundle.record)
        run.asked = bundle.asked
        return run

    @property
    def plot(self) -> RunPlot:
        """The figures of the run: ``plot.throughput()``, ``plot.subflows()`` ..."""
        return RunPlot(self)

    def __repr__(self) -> str:
        return f"Run({self.record['experiment']}, {self.record['backend']}, seed {self.record['seed']}, {self.status})"

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: the main metrics of each flow, and the
        goodput over time.
        """
        title = f"on {self.record['backend']}, seed {self.record['seed']}"
        facts = ": ".join(part for part in (self.status, self.record["why"]) if part)
        rows = [[flow, *cells] for flow, cells in _flow_cells(self).items()]
        parts = [card.heading(self.record["experiment"], title, facts), card.table(("flow", *HEADS), rows)]
        if self.record["result"] is not None:
            parts.append(as_image(self.plot.throughput(), "Goodput over time"))
        return "".join(parts)


class Runs(Sequence[Run]):
    """Runs in the order in which they were planned. A sequence of bundles; slices and sums are
    `Runs` too.
    """

    def __init__(self, bundles: Iterable[Bundle], members: Iterable[Member | Recorded] = ()) -> None:
        """`members`: the experiments of the runs, for the metrics over their families."""
        self._runs = [Run.of(bundle) for bundle in bundles]
        self._members = list(members)

    @classmethod
    def read(cls, directory: str | Path) -> Runs:
        """Returns the runs at or under a directory, such as ``results/`` of the command line."""
        return cls(find(Path(directory)))

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> Runs: ...
    def __getitem__(self, place: int | slice) -> Run | Runs:
        return Runs(self._runs[place], self._members) if isinstance(place, slice) else self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def __add__(self, others: Runs | Iterable[Bundle]) -> Runs:
        # Without members, because runs of a family with different changes are no repetitions of
        # each other.
        return Runs([*self._runs, *others])

    def metrics(self, *, kind: str | None = None, frame: Library = "polars") -> Any:
        """Returns a frame with a row for each run and entity, and a column for each metric.

        ``kind`` keeps the rows of one kind of entity: flow, subflow, link, interface, probe, event
        or run.
        """
        return frames.metrics_frame(self, kind, frame)

    def samples(self, *, entity: str = "*", metric: str = "*", frame: Library = "polars") -> Any:
        """Returns a frame with a row for each sample of the entities and metrics that match these
        patterns.

        Raises BundleError if a run did not finish.
        """
        return frames.samples_frame(self._some(), entity, metric, frame)

    def units(self, *, flow: str = "*", frame: Library = "polars") -> Any:
        """Returns a frame with a row for each delivered data unit of the flows that match the
        pattern.

        Raises BundleError if a run did not finish.
        """
        return frames.units_frame(self._some(), flow, frame)

    def families(self, *, frame: Library = "polars") -> Any:
        """Returns a frame of the metrics over the families of the experiments: ratios, best values
        and crossings.

        Raises UsageError if the runs are not those of one call of ``run``.
        """
        if not self._members:
            raise UsageError("families() needs the runs of one call: mptcplab.run(mptcplab.load(SPEC)).families()")
        return frames.families_frame(families.evaluate(self._members, self._runs), frame)

    def compare(self) -> Comparison:
        """Compares the runs. Raises UsageError unless they are of two experiments, variants or
        back-ends.
        """
        from mptcplab.interactive.comparison import Comparison

        return Comparison(self._some())

    @property
    def plot(self) -> RunsPlot:
        """The figures over all runs: ``plot.throughput()``, ``plot.bars(METRIC)`` ..."""
        some = self._some()
        variants = {(run.record["experiment"], run.record["backend"], run.record["digest"]) for run in some}
        return RunsPlot({some[0].record["experiment"]: list(some)} if len(variants) == 1 else arms_of(some))

    def _some(self) -> Runs:
        if not self:
            raise UsageError("there is no run")
        return self

    def __repr__(self) -> str:
        states = Counter(run.status for run in self)
        return f"Runs({len(self)}: {', '.join(f'{count} {status}' for status, count in states.items())})"

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: the main metrics of each flow of each run."""
        rows = [
            [*(str(run.record[key]) for key in ("experiment", "backend", "seed", "status")), flow, *cells]
            for run in self
            for flow, cells in _flow_cells(run).items()
        ]
        return card.table(("experiment", "backend", "seed", "status", "flow", *HEADS), rows)


def run(
    experiments: str | Path | Experiment | Member | Recorded | Iterable[Experiment | Member | Recorded],
    *,
    on: str = "sim",
    seed: int = 1,
    repeat: int = 1,
    out: str | Path = "results",
    allow_programs: bool = False,
) -> Runs:
    """Runs experiments ``repeat`` times each, with the seeds ``seed``, ``seed + 1`` ..., and
    returns their bundles. A path or text is a SPEC, as ``load`` takes it.

    What is done already under ``out`` is not run again; look at the bundles' ``status``. Programs
    and classes that a description brings along run if ``allow_programs`` says so, or if they were
    allowed before. Under sudo they have the rights of its caller, whose the whole process becomes
    if there are classes. Raises UsageError, SpecError, Unsupported, PrivilegeError, NotAllowed or
    RunFailed.
    """
    check_count("seed", seed, least=0)
    check_count("repeat", repeat, least=1)
    if isinstance(experiments, str | Path):
        experiments = load(experiments)
    elif isinstance(experiments, (Experiment, Member, Recorded)):
        experiments = [experiments]
    described = list(experiments)
    resolved = [resolve(each) if isinstance(each, Experiment) else each.resolve() for each in described]
    families.check(list(zip(described, resolved, strict=True)))
    with consent.policy("allow" if allow_programs else "refuse"):
        jobs = plan([form.data for form in resolved], on, seed=seed, repeat=repeat, out=Path(out))
    return Runs(execute(jobs, Nobody()), [each for each in described if not isinstance(each, Experiment)])


def _flow_cells(run: Run) -> dict[str, list[str]]:
    """Returns the main metrics of each flow of a run, with units."""
    described = {flow["id"]: flow for flow in run.resolved["flows"]}
    return {
        flow["id"]: _cells(run.record["metrics"].get(f"flows.{flow['id']}", {}), described.get(flow["id"]))
        for flow in run.record["flows"]
    }


def _cells(values: Mapping[str, float | None], described: Json | None) -> list[str]:
    """Returns the cells of a flow. One that its application limits has no share of its ceiling."""
    is_limited = described is not None and is_limited_by_application(described)
    shown = {**values, "ceiling_ratio": None} if is_limited else values
    goodput, ceiling, *others = (quantity(shown.get(name), METRICS["flow", name].unit) for name in SHOWN)
    carried, offered = values.get("goodput_bps"), steady_bps(described) if described is not None else None
    share = carried / offered if carried is not None and offered else None
    return [goodput, ceiling, quantity(share, ""), *others]
