"""Sections of real-time runs only: subflows, hosts, path managers, programs, and lateness."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from mptcplab.report.grid import Grid
from mptcplab.report.quantities import MISSING, quantity
from mptcplab.results import RunData, Subflow, subflows_of
from mptcplab.results.entities import Json
from mptcplab.results.subflows import before_it

MOST_ROWS = 200
MOST_TEXT = 20_000


@dataclass(frozen=True)
class Text:
    """Printed output, with a heading."""

    head: str
    text: str


@dataclass(frozen=True)
class Live:
    """The sections of the page. A section is empty if the run has no data for it."""

    subflows: Grid | None = None
    path_events: Grid | None = None
    lateness: Grid | None = None
    standstill_s: float | None = None
    settings: Grid | None = None
    routing: list[Text] = field(default_factory=list)
    counters: Grid | None = None
    programs: list[Text] = field(default_factory=list)

    @classmethod
    def of(cls, run: RunData) -> Live:
        """Returns the sections of a run."""
        hosts = run.result.get("hosts") or []
        return cls(
            _subflows(run),
            _path_events(run.result.get("path_events") or []),
            _lateness(run.result),
            run.result.get("longest_standstill_s"),
            _by_host("setting", hosts, "settings"),
            [_routing(host) for host in hosts if host["rules"] or host["routes"]],
            _by_host("counter", hosts, "counters"),
            [_program(program) for program in run.result.get("programs") or []],
        )

    @property
    def has_hosts(self) -> bool:
        """Whether the run has data of hosts."""
        return self.settings is not None or self.counters is not None or bool(self.routing)


def _subflows(run: RunData) -> Grid | None:
    """Returns a row for each subflow of each connection."""
    heads = ["flow", "subflow", "local", "remote", "interfaces", "link", "bytes", "share", "retransmitted", "opened"]
    heads += ["closed", ""]
    rows = []
    for flow in run.flow_results:
        found = subflows_of(run, flow)
        carried = sum(subflow.bytes for subflow in found)
        rows += [_subflow(subflow, found, carried) for subflow in found]
    return Grid(heads, rows[:MOST_ROWS], frozenset({1, 6, 7, 8, 9, 10})) if rows else None


def _subflow(subflow: Subflow, of_flow: Sequence[Subflow], carried: int) -> list[str]:
    names = (subflow.interface, subflow.remote_interface)
    return [
        subflow.flow,
        str(subflow.id),
        subflow.local,
        subflow.remote,
        " \N{RIGHTWARDS ARROW} ".join(name or MISSING for name in names),
        subflow.link or MISSING,
        quantity(subflow.bytes, "B"),
        f"{100 * subflow.bytes / carried:.0f} %" if carried else MISSING,
        quantity(subflow.retransmitted_bytes, "B"),
        quantity(subflow.opened_s, "s"),
        quantity(subflow.closed_s, "s"),
        f"in place of {before[-1].id}" if (before := _replaced(of_flow, subflow)) else "",
    ]


def _replaced(of_flow: Sequence[Subflow], subflow: Subflow) -> list[Subflow]:
    """Returns earlier subflows between the same addresses that had ended when
    this one was opened.
    """
    return [
        earlier
        for earlier in before_it(of_flow, subflow)
        if earlier.closed_s is not None and subflow.opened_s is not None and earlier.closed_s <= subflow.opened_s
    ]


def _path_events(events: list[Json]) -> Grid | None:
    heads = ["time", "host", "flow", "what", "local", "remote"]
    rows = [
        [
            quantity(event["time_ns"] / 1e9, "s"),
            event["host"],
            event["flow"] or MISSING,
            _what(event),
            event["local"] or MISSING,
            event["remote"] or MISSING,
        ]
        for event in events[:MOST_ROWS]
    ]
    return Grid(heads, rows) if rows else None


def _what(event: Json) -> str:
    """Returns an event in words, with its reason."""
    what = event["what"].replace("_", " ") + (" (backup)" if event.get("backup") else "")
    return f"{what}: {event['why']}" if event.get("why") else str(what)


def _lateness(result: Json) -> Grid | None:
    """Returns the lateness of each link."""
    late = {f"{link['id']}.{link['direction']}": link["late"] for link in result["links"] if link.get("late")}
    if not late:
        return None
    heads = ["link", "packets", "mean", "99th percentile", "most"]
    rows = [
        [name, str(one["deliveries"]), *(quantity(one[key], "s") for key in ("mean_s", "p99_s", "max_s"))]
        for name, one in late.items()
    ]
    missed = [one.get("missed_transmissions", 0) for one in late.values()]
    if any(missed):
        heads.append("missed transmissions")
        rows = [[*row, str(number)] for row, number in zip(rows, missed, strict=True)]
    return Grid(heads, rows[:MOST_ROWS], frozenset(range(1, len(heads))))


def _by_host(head: str, hosts: list[Json], key: str) -> Grid | None:
    """Returns a row for each counter and a column for each host. Counters that did not change are
    omitted.
    """
    names = sorted({name for host in hosts for name, value in host[key].items() if value != 0 or key != "counters"})
    rows = [[name, *(str(host[key].get(name, MISSING)) for host in hosts)] for name in names]
    return Grid([head, *(host["id"] for host in hosts)], rows) if rows else None


def _routing(host: Json) -> Text:
    return Text(host["id"], _short("\n".join([*host["rules"], "", *host["routes"]]).strip()))


def _program(program: Json) -> Text:
    """Returns the output of a program of a flow or an event."""
    cause = f"flow {program['flow']}" if program.get("flow") else f"event {program.get('event')}"
    head = f"{cause} at {program['host']}: {shlex.join(program['argv'])} ({_end(program)})"
    printed = [program["stdout"], *(["standard error:", program["stderr"]] if program["stderr"] else [])]
    whole = [file for key in ("stdout_file", "stderr_file") if (file := program[key])]
    printed += [f"All of it is in {' and '.join(whole)} of the bundle."] if whole else []
    return Text(head, _short("\n".join(printed).strip()) or "It printed nothing.")


def _end(program: Json) -> str:
    if program["ended_by_run"]:
        return "ended with the run"
    if program["exit_status"] is None:
        return f"ended by signal {program['signal']}"
    return f"exit status {program['exit_status']}"


def _short(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}\n.. and {len(text) - MOST_TEXT} more characters"
