"""``mptcplab overlay``: starts, shows and ends the overlay of this machine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptcplab.cli.live import PORT
from mptcplab.cli.options import As_json
from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mptcplab.overlay.plan import Plan
    from mptcplab.overlay.state import Running

EXAMPLE = "Example: sudo mptcplab overlay up --sites 300 --exit s1"
#: Rows of the tables of sites and tunnels; --json has all.
MOST_ROWS = 20


class Action(StrEnum):
    """Action of the command."""

    up = "up"
    check = "check"
    experiment = "experiment"
    status = "status"
    down = "down"
    cut = "cut"
    restore = "restore"
    watch = "watch"


def command(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    name: Annotated[
        str | None,
        typer.Argument(help="up, check, experiment: a description; cut, restore: a site.", metavar="SPEC|SITE"),
    ] = None,
    other: Annotated[
        str | None, typer.Argument(help="cut, restore: the site at the other end of a tunnel.", metavar="SITE")
    ] = None,
    sites: Annotated[
        int | None, typer.Option(help="up: number of sites, instead of a description.", metavar="N")
    ] = None,
    exits: Annotated[
        list[str] | None,
        typer.Option(
            "--exit", help="up: a site that leads to the network behind it; may be given again.", metavar="SITE"
        ),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            help="up: address of the host controller; without a port, the first free one from 8450 on.",
            metavar="ADDRESS[:PORT]",
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="watch: port of the page; 0 is any free one.")] = PORT,
    nearest: Annotated[
        int | None,
        typer.Option(
            help="experiment: the host has joined so many of the nearest sites; default 1.", metavar="N", min=1
        ),
    ] = None,
    as_json: As_json = False,
) -> None:
    """Start, show or end an overlay of sites on this machine.

    Hosts join it with `mptcplab join URL` and get more paths. `watch` shows it on a page until Ctrl-C.
    """
    if other is not None and action not in (Action.cut, Action.restore):
        raise UsageError(f"overlay {action}: found {other}; allowed: one name at most")
    if action is Action.up:
        _up(name, sites, exits or [], listen, as_json=as_json)
        return
    if action is Action.experiment:
        _print_experiment(name, sites, exits or [], nearest or 1)
        return
    if nearest is not None:
        raise UsageError(f"overlay {action}: --nearest is for `overlay experiment`")
    if action is Action.check:
        _check(name, as_json=as_json)
        return
    if sites is not None or exits:
        raise UsageError(f"overlay {action}: --sites and --exit are for `overlay up` and `overlay experiment`")
    if (action in (Action.cut, Action.restore)) != (name is not None):
        allowed = "a site" if name is None else "no name"
        raise UsageError(f"overlay {action}: found {name or 'no name'}; allowed: {allowed}")
    if action is Action.down:
        _down(as_json=as_json)
    elif action is Action.status:
        _status(as_json=as_json)
    elif action is Action.watch:
        _watch(port)
    else:
        from mptcplab.overlay.client import call
        from mptcplab.overlay.state import State

        call(State().running().operator, f"overlay.{action}", node=name, other=other)


def _watch(port: int) -> None:
    from mptcplab.cli.live import require_server, tell_address, until_interrupted

    require_server()
    from mptcplab.overlay.page import OverlayPage
    from mptcplab.overlay.state import State
    from mptcplab.web.serving import Server

    running = State().running()
    with Server(OverlayPage(running.name, running.operator).app(), port) as server:
        tell_address("overlay", server, port)
        until_interrupted()


def _up(spec: str | None, sites: int | None, exits: list[str], listen: str, *, as_json: bool) -> None:
    from mptcplab.cli.live import require_server
    from mptcplab.cli.output import print_json, print_line, print_note

    plan = _plan(spec, sites, exits)
    address, port = _address(listen)
    require_server()
    from mptcplab.overlay import process
    from mptcplab.overlay.client import call
    from mptcplab.overlay.state import State
    from mptcplab.web.serving import LOOPBACK, forwarding

    process.start(plan, address, port)
    running = State().running()
    if as_json:
        print_json(_running_document(running))
        return
    print_line(f"{plan.name} is up: {len(plan.sites)} sites")
    if any(site.at is not None for site in plan.sites):
        _print_changes(call(running.operator, "overlay.status")["sites"])
    if not any(site.is_exit for site in plan.sites):
        print_note("no host can join it, because no site is an exit; needed: `exit: true` for a site, or --exit SITE")
        return
    print_line(f"join it: sudo mptcplab join '{running.host}'")
    if address == LOOPBACK and (command := forwarding(running.host.port)):
        print_note(f"from another machine, forward the port first, on that machine: {command}")
    if why := process.why_exits_end_here(plan):
        print_note(why)


def _check(spec: str | None, *, as_json: bool) -> None:
    """Prints what the sites of a description would change on their machines, and changes nothing."""
    from mptcplab.cli.output import print_json, print_line
    from mptcplab.overlay import description
    from mptcplab.overlay.site_elsewhere import SiteElsewhere

    if spec is None:
        raise UsageError("overlay check: found no description; allowed: SPEC")
    plan = description.load(Path(spec))
    found = []
    for number, planned in enumerate(plan.sites):
        if planned.at is not None:
            site = SiteElsewhere(planned, number)
            site.connect()
            site.close()
            found.append({"node": planned.name, "at": planned.at, "address": site.address, "changes": site.changes})
    if as_json:
        print_json({"schema": "mptcplab/overlay/1", "name": plan.name, "sites": found})
        return
    _print_changes(found)
    if not found:
        print_line(f"{plan.name}: all sites are on this machine")


def _print_experiment(spec: str | None, sites: int | None, exits: list[str], nearest: int) -> None:
    """Prints the overlay as a description for `mptcplab run`."""
    from mptcplab.overlay.as_experiment import as_yaml, described

    plan = _plan(spec, sites, exits)
    given = spec or " ".join([f"--sites {sites}", *(f"--exit {one}" for one in exits)])
    made_by = f"mptcplab overlay experiment {given} --nearest {nearest}"
    print(as_yaml(described(plan, nearest), made_by), end="")


def _print_changes(sites: Sequence[Mapping[str, Any]]) -> None:
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import print_line

    for site in sites:
        if site["at"] is not None:
            print_line(escape(f"{site['node']}, {site['at']}: {'; '.join(site['changes'])}"))


def _plan(spec: str | None, sites: int | None, exits: list[str]) -> Plan:
    if (spec is None) == (sites is None):
        raise UsageError("overlay: needs either SPEC or --sites N")
    from mptcplab.overlay import description

    if sites is not None:
        return description.of_sites(sites, exits)
    if exits:
        raise UsageError("--exit: is for --sites; in a description, a site has `exit: true`")
    return description.load(Path(spec or ""))


def _address(listen: str) -> tuple[str, int | None]:
    address, colon, port = listen.partition(":")
    if not colon:
        return address, None
    if not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {listen}: found port {port!r}; allowed: ADDRESS:PORT, with a port of 0 to 65535")
    return address, int(port)


def _running_document(running: Running) -> dict[str, Any]:
    return {"schema": "mptcplab/overlay/1", "name": running.name, "process": running.pid, "url": str(running.host)}


def _down(*, as_json: bool) -> None:
    from mptcplab.cli.output import print_json, print_line
    from mptcplab.overlay.state import State

    was_up = State().end()
    if as_json:
        print_json({"schema": "mptcplab/overlay/1", "was_up": was_up})
    else:
        print_line("the overlay is down" if was_up else "removed the files of an overlay that had been killed")


def _status(*, as_json: bool) -> None:
    from mptcplab.cli.output import print_json, print_line
    from mptcplab.overlay.client import call
    from mptcplab.overlay.state import State

    running = State().running()
    status = call(running.operator, "overlay.status")
    if as_json:
        print_json({**_running_document(running), **status})
        return
    present = sum(site["operates"] for site in status["sites"])
    print_line(f"{status['name']}: {present} of {len(status['sites'])} sites operate, policy {status['policy']}")
    _print_sites(status["sites"])
    _print_tunnels(status["tunnels"])
    _print_hosts(status["hosts"])


def _print_sites(sites: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        [
            site["node"],
            _state(site),
            "yes" if site["exit"] else "",
            site["forwarding"],
            "" if site["entries"] is None else str(site["entries"]),
            _age(site["heard_s"]),
        ]
        for site in sorted(sites, key=lambda site: site["operates"])
    ]
    _print_some(["site", "state", "exit", "forwarding", "entries", "heartbeat (s)"], rows, [4, 5])


def _state(one: Mapping[str, Any]) -> str:
    """Returns the state of a site or a tunnel in words. Tunnels have no problem."""
    state = "operates" if one["operates"] else "lost"
    if one.get("problem") is not None:
        return f"{state}: {one['problem']}"
    return f"{state}, cut" if one["cut"] else state


def _print_tunnels(tunnels: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        [
            " - ".join(tunnel["ends"]),
            "-" if tunnel["rtt_s"] is None else f"{1e3 * tunnel['rtt_s']:.2f}",
            _state(tunnel),
            f"{tunnel['answered']} of {tunnel['sent']}",
        ]
        for tunnel in sorted(tunnels, key=lambda tunnel: tunnel["operates"])
    ]
    _print_some(["tunnel", "RTT (ms)", "state", "answered"], rows, [1, 3])


def _print_hosts(hosts: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        [host["client"], tunnel["node"], tunnel["address"], " - ".join(tunnel["route"]), _age(tunnel["heard_s"])]
        for host in hosts
        for tunnel in host["tunnels"]
    ]
    if rows:
        _print_some(["host", "site", "address", "route", "heard (s)"], rows, [4])


def _age(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"


def _print_some(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import print_remark, print_table

    print_table(columns, [[escape(cell) for cell in row] for row in rows[:MOST_ROWS]], right=right)
    if len(rows) > MOST_ROWS:
        print_remark(f"and {len(rows) - MOST_ROWS} more, which --json has")
