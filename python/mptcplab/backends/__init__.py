"""The back-ends: one protocol, and the table of those that this version has.

A back-end takes a resolved experiment and gives samples; nothing else in the house knows how it does it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = Mapping[str, Mapping[str, float]]

#: Every back-end and the module that has it as ``BACKEND``, and as ``ON_ANY_MACHINE`` what it can do elsewhere.
BACKENDS: dict[str, str] = {
    "sim": "mptcplab.backends.sim",
    "userspace": "mptcplab.backends.userspace",
    "kernel": "mptcplab.backends.kernel",
}
ON_KERNEL = "kernel"
SIMULATOR = "sim"

#: The feature under which a back-end tells whether this user may do what its runs need.
PRIVILEGES = "privileges"

#: The features under which a back-end tells whether it runs algorithms of a user's own: a class in a file, an eBPF
#: object, and one of a simulator of their own.
OWN_CLASS, OWN_OBJECT, OWN_SIMULATOR = "own class", "own object", "own simulator"


@dataclass(frozen=True)
class Capability:
    """One thing that a description can ask for, and whether this back-end does it; ``why`` says why not."""

    feature: str
    available: bool
    why: str = ""


@dataclass(frozen=True)
class Tick:
    """A moment of a run at which samples were taken."""

    time_ns: int
    #: Reads the samples from the back-end, which costs as much as taking them: few look at them.
    read: Callable[[], Values]

    @property
    def values(self) -> Values:
        """``values[entity][metric]``, in the units of the metric table; of now, so look before the next tick."""
        return self.read()


class Run(Protocol):
    """An experiment that is running. ``samples`` drives it; the other methods may be called between two ticks.

    Each may raise RunFailed.
    """

    @property
    def state(self) -> str:
        """``running``, ``ended`` (by itself) or ``stopped``."""

    def samples(self) -> Iterator[Tick]:
        """Let the run go on, a tick at least at every ``measure.every``, until it ends or is stopped."""

    def inject(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Apply an action of the resolved form now; gives the event as it was recorded."""

    def stop(self, reason: str) -> None:
        """End the run early."""

    def result(self) -> dict[str, Any]:
        """Close the sample files and give what the run came to: its end, events, flows, links, trace hash.

        In real time also ``status`` and ``why``: a run may have failed, or be invalid as a measurement.
        """


class Backend(Protocol):
    """A way to run experiments."""

    name: str
    #: Whether a run takes as long as it says; such runs disturb each other and go one at a time.
    in_real_time: bool

    def ready(self) -> None:
        """Raise what keeps it from running anything here: Unsupported, or PrivilegeError with the remedy."""

    def probe(self) -> list[Capability]:
        """What this back-end can do on this machine. Raises Unsupported where it can do nothing."""

    def check(self, experiment: Mapping[str, Any]) -> list[tuple[str, str]]:
        """What it cannot do of a resolved experiment: (feature, why), empty if it can run it."""

    def start(self, experiment: Mapping[str, Any], seed: int, directory: Path) -> Run:
        """Start a run that writes its samples into ``directory``. Raises RunFailed if the machine refuses."""


@runtime_checkable
class TwoStacks(Protocol):
    """A back-end of which some hosts have our own stack and others the kernel's."""

    def of_kernel_hosts(self) -> Backend:
        """The back-end that says what hosts with the kernel's stack can do."""

    def kernel_hosts(self, experiment: Mapping[str, Any]) -> set[str]:
        """The ids of those hosts in a resolved experiment."""


def sender(flow: Mapping[str, Any]) -> str:
    """The host that sends a flow's data; those of requests and responses are the responses."""
    return str(flow["to" if flow["app"]["kind"] == "request_response" else "from"])


def feature_of(missing: str) -> str:
    """What is missing without whose it is: ``flows.bulk.transport: mptcp`` is ``transport: mptcp``."""
    field, colon, value = missing.partition(": ")
    name = field.rpartition(".")[2]
    return name if field.startswith("measure.") else f"{name}{colon}{value}"


def backend(name: str) -> Backend:
    """The back-end of that name, or the program at that path.

    Raises UsageError for an unknown name.
    """
    if "/" in name or os.sep in name:
        from mptcplab.backends.program import Program  # which needs this module

        return Program(Path(name).expanduser())
    if name in BACKENDS:
        return import_module(BACKENDS[name]).BACKEND  # type: ignore[no-any-return]
    allowed = f"{', '.join(BACKENDS)}, or the path of a simulator of your own, as in ./my-sim"
    raise UsageError(f"no back-end is called {name!r}; allowed: {allowed}")


def all_on_any_machine() -> list[Backend]:
    """Every back-end as it is on a machine that has all that it needs; for ``check`` and ``probe`` only."""
    return [import_module(module).ON_ANY_MACHINE for module in BACKENDS.values()]
