"""Runs that viewers of a results page start: each with a live page of its own on the same server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mptcplab import consent
from mptcplab.backends import BACKENDS, backend
from mptcplab.errors import MptcplabError, first_few
from mptcplab.experiment import Member
from mptcplab.recorded import Recorded
from mptcplab.results.bundle import EXPERIMENT
from mptcplab.runner import plan
from mptcplab.web.pace import SPEEDS, Pace
from mptcplab.web.running import executed_before_viewers, place_of_live_runs
from mptcplab.web.watching import Watched, watched

if TYPE_CHECKING:
    from pathlib import Path

    from mptcplab.experiment import Experiment
    from mptcplab.runner import Job
    from mptcplab.web.offers import Offers

#: Runs that go on at once, and one of them in real time, because such runs disturb each other.
MOST_AT_ONCE = 4
MOST_SEED = 2**32 - 1


class Refused(MptcplabError):
    """What a viewer asked for is not started."""


@dataclass
class StartedRun:
    """A run that a viewer has started. It goes on whether somebody watches or not."""

    number: int
    job: Job
    watched: Watched
    experiment: Experiment | None
    #: Why it could not be carried out.
    error: str | None = None
    thread: threading.Thread | None = None

    @property
    def goes_on(self) -> bool:
        """Whether it has not ended yet."""
        return self.thread is not None and self.thread.is_alive()

    def end(self) -> None:
        """Ends it early, and waits until its bundle tells so."""
        self.watched.stop.reason = "interrupted"
        if self.thread is not None:
            self.thread.join()

    def carry_out(self) -> None:
        """Runs it. Called in its own thread."""
        try:
            executed_before_viewers(self.watched, [self.job])
        except MptcplabError as error:
            self.error = str(error)
            self.watched.refuse_asked()
            self.watched.feed.publish({"kind": "end", "status": "failed", "why": self.error, "bundle": "not written"})


@dataclass
class Launcher:
    """Starts runs of the offered experiments, and runs of bundles again, with bundles in `out`."""

    out: Path
    offers: Offers
    #: Whether descriptions may run programs and classes of their own.
    allow_programs: bool
    runs: list[StartedRun] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, asked: Mapping[str, Any], again: Path | None) -> StartedRun:
        """Starts what a viewer asked for: an offered experiment, or with `again` that of a bundle.

        Raises Refused, or another MptcplabError if the back-end cannot run it.
        """
        member = Recorded.read(again / EXPERIMENT) if again else self._offered(asked.get("experiment"))
        name, seed, speed = asked.get("backend", "sim"), asked.get("seed", 1), asked.get("speed", "1x")
        if name not in BACKENDS:
            raise Refused(f"back-end {name!r}: unknown; allowed: {', '.join(BACKENDS)}")
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= MOST_SEED:
            raise Refused(f"seed {seed!r}: allowed: a whole number from 0 to {MOST_SEED}")
        if speed not in SPEEDS:
            raise Refused(f"speed {speed!r}: unknown; allowed: {', '.join(SPEEDS)}")
        experiment = member.resolve().data
        self._refuse_programs(experiment)
        with self._lock:
            in_real_time = backend(name).in_real_time
            self._refuse_too_many(in_real_time=in_real_time)
            number = len(self.runs) + 1
            with consent.policy("allow") if self.allow_programs else nullcontext():
                [job] = plan([experiment], name, seed=seed, repeat=1, out=place_of_live_runs(self.out, number))
            run = watched(job, None if in_real_time else Pace(SPEEDS[speed]))
            started = StartedRun(number, job, run, member.experiment if isinstance(member, Member) else None)
            started.thread = threading.Thread(target=started.carry_out, daemon=True)
            started.thread.start()
            self.runs.append(started)
        return started

    def _offered(self, name: object) -> Member:
        if not isinstance(name, str) or name not in self.offers:
            raise Refused(f"experiment {name!r}: is not offered; allowed: one of the list")
        return self.offers.member(name)

    def _refuse_programs(self, experiment: Mapping[str, Any]) -> None:
        """Refuses code of a description on every back-end, also what was allowed before."""
        brought = consent.brought_by(experiment, in_real_time=True)
        if brought and not self.allow_programs:
            told = first_few([str(one) for one in brought], "; ")
            raise Refused(
                f"{experiment['name']} {consent.deeds(brought)} ({told}), which this page does not start; "
                "allowed: mptcplab run, or mptcplab serve --allow-programs"
            )

    def _refuse_too_many(self, *, in_real_time: bool) -> None:
        going_on = [run for run in self.runs if run.goes_on]
        if in_real_time and any(run.watched.pace is None for run in going_on):
            raise Refused("a run in real time goes on already; a second one would disturb it")
        if len(going_on) >= MOST_AT_ONCE:
            raise Refused(f"{MOST_AT_ONCE} runs go on already; wait for one of them")
