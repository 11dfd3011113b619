"""An observer of one run that tells viewers what happens, and carries out what they ask for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mptcplab.errors import MptcplabError
from mptcplab.experiment import Resolved, parse_actions
from mptcplab.runner import Stop
from mptcplab.web.feed import Feed
from mptcplab.web.pace import UNLIMITED, Pace
from mptcplab.web.rerouting import HandMade
from mptcplab.web.subflows import Subflows
from mptcplab.web.telling import Events, run_message, sample_message

if TYPE_CHECKING:
    from mptcplab.backends import Run, Tick
    from mptcplab.results import Bundle
    from mptcplab.runner import Job

    Words = Mapping[str, object]

#: The run heeds requests at least once in this time of its own, in nanoseconds: where it can be
#: paused, and in real time.
HEED_NS, REAL_HEED_NS = 10_000_000, 5_000_000
#: Samples are told at most once in this real time, in nanoseconds: at full speed and in real time,
#: where telling costs the run time and a page draws no faster, and at a pace, where curves of fewer
#: samples would have gaps.
TOLD_EVERY_NS, PACED_TOLD_EVERY_NS = 90_000_000, 10_000_000
#: A run that waits for its pace heeds requests at least this often, in seconds.
LONGEST_WAIT_S = 0.5
#: The actions that change what later ones mean: of a link, and of how long an outage lasts.
SETTINGS = ("set_link", "set_recovery")


class NotPossible(MptcplabError):
    """The run refuses an action, for example because it would change nothing."""


@dataclass(frozen=True)
class Done:
    """What a viewer asked for, as it was done."""

    at_ns: int
    #: The action in the words of a description.
    words: Words


@dataclass(frozen=True)
class _Asked:
    """An action that a viewer asked for: its steps, each with its time after the first in ns."""

    words: Words
    steps: list[tuple[int, dict[str, Any]]]
    events: Future[list[dict[str, Any]]] = field(default_factory=Future)


@dataclass
class Watched:
    """A run that viewers watch. Its methods are called from the threads of the server."""

    job: Job
    feed: Feed
    #: None where time is real.
    pace: Pace | None
    #: What viewers have changed so far, in order of time.
    done: list[Done] = field(default_factory=list)
    #: The bundle, once the run has ended.
    bundle: Bundle | None = None
    now_ns: int = 0
    #: Ends the run early, while it waits, too.
    stop: Stop = field(default_factory=Stop)
    #: The new settings that viewers have given links, and the strategies that they have chosen, as
    #: events of the resolved form.
    _settings: list[dict[str, Any]] = field(default_factory=list)
    _asked: list[_Asked] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    #: None where real switches have a controller.
    hand_made: HandMade | None = None

    def act(self, words: Words) -> Future[list[dict[str, Any]]]:
        """Asks for an action, written as an event of a description. Returns its recorded events.

        Raises SpecError if the words are wrong, NotPossible if the run has ended. The future raises
        NotPossible if the run refuses the action.
        """
        if self.bundle is not None:
            raise NotPossible("the run has ended")
        experiment = self.job.choice.experiment
        events = sorted([*experiment["events"], *self._settings], key=lambda event: event["at_ns"])
        asked = _Asked(words, parse_actions(words, Resolved({**experiment, "events": events}, {}), self.now_ns))
        with self._changed:
            self._asked.append(asked)
            self._changed.notify()
        return asked.events

    def set_pace(self, change: Callable[[Pace], None]) -> None:
        """Changes the pace, and tells all viewers. Raises NotPossible in real time."""
        if self.pace is None:
            raise NotPossible("this back-end runs in real time")
        with self._changed:
            change(self.pace)
            self._changed.notify()
        self.tell_pace()

    def tell_pace(self) -> None:
        """Tells viewers how fast virtual time passes: `speed` is null without a limit."""
        if self.pace is not None:
            speed = None if self.pace.speed == UNLIMITED else self.pace.speed
            self.feed.publish({"kind": "pace", "speed": speed, "is_paused": self.pace.is_paused})

    def carry_out_asked(self, run: Run) -> None:
        """Does what viewers asked for. Called in the thread of the run."""
        for asked in self._take_asked():
            self._carry_out(run, asked)

    def _carry_out(self, run: Run, asked: _Asked) -> None:
        try:
            events = [run.inject(action) for after_ns, action in asked.steps if after_ns == 0]
        except (ValueError, MptcplabError) as error:
            asked.events.set_exception(NotPossible(str(error)))
            return
        for after_ns, action in asked.steps:
            if after_ns:
                run.inject_later(action, after_ns)
        follows = self.hand_made.follows_from(self.now_ns, asked.steps) if self.hand_made else []
        for after_ns, action in follows:
            if after_ns:
                run.inject_later(action, after_ns)
            else:
                run.inject(action)
        self._settings += [
            {"at_ns": event["actual_ns"], "action": event["action"]}
            for event in events
            if event["action"]["kind"] in SETTINGS
        ]
        self.done.append(Done(events[0]["actual_ns"], asked.words))
        asked.events.set_result(events)

    def _take_asked(self) -> list[_Asked]:
        with self._changed:
            asked, self._asked = self._asked, []
        return asked

    @property
    def has_asked(self) -> bool:
        """Whether viewers have asked for something that was not done yet."""
        return bool(self._asked)

    def pass_by(self, now_s: float) -> None:
        """Takes note of the time of a run that does not wait."""
        if self.pace is not None:
            self.pace.reached(now_s)

    def wait(self, now_s: float) -> bool:
        """Waits for the pace or a request. Returns whether the run may go on, or stops."""
        with self._changed:
            wait_s = self.pace.wait_s(now_s) if self.pace is not None else 0.0
            if wait_s > 0 and not self._asked:
                self._changed.wait(min(wait_s, LONGEST_WAIT_S))
            return self.stop.reason is not None or (wait_s <= LONGEST_WAIT_S and not self._asked)

    def refuse_asked(self) -> None:
        """Refuses what was asked for too late."""
        for asked in self._take_asked():
            asked.events.set_exception(NotPossible("the run has ended"))


class Watching:
    """The observer of `runner.execute` for a run that is watched."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._events = Events(watched.job.choice.experiment)
        self._subflows = Subflows(watched.job.choice.experiment)
        self._told_events = 0
        self._told_sample = 0
        self._last_told_ns = 0
        #: The step that the run was asked for.
        self._step_ns: int | None = None

    def advanced(self, job: Job, run: Run, tick: Tick) -> None:
        """Tells what is new, carries out what was asked for, and waits for the pace."""
        self._watched.now_ns = tick.time_ns
        every_ns: int = job.experiment["measure"]["every_ns"]
        is_fast = self._is_fast()
        heed_ns = REAL_HEED_NS if self._watched.pace is None else HEED_NS
        self._heed_within(run, every_ns if is_fast else heed_ns)
        has_ended = run.state != "running"
        # What is due at the time of a tick has not happened yet, unless the run has ended.
        number = (tick.time_ns if has_ended else tick.time_ns - 1) // every_ns
        if has_ended or self._is_due(number, every_ns):
            self._tell(number, every_ns, tick)
        elif is_fast and not self._watched.has_asked:
            # A run at full speed is sampled, not slowed.
            self._watched.pass_by(tick.time_ns / 1e9)
            return
        while True:
            self._watched.carry_out_asked(run)
            self._tell_events(run)
            if run.state != "running" or self._watched.wait(tick.time_ns / 1e9):
                return

    def _is_fast(self) -> bool:
        pace = self._watched.pace
        return pace is not None and pace.speed == UNLIMITED and not pace.is_paused

    def _heed_within(self, run: Run, step_ns: int) -> None:
        if step_ns != self._step_ns:
            self._step_ns = step_ns
            run.heed_within(step_ns)

    def _is_due(self, number: int, every_ns: int) -> bool:
        """Returns whether to tell the sample with a number. Unless the run is at full speed, those
        that are told are equally far apart.
        """
        if self._is_fast():
            return time.monotonic_ns() - self._last_told_ns >= TOLD_EVERY_NS
        pace = self._watched.pace
        speed = 1.0 if pace is None or pace.is_paused else pace.speed
        told_every_ns = TOLD_EVERY_NS if pace is None else PACED_TOLD_EVERY_NS
        return (number - self._told_sample) * every_ns >= told_every_ns * speed

    def _tell(self, number: int, every_ns: int, tick: Tick) -> None:
        if number > self._told_sample:
            self._told_sample = number
            self._last_told_ns = time.monotonic_ns()
            for message in self._subflows.messages(number * every_ns / 1e9, tick.values):
                self._watched.feed.publish(message)
            self._watched.feed.publish(sample_message(number * every_ns / 1e9, tick.values))

    def _tell_events(self, run: Run) -> None:
        for event in run.events(self._told_events):
            self._told_events += 1
            self._watched.feed.publish(self._events.message(event))

    def finished(self, job: Job, bundle: Bundle) -> None:  # noqa: ARG002  (there is one job)
        """Tells how the run ended."""
        self._watched.bundle = bundle
        self._watched.refuse_asked()
        record = bundle.record
        for message in self._subflows.corrected((record["result"] or {"flows": []})["flows"]):
            self._watched.feed.publish(message)
        self._watched.feed.publish(
            {"kind": "end", "status": record["status"], "why": record["why"], "bundle": str(bundle.path)}
        )


def watched(job: Job, pace: Pace | None) -> Watched:
    """Returns a run to watch, whose viewers are told what it is."""
    found = Watched(job, Feed(), pace, hand_made=HandMade(job.choice.experiment) if pace is not None else None)
    found.feed.publish(run_message(job.choice.experiment, job.backend, job.seed, has_pace=pace is not None))
    found.tell_pace()
    return found
