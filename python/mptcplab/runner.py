"""Runs experiments: which seeds, in which order, several at a time, each into a bundle; what is done stays."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mptcplab.backends import backend
from mptcplab.errors import RunFailed, Unsupported
from mptcplab.results import Bundle, BundleWriter, done_bundles, evaluated, read_data
from mptcplab.results import check as check_expectations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mptcplab.experiment import Experiment, Member

    Resolved = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One run to be had: an experiment with one seed on one back-end."""

    experiment: Resolved
    backend: str
    seed: int
    repeat: int
    out: Path
    #: Run even if it was done before; then that bundle is replaced.
    fresh: bool
    #: The bundle of an earlier run of the same, if it counts.
    done: Bundle | None


class Observer(Protocol):
    """Somebody who is told how the work goes on; called from several threads."""

    def advanced(self, job: Job, fraction: float) -> None:
        """A run has come so far, 0..1."""

    def finished(self, job: Job, bundle: Bundle) -> None:
        """A run has ended and its bundle is complete."""


class _Nobody:
    """An observer that does not look."""

    def advanced(self, job: Job, fraction: float) -> None:
        pass

    def finished(self, job: Job, bundle: Bundle) -> None:
        pass


def run(
    experiment: Experiment | Member, *, on: str = "sim", seed: int = 1, repeat: int = 1, out: str | Path = "results"
) -> list[Bundle]:
    """Run an experiment ``repeat`` times and give its bundles; ``bundle.record["metrics"]`` has what was measured.

    What is done already under ``out`` is not run again. Raises SpecError, Unsupported or RunFailed.
    """
    from mptcplab.experiment import Experiment, resolve

    resolved = resolve(experiment) if isinstance(experiment, Experiment) else experiment.resolve()
    jobs = plan([resolved.data], on, seed=seed, repeat=repeat, out=Path(out))
    return execute(jobs, _Nobody(), workers=os.cpu_count() or 1)


def check(experiments: Iterable[Resolved], backend_name: str) -> None:
    """Refuse before anything runs: SpecError for a wrong expectation, Unsupported for what the back-end cannot do."""
    chosen = backend(backend_name)
    for experiment in experiments:
        check_expectations(experiment["expect"], experiment)
        missing = chosen.check(experiment)
        if missing:
            raise Unsupported(backend_name, missing, experiment["name"])


def plan(
    experiments: Sequence[Resolved], backend_name: str, *, seed: int, repeat: int, out: Path, fresh: bool = False
) -> list[Job]:
    """The jobs of ``repeat`` repetitions, seeds ``seed``, ``seed + 1``, ...; compared experiments take turns.

    What is done already is not run again unless ``fresh``. Raises what ``check`` raises.
    """
    check(experiments, backend_name)
    seeds = list(range(seed, seed + repeat))
    done = [{} if fresh else done_bundles(out, experiment, backend_name, seeds) for experiment in experiments]
    return [
        Job(experiment, backend_name, number, number - seed, out, fresh, found.get(number))
        for number in seeds
        for experiment, found in zip(experiments, done, strict=True)
    ]


def execute(jobs: Sequence[Job], observer: Observer, *, workers: int) -> list[Bundle]:
    """Run the jobs, several at a time, and give their bundles in the order of the jobs.

    On KeyboardInterrupt the runs in progress are stopped, their bundles say ``unfinished``, and the interrupt goes on.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_bundle_of, job, observer, stop) for job in jobs]
        try:
            _wait_for(futures)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _wait_for(futures: list[Future[Bundle]]) -> None:
    """Wait for all, but raise the first error as soon as it happens."""
    pending = set(futures)
    while pending:
        finished, pending = wait(pending, return_when=FIRST_COMPLETED)
        for future in finished:
            future.result()


def _bundle_of(job: Job, observer: Observer, stop: threading.Event) -> Bundle:
    bundle = job.done or _run(job, observer, stop)
    observer.finished(job, bundle)
    return bundle


def _run(job: Job, observer: Observer, stop: threading.Event) -> Bundle:
    writer = BundleWriter.create(
        job.out, job.experiment, backend=job.backend, seed=job.seed, repeat=job.repeat, fresh=job.fresh
    )
    begun = time.monotonic()
    try:
        run = backend(job.backend).start(job.experiment, job.seed, writer.path)
        for tick in run.samples():
            observer.advanced(job, tick.time_ns / job.experiment["duration_ns"])
            if stop.is_set():
                run.stop("interrupted")
        result = run.result()
    except OSError as error:
        raise RunFailed(
            f"{job.experiment['name']}, seed {job.seed}: {error}; what was written is in {writer.path}"
        ) from error
    wall_s = time.monotonic() - begun
    interrupted = run.state == "stopped"
    return writer.finish(
        "unfinished" if interrupted else "done",
        why="interrupted" if interrupted else None,
        wall_s=wall_s,
        trace_hash=result["trace_hash"],
        **evaluated(read_data(writer.path, job.experiment, result)),
    )
