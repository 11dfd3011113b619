"""The kernel's application: one MPTCP connection that sends one file and compares what it receives
with another.

Its only argument is a JSON object (`Order` in peer.rs). It reports in lines of JSON what happens.
"""

import errno
import json
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

CHUNK_BYTES = 1 << 18
REST_S = 0.1


def report(**values: object) -> None:
    print(json.dumps(values), flush=True)


def own_socket(order: dict[str, Any]) -> socket.socket:
    family = socket.AF_INET6 if ":" in order["local"][0] else socket.AF_INET
    own = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
    own.bind(tuple(order["local"]))
    return own


def connected(own: socket.socket, order: dict[str, Any]) -> socket.socket:
    """The listener has to stay: without one the kernel takes no joins."""
    if order["remote"]:
        own.connect(tuple(order["remote"]))
        return own
    own.listen()
    report(event="listening")
    return own.accept()[0]


class Connection:
    """Both streams of a connection."""

    def __init__(self, one: socket.socket, order: dict[str, Any]) -> None:
        self.order = order
        self.socket = one
        self.sent = 0
        self.received = 0
        self.error: str | None = None
        self.has_ended = threading.Event()

    def send(self) -> None:
        if self.order["sends_last"]:
            self.has_ended.wait()
        if self.error:
            return
        with Path(self.order["sends"]).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                self.socket.sendall(chunk)
                self.sent += len(chunk)
                if self.order["rests"] and self.sent == CHUNK_BYTES:
                    time.sleep(REST_S)
        self.socket.shutdown(socket.SHUT_WR)

    def receive(self) -> None:
        with Path(self.order["expects"]).open("rb") as file:
            while self.received != self.order["aborts_after"] and (chunk := self.socket.recv(self.most())):
                expected = file.read(len(chunk))
                if chunk != expected and not self.order["takes_changed"]:
                    raise ValueError(self.difference(chunk, expected))
                self.received += len(chunk)

    def difference(self, chunk: bytes, expected: bytes) -> str:
        """Where the first wrong byte is, and where in the stream what stands there belongs."""
        place = next(
            (i for i, (one, other) in enumerate(zip(chunk, expected, strict=False)) if one != other), len(expected)
        )
        found = Path(self.order["expects"]).read_bytes().find(chunk[place : place + 16])
        return f"at {self.received + place} of the stream stands what belongs to {found}"

    def most(self) -> int:
        """Bytes to be read at once."""
        aborts_after = self.order["aborts_after"]
        return CHUNK_BYTES if aborts_after is None else min(CHUNK_BYTES, aborts_after - self.received)

    def attempt(self, action: Any) -> None:
        try:
            action()
        except OSError as error:
            self.error = errno.errorcode[error.errno or 0]
        except ValueError as error:
            self.error = str(error)
        finally:
            self.has_ended.set()

    def run(self) -> None:
        if self.order["aborts_after"] is None:
            sender = threading.Thread(target=self.attempt, args=[self.send], daemon=True)
            sender.start()
            self.attempt(self.receive)
            sender.join()
        else:
            self.attempt(self.receive)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def main() -> None:
    order = json.loads(sys.argv[1])
    own = own_socket(order)
    connection = Connection(connected(own, order), order)
    report(event="connected")
    connection.run()
    report(event="ended", sent=connection.sent, received=connection.received, error=connection.error)


main()
