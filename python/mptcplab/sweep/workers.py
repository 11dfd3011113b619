"""Carries out the runs of a sweep: on processes of this machine, or on a Dask cluster.

Both are executors of ``concurrent.futures``. A worker needs no disk in common with its caller: a
run is made in a scratch directory, and the content of its bundle is what it returns. Processes of
this machine return it in a file: the pool would wait forever for the rest of a large message if a
worker was killed while it wrote one into their pipe.
"""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import threading
import uuid
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from multiprocessing import connection
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mptcplab.errors import ClusterError, RunFailed, UsageError, first_few
from mptcplab.results import RUN, Bundle
from mptcplab.runner import HEED_CTRL_C_S, Job, Nobody, Observer, Stop, run_job_with_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    import distributed
    from distributed import Client

    from mptcplab.results import Packed, RunData

    #: Returns what the caller needs of a done run. Both go from process to process.
    Look = Callable[[Bundle, RunData], Any]

    #: The content of a run's bundle, and what the caller's look returned.
    Outcome = tuple[Packed, Any]

#: Number of times that a cluster repeats a run after its worker died or lacked resources.
RETRIES = 3
CONNECT_S = 10
#: Objects made between two collections of garbage. With the default of 700, they take 4 % of a
#: worker's time.
GARBAGE_OBJECTS = 100_000
ADDRESS = re.compile(r"(tcp|tls|ws|wss)://.+:[0-9]+")

#: In a process of `processes`: set when the caller ended or cancelled the work, held during a run,
#: and the directory for what runs return.
_stop = Stop()
_at_work: AbstractContextManager[Any] = nullcontext()
_returned: Path | None = None


@dataclass(frozen=True)
class InFile:
    """What a run returned, in a file of this machine."""

    path: Path

    @classmethod
    def write(cls, directory: Path, outcome: Outcome) -> InFile:
        path = directory / uuid.uuid4().hex
        path.write_bytes(pickle.dumps(outcome))
        return cls(path)

    def take(self) -> Outcome:
        """Reads and removes the file."""
        outcome: Outcome = pickle.loads(self.path.read_bytes())
        self.path.unlink()
        return outcome


def carry_out(jobs: Sequence[Job], pool: Executor, observer: Observer) -> list[Bundle]:
    """Carries out jobs as ``carry_out_and_look`` does, without a look at their data."""
    return [bundle for bundle, _ in carry_out_and_look([(job, None) for job in jobs], pool, observer)]


def carry_out_and_look(
    work: Sequence[tuple[Job, Look | None]], pool: Executor, observer: Observer
) -> list[tuple[Bundle, Any]]:
    """Carries out jobs on a pool and returns their bundles in the order of the jobs, each with what
    the worker saw.

    The worker applies the look to a run that is done, while the data is in its memory. Otherwise
    there is None. Each bundle is in its place as soon as its run is done. Runs that are done
    already are not repeated and not reported to the observer. On an error or KeyboardInterrupt,
    runs that have not begun are cancelled.
    """
    ended: SimpleQueue[Future[Outcome | InFile]] = SimpleQueue()
    made = {place: (job.done, None) for place, (job, _) in enumerate(work) if job.done is not None}
    waiting: dict[Future[Outcome | InFile], int] = {}
    try:
        for place, (job, look) in enumerate(work):
            if place not in made:
                future = pool.submit(packed_run, job, look)
                waiting[future] = place
                future.add_done_callback(ended.put)
        while waiting:
            # Without a timeout, Ctrl-C has no effect on Windows.
            try:
                future = ended.get(timeout=HEED_CTRL_C_S)
            except Empty:
                continue
            place = waiting.pop(future)
            job, returned = work[place][0], future.result()
            files, seen = returned.take() if isinstance(returned, InFile) else returned
            bundle = _received(job, files)
            made[place] = bundle, seen
            observer.finished(job, bundle)
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
    return [made[place] for place in range(len(work))]


def packed_run(job: Job, look: Look | None) -> Outcome | InFile:
    """Carries out a run in a temporary directory and returns the content of its bundle, and what
    ``look`` returns, in a process of `processes` as a file.
    """
    with _at_work, TemporaryDirectory(prefix="mptcplab-", ignore_cleanup_errors=True) as scratch:
        bundle, data = run_job_with_data(replace(job, out=Path(scratch)), Nobody(), _stop, in_scratch=True)
        seen = look(bundle, data) if look and data and bundle.status == "done" else None
        outcome = bundle.packed(), seen
        return InFile.write(_returned, outcome) if _returned else outcome


def _received(job: Job, files: Packed) -> Bundle:
    _check_versions({"a worker that joined later": json.loads(files[RUN])["versions"]["mptcplab"]})
    return Bundle.unpack(job.out, files, job.experiment, job.choice.substitute)


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Makes a pool of processes on this machine. They end with this process, however it ends, and
    leave no files.

    Raises RunFailed if one of them is killed.
    """
    # Running threads, such as those of a progress bar, must not be forked.
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    with (
        TemporaryDirectory(prefix="mptcplab-") as returned,
        theirs,
        ours,
        ProcessPoolExecutor(count, context, _become_worker, (theirs, Path(returned))) as pool,
    ):
        try:
            yield pool
        except BrokenProcessPool as error:
            raise RunFailed("a worker process was killed, perhaps for want of memory; --jobs 1 needs least") from error
        except BaseException:
            ours.close()
            raise


def _become_worker(caller: Connection, returned: Path) -> None:
    """Makes the process obey only the caller, because Ctrl-C goes to all processes of the
    terminal's group. What its runs return is written into the directory ``returned``.
    """
    global _at_work, _returned
    _returned = returned
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Loaded modules stay, so the garbage collector need not examine them. What a run makes is freed
    # without it.
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    _at_work = threading.Lock()
    threading.Thread(target=_heed, args=(caller, returned), daemon=True).start()


def _heed(caller: Connection, returned: Path) -> None:
    """Stops the run when the other end of the pipe is closed, by its owner or by the end of its
    owner. Then removes what was returned and nobody took, and ends the process.
    """
    connection.wait([caller])
    _stop.reason = "interrupted"
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    with _at_work:
        shutil.rmtree(returned, ignore_errors=True)
        os._exit(0)


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Connects to the workers of a Dask scheduler. If a worker dies, another repeats its run.

    Raises UsageError for an invalid address. Raises ClusterError if no scheduler answers, if its
    workers have another version of mptcplab, or if the connection is lost.
    """
    if not ADDRESS.fullmatch(address):
        raise UsageError(f"--cluster {address}: not of the form tcp://HOST:PORT, as `dask scheduler` prints it")
    try:
        from distributed import Client
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise ClusterError("--cluster needs dask.distributed: pip install 'mptcplab[cluster]'") from error
    # Replaces Dask's tracebacks with one message.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ClusterError(f"{address}: no Dask scheduler answers there; `dask scheduler` starts one") from error
    with client:
        _check_versions(client.run(version, "mptcplab", on_error="return"))
        try:
            yield _Cluster(client)
        except KilledWorker as error:
            raise ClusterError(f"{address}: several workers died over the same run: {error}") from error
        except (CancelledError, CommClosedError) as error:
            raise ClusterError(f"{address}: connection lost; the same command without --fresh continues") from error


class _Cluster(Executor):
    """The workers of a Dask scheduler.

    Dask has an executor too. Its futures stay pending forever, and a traceback is printed, if the
    connection is lost while a result is on its way.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        theirs = self._client.submit(work, *arguments, **keywords, pure=False, retries=RETRIES)
        ours: Future[Any] = Future()
        theirs.add_done_callback(lambda _: _settle(ours, theirs))  # type: ignore[no-untyped-call]
        ours.add_done_callback(lambda _: theirs.cancel() if ours.cancelled() else None)  # type: ignore[no-untyped-call]
        return ours


def _settle(ours: Future[Any], theirs: distributed.Future[Any]) -> None:
    """Gives a future the result or the exception of one of Dask's."""
    if not ours.set_running_or_notify_cancel():
        return
    try:
        ours.set_result(theirs.result())
    except BaseException as error:
        ours.set_exception(error)


def _check_versions(found: dict[str, Any]) -> None:
    """Refuses workers with another version of mptcplab, whose results might differ. Raises
    ClusterError.
    """
    here = _version_here()
    others = [f"{worker} has {_in_words(there)}" for worker, there in found.items() if there != here]
    if others:
        raise ClusterError(f"this is mptcplab {here}, but {first_few(others)}; install the same version there")


@cache
def _version_here() -> str:
    return version("mptcplab")


def _in_words(there: object) -> str:
    return "none" if isinstance(there, Exception) else f"mptcplab {there}"
