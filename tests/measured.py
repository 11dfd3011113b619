"""Runs on this machine's kernel, for tests of what comes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mptcplab import load, run
from mptcplab.backends import Run, Tick, backend
from mptcplab.experiment.inject import parse_action
from mptcplab.results import Bundle, RunData

Json = dict[str, Any]
#: Does what the words say, now, and gives the event as it was recorded.
Inject = Callable[[str], Json]
S = 1_000_000_000
MOST_ATTEMPTS = 5
#: Of the rate of a link, what it may seem to have carried on a busy machine.
MOST_OF_RATE = 1.05

#: Two hosts and two links between them, with nothing that the seed varies.
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
    """A run that is done."""

    bundle: Bundle

    @cached_property
    def data(self) -> RunData:
        return self.bundle.load()

    @property
    def record(self) -> Json:
        return self.bundle.record

    def flow(self, name: str) -> Json:
        """What came of a flow."""
        return next(flow for flow in self.record["result"]["flows"] if flow["id"] == name)

    def subflows(self, name: str) -> list[Json]:
        """What came of the subflows of a flow."""
        return list(self.flow(name)["subflows"])

    def link(self, name: str, direction: str) -> Json:
        """What a direction of a link carried."""
        links = self.record["result"]["links"]
        return next(link for link in links if (link["id"], link["direction"]) == (name, direction))

    def event(self, name: str) -> Json:
        """An event as it happened."""
        return next(event for event in self.record["result"]["events"] if event["id"] == name)

    def bytes_between(self, entity: str, begin_s: float, end_s: float, metric: str = "bytes_received") -> float:
        """By how much a counter grew from one sample to another."""
        series = self.data.samples.series(entity, metric)
        assert series is not None, (entity, metric, self.data.samples.entities())
        inside = series.values[(series.times_s >= begin_s) & (series.times_s <= end_s)]
        return float(inside[-1] - inside[0]) if len(inside) else 0.0

    def path_events(self, what: str) -> list[Json]:
        """What the path managers told with these words in it."""
        return [event for event in self.record["result"]["path_events"] if what in event["what"]]


def measured(text: str, directory: Path, *, among: str | None = None, on: str = "kernel") -> Measured:
    """Run a description, of several the one whose name is ``among``, until the machine was not too busy for it."""
    description = directory / "description.yaml"
    description.write_text(text)
    members = {member.name: member for member in load(description)}
    return measured_member(members[among] if among else next(iter(members.values())), directory, on=on)


def measured_member(member: Any, directory: Path, *, on: str = "kernel") -> Measured:
    """Run an experiment until the machine was not too busy for it, and check what holds for every run."""
    bundles: list[Bundle] = []
    for _ in range(MOST_ATTEMPTS):
        bundles = run(member, on=on, out=directory / "results")
        if bundles[0].status != "invalid":
            break
    [bundle] = bundles
    assert (bundle.status, bundle.record["why"]) == ("done", None)
    found = Measured(bundle)
    _check_what_always_holds(found)
    return found


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
    """Drive a run as a program does: ``at_tick`` gets run, tick and what injects; gives the experiment and the result."""
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
