"""The methods of the host controller, which hosts and the operator of an overlay call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Protocol

from pydantic import Field

from mptcplab.errors import SpecError
from mptcplab.overlay.addresses import HOST_MTU_BYTES
from mptcplab.overlay.plan import Forwarding
from mptcplab.overlay.rpc import Dispatcher, Method, Model, Refused, openrpc

NOT_AUTHORIZED, REPLAYED, TOO_MANY, TOO_LARGE, NOT_POSSIBLE, UNKNOWN_CONNECTION, FOR_OPERATOR = range(
    -32001, -32008, -1
)
#: What refuses a request before it is read, or whatever its method is.
COMMON_ERRORS = {
    NOT_AUTHORIZED: "the token is missing or wrong",
    REPLAYED: "the request was sent before, or its time is too far from that of the host controller",
    TOO_MANY: "too many requests of one address",
    TOO_LARGE: "the body is too large",
}
MOST_TUNNELS = 8
_Text = Annotated[str, Field(min_length=1, max_length=64)]


class Nothing(Model):
    """No members."""


class Node(Model):
    """A site that operates."""

    node: str
    address: str
    port: int
    exit: bool


class Nodes(Model):
    """The sites that operate."""

    nodes: list[Node]


class Wanted(Model):
    """The sites to which a host wants tunnels."""

    nodes: Annotated[list[_Text], Field(min_length=1, max_length=MOST_TUNNELS)]


class Tunnel(Model):
    """The parameters of a tunnel."""

    node: str
    site_address: str
    port: int
    number: int
    key: str
    """16 hexadecimal digits."""
    address: str
    """The host's address in the overlay."""
    route: list[str]
    """The sites of its route; the last one is the exit."""
    exit_address: str
    """The address of the exit within the overlay, at which it answers echoes."""


class Connection(Model):
    """What a host needs to set up its tunnels."""

    connection: str
    mtu: int
    tunnels: list[Tunnel]


class ConnectionName(Model):
    """A connection."""

    connection: _Text


class Removed(Model):
    """Whether the connection existed and was removed."""

    removed: bool


class NodeName(Model):
    """A site, or with `other` the tunnel between two sites."""

    node: _Text
    other: _Text | None = None


class SiteStatus(Model):
    """A site. `heard_s` is the age of its last heartbeat."""

    node: str
    at: str | None
    """The machine, if it is another one."""
    changes: list[str]
    """What the site changes on that machine."""
    problem: str | None
    """Why that machine is not connected."""
    operates: bool
    forwarding: Forwarding
    entries: int | None
    """How many OpenFlow entries its switch has; None without a switch that is connected."""
    exit: bool
    cut: bool
    heard_s: float | None


class TunnelStatus(Model):
    """A tunnel between two sites, and what its echoes found."""

    ends: list[str]
    operates: bool
    cut: bool
    rtt_s: float | None
    sent: int
    answered: int


class HostTunnelStatus(Model):
    """A tunnel of a host. `heard_s` is the age of its last message."""

    node: str
    address: str
    route: list[str]
    heard_s: float


class HostStatus(Model):
    """A host that has joined."""

    connection: str
    client: str
    tunnels: list[HostTunnelStatus]


class Status(Model):
    """An overlay."""

    name: str
    policy: str
    sites: list[SiteStatus]
    tunnels: list[TunnelStatus]
    hosts: list[HostStatus]


class _Joined(Protocol):
    id: str
    tunnels: dict[int, Any]
    routes: dict[int, list[int]]


class Overlay(Protocol):
    """What the methods need of an overlay."""

    def nodes(self) -> list[dict[str, Any]]:
        """Returns the sites that operate."""

    def connect(self, client: str, names: Sequence[str]) -> Any:
        """Gives a host its tunnels. Raises SpecError."""

    def disconnect(self, host_id: str) -> bool:
        """Removes a host. Returns whether there was one."""

    def set_cut(self, name: str, other: str | None, *, is_cut: bool) -> None:
        """Cuts a site or a tunnel off, or restores it. Raises SpecError."""

    def names(self, route: Sequence[int]) -> list[str]:
        """Returns the names of sites."""

    def address_of(self, node: int) -> Any:
        """Returns where a site's messages go."""

    def address_inside(self, node: int) -> str:
        """Returns the address of a site within the overlay."""

    def status(self) -> dict[str, Any]:
        """Returns all of it."""


def methods(overlay: Overlay, port: int) -> list[Method]:
    """Returns the methods of an overlay whose sites have this UDP port."""

    def connect(wanted: Wanted, caller: str) -> Connection:
        try:
            host: _Joined = overlay.connect(caller, wanted.nodes)
        except SpecError as error:
            raise Refused(NOT_POSSIBLE, str(error)) from error
        tunnels = [
            Tunnel(
                node=overlay.names([node])[0],
                site_address=str(overlay.address_of(node)),
                port=port,
                number=tunnel.number,
                key=f"{tunnel.key:016x}",
                address=str(tunnel.address),
                route=overlay.names(host.routes[node]),
                exit_address=overlay.address_inside(host.routes[node][-1]),
            )
            for node, tunnel in host.tunnels.items()
        ]
        return Connection(connection=host.id, mtu=HOST_MTU_BYTES, tunnels=tunnels)

    def disconnect(named: ConnectionName, _caller: str) -> Removed:
        if not overlay.disconnect(named.connection):
            raise Refused(UNKNOWN_CONNECTION, "no such connection; it may have been removed because it was silent")
        return Removed(removed=True)

    def set_cut(named: NodeName, is_cut: bool) -> Nothing:
        try:
            overlay.set_cut(named.node, named.other, is_cut=is_cut)
        except SpecError as error:
            raise Refused(NOT_POSSIBLE, str(error)) from error
        return Nothing()

    impossible = {NOT_POSSIBLE: "a site is unknown or does not operate, or the policy finds no routes"}
    return [
        Method(
            *("overlay.nodes", "Lists the sites that operate.", Nothing, Nodes, {}, False),
            lambda _nothing, _caller: Nodes(nodes=[Node(**one) for one in overlay.nodes()]),
        ),
        Method(
            *("overlay.connect", "Gives a host a tunnel to each of some sites.", Wanted, Connection, impossible, False),
            connect,
        ),
        Method(
            *("overlay.disconnect", "Removes the tunnels of a host.", ConnectionName, Removed),
            *({UNKNOWN_CONNECTION: "there is no such connection"}, False),
            disconnect,
        ),
        Method(
            *("overlay.status", "Returns sites, tunnels and hosts.", Nothing, Status),
            *({FOR_OPERATOR: _FOR_OPERATOR}, True),
            lambda _nothing, _caller: Status(**overlay.status()),
        ),
        Method(
            *("overlay.cut", "Cuts the access link of a site, or a tunnel between two sites.", NodeName, Nothing),
            *({**impossible, FOR_OPERATOR: _FOR_OPERATOR}, True),
            lambda named, _caller: set_cut(named, True),
        ),
        Method(
            *(
                "overlay.restore",
                "Restores the access link of a site, or a tunnel between two sites.",
                NodeName,
                Nothing,
            ),
            *({**impossible, FOR_OPERATOR: _FOR_OPERATOR}, True),
            lambda named, _caller: set_cut(named, False),
        ),
    ]


_FOR_OPERATOR = "the token is not the operator's"


def document(overlay: Overlay | None = None) -> dict[str, Any]:
    """Returns the OpenRPC document, which does not depend on the overlay."""
    return openrpc("The host controller of an overlay", "1", methods(overlay, 0), COMMON_ERRORS)  # type: ignore[arg-type]


def dispatcher(overlay: Overlay, port: int) -> Dispatcher:
    """Returns what answers the requests of an overlay."""
    return Dispatcher(methods(overlay, port), document(overlay), FOR_OPERATOR)
