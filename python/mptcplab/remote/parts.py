"""Machines with hosts of an experiment: an agent on each, and the stream of lines to it that the
compiled part uses.
"""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import permutations
from threading import Thread
from typing import TYPE_CHECKING, Any

from mptcplab.errors import MachineError, UsageError
from mptcplab.remote.channel import BLOCK_BYTES, Channel, Lost
from mptcplab.remote.guest import Guests
from mptcplab.remote.place import FORMS, Reached, way_of
from mptcplab.remote.ssh import Ssh

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOOPBACK = "127.0.0.1"
BUFFER_BYTES = 1 << 25
#: From <asm-generic/socket.h>: a buffer beyond the limit of the machine, which root may have.
SO_RCVBUFFORCE = 33
#: How often a thread that waits for an agent looks whether the run has ended.
LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Connected:
    """A machine with an agent that waits for requests."""

    id: str
    way: Reached
    #: The stream of lines. The agent ends when it and all its duplicates are closed.
    stream: socket.socket
    #: The address to which packets for its hosts are sent. A guest has none.
    address: IPv4Address | IPv6Address | None
    #: Sockets that carry the frames of a guest's network devices.
    devices: list[socket.socket]


def machines_of(experiment: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the machines of hosts of a resolved experiment, by their names."""
    found = [host["machine"] for host in experiment["hosts"] if host["machine"] is not None]
    return {machine["id"]: machine for machine in found}


def way_to(machine: Mapping[str, Any]) -> Reached:
    """Returns the way to a machine of a resolved experiment. Raises UsageError."""
    where = f"machines.{machine['id']}: {machine['at']}"
    way = way_of(machine["at"], where)
    if way is None:
        raise UsageError(f"{where}: not a machine; allowed: {', '.join(FORMS)}")
    return way


def prepare(experiment: Mapping[str, Any]) -> None:
    """Looks for all that the guests of a resolved experiment need, and downloads their kernels. Raises
    MachineError, and UsageError for what is not a machine.
    """
    for machine in machines_of(experiment).values():
        way = way_to(machine)
        if isinstance(way, Guests):
            way.prepare()


@contextmanager
def connected(experiment: Mapping[str, Any]) -> Iterator[list[Connected]]:
    """Starts an agent on each machine of a resolved experiment. The agents whose streams are not
    duplicated within the context end with it. Raises MachineError if a machine cannot be reached.
    """
    with ExitStack() as opened:
        ways = {name: way_to(machine) for name, machine in machines_of(experiment).items()}
        # Other agents do not wait as long as guests take to start.
        guests = {name: way for name, way in ways.items() if isinstance(way, Guests)}
        with ThreadPoolExecutor() as pool:
            started = [
                pool.submit(_guest, name, way, _interfaces_on(experiment, name), opened) for name, way in guests.items()
            ]
        found = [guest.result() for guest in started]
        for name, machine in machines_of(experiment).items():
            if name not in guests:
                found.append(_machine(name, ways[name], machine["address"], opened))
        yield found


def _interfaces_on(experiment: Mapping[str, Any], machine: str) -> int:
    """Returns the number of interfaces of the hosts on a machine."""
    there = {host["id"] for host in experiment["hosts"] if (host["machine"] or {}).get("id") == machine}
    return sum(interface["node"] in there for interface in experiment["interfaces"])


def _guest(name: str, way: Guests, interfaces: int, opened: ExitStack) -> Connected:
    devices = []
    with ExitStack() as far:
        far_ends = []
        for _ in range(interfaces):
            here, there = wire(f"machines.{name}")
            devices.append(opened.enter_context(here))
            far_ends.append(far.enter_context(there))
        channel = way.open_with_devices("part", far_ends)
    return Connected(name, way, opened.enter_context(_stream_of(channel)), None, devices)


def wire(where: str) -> tuple[socket.socket, socket.socket]:
    """Returns two sockets that are connected with each other, so that no other program can send to
    them. Unlike a pair of Unix sockets, they keep as many datagrams as fit into their buffers.
    """
    ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    try:
        for end in ends:
            end.bind((LOOPBACK, 0))
        for end, other in permutations(ends):
            end.connect(other.getsockname())
            _enlarge(end)
    except OSError as error:
        for end in ends:
            end.close()
        raise MachineError(f"{where}: connecting its network devices over {LOOPBACK}: {error}") from None
    return ends[0], ends[1]


def _enlarge(end: socket.socket) -> None:
    """Gives a socket room for as many full packets as a queue of a device has."""
    try:
        end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    except PermissionError:
        # The largest that the machine allows (net.core.rmem_max).
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)


def _machine(name: str, way: Reached, given: str | None, opened: ExitStack) -> Connected:
    channel = way.open("part")
    address = given or (way.peer() if isinstance(way, Ssh) else None)
    if address is None:
        channel.close()
        raise MachineError(f"machines.{name}: its address is unknown; allowed: address, as in 192.0.2.7")
    return Connected(name, way, opened.enter_context(_stream_of(channel)), ip_address(address), [])


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
