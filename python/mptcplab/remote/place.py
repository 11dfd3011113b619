"""Places: the forms of `--on` that name another machine, and the channel to an agent there."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from mptcplab.remote.channel import Channel
    from mptcplab.remote.ssh import Ssh

#: The forms, for messages and help.
FORMS = ("ssh://[USER@]HOST[:PORT]", "qemu:SERIES", "qemu:PATH/bzImage", "exec:COMMAND")
KERNEL = "kernel"
STACKS = (KERNEL, "userspace")

KINDS = ("ssh", "qemu", "exec")

_PLACE = re.compile(rf"(?:(?P<stack>[a-z]+)\+)?(?P<kind>{'|'.join(KINDS)}):(?P<rest>.*)", re.DOTALL)
_SSH = re.compile(r"//(?:(?P<user>[^\s@/]+)@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/@\[\]]+)(?::(?P<port>\d+))?/?")


class Reached(Protocol):
    """A way to another machine."""

    #: A short name of the machine, as part of a file name.
    label: str

    def open(self, task: str) -> Channel:
        """Starts an agent there with this task, as in `serve kernel`, and returns the channel to it.
        Raises MachineError.
        """

    def about(self) -> dict[str, object]:
        """Returns what is special about the machine."""


@dataclass(frozen=True)
class Place:
    """A machine named by `--on`, and the stack of the back-end there."""

    text: str
    stack: str
    way: Reached

    def about(self) -> dict[str, object]:
        """Returns what the environment of a bundle says about the way to the machine."""
        return {"on": self.text, **self.way.about()}


def place_of(text: str) -> Place | None:
    """Returns the place that a value of `--on` names, or None if it has none of these forms. Raises
    UsageError.
    """
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    stack = found["stack"] or KERNEL
    if stack not in STACKS:
        raise UsageError(f"--on {text}: unknown stack {stack!r}; allowed: {', '.join(STACKS)}")
    return Place(text, stack, _way(found["kind"], found["rest"], f"--on {text}"))


def way_of(text: str, where: str) -> Reached | None:
    """Returns the way to the machine that a text names in one of the `FORMS`, or None for other texts.
    `where` begins the messages about it. Raises UsageError.
    """
    kind, colon, rest = text.partition(":")
    return _way(kind, rest, where) if colon and kind in KINDS else None


def machine_of(text: str, where: str) -> Ssh:
    """Returns the way to the machine of `ssh://..`. `where` begins the messages about it. Raises
    UsageError.
    """
    parts = _SSH.fullmatch(text.removeprefix("ssh:")) if text.startswith("ssh:") else None
    port = int(parts["port"] or 0) if parts else -1
    if parts is None or not 0 <= port < 1 << 16 or parts["port"] == "0":
        raise UsageError(f"{where}: not a machine; allowed: {FORMS[0]}")
    from mptcplab.remote.ssh import Ssh

    return Ssh(where, parts["user"], parts["host"].strip("[]"), port or None)


def _way(kind: str, rest: str, where: str) -> Reached:
    if kind == "ssh":
        return machine_of(f"ssh:{rest}", where)
    if kind == "qemu":
        from mptcplab.remote.guest import Guests

        return Guests(where, rest)
    from mptcplab.remote.bootstrap import Command

    try:
        argv = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"{where}: {error}; allowed: a command line, as in exec:docker exec -i c1") from None
    if not argv:
        raise UsageError(f"{where}: no command; allowed: a command line, as in exec:docker exec -i c1")
    return Command(where, argv)
