"""What a description runs, and whether somebody has allowed it: programs, classes in Python and eBPF objects.

Each is allowed once for each version, which is remembered in the user's state directory. Without that nothing of it is
loaded or started; who only reads a description runs nothing of it.
"""

from __future__ import annotations

import hashlib
import json
import os
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

#: Set where all is allowed, as in a pipeline of one's own.
ALLOW = "MPTCPLAB_ALLOW_PROGRAMS"
#: Of what the system brings along the name is enough.
OF_THE_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib")

#: What is done about what nobody has allowed yet: it is refused, somebody is asked, or it is allowed now.
Policy = Literal["refuse", "ask", "allow"]
_policy: ContextVar[Policy] = ContextVar("policy", default="refuse")
#: Digests of what this process may run.
_granted: set[str] = set()


@dataclass(frozen=True)
class Brought:
    """Something to run that a description brings along."""

    #: Where it stands, as in ``flows.fetch``.
    place: str
    #: What it is, in one line.
    what: str
    #: Of all that makes it this version.
    digest: str


def brought_by(experiment: Mapping[str, Any], *, in_real_time: bool) -> list[Brought]:
    """What a resolved experiment would run of its own: on a real kernel also programs, which nothing else starts."""
    found = [_code(code["file"], code["source"]) for code in experiment.get("user_code", ())]
    return [*found, *_programs(experiment)] if in_real_time else found


def _code(file: str, source: str) -> Brought:
    kind = "eBPF object" if algorithms.is_object(file) else "classes in Python"
    return Brought(
        file, f"{kind} ({len(source.splitlines())} lines)" if kind[0] == "c" else kind, _digest(kind, source)
    )


def _programs(experiment: Mapping[str, Any]) -> Iterator[Brought]:
    for flow in experiment["flows"]:
        app = flow["app"]
        if app["kind"] == "command":
            yield _program(f"flows.{flow['id']}", app["argv"])
        elif app["kind"] == "iperf3" and app["args"]:
            # Without arguments its command line is ours.
            yield _program(f"flows.{flow['id']}", ["iperf3", *app["args"]])
    for event in experiment["events"]:
        if event["action"]["kind"] == "exec":
            yield _program(f"events.{event['id']}", event["action"]["argv"])


def _program(place: str, argv: Sequence[str]) -> Brought:
    return Brought(place, shlex.join(argv), _digest("program", *argv, *map(_content, argv)))


def _content(word: str) -> str:
    """The digest of the file that a word of a command line names, if it names one that is not the system's."""
    try:
        path = Path(word).resolve()
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
    """What is done, inside, about what nobody has allowed yet."""
    token = _policy.set(of)
    try:
        yield
    finally:
        _policy.reset(token)


def settle(experiments: Iterable[Mapping[str, Any]], *, in_real_time: bool) -> None:
    """See to it that all that experiments bring along is allowed. Raises NotAllowed."""
    found = {one.digest: one for each in experiments for one in brought_by(each, in_real_time=in_real_time)}
    new = [one for digest, one in found.items() if digest not in _granted]
    if new and not _is_all_allowed():
        remembered = _remembered()
        new = [one for one in new if one.digest not in remembered]
        if new:
            if _policy.get() == "refuse" or (_policy.get() == "ask" and not _asked(new)):
                raise _not_allowed(new)
            _remember(new)
    grant(found)


def require(experiment: Mapping[str, Any], *, in_real_time: bool) -> None:
    """Raise NotAllowed unless all that an experiment brings along was allowed; the last look before it starts."""
    if _is_all_allowed():
        return
    found = brought_by(experiment, in_real_time=in_real_time)
    if new := [one for one in found if one.digest not in _granted]:
        raise _not_allowed(new)


def _is_all_allowed() -> bool:
    return os.environ.get(ALLOW) == "1"


def grant(digests: Iterable[str]) -> None:
    """Let this process run what has these digests: whoever gave it the work has seen to it."""
    _granted.update(digests)


def _not_allowed(new: Sequence[Brought]) -> NotAllowed:
    told = first_few([f"{one.place}: {one.what}" for one in new], "; ")
    return NotAllowed(f"the description runs code of its own ({told}), which nobody has allowed: --allow-programs does")


def _asked(new: Sequence[Brought]) -> bool:
    """Whether somebody at the terminal allows it."""
    # What was closed is None.
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        return False
    print(f"The description runs code of its own, with the rights of {_whose()}:", file=sys.stderr)
    for one in new:
        # Nothing of it must steer the terminal.
        print(f"  {one.place}: {one.what}".encode("unicode_escape").decode(), file=sys.stderr)
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
    # A relative one counts for nothing (XDG Base Directory Specification).
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "mptcplab" / "allowed"


def _remembered() -> set[str]:
    """Digests of all that was allowed before."""
    file = _state_file()
    try:
        with _as_caller():
            lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return set()
    return {line.split()[0] for line in lines if line.strip()}


def _remember(new: Sequence[Brought]) -> None:
    """Note what was allowed; where the user has no place for it, that is said."""
    lines = "".join(f"{one.digest} {json.dumps(f'{one.place}: {one.what}')}\n" for one in new)
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
    """Files in a user's directory are read and written with that user's rights: it is theirs what lies there."""
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
