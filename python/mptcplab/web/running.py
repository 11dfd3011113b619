"""Runs with a live page: where their bundles go, and how long they wait for a viewer."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import TYPE_CHECKING

from mptcplab.web.shelf import LIVE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mptcplab.results import Bundle
    from mptcplab.runner import Job
    from mptcplab.web.watching import Watched

#: A run that nobody watches begins after this time, in seconds.
PATIENCE_S = 30.0
POLL_S = 0.1


def place_of_live_runs(out: Path, number: int = 0) -> Path:
    """Returns a directory of its own in `out`: what viewers change must not stand for the described
    run. `number` tells runs of one process apart.
    """
    started = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    # Two runs may start in the same second.
    return out / LIVE / f"{started}-{os.getpid()}{f'-{number}' if number else ''}"


def executed_before_viewers(run: Watched, jobs: Sequence[Job]) -> Bundle:
    """Runs the job of `run` as soon as somebody watches, or after `PATIENCE_S`, and returns its
    bundle.
    """
    from mptcplab.runner import execute
    from mptcplab.web.watching import Watching

    until = time.monotonic() + PATIENCE_S
    while run.feed.viewers == 0 and run.stop.reason is None and time.monotonic() < until:
        time.sleep(POLL_S)
    if run.pace is not None:
        run.pace.go_on()
    [bundle] = execute(jobs, Watching(run), stop=run.stop)
    return bundle
