"""``mptcplab join``: gives this host more paths, through an overlay of sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mptcplab.overlay.join import Tunnel

EXAMPLE = "Example: sudo mptcplab join 'http://127.0.0.1:8450/?token=..' --nearest 2 -- mptcpize run curl -O http://192.0.2.1/file"


def command(
    url: Annotated[str, typer.Argument(metavar="URL", help="What `mptcplab overlay up` printed.")],
    program: Annotated[list[str] | None, typer.Argument(help="The command, after --.", metavar="COMMAND")] = None,
    nearest: Annotated[int, typer.Option(help="Join so many of the nearest sites.", min=1, max=8, metavar="N")] = 1,
) -> None:
    """Join an overlay, for more paths of this host.

    Until COMMAND ends, or until Ctrl-C without one.

    Exit status: that of the command.
    """
    from mptcplab.cli.output import print_note
    from mptcplab.overlay.client import HostControllerAddress
    from mptcplab.overlay.join import Membership

    membership = Membership(HostControllerAddress.parse(url), nearest)
    try:
        for tunnel in membership.tunnels:
            print_note(_joined(tunnel))
        status = membership.carry(program or [])
    finally:
        membership.leave()
    raise typer.Exit(status)


def _joined(tunnel: Tunnel) -> str:
    route = " - ".join(tunnel.route)
    return f"joined at {tunnel.node}: {tunnel.address} on {tunnel.device}, {1e3 * tunnel.rtt_s:.1f} ms, route {route}"
