"""Compares runs from Python: a frame of medians and ratios, figures, and the page that ``mptcplab
compare`` writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mptcplab import card, consent
from mptcplab.errors import MptcplabError, UsageError
from mptcplab.interactive import frames
from mptcplab.interactive.experiments import Value, as_text, changes_in, check_count
from mptcplab.interactive.figure import as_image
from mptcplab.interactive.frames import Library
from mptcplab.interactive.plot import RunsPlot
from mptcplab.interactive.runs import Runs
from mptcplab.report.comparison import arms_of, comparison_page, outages_of, table_of
from mptcplab.results.agreement import BAND, COMPARED, agreement
from mptcplab.runner import Nobody, execute, plan_on
from mptcplab.sweep import arms_by_value, split_settings


class Comparison:
    """Runs in arms, named by what differs between them. The first arm is what ratios are relative
    to.
    """

    def __init__(self, runs: Runs, *, band: float = BAND) -> None:
        """Raises UsageError below two arms, and BundleError for a run that is not done."""
        self.runs = runs
        self.arms = arms_of(runs)
        self.agreement = agreement(runs, band)
        """How far several back-ends agree, as `compare --json` prints it, or None."""

    def table(self, *, frame: Library = "polars") -> Any:
        """Returns a frame with a row for each flow, metric and arm: median, interval, and ratio to
        the first arm.
        """
        return frames.spreads_frame(self.arms, COMPARED, frame)

    @property
    def plot(self) -> RunsPlot:
        """The figures over all arms: ``plot.throughput()``, ``plot.bars(METRIC)`` ..."""
        return RunsPlot(self.arms)

    def write_page(self, path: str | Path) -> Path:
        """Writes the page of ``mptcplab compare`` and returns its path. Raises MptcplabError if
        that fails.
        """
        path = Path(path)
        try:
            path.write_text(comparison_page(self.runs, self.agreement), encoding="utf-8")
        except OSError as error:
            raise MptcplabError(f"{path}: cannot be written: {error.strerror}") from error
        return path

    def __repr__(self) -> str:
        return f"Comparison({', '.join(f'{name} ({len(bundles)})' for name, bundles in self.arms.items())})"

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: medians and ratios, how each arm got over outages, and
        goodput over time.
        """
        table, outages = table_of(self.arms), outages_of(self.arms)
        shown = card.table(table.heads[:-1], [row[:-1] for row in table.rows])
        recovered = card.table(outages.heads, outages.rows) if outages else ""
        return shown + recovered + as_image(self.plot.throughput(), "Goodput over time in each arm")


def compare(
    specs: str | Path | Sequence[str | Path],
    *,
    set: Mapping[str, Value] | None = None,  # noqa: A002 (as --set)
    on: str = "sim",
    seed: int = 1,
    repeat: int = 1,
    out: str | Path = "results",
    native: bool = False,
    allow_programs: bool = False,
) -> Comparison:
    """Runs the experiments of SPECs and compares them, as ``mptcplab compare`` does.

    Several values of a key in ``set`` make an arm for each combination: a list, or text with
    commas. ``on`` holds back-ends, separated by commas. Raises what ``run`` raises, and UsageError
    below two arms.
    """
    check_count("seed", seed, least=0)
    check_count("repeat", repeat, least=1)
    listed = [specs] if isinstance(specs, str | Path) else list(specs)
    values = {key: _values(key, value) for key, value in changes_in(set).items()}
    experiments = [member.resolve().data for member in arms_by_value([str(spec) for spec in listed], values)]
    with consent.policy("allow" if allow_programs else "refuse"):
        jobs = plan_on(on.split(","), experiments, seed=seed, repeat=repeat, out=Path(out), native=native)
    return Comparison(Runs(execute(jobs, Nobody())))


def _values(key: str, value: Value) -> list[str]:
    if isinstance(value, str):
        return split_settings({key: value})[key]
    if isinstance(value, Sequence) and not value:
        raise UsageError(f"set={{{key!r}: []}}: has no value; allowed: one value or several")
    return [as_text(one) for one in value] if isinstance(value, Sequence) else [as_text(value)]
