"""The OpenFlow entries of a site's switch, for its own packets and for those of hosts.

The port to the mesh stands for all tunnels to other sites: the link-layer addresses of a frame say
which sites the tunnel joins. Frames to the site's own port have the site's address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mptcplab.controller.tables import (
    IN_PORT,
    IPV4,
    LOCAL,
    Action,
    DecrementTtl,
    Entry,
    Match,
    Output,
    SetEthernetDestination,
    SetEthernetSource,
    Table,
)
from mptcplab.overlay.addresses import inside, mac
from mptcplab.overlay.entries import PORT_OF_MESH, PORT_OF_TUNNELS
from mptcplab.overlay.passages import Passage

#: Packets to a host go on to it, also if they are from a host on whose route the site is.
_TO_EXIT, _TO_HOST, _OWN = 100, 110, 200


def table(site: int, others: Sequence[int], forwarded: Iterable[Passage]) -> Table:
    """Returns the entries of a site that has tunnels to `others`."""
    found = Table()
    for other in others:
        for entry in _own(site, other):
            found.add(entry)
    for passage in forwarded:
        for entry in _of_host(site, passage):
            found.add(entry)
    return found


def _own(site: int, other: int) -> Iterator[Entry]:
    """Yields the entries of the site's own packets to and from another site."""
    here, there = str(inside(site)), str(inside(other))
    leaving = Match(IPV4, here, there, in_port=LOCAL)
    yield Entry(_OWN, leaving, (SetEthernetDestination(mac(other)), Output(PORT_OF_MESH)))
    arriving = Match(IPV4, there, here, ethernet_source=mac(other), in_port=PORT_OF_MESH)
    yield Entry(_OWN, arriving, (Output(LOCAL),))


def _of_host(site: int, passage: Passage) -> Iterator[Entry]:
    """Yields the entries of a host's packets towards the exit and back."""
    address = str(passage.address)
    to_exit = Match(IPV4, source=address, **_arrival(passage.before, PORT_OF_TUNNELS))
    yield Entry(_TO_EXIT, to_exit, _actions(site, passage, passage.before, passage.after, LOCAL))
    to_host = Match(IPV4, destination=address, **_arrival(passage.after, LOCAL))
    yield Entry(_TO_HOST, to_host, _actions(site, passage, passage.after, passage.before, PORT_OF_TUNNELS))


def _arrival(neighbour: int | None, otherwise: int) -> dict[str, Any]:
    """Returns the fields of packets that arrive from a site, or else by another port."""
    if neighbour is None:
        return {"in_port": otherwise}
    return {"in_port": PORT_OF_MESH, "ethernet_source": mac(neighbour)}


def _actions(site: int, passage: Passage, source: int | None, target: int | None, otherwise: int) -> tuple[Action, ...]:
    """Returns the actions for packets from one site to another, or else out of a port. At the exit,
    the kernel decrements the time to live.
    """
    decrement = () if passage.after is None else (DecrementTtl(),)
    if target is None:
        return (*decrement, SetEthernetDestination(mac(site)), Output(otherwise))
    port = PORT_OF_MESH if source is None else IN_PORT
    return (*decrement, SetEthernetSource(mac(site)), SetEthernetDestination(mac(target)), Output(port))
