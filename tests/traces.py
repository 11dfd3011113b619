"""Finds what programs leave on this machine, in the places where the kernel keeps it."""

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
#: Seconds to wait, because a killed process ends only when the kernel has removed its interfaces,
#: and that takes several seconds while other namespaces are removed.
SETTLED_WITHIN_S = 60.0
AVAILABLE_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
#: The usual mount of eBPF programs, which the first program that needs it mounts for all.
USUAL_MOUNT = "/sys/fs/bpf"
CGROUPS, NAMED_NAMESPACES = Path("/sys/fs/cgroup"), Path("/run/netns")


def adopt_orphans() -> None:
    """Becomes the parent of orphans of child processes, so that they can be told apart from others'
    processes.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@dataclass(frozen=True)
class Traces:
    """The traces of this process and its descendants at present."""

    processes: frozenset[str]
    #: Namespaces of the processes and all their threads, and of this process's descriptors.
    namespaces: frozenset[str]
    interfaces: frozenset[str]
    mounts: frozenset[str]
    named_namespaces: frozenset[str]
    cgroups: frozenset[str]
    #: Controls of this process, and of runs whose process has ended.
    congestion_controls: frozenset[str]

    @classmethod
    def now(cls) -> Traces:
        descendants = set(_descendants(os.getpid()))
        ours = {*descendants, os.getpid()}

        def is_ours(name: str) -> bool:
            """Returns whether the first number in a name is not that of another running process."""
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
        """Returns the traces that were not there ``before``."""
        new = {field.name: set(getattr(self, field.name) - getattr(before, field.name)) for field in fields(self)}
        return {name: found for name, found in new.items() if found}


def left_since(before: Traces) -> dict[str, set[str]]:
    """Returns the traces beyond ``before``, after those that are about to go are gone."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while (left := Traces.now().beyond(before)) and time.monotonic() < deadline:
        _reap()
        time.sleep(0.05)
    return left


def descriptors() -> int:
    """Returns the number of open descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def threads() -> int:
    """Returns the number of threads of this process."""
    return len(list(Path("/proc/self/task").iterdir()))


def descendants_named(name: str) -> list[int]:
    """Returns the descendants of this process that run the program ``name``."""
    return [pid for pid in _descendants(os.getpid()) if _read(Path(f"/proc/{pid}/comm")).strip() == name]


def _reap() -> None:
    """Reaps adopted orphans that have ended, because no other process waits for them."""
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
        # The name, in parentheses, can contain any character.
        after_name = _read(status).rpartition(")")[2].split()
        if after_name:
            found.setdefault(int(after_name[1]), []).append(int(status.parent.name))
    return found


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        yield line.split()[4]


def _controls_of_nobody() -> Iterator[str]:
    """Yields congestion controls `NAME_PROCESS_NUMBER` of runs, except those of other running
    processes.
    """
    for name in _read(AVAILABLE_CONTROLS).split():
        _, *parts = name.split("_")
        if len(parts) == 2:
            pid = int(parts[0], 16)
            if pid == os.getpid() or not Path(f"/proc/{pid}").exists():
                yield name


def _state(pid: int) -> str:
    return (_read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() or [""])[0]


def _description(pid: int) -> str:
    """Returns the process id and the command line; of a process that is ending, its name; empty if
    the process is gone.
    """
    command = _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()
    name = _read(Path(f"/proc/{pid}/comm")).strip()
    return f"{pid} {command or f'{name} (ending)'}" if name else ""


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
