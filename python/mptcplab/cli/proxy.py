"""``mptcplab proxy``: any TCP program over our Multipath TCP."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLE = "Example: sudo mptcplab proxy --over wlan0,eth0 --scheduler blest -- curl -O http://192.0.2.1/file"


def command(
    over: Annotated[str, typer.Option(help="Interfaces, the one to begin with first.", metavar="NAME,NAME")],
    program: Annotated[list[str] | None, typer.Argument(help="The command, behind --.", metavar="COMMAND")] = None,
    to: Annotated[str | None, typer.Option(help="A gateway for all connections.", metavar="HOST:PORT")] = None,
    gateway: Annotated[
        int | None, typer.Option(help="Be a gateway at this port, instead of a command.", min=1, max=65535)
    ] = None,
    cc: Annotated[str, typer.Option(help="Congestion control.")] = "cubic",
    scheduler: Annotated[str, typer.Option(help="Scheduler.")] = "kernel_default",
    path_manager: Annotated[str, typer.Option(help="Path manager.")] = "full_mesh",
    report: Annotated[typer.FileTextWrite | None, typer.Option(help="Write what was done as JSON.", lazy=False)] = None,
) -> None:
    """Run a command whose TCP goes over several interfaces by our Multipath TCP; or be the gateway for servers without.

    Ends with the exit status of the command.
    """
    import json

    from mptcplab import proxy
    from mptcplab.errors import UsageError

    if bool(program) == bool(gateway):
        raise UsageError("what is to be done is either a COMMAND, behind --, or --gateway PORT")
    if to and gateway:
        raise UsageError("--to is for a command; a gateway is told by each connection where to")
    interfaces = over.split(",")
    if not all(interfaces) or len(set(interfaces)) < len(interfaces):
        raise UsageError(f"--over is {over!r}; allowed: names of interfaces with commas between, each once")
    settings = proxy.Settings(interfaces, cc=cc, scheduler=scheduler, path_manager=path_manager)
    if gateway:
        done = proxy.serve(gateway, settings, ready=lambda: typer.echo(f"taking connections at port {gateway}"))
    else:
        done = proxy.run(program or (), settings, to=to)
    if report:
        report.write(json.dumps({"schema": "mptcplab/proxy/1", **done}, indent=2) + "\n")
    raise typer.Exit(done["exit_status"] or 0)
