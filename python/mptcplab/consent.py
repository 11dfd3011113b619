"""Consent to the code of a description (programs, classes in Python and eBPF objects) and to its use
of devices of machines.

The user allows each version once, and the user's state directory remembers it. Code that was not
allowed is neither loaded nor started.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mptcplab import algorithms, callers
from mptcplab.errors import NotAllowed, first_few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

#: The variable that allows all code, for example in a continuous integration of one's own.
ALLOW = "MPTCPLAB_ALLOW_PROGRAMS"
#: Files below these directories are not part of a version, because the system or the kernel
#: provides them.
OF_THE_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/proc/", "/sys/", "/dev/", "/run/")
#: The separators of file names in a word of a command line: those of shells and of options.
BETWEEN_NAMES = re.compile(r"[\s=,;:&|()<>\"'`]+")

#: The treatment of code that was not allowed yet: refuse it, ask the user, or allow it now.
Policy = Literal["refuse", "ask", "allow"]
_policy: ContextVar[Policy] = ContextVar("policy", default="refuse")
#: Versions that were allowed in this process.
_settled: set[str] = set()
#: Starts that this process may make. Files that a run writes do not change them.
_granted: set[str] = set()
#: Versions that the user declined at the terminal. One answer covers all combinations of a sweep.
_declined: set[str] = set()


@dataclass(frozen=True)
class Brought:
    """Code, a program or a device of a description."""

    #: The place in the description, as in ``flows.fetch``.
    place: str
    #: A description in one line.
    what: str
    #: A digest of everything that defines this version.
    version: str
    #: A digest of the program or code to start, without the content of the files that it names.
    start: str
    #: What the description does with it.
    deed: str = "runs code of its own"

    def __str__(self) -> str:
        """Returns one line without control characters, so that it cannot steer a terminal."""
        return f"{self.place}: {self.what}".encode("unicode_escape").decode()


def brought_by(experiment: Mapping[str, Any], *, in_real_time: bool) -> list[Brought]:
    """Returns the code of a resolved experiment, in real time also its programs, which nothing else
    starts, and the devices that it uses.
    """
    found = _codes(experiment)
    if not in_real_time:
        return found
    return [*found, *(_program(place, argv) for place, argv in _commands(experiment)), *_devices(experiment)]


def _starts(experiment: Mapping[str, Any], *, in_real_time: bool) -> list[str]:
    """Returns the digests of the same starts, without reading the files that programs name."""
    found = [one.start for one in _codes(experiment)]
    if not in_real_time:
        return found
    devices = [one.start for one in _devices(experiment)]
    return [*found, *(_start(argv) for _, argv in _commands(experiment)), *devices]


def _codes(experiment: Mapping[str, Any]) -> list[Brought]:
    return [_code(code["file"], code["source"]) for code in experiment["user_code"]]


def brings_classes(experiment: Mapping[str, Any]) -> bool:
    """Returns whether a resolved experiment has code that is loaded into this process."""
    return not all(algorithms.is_object(code["file"]) for code in experiment["user_code"])


def _code(file: str, source: str) -> Brought:
    if algorithms.is_object(file):
        what, digest = "eBPF object", _digest("eBPF object", source)
    else:
        what = f"classes in Python ({len(source.splitlines())} lines)"
        digest = _digest("classes in Python", source)
    return Brought(file, what, version=digest, start=digest)


def _commands(experiment: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the place and the command line of each program."""
    for flow in experiment["flows"]:
        app = flow["app"]
        if app["kind"] == "command":
            yield f"flows.{flow['id']}", app["argv"]
        elif app["kind"] == "iperf3" and app["args"]:
            # Without arguments, the command line is that of mptcplab.
            yield f"flows.{flow['id']}", ["iperf3", *app["args"]]
    for event in experiment["events"]:
        if event["action"]["kind"] == "exec":
            yield f"events.{event['id']}", event["action"]["argv"]
    # Absent in experiments of earlier versions.
    found = [host.get("machine") for host in experiment["hosts"]]
    for machine in {one["id"]: one for one in found if one is not None}.values():
        yield f"machines.{machine['id']}", shlex.split(machine["at"])
    command = (experiment.get("control") or {}).get("command")
    if command is not None:
        yield "control.command", command


def _devices(experiment: Mapping[str, Any]) -> Iterator[Brought]:
    """Yields the devices of machines that interfaces are to be children of."""
    machines = {host["id"]: host.get("machine") for host in experiment["hosts"]}
    # Absent in experiments of earlier versions.
    for interface in experiment.get("interfaces", []):
        device = interface.get("device")
        if device is not None:
            machine = machines[interface["node"]]
            where = "this machine" if machine is None else machine["id"]
            digest = _digest("device", "" if machine is None else machine["at"], device["name"], device["child"] or "")
            place = f"interfaces.{interface['id']}"
            yield Brought(place, f"device {device['name']} of {where}", digest, digest, "uses devices of machines")


def deeds(brought: Sequence[Brought]) -> str:
    """Returns what a description does that needs consent."""
    return " and ".join(dict.fromkeys(one.deed for one in brought))


def _program(place: str, argv: Sequence[str]) -> Brought:
    version = _digest("program", *argv, *_contents(argv))
    return Brought(place, shlex.join(argv), version=version, start=_start(argv))


def _start(argv: Sequence[str]) -> str:
    return _digest("program", *argv)


def _contents(argv: Sequence[str]) -> Iterator[str]:
    """Yields the digests of the files that a command line names, also within words of a shell and
    of options.
    """
    for word in argv:
        yield from (_content(name) for name in dict.fromkeys([word, *BETWEEN_NAMES.split(word)]))


def _content(name: str) -> str:
    """Returns the digest of a file; empty if it does not exist or belongs to the system."""
    try:
        path = Path(name).resolve()
        if path.is_file() and not str(path).startswith(OF_THE_SYSTEM):
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        pass
    return ""


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@contextmanager
def policy(of: Policy) -> Iterator[None]:
    """Sets the policy for code that was not allowed yet, within the context."""
    token = _policy.set(of)
    try:
        yield
    finally:
        _policy.reset(token)


def settle(experiments: Iterable[Mapping[str, Any]], *, in_real_time: bool) -> None:
    """Ensures that all code of the experiments is allowed, by the policy if needed. Raises
    NotAllowed.
    """
    found = {one.version: one for each in experiments for one in brought_by(each, in_real_time=in_real_time)}
    new = [one for version, one in found.items() if version not in _settled]
    if new and not _is_all_allowed():
        remembered = _remembered()
        new = [one for one in new if one.version not in remembered]
        if new:
            if not _is_allowed_now(new):
                raise _not_allowed(new)
            _remember(new)
    _settled.update(found)
    grant(one.start for one in found.values())


def _is_allowed_now(new: Sequence[Brought]) -> bool:
    if _policy.get() == "allow":
        return True
    if _policy.get() == "refuse" or any(one.version in _declined for one in new):
        return False
    answer = _asked(new)
    if not answer:
        _declined.update(one.version for one in new)
    return answer


def allowed_of(experiment: Mapping[str, Any], *, in_real_time: bool) -> tuple[str, ...]:
    """Returns the digests of an experiment's code that this process may run, for the processes that
    run it.
    """
    return tuple(start for start in _starts(experiment, in_real_time=in_real_time) if start in _granted)


def require(experiment: Mapping[str, Any], *, in_real_time: bool) -> None:
    """Raises NotAllowed unless all code of an experiment was allowed. This is the last check before
    the start.
    """
    if _is_all_allowed() or _granted.issuperset(_starts(experiment, in_real_time=in_real_time)):
        return
    found = brought_by(experiment, in_real_time=in_real_time)
    raise _not_allowed([one for one in found if one.start not in _granted])


def _is_all_allowed() -> bool:
    return os.environ.get(ALLOW) == "1"


def grant(starts: Iterable[str]) -> None:
    """Allows this process to start code with these digests, which the process that assigned the
    work has checked.
    """
    _granted.update(starts)


def _not_allowed(new: Sequence[Brought]) -> NotAllowed:
    told = first_few([str(one) for one in new], "; ")
    return NotAllowed(f"the description {deeds(new)} ({told}), which was not allowed yet: --allow-programs allows it")


def _asked(new: Sequence[Brought]) -> bool:
    """Asks the user at the terminal, and returns whether the user allows the code."""
    # Closed streams are None.
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        return False
    print(f"The description {deeds(new)}, with the rights of {_whose()}:", file=sys.stderr)
    for one in new:
        print(f"  {one}", file=sys.stderr)
    print("Run it? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _whose() -> str:
    found = callers.caller()
    if found is not None:
        return found.name
    return "root" if sys.platform != "win32" and os.geteuid() == 0 else "yours"


def _state_file() -> Path:
    found = callers.caller()
    if found is not None:
        return Path(found.home, ".local", "state", "mptcplab", "allowed")
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    # A relative path is ignored (XDG Base Directory Specification).
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "mptcplab" / "allowed"


def _remembered() -> set[str]:
    """Returns the digests of everything that was allowed before."""
    file = _state_file()
    try:
        with _as_caller():
            lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return set()
    return {line.split()[0] for line in lines if line.strip()}


def _remember(new: Sequence[Brought]) -> None:
    """Stores what was allowed. Prints a message if it cannot be stored."""
    lines = "".join(f"{one.version} {one}\n" for one in new)
    file = _state_file()
    try:
        with _as_caller():
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with file.open("a", encoding="utf-8") as opened:
                opened.write(lines)
    except OSError as error:
        print(f"mptcplab: what was allowed is not remembered: {error}", file=sys.stderr)


@contextmanager
def _as_caller() -> Iterator[None]:
    """Switches to the caller's rights within the context, for files in the
    caller's own directory.
    """
    found = callers.caller()
    if found is None:
        yield
        return
    os.setegid(found.gid)
    os.seteuid(found.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
