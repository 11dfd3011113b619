"""Where the runs of a sweep are carried out: processes of this machine, or a Dask cluster.

Both are executors of ``concurrent.futures``. A worker needs no disk in common with its caller: a run is made in a
scratch directory, and the content of its bundle is what it returns.
"""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import os
import re
import signal
import threading
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from multiprocessing import connection
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mptcplab.errors import ClusterError, RunFailed, UsageError, first_few
from mptcplab.results import RUN, Bundle
from mptcplab.runner import HEED_CTRL_C_S, Job, Nobody, Observer, Stop, run_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

    from mptcplab.results import Packed

#: How often a cluster may try a run that failed with its worker, or for want of anything there.
RETRIES = 3
CONNECT_S = 10
ADDRESS = re.compile(r"(tcp|tls|ws|wss)://.+:[0-9]+")

#: In a process of `processes`: told when the caller is gone or has had enough, and held while a run goes on.
_stop = Stop()
_at_work: AbstractContextManager[Any] = nullcontext()


def carry_out(jobs: Sequence[Job], pool: Executor, observer: Observer) -> list[Bundle]:
    """Run the jobs on a pool; their bundles in the order of the jobs. Each is in its place as soon as it is done.

    What is done already is neither run again nor told to the observer. On any error, and on KeyboardInterrupt, what has
    not begun is called off.
    """
    ended: SimpleQueue[Future[Packed]] = SimpleQueue()
    bundles = {place: job.done for place, job in enumerate(jobs) if job.done is not None}
    waiting: dict[Future[Packed], int] = {}
    try:
        for place, job in enumerate(jobs):
            if place not in bundles:
                future = pool.submit(packed_run, job)
                waiting[future] = place
                future.add_done_callback(ended.put)
        while waiting:
            # Without a timeout Ctrl-C goes unnoticed on Windows.
            try:
                future = ended.get(timeout=HEED_CTRL_C_S)
            except Empty:
                continue
            place = waiting.pop(future)
            bundles[place] = _received(jobs[place], future.result())
            observer.finished(jobs[place], bundles[place])
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
    return [bundles[place] for place in range(len(jobs))]


def packed_run(job: Job) -> Packed:
    """Carry out a run in a directory that is gone afterwards; the content of its bundle."""
    with _at_work, TemporaryDirectory(prefix="mptcplab-", ignore_cleanup_errors=True) as scratch:
        return run_job(replace(job, out=Path(scratch)), Nobody(), _stop).packed()


def _received(job: Job, files: Packed) -> Bundle:
    _check_versions({"a worker that joined later": json.loads(files[RUN])["versions"]["mptcplab"]})
    return Bundle.unpack(job.out, files, job.experiment, job.choice.substitute)


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """A pool of processes on this machine. They end with this process, however it ends, and leave nothing.

    Raises RunFailed if one of them is killed.
    """
    # Threads that go on here, as those of a progress bar, must not be forked.
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    with theirs, ours, ProcessPoolExecutor(count, context, _become_worker, (theirs,)) as pool:
        try:
            yield pool
        except BrokenProcessPool as error:
            raise RunFailed("a worker process was killed, perhaps for want of memory; --jobs 1 needs least") from error
        except BaseException:
            ours.close()
            raise


def _become_worker(caller: Connection) -> None:
    """Heed the caller only: Ctrl-C in a terminal goes to all processes of its group."""
    global _at_work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is loaded now stays, and need not be looked through for garbage again and again.
    gc.freeze()
    _at_work = threading.Lock()
    threading.Thread(target=_heed, args=(caller,), daemon=True).start()


def _heed(caller: Connection) -> None:
    """Stop the run when the other end of the pipe is closed, by its owner or by its owner's death; after that, end."""
    connection.wait([caller])
    _stop.reason = "interrupted"
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    with _at_work:
        os._exit(0)


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """The workers of a Dask scheduler. A run whose worker dies is made by another.

    Raises UsageError for what is no address, ClusterError if nobody answers there, if its workers have another
    mptcplab, or if it goes away.
    """
    if not ADDRESS.fullmatch(address):
        raise UsageError(f"--cluster {address}: not of the form tcp://HOST:PORT, as `dask scheduler` prints it")
    try:
        from distributed import Client
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise ClusterError("--cluster needs dask.distributed: pip install 'mptcplab[cluster]'") from error
    # What Dask logs with tracebacks, we tell in one message.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ClusterError(f"{address}: no Dask scheduler answers there; `dask scheduler` starts one") from error
    with client:
        _check_versions(client.run(version, "mptcplab", on_error="return"))
        try:
            yield client.get_executor(pure=False, retries=RETRIES)  # type: ignore[no-untyped-call]
        except KilledWorker as error:
            raise ClusterError(f"{address}: several workers died over the same run: {error}") from error
        except CancelledError as error:
            raise ClusterError(f"{address}: went away; the same command without --fresh goes on") from error


def _check_versions(found: dict[str, Any]) -> None:
    """Refuse workers whose mptcplab is not this one: their results might differ. Raises ClusterError."""
    here = _version_here()
    others = [f"{worker} has {_in_words(there)}" for worker, there in found.items() if there != here]
    if others:
        raise ClusterError(f"this is mptcplab {here}, but {first_few(others)}; install the same version there")


@cache
def _version_here() -> str:
    return version("mptcplab")


def _in_words(there: object) -> str:
    return "none" if isinstance(there, Exception) else f"mptcplab {there}"
