"""``mptcplab routing``: gives each interface of this machine a rule, a table and an MPTCP endpoint."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli.options import As_json
from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from mptcplab.routing.plan import Choice

EXAMPLE = "Example: sudo mptcplab routing install --interface 'wlan*' --interface wwan0 --backup wwan0"


class Action(StrEnum):
    """Action of the command."""

    install = "install"
    remove = "remove"
    show = "show"
    run = "run"
    apply = "apply"


class By(StrEnum):
    """What keeps the routing up to date."""

    daemon = "daemon"
    networkmanager = "networkmanager"
    networkd = "networkd"


def command(
    action: Annotated[
        Action,
        typer.Argument(help="install, remove or show; run is the daemon in the foreground, apply does it once."),
    ],
    by: Annotated[By, typer.Option(help="With install: what keeps it up to date.")] = By.daemon,
    interfaces: Annotated[
        list[str] | None,
        typer.Option(
            "--interface", metavar="NAME|PATTERN", help="Interfaces that take part; may be given again. Default all."
        ),
    ] = None,
    backup: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|PATTERN", help="Interfaces whose subflows carry data only if no other can."),
    ] = None,
    with_endpoints: Annotated[
        bool, typer.Option("--endpoints/--no-endpoints", help="Whether to add MPTCP endpoints.")
    ] = True,
    root: Annotated[
        Path, typer.Option(file_okay=False, metavar="DIR", help="Directory in place of / for installed files.")
    ] = Path("/"),
    as_json: As_json = False,
) -> None:
    """Route by source: a rule and a table for each interface.

    They follow the interface as it comes, changes and goes. remove removes all of them, and the
    installed files; nothing else is touched.
    """
    from mptcplab.routing import installation
    from mptcplab.routing.changes import Record, applied
    from mptcplab.routing.plan import Choice

    choice = Choice(tuple(interfaces or ("*",)), tuple(backup or ()), with_endpoints)
    if action is Action.show:
        _show(choice, root, as_json=as_json)
        return
    if as_json:
        raise UsageError(f"routing {action}: prints no JSON; allowed: --json with show")
    if action is Action.run:
        from mptcplab.routing.daemon import run

        run(choice, _tell)
    elif action is Action.install:
        for file in installation.install(by.value, choice, root):
            _tell(f"wrote {file}")
    elif action is Action.apply:
        with Record.here().without_daemon():
            _tell_all(applied(choice))
        _note_what_is_unmatched(choice)
    else:
        _remove(root)


def _remove(root: Path) -> None:
    """Removes installed files, and what there is in the kernel unless the files are those of
    another root. Raises MachineError, before anything is removed, if a daemon runs that is no
    service.
    """
    from mptcplab.routing import installation
    from mptcplab.routing.changes import Record, removed

    is_here = root.resolve() == Path("/")
    if is_here and By.daemon.value not in installation.installed(root):
        with Record.here().without_daemon():
            pass
    for file in installation.remove(root):
        _tell(f"removed {file}")
    if is_here:
        with Record.here().without_daemon():
            _tell_all(removed())


def _note_what_is_unmatched(choice: Choice) -> None:
    from mptcplab.cli.output import print_note
    from mptcplab.routing.machine import Machine
    from mptcplab.routing.plan import unmatched

    sentence = unmatched(Machine.read(), choice)
    if sentence is not None:
        print_note(sentence)


def _tell_all(lines: list[str]) -> None:
    for line in lines:
        _tell(line)


def _tell(line: str) -> None:
    # A daemon's lines go to the journal at once.
    print(line, flush=True)


def _show(choice: Choice, root: Path, *, as_json: bool) -> None:
    """Prints the uplinks with what they have, and what keeps it up to date."""
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import print_json, print_line, print_table
    from mptcplab.routing import installation
    from mptcplab.routing.plan import Choice
    from mptcplab.routing.shown import shown

    found = shown(choice) | {"installed": installation.installed(root)}
    if as_json:
        print_json(found)
        return
    heads = ("interface", "address", "gateway", "table", "rule", "routes", "endpoint")
    rows = [[escape(str(one[head])) for head in heads] for one in found["addresses"]]
    if rows:
        print_table(heads, rows, right=(3,))
    elif choice.interfaces != Choice().interfaces:
        print_line(f"no uplink matches --interface {', '.join(choice.interfaces)}")
    else:
        print_line("no interface has an address and a default route")
    if found["stale"]:
        print_line(f"left of interfaces that are gone: {found['stale']} rules and routes; `routing apply` removes them")
    keeper = "the daemon, which is running" if found["daemon"] else ", ".join(found["installed"]) or "nothing"
    keeper += "" if found["daemon"] is not None else ", as far as can be seen without root"
    print_line(f"kept up to date by: {keeper}")
