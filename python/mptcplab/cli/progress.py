"""Progress of runs on a terminal: runs done, in progress, time left. Prints nothing if standard
error is not one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mptcplab.cli.output import REMARKS, print_detail

if TYPE_CHECKING:
    from rich.progress import Progress

    from mptcplab.backends import Run, Tick
    from mptcplab.results import Bundle
    from mptcplab.runner import Job, Observer


#: Shorter work has no bar.
PATIENCE_S = 2.0


class _Unseen:
    """An observer of runs that nobody watches on a terminal."""

    def advanced(self, job: Job, run: Run, tick: Tick) -> None:
        """Does nothing."""

    def finished(self, job: Job, bundle: Bundle) -> None:
        print_detail(_told(job, bundle))


class _Bar:
    """A bar over all runs, counted in runs and fractions of runs. It appears after `PATIENCE_S`."""

    def __init__(self, bar: Progress, jobs: int) -> None:
        self._bar = bar
        self._begun = time.monotonic()
        self._jobs = jobs
        self._task = bar.add_task("starting", total=jobs)
        self._running: dict[tuple[str, int], float] = {}
        self._ended = 0
        self._lock = threading.Lock()

    def advanced(self, job: Job, run: Run, tick: Tick) -> None:  # noqa: ARG002  (runs are counted, not read)
        with self._lock:
            self._running[job.experiment["name"], job.seed] = tick.time_ns / job.experiment["duration_ns"]
            self._draw(job.experiment["name"])

    def finished(self, job: Job, bundle: Bundle) -> None:
        with self._lock:
            print_detail(_told(job, bundle))
            self._running.pop((job.experiment["name"], job.seed), None)
            self._ended += 1
            self._draw(job.experiment["name"])

    def _draw(self, name: str) -> None:
        if time.monotonic() - self._begun > PATIENCE_S:
            self._bar.start()
        done = self._ended + sum(self._running.values())
        self._bar.update(self._task, completed=done, description=f"{self._ended}/{self._jobs} {name}")


def _told(job: Job, bundle: Bundle) -> str:
    """Returns a line about a run that has ended."""
    record = bundle.record
    took = "done already" if job.done is not None else f"{record['status']} in {record['wall_s'] or 0:.1f} s"
    return f"{record['experiment']}, {record['backend']}, seed {record['seed']}: {took}: {bundle.path}"


@contextmanager
def progress(jobs: Sequence[Job]) -> Iterator[Observer]:
    """Yields an observer for `execute` that draws a bar with the time left."""
    if not _is_seen():
        yield _Unseen()
        return
    bar = _bar()
    try:
        yield _Bar(bar, len(jobs))
    finally:
        bar.stop()


@contextmanager
def bytes_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function that draws how many of `total` bytes are done. With an unknown total (0) it
    only shows activity.
    """
    if not _is_seen():
        yield lambda _done: None
        return
    bar = _bar()
    task = bar.add_task(what, total=total or None)
    begun = time.monotonic()

    def draw(done: int) -> None:
        if time.monotonic() - begun > PATIENCE_S:
            bar.start()
        bar.update(task, completed=done)

    try:
        yield draw
    finally:
        bar.stop()


def _is_seen() -> bool:
    return REMARKS.is_terminal and not REMARKS.quiet


def _bar() -> Progress:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=REMARKS, transient=True)  # type: ignore[arg-type]
