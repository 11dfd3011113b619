"""What programs leave behind on this machine, looked for where the kernel keeps it."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
#: Whoever is killed is not gone at once.
SETTLED_WITHIN_S = 10.0
AVAILABLE_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
#: Where the kernel keeps eBPF programs; whoever first needs it mounts it for all.
USUAL_MOUNT = "/sys/fs/bpf"
CGROUPS, NAMED_NAMESPACES = Path("/sys/fs/cgroup"), Path("/run/netns")


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind, so that it is told apart from what others run."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@dataclass(frozen=True)
class Traces:
    """What is there now of this process and all that came of it."""

    processes: frozenset[str]
    #: Of the processes and all their threads, and of this one's descriptors.
    namespaces: frozenset[str]
    interfaces: frozenset[str]
    mounts: frozenset[str]
    named_namespaces: frozenset[str]
    cgroups: frozenset[str]
    #: Those of runs whose process is gone, and of this one.
    congestion_controls: frozenset[str]

    @classmethod
    def now(cls) -> Traces:
        descendants = set(_descendants(os.getpid()))
        ours = {*descendants, os.getpid()}

        def is_ours(name: str) -> bool:
            """Whether its first number is not that of another process, which goes on."""
            maker = re.search(r"\d+", Path(name).name)
            return maker is None or int(maker[0]) in ours or not Path(f"/proc/{maker[0]}").exists()

        return cls(
            processes=frozenset(filter(None, map(_description, descendants))),
            namespaces=frozenset(found for pid in ours for found in _namespaces(pid)),
            interfaces=frozenset(name for _, name in socket.if_nameindex()),
            mounts=frozenset(filter(is_ours, _mounts())) - {USUAL_MOUNT},
            named_namespaces=frozenset(filter(is_ours, map(str, NAMED_NAMESPACES.glob("*")))),
            cgroups=frozenset(directory for directory, _, _ in os.walk(CGROUPS) if "mptcplab" in directory),
            congestion_controls=frozenset(_controls_of_nobody()),
        )

    def beyond(self, before: Traces) -> dict[str, set[str]]:
        """What is here and was not before."""
        new = {field.name: set(getattr(self, field.name) - getattr(before, field.name)) for field in fields(self)}
        return {name: found for name, found in new.items() if found}


def left_since(before: Traces) -> dict[str, set[str]]:
    """What is there beyond ``before``, once whatever is on its way out is gone."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while (left := Traces.now().beyond(before)) and time.monotonic() < deadline:
        _reap()
        time.sleep(0.05)
    return left


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def threads() -> int:
    """How many this process has."""
    return len(list(Path("/proc/self/task").iterdir()))


def descendants_named(name: str) -> list[int]:
    """The processes that came of this one and run the program ``name``."""
    return [pid for pid in _descendants(os.getpid()) if _read(Path(f"/proc/{pid}/comm")).strip() == name]


def _reap() -> None:
    """Let go of adopted orphans that have ended; nobody else waits for them."""
    for child in _children().get(os.getpid(), []):
        if _state(child) == "Z":
            os.waitpid(child, os.WNOHANG)


def _descendants(pid: int) -> Iterator[int]:
    children = _children()
    generation = children.get(pid, [])
    while generation:
        yield from generation
        generation = [child for parent in generation for child in children.get(parent, [])]


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        # The name, in parentheses, may hold anything.
        after_name = _read(status).rpartition(")")[2].split()
        if after_name:
            found.setdefault(int(after_name[1]), []).append(int(status.parent.name))
    return found


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        yield line.split()[4]


def _controls_of_nobody() -> Iterator[str]:
    """Congestion controls that runs registered, `NAME_PROCESS_NUMBER`, without those of others that go on."""
    for name in _read(AVAILABLE_CONTROLS).split():
        _, *parts = name.split("_")
        if len(parts) == 2:
            pid = int(parts[0], 16)
            if pid == os.getpid() or not Path(f"/proc/{pid}").exists():
                yield name


def _state(pid: int) -> str:
    return (_read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() or [""])[0]


def _description(pid: int) -> str:
    """Number and command line; of a zombie its name; empty if it is gone."""
    command = _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip() or _read(Path(f"/proc/{pid}/comm")).strip()
    return f"{pid} {command}" if command else ""


def _namespaces(pid: int) -> Iterator[str]:
    threads = Path(f"/proc/{pid}/task").glob("*/ns/net")
    descriptors = Path(f"/proc/{pid}/fd").glob("*")
    for link in [*threads, *descriptors]:
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith("net:"):
            yield target


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
