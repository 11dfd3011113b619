"""How runs go on, on a terminal: done, in progress, time left. Nothing where standard error is not a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mptcplab.cli.output import REMARKS

if TYPE_CHECKING:
    from mptcplab.results import Bundle
    from mptcplab.runner import Job, Observer


class _Bar:
    """One bar over all runs, in runs and parts of runs."""

    def __init__(self, bar: Progress, jobs: int) -> None:
        self._bar = bar
        self._jobs = jobs
        self._task = bar.add_task("starting", total=jobs)
        self._running: dict[tuple[str, int], float] = {}
        self._ended = 0
        self._lock = threading.Lock()

    def advanced(self, job: Job, fraction: float) -> None:
        with self._lock:
            self._running[job.experiment["name"], job.seed] = fraction
            self._draw(job.experiment["name"])

    def finished(self, job: Job, bundle: Bundle) -> None:  # noqa: ARG002  (the bar counts, it does not judge)
        with self._lock:
            self._running.pop((job.experiment["name"], job.seed), None)
            self._ended += 1
            self._draw(job.experiment["name"])

    def _draw(self, name: str) -> None:
        done = self._ended + sum(self._running.values())
        self._bar.update(self._task, completed=done, description=f"{self._ended}/{self._jobs} {name}")


@contextmanager
def progress(jobs: Sequence[Job]) -> Iterator[Observer]:
    """An observer for ``execute`` that draws a bar with the time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=REMARKS, transient=True, disable=not REMARKS.is_terminal) as bar:
        yield _Bar(bar, len(jobs))
