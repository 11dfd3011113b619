"""Shows a run on a page of this machine while it goes on: what ``mptcplab run --live`` does."""

from __future__ import annotations

import time
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mptcplab.errors import MptcplabError, UsageError
from mptcplab.web.pace import SPEEDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptcplab.experiment import Experiment, Member
    from mptcplab.recorded import Recorded
    from mptcplab.results import Bundle
    from mptcplab.runner import Job
    from mptcplab.web.feed import Feed
    from mptcplab.web.serving import Server

#: The port of the page, unless it is taken.
PORT = 8440
#: The page stays so long after the run has ended and its last viewer has left, in seconds.
GRACE_S = 2.0
POLL_S = 0.1
LONG_S = 3600.0


class NoServer(MptcplabError):
    """The libraries of the server are not installed."""

    exit_status = 3


def require_server() -> None:
    """Raises NoServer, with the command that installs them, if the libraries of the server are
    missing.
    """
    missing = [name for name in ("starlette", "uvicorn", "websockets") if find_spec(name) is None]
    if missing:
        raise NoServer(f"serving pages needs {', '.join(missing)}: pip install 'mptcplab[web]'")


def speed_of(text: str) -> float:
    """Returns the multiple of real time that a word means. Raises UsageError for another word."""
    if text not in SPEEDS:
        raise UsageError(f"--speed {text}: unknown; allowed: {', '.join(SPEEDS)}")
    return SPEEDS[text]


def described(member: Member | Recorded) -> Experiment | None:
    """Returns the description of an experiment, None if it comes from a bundle."""
    from mptcplab.experiment import Member

    return member.experiment if isinstance(member, Member) else None


def executed_live(
    jobs: Sequence[Job], experiment: Experiment | None, *, port: int, speed: float, style: str | None
) -> Bundle:
    """Runs one job while a page shows it, and returns its bundle when the last viewer has left.

    `experiment` is what "save as experiment" starts from, `style` that of the page. Raises
    UsageError for several jobs.
    """
    if len(jobs) != 1:
        raise UsageError(f"--live shows one run, and these are {len(jobs)}; allowed: one experiment, without --repeat")
    from mptcplab.backends import backend
    from mptcplab.web.live import LivePage
    from mptcplab.web.pace import Pace
    from mptcplab.web.running import executed_before_viewers
    from mptcplab.web.serving import Server
    from mptcplab.web.shelf import write_address
    from mptcplab.web.watching import watched

    in_real_time = backend(jobs[0].backend).in_real_time
    run = watched(jobs[0], None if in_real_time else Pace(speed))
    with Server(LivePage(run, experiment, style).app(), port) as server:
        tell_address("live", server, port)
        address = write_address(jobs[0].out, server.address)
        try:
            bundle = executed_before_viewers(run, jobs)
            _wait_for_viewers_to_leave(run.feed)
        finally:
            address.unlink(missing_ok=True)
    return bundle


def tell_address(what: str, server: Server, asked: int) -> None:
    """Prints the address of a page, and how to reach it over SSH. `asked` is the port that was
    asked for.
    """
    from mptcplab.cli.output import print_note
    from mptcplab.web.serving import forwarding

    if server.port != asked and asked:
        print_note(f"port {asked} is in use, so the page is at port {server.port}")
    print_note(f"{what}: {server.address}")
    if command := forwarding(server.port):
        print_note(f"over SSH, forward the port first, on your own machine: {command}")


def until_interrupted() -> None:
    """Returns at Ctrl-C."""
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(LONG_S)


def _wait_for_viewers_to_leave(feed: Feed) -> None:
    """Waits until the page is closed, or Ctrl-C."""
    from mptcplab.cli.output import print_note

    if feed.viewers:
        print_note("the run has ended; close the page, or press Ctrl-C, for its results here")
    try:
        alone_since = time.monotonic()
        while time.monotonic() - alone_since < GRACE_S:
            time.sleep(POLL_S)
            if feed.viewers:
                alone_since = time.monotonic()
    except KeyboardInterrupt:
        return
