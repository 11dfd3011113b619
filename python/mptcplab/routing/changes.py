"""Makes what a machine has what it should have. Touches only what mptcplab made: rules and routes
by their protocol number, endpoints by the record of their numbers.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from mptcplab import iproute
from mptcplab.errors import MachineError, PrivilegeError, RunFailed
from mptcplab.routing.machine import PRIORITY, PROTOCOL, UNICAST, Endpoint, Family, Machine, Route, Rule, family_of
from mptcplab.routing.plan import Choice, Plan, planned

RUNTIME = Path("/run/mptcplab")
#: Numbers of endpoints that we use. The kernel gives the smallest free ones to others.
NUMBERS = range(100, 200)
#: An interface may change while it is set up.
ATTEMPTS = 3
#: How the kernel refuses an endpoint beyond its limit, which no call tells. A duplicate, which it
#: refuses alike, is found when the machine is read again.
TOO_MANY = "too many addresses"
#: How the line begins that says what the limit leaves out.
LEFT_OUT = "routing: no endpoint for "


@dataclass(frozen=True)
class Record:
    """The endpoints that mptcplab made in a namespace, in a file that lives as long as they do:
    until the next start of the machine.
    """

    file: Path

    @classmethod
    def here(cls) -> Record:
        """Returns the record of this process's network namespace. Raises PrivilegeError."""
        namespace = Path("/proc/self/ns/net").stat().st_ino
        try:
            RUNTIME.mkdir(mode=0o755, exist_ok=True)
        except OSError as error:
            raise PrivilegeError(None, f"routing: {RUNTIME}: {error.strerror}", "use sudo") from error
        return cls(RUNTIME / f"routing-{namespace}.json")

    def read(self) -> dict[int, Endpoint]:
        """Returns the endpoints by number. Raises MachineError for a file that is none of ours."""
        try:
            text = self.file.read_text()
        except FileNotFoundError:
            return {}
        try:
            return {int(number): Endpoint(*fields) for number, fields in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise MachineError(
                f"{self.file}: not a record of endpoints; remove it, and their endpoints by hand"
            ) from error

    def write(self, endpoints: dict[int, Endpoint]) -> None:
        """Replaces the record. Raises PrivilegeError."""
        if not endpoints:
            self.file.unlink(missing_ok=True)
            return
        fresh = self.file.with_suffix(".new")
        try:
            fresh.write_text(json.dumps({str(number): astuple(one) for number, one in endpoints.items()}))
            fresh.replace(self.file)
        except OSError as error:
            raise PrivilegeError(None, f"routing: {self.file}: {error.strerror}", "use sudo") from error

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Holds the lock for changes of the namespace; waits while another process has it."""
        with _locked(self.file.with_suffix(".lock"), fcntl.LOCK_EX) as lock:
            yield
            lock.unlink()

    @contextmanager
    def as_daemon(self) -> Iterator[None]:
        """Holds the lock of the namespace's daemon. Raises MachineError if one runs."""
        with self._of_daemon(fcntl.LOCK_EX):
            yield

    @contextmanager
    def without_daemon(self) -> Iterator[None]:
        """Keeps daemons from starting. Raises MachineError if one runs."""
        with self._of_daemon(fcntl.LOCK_SH):
            yield

    def has_daemon(self) -> bool:
        """Returns whether a daemon runs in the namespace."""
        try:
            with self.without_daemon():
                return False
        except MachineError:
            return True

    @contextmanager
    def _of_daemon(self, kind: int) -> Iterator[None]:
        try:
            with _locked(self.file.with_suffix(".daemon"), kind | fcntl.LOCK_NB) as lock:
                yield
                # Of several that share it, each removes its name; the next one makes a new file.
                lock.unlink(missing_ok=True)
        except BlockingIOError:
            problem = "routing: `mptcplab routing run` or its service is already running here; stop it first"
            raise MachineError(problem) from None


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[Path]:
    """Locks a file, which another process may remove before it is locked. Raises BlockingIOError."""
    while True:
        try:
            file = path.open("a")
        except OSError as error:
            raise PrivilegeError(None, f"routing: {path}: {error.strerror}", "use sudo") from error
        with file:
            fcntl.flock(file, kind)
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                yield path
                return


def applied(choice: Choice) -> list[str]:
    """Brings this machine to what `choice` asks for, and returns the changes, as lines of ip(8). A
    last line with `LEFT_OUT` names addresses beyond the kernel's limit of endpoints. Raises
    RunFailed if the kernel refuses other changes.
    """
    return _reached(lambda machine: planned(machine, choice))


def removed() -> list[str]:
    """Removes all that mptcplab made here, and returns the changes. Raises as `applied`."""
    return _reached(lambda _: Plan())


def _reached(goal: Callable[[Machine], Plan]) -> list[str]:
    record, done, problems = Record.here(), list[str](), ""
    with record.changing():
        for _ in range(ATTEMPTS):
            machine = Machine.read()
            plan = goal(machine)
            endpoints = Endpoints.between(machine, plan, record.read())
            lines = [*endpoints.removal, *_removal(machine, plan), *_addition(machine, plan), *endpoints.addition]
            if TOO_MANY in problems and lines == endpoints.addition:
                record.write(endpoints.there)
                return [*(line for line in done if line not in lines), _left_out(machine, endpoints)]
            # First the record, so that what is made has an owner also if this process is killed.
            record.write(endpoints.during)
            problems = iproute.batch_of_all(lines)
            record.write(endpoints.after)
            done += lines
            if not lines:
                return done
    if problems:
        raise RunFailed(f"routing: {problems}")
    return done


def _left_out(machine: Machine, endpoints: Endpoints) -> str:
    addresses = ", ".join(one.address for number, one in endpoints.after.items() if number not in endpoints.there)
    limit = len(machine.endpoints or ())
    return f"{LEFT_OUT}{addresses}, because this kernel allows {limit} endpoints; limit the uplinks with --interface"


@dataclass(frozen=True)
class Endpoints:
    """The changes of endpoints, and what the record says before, while they are made and
    afterwards.
    """

    removal: list[str]
    addition: list[str]
    there: dict[int, Endpoint]
    during: dict[int, Endpoint]
    after: dict[int, Endpoint]

    @classmethod
    def between(cls, machine: Machine, plan: Plan, known: dict[int, Endpoint]) -> Endpoints:
        """Returns the changes from what a machine has to what it should have. `known` is the
        record. An address that has an endpoint of someone else keeps that one.
        """
        there = machine.endpoints
        if there is None:
            return cls([], [], {}, {}, {})
        ours = ours_among(there, known)
        kept = {number: one for number, one in ours.items() if one in plan.endpoints}
        leaving = ours.keys() - kept.keys()
        taken = {one.address for number, one in there.items() if number not in leaving}
        missing = _in_turn(one for one in plan.endpoints if one.address not in taken)
        new = dict(zip((number for number in NUMBERS if number not in there), missing, strict=False))
        return cls(
            [f"-4 mptcp endpoint delete id {number}" for number in sorted(leaving)],
            [_endpoint(number, one) for number, one in new.items()],
            ours,
            ours | new,
            kept | new,
        )


def _in_turn(endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    """Returns the first of each interface and family, then the second ones, and so on, because the
    kernel's limit should leave out no interface.
    """
    ranked, count = list[tuple[int, Endpoint]](), Counter[tuple[str, Family]]()
    for one in sorted(endpoints, key=astuple):
        group = one.device, family_of(one.address)
        ranked.append((count[group], one))
        count[group] += 1
    return [one for _, one in sorted(ranked, key=lambda pair: (pair[0], astuple(pair[1])))]


def ours_among(there: dict[int, Endpoint], known: dict[int, Endpoint]) -> dict[int, Endpoint]:
    """Returns those endpoints of a machine that the record has, by number and address: the
    interface of an endpoint that outlived it has another name.
    """
    return {
        number: there[number]
        for number, one in known.items()
        if number in there and there[number].address == one.address
    }


def _endpoint(number: int, endpoint: Endpoint) -> str:
    backup = " backup" if endpoint.is_backup else ""
    words = f"{endpoint.address} dev {endpoint.device} id {number} subflow{backup}"
    return _line("mptcp endpoint add", words, family_of(endpoint.address))


def _removal(machine: Machine, plan: Plan) -> list[str]:
    rules = sorted(machine.rules - plan.rules, key=astuple)
    routes = sorted(machine.routes - plan.routes, key=_order)
    return [_line("rule delete", _rule(one), one.family) for one in rules] + [
        _line("route delete", _route(one), one.family) for one in reversed(routes)
    ]


def _addition(machine: Machine, plan: Plan) -> list[str]:
    rules = sorted(plan.rules - machine.rules, key=astuple)
    routes = sorted(plan.routes - machine.routes, key=_order)
    return [_line("route add", f"{_route(one)} {one.metrics}".strip(), one.family) for one in routes] + [
        _line("rule add", _rule(one), one.family) for one in rules
    ]


def _line(action: str, words: str, family: Family) -> str:
    return f"-{family} {action} {words}"


def _order(route: Route) -> tuple[object, ...]:
    """Returns a key that puts links before the gateways on them."""
    return route.family, route.table, route.gateway is not None, route.destination, route.metric or 0


def _rule(rule: Rule) -> str:
    return f"from {rule.source} lookup {rule.table} priority {PRIORITY} protocol {PROTOCOL}"


def _route(route: Route) -> str:
    """Returns what identifies a route: all but its metrics."""
    words = [*([] if route.kind == UNICAST else [route.kind]), route.destination]
    words += ["tos", route.tos] if route.tos else []
    if route.gateway:
        words += ["via", *(["inet6"] if family_of(route.gateway) > route.family else []), route.gateway]
    words += ["dev", route.device] if route.device else []
    words += ["table", str(route.table), "proto", str(PROTOCOL)]
    words += ["src", route.source] if route.source else []
    words += ["metric", str(route.metric)] if route.metric else []
    words += ["onlink"] if route.is_onlink else []
    return " ".join(words)
