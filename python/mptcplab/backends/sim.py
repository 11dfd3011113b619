"""The simulator as a back-end: virtual time, no privileges, equal results for equal seeds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mptcplab import _core
from mptcplab.backends import OWN_CLASS, Capability, Tick, user_code
from mptcplab.backends.later import Later
from mptcplab.backends.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class SimulatedRun:
    """A run of the simulator. It advances only while its samples are taken."""

    def __init__(self, experiment: Mapping[str, Any], seed: int, directory: Path) -> None:
        classes = user_code.load(experiment)
        self._schedulers = user_code.Schedulers(classes)
        self._simulation = _core.Simulation(json.dumps(experiment), seed, str(directory), classes=classes)
        # Only user-defined classes can hang.
        self._advance = user_code.Watched(self._simulation).advance if classes else self._simulation.advance
        self._every_ns: int = experiment["measure"]["every_ns"]
        self._step_ns = self._every_ns
        self._state = "running"
        self._later = Later()

    @property
    def state(self) -> str:
        return self._state

    def samples(self) -> Iterator[Tick]:
        while self._state == "running":
            self._later.apply_due(self._simulation.now_ns, self.inject)
            if self._advance(self._later.until(self._simulation.now_ns + self._step_ns)):
                self._state = "ended"
            yield Tick(self._simulation.now_ns, self._simulation.latest)

    def inject(self, action: Mapping[str, Any]) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self._simulation.inject(json.dumps(action)))
        return event

    def inject_later(self, action: Mapping[str, Any], after_ns: int) -> None:
        self._later.add(self._simulation.now_ns + after_ns, action)

    def events(self, since: int) -> list[dict[str, Any]]:
        happened: list[dict[str, Any]] = json.loads(self._simulation.events(since))
        return happened

    def heed_within(self, step_ns: int) -> None:
        self._step_ns = min(self._every_ns, step_ns)

    def stop(self, reason: str) -> None:  # noqa: ARG002  (the bundle records the reason)
        self._state = "stopped"

    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self._simulation.finish())
        if result.get("why"):
            result["why"] = self._schedulers.explained(result["why"])
        return result


class Simulator:
    """Runs experiments in virtual time."""

    name = "sim"
    in_real_time = False

    def ready(self) -> None:
        """Does nothing: the simulator runs wherever it can be loaded."""

    def probe(self) -> list[Capability]:
        compiled = [Capability(feature, available, why) for feature, available, why in _core.capabilities()]
        return [one for one in compiled if one.feature != OWN_CLASS] + [Capability(OWN_CLASS, available=True)]

    def check(self, experiment: Mapping[str, Any]) -> list[tuple[str, str]]:
        try:
            return _core.check(json.dumps(experiment), classes=user_code.load(experiment))
        except ValueError as error:
            raise refusal(experiment, error) from error

    def start(self, experiment: Mapping[str, Any], seed: int, directory: Path) -> SimulatedRun:
        return SimulatedRun(experiment, seed, directory)


BACKEND = Simulator()
ON_ANY_MACHINE = BACKEND
