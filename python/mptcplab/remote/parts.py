"""Machines with hosts of an experiment: an agent on each, and the stream of lines to it that the
compiled part uses.
"""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from threading import Thread
from typing import TYPE_CHECKING, Any

from mptcplab.errors import MachineError, UsageError
from mptcplab.remote.channel import BLOCK_BYTES, Channel, Lost
from mptcplab.remote.place import FORMS, Reached, way_of
from mptcplab.remote.ssh import Ssh

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: How often a thread that waits for an agent looks whether the run has ended.
LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Connected:
    """A machine with an agent that waits for requests."""

    id: str
    #: The address to which packets for its hosts are sent.
    address: IPv4Address | IPv6Address
    #: The stream of lines. The agent ends when it and all its duplicates are closed.
    stream: socket.socket


def machines_of(experiment: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the machines of hosts of a resolved experiment, by their names."""
    found = [host["machine"] for host in experiment["hosts"] if host["machine"] is not None]
    return {machine["id"]: machine for machine in found}


def way_to(machine: Mapping[str, Any]) -> Reached:
    """Returns the way to a machine of a resolved experiment. Raises UsageError."""
    where = f"machines.{machine['id']}: {machine['at']}"
    way = way_of(machine["at"], where)
    if way is None:
        raise UsageError(f"{where}: not a machine; allowed: {FORMS[0]} or {FORMS[-1]}")
    return way


@contextmanager
def connected(experiment: Mapping[str, Any]) -> Iterator[list[Connected]]:
    """Starts an agent on each machine of a resolved experiment. The agents whose streams are not
    duplicated within the context end with it. Raises MachineError if a machine cannot be reached.
    """
    with ExitStack() as streams:
        opened = []
        for machine in machines_of(experiment).values():
            opened.append(_connected(machine))
            streams.enter_context(opened[-1].stream)
        yield opened


def _connected(machine: Mapping[str, Any]) -> Connected:
    way = way_to(machine)
    channel = way.open("part")
    address = machine["address"] or (way.peer() if isinstance(way, Ssh) else None)
    if address is None:
        channel.close()
        raise MachineError(f"machines.{machine['id']}: its address is unknown; allowed: address, as in 192.0.2.7")
    return Connected(machine["id"], ip_address(address), _stream_of(channel))


def _stream_of(channel: Channel) -> socket.socket:
    """Returns a stream that is connected with a channel. The channel is closed with the stream."""
    here, there = socket.socketpair()
    Thread(target=_send_all, args=(here, channel), daemon=True).start()
    Thread(target=_receive_all, args=(here, channel), daemon=True).start()
    return there


def _send_all(stream: socket.socket, channel: Channel) -> None:
    with suppress(OSError):
        while block := stream.recv(BLOCK_BYTES):
            channel.send(block)
    channel.close()


def _receive_all(stream: socket.socket, channel: Channel) -> None:
    """Writes what arrives into the stream, and at the end why nothing more does."""
    with suppress(OSError), stream:
        try:
            while True:
                stream.sendall(channel.block(LOOK_EVERY_S) or b"")
        except Lost as lost:
            stream.sendall(json.dumps({"lost": str(lost)}).encode() + b"\n")
