"""Runs on this machine's kernel, for tests of their results."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from command_line import Ended, mptcplab
from mptcplab import load, run
from mptcplab.backends import Run, Tick, backend
from mptcplab.experiment.inject import parse_action
from mptcplab.results import Bundle, RunData

Json = dict[str, Any]
#: Injects an action, given in words, now, and returns the event as it was recorded.
Inject = Callable[[str], Json]
S = 1_000_000_000
#: What the summary and the command line say of a run on a machine that had no time for it.
TOO_BUSY = "this machine is too busy"
MOST_ATTEMPTS = 4
#: How long a repetition waits at most for a machine that wakes sleepers in time.
PATIENCE_S = 20.0
#: The lateness of sleepers of 1 ms, 3 in 200, from which on a machine is busy.
LATE_S = 0.002
#: The largest ratio of measured to configured rate of a link on a busy machine.
MOST_OF_RATE = 1.05

#: Two hosts with two links, without anything that depends on the seed.
TWO_LINKS = """
name: two-links
vary: none
hosts: {client: {}, server: {}}
links:
  one: {between: [client.eth1, server.eth1], rate: 8mbit, delay: 10ms, queue: 50p}
  two: {between: [client.eth2, server.eth2], rate: 4mbit, delay: 20ms, queue: 50p}
"""


@dataclass(frozen=True)
class Measured:
    """A done run."""

    bundle: Bundle

    @cached_property
    def data(self) -> RunData:
        return self.bundle.load()

    @property
    def record(self) -> Json:
        return self.bundle.record

    def flow(self, name: str) -> Json:
        """Returns the result of a flow."""
        return next(flow for flow in self.record["result"]["flows"] if flow["id"] == name)

    def subflows(self, name: str) -> list[Json]:
        """Returns the results of the subflows of a flow."""
        return list(self.flow(name)["subflows"])

    def link(self, name: str, direction: str) -> Json:
        """Returns the counters of a direction of a link."""
        links = self.record["result"]["links"]
        return next(link for link in links if (link["id"], link["direction"]) == (name, direction))

    def event(self, name: str) -> Json:
        """Returns an event as it happened."""
        return next(event for event in self.record["result"]["events"] if event["id"] == name)

    def bytes_between(self, entity: str, begin_s: float, end_s: float, metric: str = "bytes_received") -> float:
        """Returns by how much a counter grew between two times."""
        series = self.data.samples.series(entity, metric)
        assert series is not None, (entity, metric, self.data.samples.entities())
        inside = series.values[(series.times_s >= begin_s) & (series.times_s <= end_s)]
        return float(inside[-1] - inside[0]) if len(inside) else 0.0

    def path_events(self, what: str) -> list[Json]:
        """Returns the events of path managers whose text contains ``what``."""
        return [event for event in self.record["result"]["path_events"] if what in event["what"]]


def measured(text: str, directory: Path, *, among: str | None = None, on: str = "kernel") -> Measured:
    """Runs a description, or its experiment named ``among``, until the machine was not too busy."""
    description = directory / "description.yaml"
    description.write_text(text)
    members = {member.name: member for member in load(description)}
    return measured_member(members[among] if among else next(iter(members.values())), directory, on=on)


def program_unless_busy(*arguments: str, cwd: Path, **changes: str) -> Ended:
    """Runs the program until the machine was not too busy for its runs in `cwd`/results. Keywords
    change the environment.
    """
    for _ in range(MOST_ATTEMPTS):
        ended = mptcplab(*arguments, cwd=cwd, **changes)
        if TOO_BUSY not in ended.out + ended.err:
            break
        shutil.rmtree(cwd / "results")
        _wait_until_quiet()
    return ended


def measured_member(member: Any, directory: Path, *, on: str = "kernel") -> Measured:
    """Runs an experiment until the machine was not too busy, and checks what holds for every run.

    If it was too busy each time, the last run counts: it is complete, and the bounds of the test
    judge it.
    """
    for attempt in range(MOST_ATTEMPTS):
        [bundle] = run(member, on=on, out=directory / "results")
        if bundle.status != "invalid":
            break
        if attempt + 1 < MOST_ATTEMPTS:
            _wait_until_quiet()
    why = bundle.record["why"]
    assert bundle.status == "done" or (bundle.status == "invalid" and TOO_BUSY in why), (bundle.status, why)
    found = Measured(bundle)
    _check_what_always_holds(found)
    return found


def until_measuring(desk: Path) -> None:
    """Waits until a run has begun."""
    for _ in range(1500):
        for record in (desk / "results").rglob("samples.csv"):
            if record.stat().st_size > 5000:
                return
        time.sleep(0.02)
    raise TimeoutError("no run began")


def _wait_until_quiet() -> None:
    """Waits until the machine wakes sleepers in time, or until `PATIENCE_S` is over."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and _wakes_sleepers_late():
        pass


def _wakes_sleepers_late() -> bool:
    lateness = []
    for _ in range(200):
        before = time.monotonic()
        time.sleep(0.001)
        lateness.append(time.monotonic() - before - 0.001)
    return sorted(lateness)[-3] > LATE_S


def _check_what_always_holds(found: Measured) -> None:
    for event in found.record["result"]["events"]:
        assert event["actual_ns"] >= event["asked_ns"], event
    duration_s = found.record["result"]["end_ns"] / S
    for described in found.data.resolved["links"]:
        for direction in ("forward", "backward"):
            link, asked = found.link(described["id"], direction), described[direction]
            dropped = sum(value for name, value in link.items() if name.startswith("dropped"))
            assert link["offered_packets"] >= link["delivered_packets"] + dropped, link
            changed = any(event["action"]["kind"] == "set_link" for event in found.data.resolved["events"])
            if asked["rate_bps"] and not changed:
                # Links are read a moment after the end.
                assert link["wire_bytes"] * 8 <= MOST_OF_RATE * asked["rate_bps"] * duration_s, link


def driven(text: str, directory: Path, at_tick: Callable[[Run, Tick, Inject], None]) -> tuple[Json, Json]:
    """Drives a run as a program does, and returns the experiment and the result.

    At each tick, calls ``at_tick`` with the run, the tick and the function that injects actions.
    """
    description = directory / "description.yaml"
    description.write_text(text)
    [member] = load(description)
    resolved = member.resolve()
    directory = directory / "driven"
    directory.mkdir()
    running = backend("kernel").start(resolved.data, 1, directory)

    def inject(words: str) -> Json:
        return running.inject(parse_action(words, resolved))

    for tick in running.samples():
        at_tick(running, tick, inject)
    return resolved.data, running.result()
