"""``mptcplab proxy``: runs any TCP program over Multipath TCP of the engine."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLE = "Example: sudo mptcplab proxy --over wlan0,eth0 --scheduler blest -- curl -O http://192.0.2.1/file"


def command(
    over: Annotated[str, typer.Option(help="Interfaces, that of the initial subflow first.", metavar="NAME,NAME")],
    program: Annotated[list[str] | None, typer.Argument(help="The command, after --.", metavar="COMMAND")] = None,
    to: Annotated[str | None, typer.Option(help="Gateway for all connections.", metavar="HOST:PORT")] = None,
    gateway: Annotated[
        int | None, typer.Option(help="Run a gateway at this port instead of a command.", min=1, max=65535)
    ] = None,
    cc: Annotated[str, typer.Option(help="Congestion control.")] = "cubic",
    scheduler: Annotated[str, typer.Option(help="Scheduler.")] = "kernel_default",
    path_manager: Annotated[str, typer.Option(help="Path manager.")] = "full_mesh",
    give_up_after: Annotated[
        int, typer.Option(help="Seconds of silence after which a peer counts as gone.", min=10, max=86400)
    ] = 300,
    report: Annotated[
        typer.FileTextWrite | None, typer.Option(help="Write a report as JSON into this file.", lazy=False)
    ] = None,
) -> None:
    """Run a command over several interfaces by MPTCP.

    Or run a gateway to servers without MPTCP.

    Exit status: that of the command, or 143 if SIGTERM ends both.
    """
    import json
    import signal

    from mptcplab import proxy
    from mptcplab.cli.options import listed_names
    from mptcplab.errors import UsageError

    if bool(program) == bool(gateway):
        raise UsageError("needs either a COMMAND, after --, or --gateway PORT")
    if to and gateway:
        raise UsageError("--to is for a command; at a gateway each connection names its destination")
    interfaces = listed_names(over)
    if not all(interfaces) or len(set(interfaces)) < len(interfaces):
        raise UsageError(f"--over: found {over!r}; allowed: names of interfaces separated by commas, each once")
    settings = proxy.Settings(interfaces, cc, scheduler, path_manager, give_up_after)
    if gateway:
        done = proxy.serve(gateway, settings, ready=lambda: typer.echo(f"taking connections at port {gateway}"))
    else:
        done = proxy.run(program or (), settings, to=to)
    if report:
        report.write(json.dumps({"schema": "mptcplab/proxy/1", **done}, indent=2) + "\n")
    status = done["exit_status"]
    if status is None:
        # SIGTERM, which is the ordinary end of a gateway, came before the end of the command.
        status = 0 if gateway else 128 + signal.SIGTERM
    raise typer.Exit(status)
