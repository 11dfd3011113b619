"""A server that sends, receives or echoes bytes of known values:
`byte_server.py PORT tcp|mptcp`.
"""

from __future__ import annotations

import hashlib
import socket
import sys
import threading

PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "mptcp": socket.IPPROTO_MPTCP}
BLOCK = bytes(range(251)) * 256


def expected(size: int) -> bytes:
    """Returns the bytes of a transfer of ``size`` bytes."""
    return (BLOCK * (size // len(BLOCK) + 1))[:size]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


def serve(connection: socket.socket) -> None:
    """Serves one request line: `get SIZE`, `put` until the end of the stream, `echo`, `reset` or
    `close`.
    """
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := connection.recv(1)):
            return
        line += byte
    action, *size = line.split()
    if action == b"get":
        connection.sendall(expected(int(size[0])))
    elif action == b"put":
        received = read_all(connection)
        connection.sendall(f"{len(received)} {digest(received)}\n".encode())
    elif action == b"echo":
        while part := connection.recv(1 << 16):
            connection.sendall(part)
    elif action == b"reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def answer(connection: socket.socket) -> None:
    with connection:
        serve(connection)


def main(port: str, protocol: str) -> None:
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, PROTOCOLS[protocol])
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("::", int(port)))
    listener.listen(4096)
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
