"""Adapters between the engine and user-defined classes: plain values become views of
`mptcplab.hooks`, and answers are checked.

An error of a class is raised here and ends the run with the reason.
"""

from __future__ import annotations

import ipaddress
import json
import traceback
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from types import TracebackType
from typing import Any, TypeAlias

from mptcplab import hooks

#: The largest window, in bytes, and the largest rate, in bytes per second, of an answer.
MOST = 2.0**40
#: Largest number of calls of a scheduler at one instant. Each call assigns at least a byte, or ends
#: the calls.
MOST_QUESTIONS = 100_000
NO_SOCKET = ("0.0.0.0", 0)
CONTROL_HOOKS = (
    *(
        "acked",
        "congestion",
        "subflow_added",
        "subflow_removed",
        "segment_sent",
        "recovery_exited",
        "undone",
        "restarted_after_idle",
    ),
    *("pacing_rate", "owns_window"),
)

_CommandFields: TypeAlias = "tuple[str, int, hooks.Socket, hooks.Socket, bool]"


class WrongAnswer(ValueError):
    """A hook returned an invalid answer."""


def told(error: BaseException, lines_above: TracebackType | None) -> str:
    """Returns an exception with its traceback; of a WrongAnswer, only the message."""
    if isinstance(error, WrongAnswer):
        return str(error)
    return "\n" + "".join(traceback.format_exception(type(error), error, _of_the_class(lines_above))).rstrip()


def _of_the_class(lines_above: TracebackType | None) -> TracebackType | None:
    """Returns the part of a traceback that begins where the adapter calls the class."""
    inner = lines_above
    while inner is not None and inner.tb_frame.f_code.co_filename == __file__:
        inner = inner.tb_next
    return inner or lines_above


def _number(name: str, value: Any, least: float) -> float | None:
    """Returns a number within bounds, or None. Raises WrongAnswer for other values."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= float(value) <= MOST:
        raise WrongAnswer(f"{name} is {value!r}, allowed is a number from {least:g} to {MOST:g}")
    return float(value)


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        raise WrongAnswer(f"{name} is {value!r}, allowed is a whole number from {least} to {most}")
    return int(value)


class Control:
    """Adapter of a user-defined congestion control."""

    def __init__(self, own: type, parameters: str, _seen: object) -> None:
        self._own = own(**json.loads(parameters))

    def hooks(self) -> list[str]:
        """Returns the hooks that the class has."""
        return [name for name in CONTROL_HOOKS if getattr(self._own, name, False)]

    def change(self, hook: str, now_ns: int, which: int, windows: Sequence[Any], given: Sequence[Any]) -> Any:
        """Returns the new cwnd and ssthresh, in bytes. None leaves a value unchanged."""
        answer = getattr(self._own, hook)(_context(now_ns, which, windows), *_arguments(hook, given))
        if answer is None:
            return None, None
        if not isinstance(answer, hooks.Change):
            raise WrongAnswer(f"the answer is {answer!r}, allowed are None and Change(..)")
        cwnd, ssthresh = answer
        return _number("cwnd_bytes", cwnd, 0), _number("ssthresh_bytes", ssthresh, 0)

    def removed(self, which: int) -> None:
        """Called when a subflow is removed."""
        self._own.subflow_removed(which)

    def pacing_rate(self, now_ns: int, which: int, windows: Sequence[Any]) -> float | None:
        """Returns the pacing rate in bytes per second, or None."""
        return _number("the answer", self._own.pacing_rate(_context(now_ns, which, windows)), 1)


def _context(now_ns: int, which: int, windows: Sequence[Any]) -> hooks.Context:
    return hooks.Context(now_ns, which, tuple(hooks.Window(*first, *second) for first, second in windows))


def _arguments(hook: str, given: Sequence[Any]) -> Sequence[Any]:
    if hook != "acked":
        return given
    size, lost, rtt_ns, is_limited, rate, delivered = given[0]
    measured = None if rate is None else hooks.DeliveryRate(*rate)
    return (hooks.Acked(size, lost, rtt_ns, is_limited, measured, delivered),)


class Scheduler:
    """Adapter of a user-defined scheduler."""

    def __init__(self, own: type, parameters: str, _seen: object) -> None:
        self._own = own(**json.loads(parameters))
        self._now_ns = -1
        self._questions = 0
        self._last: tuple[hooks.View, Any] | None = None

    def next(
        self, now_ns: int, reason: Any, subflows: Sequence[Any], head: Any, counts: Any, derived: Any
    ) -> tuple[int, int | None, int | None] | None:
        """Returns the index of a subflow, the first byte (None: that of the head), and the number
        of bytes (None: penalize the subflow). None ends the calls.
        """
        self._questions = self._questions + 1 if now_ns == self._now_ns else 0
        self._now_ns = now_ns
        if self._questions > MOST_QUESTIONS:
            raise WrongAnswer(
                f"called {MOST_QUESTIONS} times at one instant, and no answer was None; {self.last_call()}"
            )
        seen = tuple(hooks.SubflowView(*(value for part in one for value in part)) for one in subflows)
        view = hooks.View(now_ns, reason, seen, hooks.Range(*head), *counts, *derived)
        answer = self._own.next(view)
        self._last = view, answer
        return _decision(answer, view)

    @property
    def last_called_ns(self) -> int:
        """The time of the last call, -1 without one."""
        return self._now_ns

    def last_call(self) -> str:
        """Returns the last call in words: what the scheduler saw, and what it answered."""
        if self._last is None:
            return "next was never called"
        view, answer = self._last
        subflows = "; ".join(_subflow_in_words(one) for one in view.subflows) or "none"
        return (
            f"the last call was at {view.now_ns / 1e9:.6f} s: reason {view.reason}, head {view.head.len} bytes from"
            f" {view.head.start}, room of {view.window_left_bytes} bytes in the peer's window; {subflows};"
            f" the answer was {answer!r}"
        )


def _subflow_in_words(subflow: hooks.SubflowView) -> str:
    """Returns what decides whether a subflow can carry data."""
    marks = ("is_usable", "is_available", "has_window", "is_backup", "is_stale")
    said = [mark for mark in marks if getattr(subflow, mark)]
    return (
        f"subflow {subflow.id}: {', '.join(said) or 'not usable'}, room_bytes {subflow.room_bytes},"
        f" buffer_left_bytes {subflow.buffer_left_bytes}, srtt {subflow.srtt_ns / 1e6:.1f} ms"
    )


def _decision(answer: Any, view: hooks.View) -> tuple[int, int | None, int | None] | None:
    if answer is None:
        return None
    if not isinstance(answer, (hooks.Assign, hooks.AssignRange, hooks.Penalize)):
        raise WrongAnswer(f"the answer is {answer!r}, allowed are None, Assign(..), AssignRange(..) and Penalize(..)")
    ids = [one.id for one in view.subflows]
    if answer.subflow not in ids:
        raise WrongAnswer(f"unknown subflow {answer.subflow!r}, allowed are the ids {', '.join(map(str, ids))}")
    place = ids.index(answer.subflow)
    if isinstance(answer, hooks.Penalize):
        return place, None, None
    if not view.subflows[place].is_usable:
        raise WrongAnswer(f"subflow {answer.subflow} cannot carry data now: its is_usable is False")
    most = 2**32 - 1
    if isinstance(answer, hooks.Assign):
        return place, None, _whole("bytes", answer.bytes, 1, min(view.head.len, most))
    start = _whole("start", answer.start, view.acked_bytes, view.written_bytes - 1)
    return place, start, _whole("len", answer.len, 1, min(view.written_bytes - start, most))


class PathManager:
    """Adapter of a user-defined path manager."""

    def __init__(self, own: type, parameters: str, seen: Any) -> None:
        role, initial, pairs, down, backup = seen
        first = hooks.FourTuple(*initial)
        known = tuple(hooks.AddressPair(*pair) for pair in pairs)
        self._locals = {first.local[0], *(pair.local for pair in known)}
        self._subflows = {first}
        connection = hooks.Connection(role, first, known, tuple(down), tuple(backup))
        self._own = own(connection, **json.loads(parameters))

    def commands(self, hook: str, now_ns: int, event: Sequence[Any]) -> tuple[list[_CommandFields], int | None]:
        """Returns the commands after an event or a timeout, and the time of the next timeout."""
        arguments = [now_ns, *([self._noted(*event)] if event else [])]
        answer = getattr(self._own, hook)(*arguments)
        if answer is not None and not isinstance(answer, (list, tuple)):
            raise WrongAnswer(f"the answer is {answer!r}, allowed are None and a list of commands")
        # After `handle_timeout` the next timeout must be later. After an event it may be at the
        # same instant.
        least_ns = now_ns + 1 if hook == "handle_timeout" else 0
        return [self._checked(command) for command in answer or ()], self._timeout(least_ns)

    def _noted(self, name: str, fields: Sequence[Any]) -> Any:
        event = getattr(hooks, name)(*_named(name, fields))
        if isinstance(event, hooks.SubflowEstablished):
            self._subflows.add(event.subflow)
        elif isinstance(event, hooks.SubflowClosed):
            self._subflows.discard(event.subflow)
        return event

    def _timeout(self, least_ns: int) -> int | None:
        poll: Callable[[], Any] | None = getattr(self._own, "poll_timeout", None)
        at = None if poll is None else poll()
        return None if at is None else _whole("poll_timeout()", at, least_ns, 2**63 - 1)

    def _checked(self, command: Any) -> _CommandFields:
        name = type(command).__name__
        match command:
            case hooks.Announce(number, address, port):
                at = 0 if port is None else _whole("port", port, 1, 65535)
                return name, _whole("id", number, 0, 255), (self._local(address), at), NO_SOCKET, False
            case hooks.Remove(number, address):
                return name, _whole("id", number, 0, 255), (self._local(address), 0), NO_SOCKET, False
            case hooks.OpenSubflow(local, number, remote, backup):
                _whole("local_id", number, 0, 255)
                return name, number, (self._local(local), 0), _socket(remote), bool(backup)
            case hooks.CloseSubflow(subflow):
                return name, 0, *self._known(subflow), False
            case hooks.SetBackup(subflow, backup):
                return name, 0, *self._known(subflow), bool(backup)
        raise WrongAnswer(f"unknown command {command!r}, allowed are {hooks.Command}")

    def _local(self, address: Any) -> str:
        if address not in self._locals:
            raise WrongAnswer(f"the address is {address!r}, allowed are this host's {', '.join(sorted(self._locals))}")
        return str(address)

    def _known(self, subflow: Any) -> hooks.FourTuple:
        if subflow not in self._subflows:
            raise WrongAnswer(f"unknown subflow {subflow!r}")
        return hooks.FourTuple(*subflow)


def _named(name: str, fields: Sequence[Any]) -> Sequence[Any]:
    """Returns the fields of an event, with pairs converted to the types of `hooks`."""
    if name.startswith("Subflow"):
        return hooks.FourTuple(*fields[0]), *fields[1:]
    return (hooks.AddressPair(*fields[0]),) if name in ("Unfit", "OpenFailed") else fields


def _socket(given: Any) -> hooks.Socket:
    try:
        address, port = given
        return str(ipaddress.ip_address(address)), _whole("the port", port, 1, 65535)
    except (TypeError, ValueError):
        allowed = "an address with a port, as in ('10.1.1.1', 5001)"
        raise WrongAnswer(f"remote is {given!r}, allowed is {allowed}") from None


#: The adapter for each field of a flow that names a class.
ADAPTERS = {"cc": Control, "scheduler": Scheduler, "path_manager": PathManager}
