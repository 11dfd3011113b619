"""Runs experiments: their seeds, their order, several at a time, each into a bundle. Done runs are
not repeated.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mptcplab import callers, consent
from mptcplab.backends import backend, feature_of, line_of
from mptcplab.backends.preferences import Choice, Offer, as_recorded, first_choices
from mptcplab.errors import RunFailed, Unsupported, first_few
from mptcplab.notices import notice
from mptcplab.results import Bundle, BundleWriter, CpuTimes, digest, done_bundles, evaluated, read_data
from mptcplab.results import check as check_expectations
from mptcplab.results.bundle import BundleDone, BundleHeld, bundle_path
from mptcplab.shared_rate import SharedRate, rate_bps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mptcplab.backends import Backend, Run, Tick
    from mptcplab.results import RunData

    Resolved = dict[str, Any]


HEED_CTRL_C_S = 0.2
#: A run waits this long for its twin in another process before it tells so.
PATIENCE_S = 2.0
#: The back-ends that load classes of a description into this process.
WITH_CLASSES = ("sim", "userspace")


@dataclass(frozen=True)
class Job:
    """A run to carry out: an experiment with one seed on one back-end."""

    #: The experiment as described. The bundle has its digest.
    experiment: Resolved
    #: The experiment as it runs: its preference lists have one choice.
    choice: Choice
    #: The name of a back-end, or the path of a program.
    backend: str
    seed: int
    repeat: int
    out: Path
    #: Whether it runs even if it was done before. Then that bundle is replaced.
    fresh: bool
    #: The bundle of an earlier equal run, if it is reused.
    done: Bundle | None
    #: Digests of what the description brings along, and was allowed.
    allowed: tuple[str, ...] = ()

    @cached_property
    def place(self) -> Path:
        """The directory of its bundle."""
        return bundle_path(self.out, self.experiment, backend(self.backend).name, self.seed, self.choice.substitute)


@dataclass
class Stop:
    """The reason to stop the runs in progress, which read it from their
    threads; None to continue.
    """

    reason: str | None = None


class Observer(Protocol):
    """An observer of the progress of runs. Its methods are called from several threads."""

    def advanced(self, job: Job, run: Run, tick: Tick) -> None:
        """Called at each tick of a run, in the thread that drives it. The run waits until it
        returns.
        """

    def finished(self, job: Job, bundle: Bundle) -> None:
        """Called when a run has ended and its bundle is complete."""


class Nobody:
    """An observer that does nothing."""

    def advanced(self, job: Job, run: Run, tick: Tick) -> None:
        pass

    def finished(self, job: Job, bundle: Bundle) -> None:
        pass


def choose(experiments: Iterable[Resolved], backend_name: str, among: Sequence[str] = ()) -> list[Choice]:
    """What each experiment runs as: the first choices that the back-end has, and those ``among``
    which it is compared.

    Refuses before anything runs: SpecError for a wrong expectation, Unsupported for what the
    back-end cannot do, PrivilegeError for what only an administrator may, NotAllowed for code that
    was not allowed.
    """
    chosen = backend(backend_name)
    experiments = list(experiments)
    several = [backend(name) for name in dict.fromkeys([backend_name, *among])]
    for one in several:
        one.ready()
    _let_in(experiments, several)
    offers = [Offer.of(one) for one in several]
    choices = []
    missing: dict[str, list[tuple[str, str]]] = {}
    for experiment in experiments:
        check_expectations(experiment["expect"], experiment)
        choice = first_choices(experiment, offers)
        choices.append(choice)
        missing[experiment["name"]] = list(dict.fromkeys([*choice.missing, *chosen.check(choice.experiment)]))
    _refuse(backend_name, experiments, missing)
    return choices


def _let_in(experiments: Sequence[Resolved], several: Sequence[Backend]) -> None:
    """See to what descriptions bring along: that it is allowed, and with whose rights classes run.

    Raises NotAllowed or PrivilegeError.
    """
    in_real_time = [one for one in several if one.in_real_time]
    consent.settle(experiments, in_real_time=bool(in_real_time))
    with_classes = [one for one in several if one.name in WITH_CLASSES]
    if with_classes and any(map(consent.brings_classes, experiments)):
        needing = in_real_time or with_classes
        callers.leave_root_for_classes(needing[0].name, needs_root=bool(in_real_time))


def _refuse(backend_name: str, experiments: Sequence[Resolved], missing: Mapping[str, list[tuple[str, str]]]) -> None:
    """Raises Unsupported if something is missing for one of the experiments."""
    refused = [name for name, features in missing.items() if features]
    if len(refused) == 1:
        origins = next(one["origins"] for one in experiments if one["name"] == refused[0])
        told = [(f"{line_of(origins, where)}{where}", why) for where, why in missing[refused[0]]]
        raise Unsupported(backend_name, told, refused[0])
    if refused:
        features = dict.fromkeys((feature_of(where), why) for where, why in chain(*missing.values()))
        raise Unsupported(
            backend_name, list(features), f"{len(refused)} of {len(missing)} experiments ({first_few(refused)})"
        )


def plan(
    experiments: Sequence[Resolved],
    backend_name: str,
    *,
    seed: int,
    repeat: int,
    out: Path,
    fresh: bool = False,
    among: Sequence[str] = (),
) -> list[Job]:
    """The jobs of ``repeat`` repetitions, seeds ``seed``, ``seed + 1``, ...; compared experiments
    take turns.

    An experiment that is given twice is run once. What is done already is not run again unless
    ``fresh``. Raises what ``choose`` raises, and SpecError for a name that cannot be a directory.
    """
    experiments = list({digest(experiment): experiment for experiment in experiments}.values())
    work = list(zip(experiments, choose(experiments, backend_name, among), strict=True))
    return plan_chosen(work, backend_name, seed=seed, repeat=repeat, out=out, fresh=fresh)


def plan_on(
    backends: Sequence[str], experiments: Sequence[Resolved], *, seed: int, repeat: int, out: Path, native: bool = False
) -> list[Job]:
    """Returns the jobs of experiments on several back-ends, which use the first choices that all of
    them have.

    With ``native``, each back-end uses its own first choice. Raises what ``plan`` raises.
    """
    names = list(dict.fromkeys(backends))
    among = [] if native else names
    return [job for name in names for job in plan(experiments, name, seed=seed, repeat=repeat, out=out, among=among)]


def plan_chosen(
    work: Sequence[tuple[Resolved, Choice]],
    backend_name: str,
    *,
    seed: int,
    repeat: int,
    out: Path,
    fresh: bool = False,
) -> list[Job]:
    """Returns the jobs of experiments with their choices, which the back-end
    is known to support.
    """
    seeds = list(range(seed, seed + repeat))
    label = backend(backend_name).name
    done = [
        {} if fresh else done_bundles(out, experiment, label, seeds, choice.substitute) for experiment, choice in work
    ]
    in_real_time = backend(backend_name).in_real_time
    allowed = [consent.allowed_of(experiment, in_real_time=in_real_time) for experiment, _ in work]
    return [
        Job(experiment, choice, backend_name, number, number - seed, out, fresh, found.get(number), digests)
        for number in seeds
        for (experiment, choice), found, digests in zip(work, done, allowed, strict=True)
    ]


def plan_like(bundle: Bundle, backend_name: str, *, out: Path) -> Job:
    """The job that does on another back-end what a run did: its description, seed, and choices from
    the lists.

    Raises Unsupported for what that back-end does not have, NotAllowed for code that was not
    allowed.
    """
    _let_in([bundle.resolved], [backend(backend_name)])
    choice = as_recorded(bundle.resolved, bundle.record["substitutions"])
    missing = backend(backend_name).check(choice.experiment)
    _refuse(backend_name, [bundle.resolved], {bundle.record["experiment"]: missing})
    work, seed = [(bundle.resolved, choice)], bundle.record["seed"]
    (job,) = plan_chosen(work, backend_name, seed=seed, repeat=1, out=out)
    return job


def execute(
    jobs: Sequence[Job],
    observer: Observer,
    *,
    workers: int | None = None,
    stop: Stop | None = None,
    most_bps: float | None = None,
) -> list[Bundle]:
    """Runs the jobs, several at a time, and returns their bundles in the order of the jobs.

    The default number at a time is that of cores. On a back-end in real time it is one, because
    runs would disturb each other. With ``most_bps``, runs whose flows carry more together wait for
    each other.

    On KeyboardInterrupt the runs in progress stop, their bundles have the status ``unfinished``,
    and the interrupt is raised again. With ``stop``, another thread stops them, and an observer
    that waits learns of it.
    """
    stop = stop or Stop()
    # The data of a single run is shown next. That of many would fill the memory.
    is_kept = len(jobs) == 1
    shared = SharedRate(most_bps) if most_bps is not None else None
    with ThreadPoolExecutor(workers or usual_workers(jobs)) as pool:
        futures = [pool.submit(_bundle_of, job, observer, stop, shared, is_kept=is_kept) for job in jobs]
        try:
            _wait_for(futures)
        except BaseException as error:
            stop.reason = "interrupted" if isinstance(error, KeyboardInterrupt) else "another run failed"
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def usual_workers(jobs: Sequence[Job]) -> int:
    """Returns the default number of runs at a time: one per core, in real time one."""
    in_real_time = any(backend(name).in_real_time for name in {job.backend for job in jobs if job.done is None})
    return 1 if in_real_time else os.cpu_count() or 1


def _wait_for(futures: list[Future[Bundle]]) -> None:
    """Waits for all futures. Raises the first error as soon as it happens."""
    pending = set(futures)
    while pending:
        # Without a timeout Ctrl-C may go unnoticed: on Windows always, elsewhere when another
        # thread takes the signal.
        finished, pending = wait(pending, timeout=HEED_CTRL_C_S, return_when=FIRST_COMPLETED)
        for future in finished:
            future.result()


def _bundle_of(job: Job, observer: Observer, stop: Stop, shared: SharedRate | None, *, is_kept: bool) -> Bundle:
    if job.done:
        bundle, data = job.done, None
    else:
        with shared.taken(rate_bps(job.choice.experiment)) if shared else nullcontext():
            bundle, data = run_job_with_data(job, observer, stop)
    if is_kept and data is not None and bundle.status == "done":
        bundle.keep_loaded(data)
    bundle.asked = job.experiment
    observer.finished(job, bundle)
    return bundle


def run_job_with_data(
    job: Job, observer: Observer, stop: Stop, *, in_scratch: bool = False
) -> tuple[Bundle, RunData | None]:
    """Carries out a run in this process, and returns its bundle with the data from which it was
    evaluated.

    A failed run has a bundle, too, but no data. Raises RunFailed if it cannot write a bundle. While
    another process makes the same run, this one waits, and then uses its bundle, without data.
    ``in_scratch`` tells that the caller copies the bundle, so it is not synced to the disk.
    """
    consent.grant(job.allowed)
    try:
        writer = _writer(job, stop, synced=not in_scratch)
    except BundleDone:
        return Bundle.open(job.place), None
    with writer:
        try:
            return _recorded(job, writer, observer, stop)
        except RunFailed as failure:
            # The other runs continue, because the cause may not affect them.
            return writer.finish("failed", why=str(failure), substitutions=job.choice.substitutions), None
        except OSError as error:
            run = f"{job.experiment['name']}, seed {job.seed}"
            raise RunFailed(f"{run}: {error}; what was written is in {writer.path}") from error


def _writer(job: Job, stop: Stop, *, synced: bool) -> BundleWriter:
    """Returns the writer of the bundle as soon as no other process writes it. Raises BundleDone if
    the run is done by then.
    """
    given: dict[str, Any] = {"seed": job.seed, "repeat": job.repeat, "substitute": job.choice.substitute}
    label, fresh = backend(job.backend).name, job.fresh
    begun, is_told = time.monotonic(), False
    while True:
        try:
            return BundleWriter.create(job.out, job.experiment, backend=label, fresh=fresh, synced=synced, **given)
        except BundleHeld:
            if stop.reason is not None:
                raise
            if not is_told and time.monotonic() - begun > PATIENCE_S:
                notice(f"{job.place}: another process is running this; waiting for its result")
                is_told = True
            # A bundle that another process makes now is as fresh as one of this process.
            fresh = False
            time.sleep(HEED_CTRL_C_S)


def _recorded(job: Job, writer: BundleWriter, observer: Observer, stop: Stop) -> tuple[Bundle, RunData]:
    begun, used = time.monotonic(), CpuTimes.now() if backend(job.backend).in_real_time else None
    run = backend(job.backend).start(job.choice.experiment, job.seed, writer.path)
    for tick in run.samples():
        observer.advanced(job, run, tick)
        if stop.reason:
            run.stop(stop.reason)
    result = run.result()
    wall_s = time.monotonic() - begun
    stopped = run.state == "stopped"
    ended = CpuTimes.now()
    load = {"load": used.until(ended)} if used and ended else {}
    # What a back-end tells of another machine replaces what the bundle says of this one.
    elsewhere = result.pop("environment", {})
    data = read_data(writer.path, job.experiment, result, job.backend)
    bundle = writer.finish(
        "unfinished" if stopped else result.get("status", "done"),
        why=stop.reason if stopped else result.get("why"),
        wall_s=wall_s,
        machine=elsewhere.get("machine", writer.machine | load),
        kernel=elsewhere.get("kernel", writer.kernel),
        substitutions=job.choice.substitutions,
        trace_hash=result["trace_hash"],
        **evaluated(data),
    )
    return bundle, data
