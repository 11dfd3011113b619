"""The back-ends: their protocol, and the table of those in this version.

A back-end runs a resolved experiment and supplies samples. No other module depends on how it does
so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from mptcplab.errors import UsageError
from mptcplab.remote.place import FORMS, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = Mapping[str, Mapping[str, float]]

#: Every back-end and its module, which has ``BACKEND``, and ``ON_ANY_MACHINE`` for a machine with
#: all it needs.
BACKENDS: dict[str, str] = {
    "sim": "mptcplab.backends.sim",
    "userspace": "mptcplab.backends.userspace",
    "kernel": "mptcplab.backends.kernel",
}
ON_KERNEL = "kernel"
SIMULATOR = "sim"

#: The feature by which a back-end reports whether the user has the privileges for its runs.
PRIVILEGES = "privileges"

#: The features by which a back-end reports whether it runs user-defined algorithms: a class in a
#: file, an eBPF object, and an algorithm of the user's own simulator.
OWN_CLASS, OWN_OBJECT, OWN_SIMULATOR = "own class", "own object", "own simulator"


@dataclass(frozen=True)
class Capability:
    """A feature of descriptions, and whether the back-end has it; if not, `why` is the reason."""

    feature: str
    available: bool
    why: str = ""


@dataclass(frozen=True)
class Tick:
    """An instant of a run at which samples were taken."""

    time_ns: int
    #: Reads the samples from the back-end. Called on demand, because it costs as much as taking
    #: them.
    read: Callable[[], Values]

    @property
    def values(self) -> Values:
        """``values[entity][metric]``, in the units of the table of metrics. Read them before the
        next tick.
        """
        return self.read()


class Run(Protocol):
    """A running experiment. `samples` drives it; the other methods may be called between two ticks.

    All methods may raise RunFailed.
    """

    @property
    def state(self) -> str:
        """``running``, ``ended`` (by itself) or ``stopped``."""

    def samples(self) -> Iterator[Tick]:
        """Runs until the end or `stop`. Yields a tick at least once in every `measure.every`."""

    def inject(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Applies an action of the resolved form now and returns the recorded event."""

    def inject_later(self, action: Mapping[str, Any], after_ns: int) -> None:
        """Applies an action of the resolved form after a time of the run, while `samples` drives
        it.

        Leaves it out if it would change nothing by then.
        """

    def events(self, since: int) -> list[dict[str, Any]]:
        """Returns the events that have happened so far, without the first `since`."""

    def heed_within(self, step_ns: int) -> None:
        """Makes `samples` yield a tick at least every `step_ns` of the run, so that injected
        actions act soon. A later call replaces an earlier one.
        """

    def stop(self, reason: str) -> None:
        """Ends the run early."""

    def result(self) -> dict[str, Any]:
        """Closes the sample files and returns the result: end, events, flows, links, trace hash.

        In real time it also has `status` and `why`, because a run can fail or be invalid as a
        measurement.
        """


class Backend(Protocol):
    """A way to run experiments."""

    #: Whether runs take real time. Such runs disturb each other, so they run one at a time.
    in_real_time: bool

    @property
    def name(self) -> str:
        """The name of the back-end in bundles."""

    def ready(self) -> None:
        """Raises Unsupported, or PrivilegeError with the remedy, if it cannot run anything here."""

    def probe(self) -> list[Capability]:
        """Returns its capabilities on this machine. Raises Unsupported if it can run nothing."""

    def check(self, experiment: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Returns the unsupported parts of a resolved experiment as (feature, reason)."""

    def start(self, experiment: Mapping[str, Any], seed: int, directory: Path) -> Run:
        """Starts a run that writes its samples into `directory`. Raises RunFailed if it cannot
        start.
        """


@runtime_checkable
class TwoStacks(Protocol):
    """A back-end in which some hosts have the engine and others the kernel's stack."""

    def of_kernel_hosts(self) -> Backend:
        """Returns the back-end whose capabilities hosts with the kernel's stack have."""

    def kernel_hosts(self, experiment: Mapping[str, Any]) -> set[str]:
        """Returns the ids of hosts with the kernel's stack in a resolved experiment."""


def sender(flow: Mapping[str, Any]) -> str:
    """Returns the host that sends the data of a flow. With requests and responses, it is the host
    that sends the responses.
    """
    return str(flow["to" if flow["app"]["kind"] == "request_response" else "from"])


def feature_of(missing: str) -> str:
    """Returns a missing feature without the name of its flow or host: `flows.bulk.transport: mptcp`
    becomes `transport: mptcp`.
    """
    field, colon, value = missing.partition(": ")
    name = field.rpartition(".")[2]
    return name if field.startswith("measure.") else f"{name}{colon}{value}"


#: Origins of values that the user wrote, into a file or on the command line.
_WRITTEN = re.compile(r"^--set |:\d+$")


def line_of(origins: Mapping[str, str], missing: str) -> str:
    """Returns the line of the description with a missing feature, as in ``call.yaml:8: ``, or
    nothing if no line has it, because it is a default.
    """
    field = missing.partition(": ")[0]
    name = field.rpartition(".")[2]
    while field:
        below = {path: origin for path, origin in origins.items() if f"{path}.".startswith(f"{field}.")}
        written = {path: origin for path, origin in below.items() if _WRITTEN.search(origin)}
        # Names of the resolved form end in their unit: `size_bytes` is `size` of the description.
        namesakes = [origin for path, origin in written.items() if name.startswith(path.rpartition(".")[2])]
        if below:
            return "".join(f"{origin}: " for origin in [*namesakes, *written.values()][:1])
        field = field.rpartition(".")[0]
    return ""


def backend(name: str) -> Backend:
    """Returns the back-end with this name, the program at this path, or the back-end on that
    machine.

    Raises UsageError for an unknown name.
    """
    if place_of(name) is not None:
        return _remote(name)
    if "/" in name or os.sep in name:
        from mptcplab.backends.program import Program  # imports this module

        return Program(Path(name).expanduser())
    if name in BACKENDS:
        return import_module(BACKENDS[name]).BACKEND  # type: ignore[no-any-return]
    allowed = f"{', '.join(BACKENDS)}, the path of your own simulator, as in ./my-sim, or {' or '.join(FORMS)}"
    close = get_close_matches(name, BACKENDS, n=1)
    hint = f", did you mean {close[0]!r}?" if close else ""
    if "," in name:
        hint, allowed = "", f"one of {allowed}; several with `compare`"
    raise UsageError(f"unknown back-end {name!r}{hint}; allowed: {allowed}")


@cache
def _remote(text: str) -> Backend:
    """Returns the back-end on another machine. Each machine has one, because it holds the
    connection.
    """
    from mptcplab.backends.remote import Remote  # imports this module

    place = place_of(text)
    if place is None:
        raise UsageError(f"--on {text}: not a machine; allowed: {', '.join(FORMS)}")
    return Remote(place)


def all_on_any_machine() -> list[Backend]:
    """Returns every back-end as on a machine with all it needs, for `check` and `probe` only."""
    return [import_module(module).ON_ANY_MACHINE for module in BACKENDS.values()]
