"""The kernel back-end: Linux's MPTCP in network namespaces, with emulated links, in real time."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mptcplab import _core, callers, consent
from mptcplab.backends import PRIVILEGES, Capability, Tick, user_code
from mptcplab.backends.later import Later
from mptcplab.backends.refusal import refusal
from mptcplab.behaviours import DEFAULT, presets
from mptcplab.errors import MachineError, PrivilegeError, RunFailed, Unsupported
from mptcplab.features import features, lacking
from mptcplab.remote import parts
from mptcplab.remote.guest import why_short

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from ipaddress import IPv4Address, IPv6Address
    from pathlib import Path

    from mptcplab.backends.user_code import Classes

    Address = IPv4Address | IPv6Address

#: A run notices `stop` within this time, whatever its interval of samples.
HEED_STOP_NS = 200_000_000
#: The program that controls switches, unless the description names another.
CONTROLLER = (sys.executable, "-m", "mptcplab.controller")
ELSEWHERE = "needs Linux 6.1 or newer with MPTCP: run it there, or use --on sim"


class KernelRun:
    """A run in real time. It does not wait for its samples to be taken."""

    def __init__(
        self, experiment: Mapping[str, Any], seed: int, directory: Path, classes: Classes | None = None
    ) -> None:
        consent.require(experiment, in_real_time=True)
        found = callers.caller()
        rights = {"caller": found.identity} if found is not None else {}
        with parts.connected(experiment) as machines:
            self._live = _told(
                _live().LiveRun,
                json.dumps(experiment),
                seed,
                str(directory),
                classes or {},
                controller=list(CONTROLLER),
                machines=[_descriptors(one) for one in machines],
                **rights,
            )
            self._ways = {one.id: one.way for one in machines}
        self._every_ns: int = min(experiment["measure"]["every_ns"], HEED_STOP_NS)
        self._step_ns = self._every_ns
        self._state = "running"
        self._later = Later()

    @property
    def state(self) -> str:
        return self._state

    def samples(self) -> Iterator[Tick]:
        while self._state == "running":
            self._later.apply_due(self._live.now_ns, self.inject)
            if self._advance():
                self._state = "ended"
            yield Tick(self._live.now_ns, self._live.latest)

    def _advance(self) -> bool:
        try:
            return bool(_told(self._live.advance, self._later.until(self._live.now_ns + self._step_ns)))
        except RunFailed as failure:
            # The engine has not answered. A user-defined hook may block it.
            if where := user_code.interrupt_hooks():
                raise RunFailed(f"{failure}; user code was here:\n{where}") from failure
            raise

    def inject(self, action: Mapping[str, Any]) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(_told(self._live.inject, json.dumps(action)))
        return event

    def inject_later(self, action: Mapping[str, Any], after_ns: int) -> None:
        self._later.add(self._live.now_ns + after_ns, action)

    def events(self, since: int) -> list[dict[str, Any]]:
        happened: list[dict[str, Any]] = json.loads(self._live.events(since))
        return happened

    def heed_within(self, step_ns: int) -> None:
        self._step_ns = min(self._every_ns, step_ns)

    def stop(self, reason: str) -> None:  # noqa: ARG002  (the bundle records the reason)
        self._state = "stopped"

    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(_told(self._live.finish))
        for found in result.get("machines", ()):
            machine = found["machine"]["machine"]
            machine |= self._ways[found["id"]].about()
            why = why_short(machine)
            if why is not None and result["status"] == "done":
                result |= {"status": "invalid", "why": f"machine {found['id']}: {why}"}
        return result


def _descriptors(machine: parts.Connected) -> tuple[str, int, Address | None, list[int]]:
    """Returns what the compiled part needs of a machine."""
    devices = [device.fileno() for device in machine.devices]
    return machine.id, machine.stream.fileno(), machine.address, devices


class Kernel:
    """Runs experiments on the kernel of this machine. With `on_any_machine` it reports what a
    current mainline kernel can run.
    """

    name = "kernel"
    in_real_time = True
    #: Whether hosts may run the engine.
    has_own_stack = False

    def __init__(self, *, on_any_machine: bool = False) -> None:
        self._on_any_machine = on_any_machine

    def ready(self) -> None:
        """Enters a user namespace if this process lacks the rights over networks that root has."""
        for capability in self.probe():
            if capability.feature == PRIVILEGES and not capability.available:
                try:
                    _live().enter_user_namespace()
                except PermissionError as error:
                    # The core tells what forbids it and the remedy in one text.
                    what, _, remedy = str(error).partition(": ")
                    raise PrivilegeError(self.name, f"{capability.why}; without root: {what}", remedy) from error

    def probe(self) -> list[Capability]:
        table = _live().live_capabilities(on_any_machine=self._on_any_machine, own_stack=self.has_own_stack)
        return [Capability(feature, available, why) for feature, available, why in table]

    def check(self, experiment: Mapping[str, Any]) -> list[tuple[str, str]]:
        return self._check(experiment, {})

    def _check(self, experiment: Mapping[str, Any], classes: Classes) -> list[tuple[str, str]]:
        try:
            missing: list[tuple[str, str]] = _live().live_check(
                json.dumps(experiment),
                on_any_machine=self._on_any_machine,
                own_stack=self.has_own_stack,
                classes=classes,
            )
        except ValueError as error:
            raise refusal(experiment, error) from error
        for feature, why in missing:
            if feature == PRIVILEGES:
                raise PrivilegeError(self.name, why)
        if not self._on_any_machine:
            missing.extend(_without_controller(experiment))
            if not missing:
                parts.prepare(experiment)
        return [*missing, *other_behaviour(experiment)]

    def start(self, experiment: Mapping[str, Any], seed: int, directory: Path) -> KernelRun:
        try:
            return KernelRun(experiment, seed, directory)
        except MachineError as error:
            raise RunFailed(str(error)) from error


def _without_controller(experiment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields that os-ken is missing, if the experiment needs the controller that runs on it."""
    control = experiment["control"]
    if control is not None and control["command"] is None and find_spec("os_ken") is None:
        yield "control", "the controller needs os-ken: pip install 'mptcplab[sdn]'"


def other_behaviour(experiment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the parameters of behaviours that differ from the kernel's, and
    that a run cannot set.
    """
    settable = _settable()
    flows = [flow for flow in experiment["flows"] if flow["transport"] == "mptcp"]
    ends = {flow[end] for flow in flows for end in ("from", "to")}
    for host in experiment["hosts"]:
        if host["stack"] == "userspace":
            continue
        behaviour = host["behaviour"][0]
        if host["id"] not in ends or behaviour["name"] != DEFAULT:
            continue
        for name, value in presets()[DEFAULT].items():
            if name.removesuffix("_ns") not in settable and behaviour[name] != value:
                place = f"hosts.{host['id']}.behaviour.{name}: {behaviour[name]}"
                yield place, f"the kernel has {value}, which cannot be changed; only {', '.join(settable)} can"


def _settable() -> list[str]:
    """Returns the parameters of a behaviour that a run can set: `stale_intervals` is a setting of
    the kernel, and mptcplab runs the path manager.
    """
    parameters = [feature for feature in features() if feature.startswith("behaviour.")]
    return [one.removeprefix("behaviour.") for one in parameters if Kernel.name not in lacking(one)]


def _live() -> Any:
    """Returns the compiled part. Raises Unsupported if it lacks real time, which is only built on
    Linux.
    """
    if not hasattr(_core, "LiveRun"):
        raise Unsupported(Kernel.name, [("the back-end itself", ELSEWHERE)])
    return _core


def _told(call: Any, *arguments: Any, **named: Any) -> Any:
    """Calls the compiled part. Raises RunFailed with the reason if the machine refuses."""
    try:
        return call(*arguments, **named)
    except RuntimeError as error:
        raise RunFailed(str(error)) from error


BACKEND = Kernel()
ON_ANY_MACHINE = Kernel(on_any_machine=True)
