"""Sends numbered datagrams at a fixed interval from one namespace and records them in another.

datagrams.py send SOURCE TARGET COUNT INTERVAL_S     prints the times of departure, in ns of the
monotonic clock datagrams.py receive ADDRESS                         prints `number time` of each
arrival, until its input ends datagrams.py echo ADDRESS                            sends each back,
until its input ends datagrams.py ask SOURCE TARGET COUNT INTERVAL_S      prints how many of its
datagrams came back
"""

from __future__ import annotations

import socket
import sys
import threading
import time

PORT = 7007


def bound(address: str, port: int = 0) -> socket.socket:
    """Returns a socket for datagrams at an address."""
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, port))
    return made


def send(outgoing: socket.socket, target: str, count: int, interval_s: float) -> list[int]:
    """Sends datagrams. Returns their times."""
    sent, begun_s = [], time.monotonic()
    for number in range(count):
        sent.append(time.monotonic_ns())
        outgoing.sendto(number.to_bytes(8, "big"), (target, PORT))
        time.sleep(max(0.0, begun_s + (number + 1) * interval_s - time.monotonic()))
    return sent


def receive(address: str, *, answers: bool) -> None:
    """Receives datagrams, and sends them back or prints them."""
    incoming = bound(address, PORT)
    print("here", flush=True)
    arrivals = []

    def take() -> None:
        while True:
            content, sender = incoming.recvfrom(64)
            if answers:
                incoming.sendto(content, sender)
            else:
                arrivals.append((int.from_bytes(content, "big"), time.monotonic_ns()))

    threading.Thread(target=take, daemon=True).start()
    sys.stdin.read()
    for number, at_ns in arrivals:
        print(number, at_ns)


def ask(source: str, target: str, count: int, interval_s: float) -> int:
    """Sends datagrams to an echo. Returns how many came back."""
    outgoing = bound(source)
    answered = set()

    def take() -> None:
        while True:
            answered.add(outgoing.recv(64))

    threading.Thread(target=take, daemon=True).start()
    send(outgoing, target, count, interval_s)
    deadline = time.monotonic() + 1
    while len(answered) < count and time.monotonic() < deadline:
        time.sleep(0.005)
    return len(answered)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["send", source, target, count, interval_s]:
            print(*send(bound(source), target, int(count), float(interval_s)))
        case ["receive", address]:
            receive(address, answers=False)
        case ["echo", address]:
            receive(address, answers=True)
        case ["ask", source, target, count, interval_s]:
            print(ask(source, target, int(count), float(interval_s)))
