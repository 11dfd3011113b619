"""Tests of the network between sites and of the messages in it, without root: sockets in place of
devices.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from ipaddress import IPv4Address

import pytest
from mptcplab.overlay import messages
from mptcplab.overlay.internet import LONGEST_QUEUE_NS, ORDER, End, Internet
from mptcplab.overlay.messages import Kind, echoed, packed, received, udp_socket

MACHINE, NEAR, FAR = (IPv4Address(f"198.18.{last}") for last in ("0.1", "1.0", "1.1"))
DELAY_NS = 20_000_000


def packet(source: IPv4Address, target: IPv4Address, number: int = 0) -> bytes:
    """Returns an IPv4 header with a number behind it."""
    return bytes([0x45, *bytes(11)]) + source.packed + target.packed + bytes([number])


class Network:
    """Three ends: the machine, a near site, and one behind a delay."""

    def __init__(self) -> None:
        self.ours: dict[IPv4Address, socket.socket] = {}
        ends, self._theirs = [], []
        for address, delay_ns in ((MACHINE, 0), (NEAR, 0), (FAR, DELAY_NS)):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            theirs.setblocking(False)
            ours.settimeout(5)
            self.ours[address] = ours
            self._theirs.append(theirs)
            ends.append(End(theirs.fileno(), address, delay_ns, None))
        # The network closes this one itself.
        self._theirs[0].detach()
        reading, self.orders = os.pipe()
        self._thread = threading.Thread(target=self._run, args=(ends, reading))
        self._thread.start()

    def _run(self, ends: list[End], reading: int) -> None:
        Internet(ends, reading).run()
        os.close(reading)

    def close(self) -> None:
        os.close(self.orders)
        self._thread.join()
        for one in (*self.ours.values(), *self._theirs):
            one.close()


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


def test_packets_go_to_their_address_and_all_others_to_the_machine(network: Network) -> None:
    for target, at in ((FAR, FAR), (MACHINE, MACHINE), (IPv4Address("192.0.2.1"), MACHINE)):
        sent = packet(NEAR, target)
        network.ours[NEAR].send(sent)
        assert network.ours[at].recv(100) == sent


def test_a_packet_takes_the_delay_of_both_ends_and_keeps_its_place(network: Network) -> None:
    begun_ns = time.monotonic_ns()
    for number in range(50):
        network.ours[FAR].send(packet(FAR, NEAR, number))
    found = [network.ours[NEAR].recv(100)[-1] for _ in range(50)]
    assert time.monotonic_ns() - begun_ns >= DELAY_NS
    assert found == list(range(50))


def test_an_end_that_is_cut_neither_sends_nor_receives(network: Network) -> None:
    os.write(network.orders, ORDER.pack(2, 2, True))
    time.sleep(0.1)
    network.ours[FAR].send(packet(FAR, NEAR))
    network.ours[NEAR].send(packet(NEAR, FAR))
    time.sleep(0.1)
    os.write(network.orders, ORDER.pack(2, 2, False))
    time.sleep(0.1)
    network.ours[FAR].send(packet(FAR, NEAR, 7))
    network.ours[NEAR].send(packet(NEAR, FAR, 8))
    assert network.ours[NEAR].recv(100)[-1] == 7
    assert network.ours[FAR].recv(100)[-1] == 8


def test_a_pair_that_is_cut_reaches_all_others(network: Network) -> None:
    os.write(network.orders, ORDER.pack(2, 1, True))
    time.sleep(0.1)
    network.ours[FAR].send(packet(FAR, NEAR))
    network.ours[NEAR].send(packet(NEAR, FAR))
    network.ours[NEAR].send(packet(NEAR, MACHINE, 6))
    assert network.ours[MACHINE].recv(100)[-1] == 6
    os.write(network.orders, ORDER.pack(1, 2, False))
    time.sleep(0.1)
    network.ours[FAR].send(packet(FAR, NEAR, 7))
    network.ours[NEAR].send(packet(NEAR, FAR, 8))
    assert network.ours[NEAR].recv(100)[-1] == 7
    assert network.ours[FAR].recv(100)[-1] == 8


def test_an_access_link_serializes_and_drops_what_would_wait_too_long() -> None:
    link = End(0, NEAR, 0, 8_000_000)
    assert link.sent_ns(0, 5_000, 1000) == 5_000 + 1_000_000
    assert link.sent_ns(1_005_000, 6_000, 1000) == 2_005_000
    assert link.sent_ns(LONGEST_QUEUE_NS + 1, 0, 1000) is None
    assert End(0, NEAR, 0, None).sent_ns(LONGEST_QUEUE_NS + 1, 0, 1000) == 0


def test_an_echo_tells_how_long_it_was_held() -> None:
    with udp_socket("127.0.0.1", 0) as asking, udp_socket("127.0.0.1", 0) as answering:
        wait_for_stamps(answering)
        asking.sendto(packed(Kind.ECHO, 0, 77, b"more"), answering.getsockname())
        time.sleep(0.05)
        [request] = received(answering)
        answering.sendto(echoed(request), request.source)
        time.sleep(0.05)
        [answer] = received(asking)
    assert (answer.kind, answer.key, answer.body) == (Kind.ECHOED, 77, b"more")
    # The time that the answering side slept, although the kernel had the request.
    assert answer.number >= 40_000_000


def wait_for_stamps(one: socket.socket) -> None:
    """Returns when the kernel stamps packets as they arrive, which it begins some time after the
    first socket asks for it (`net_enable_timestamp`).
    """
    for _ in range(100):
        one.sendto(packed(Kind.ECHO, 0, 1), one.getsockname())
        time.sleep(0.02)
        read_ns = time.monotonic_ns()
        [message] = received(one)
        if message.arrived_ns < read_ns - 10_000_000:
            return
    pytest.fail("the kernel stamped no packet within 2 s")


def test_a_clock_that_jumps_changes_no_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    with udp_socket("127.0.0.1", 0) as one:
        one.sendto(packed(Kind.ECHO, 0, 1), one.getsockname())
        time.sleep(0.02)
        now_ns = time.time_ns()
        monkeypatch.setattr(messages, "time_ns", lambda: now_ns + 10_000_000_000)
        before_ns = time.monotonic_ns()
        [message] = received(one)
    assert message.arrived_ns >= before_ns


def test_what_is_no_message_is_left_out() -> None:
    with udp_socket("127.0.0.1", 0) as one:
        for data in (b"", b"short", packed(Kind.BEAT, 1, 2)):
            one.sendto(data, one.getsockname())
        time.sleep(0.02)
        assert [message.kind for message in received(one)] == [Kind.BEAT]
