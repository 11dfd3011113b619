"""Clients of byte_server.py, each an action: `byte_client.py ACTION HOST PORT [NUMBER]`. Prints its
result as JSON.
"""

from __future__ import annotations

import json
import random
import selectors
import socket
import sys
import time
from typing import Any

from byte_server import digest, expected, read_all


def get(host: str, port: int, size: int) -> dict[str, Any]:
    """Receives ``size`` bytes, and sends nothing after the request."""
    began = time.monotonic()
    with socket.create_connection((host, port)) as connection:
        connection.sendall(b"get %d\n" % size)
        connection.shutdown(socket.SHUT_WR)
        found = read_all(connection)
    return {"is_right": found == expected(size), "seconds": time.monotonic() - began}


def put(host: str, port: int, size: int) -> dict[str, Any]:
    """Sends ``size`` bytes. The server reports what it has read after the end of the stream."""
    began = time.monotonic()
    with socket.create_connection((host, port)) as connection:
        connection.sendall(b"put\n" + expected(size))
        connection.shutdown(socket.SHUT_WR)
        found = read_all(connection).decode()
    right = f"{size} {digest(expected(size))}\n"
    return {"is_right": found == right, "seconds": time.monotonic() - began}


def talk(host: str, port: int, count: int) -> dict[str, Any]:
    """Exchanges ``count`` small requests and responses in turn on one connection."""
    draw = random.Random(1)
    is_right = True
    with socket.create_connection((host, port)) as connection:
        connection.sendall(b"echo\n")
        for _ in range(count):
            question = draw.randbytes(draw.randint(1, 200))
            connection.sendall(question)
            answer = b""
            while len(answer) < len(question):
                answer += connection.recv(4096)
            is_right &= answer == question
    return {"is_right": is_right}


def crowd(host: str, port: int, count: int) -> dict[str, Any]:
    """Opens ``count`` connections at once, each of which receives 2000 bytes."""
    waiting = selectors.DefaultSelector()
    found: dict[socket.socket, bytes] = {}
    for _ in range(count):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex((host, port))
        found[connection] = b""
        waiting.register(connection, selectors.EVENT_WRITE)
    left = count
    while left:
        for key, events in waiting.select():
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if events & selectors.EVENT_WRITE:
                connection.send(b"get 2000\n")
                waiting.modify(connection, selectors.EVENT_READ)
            elif part := connection.recv(4096):
                found[connection] += part
            else:
                waiting.unregister(connection)
                connection.close()
                left -= 1
    return {"is_right": all(data == expected(2000) for data in found.values())}


def refused(host: str, port: int, _: int) -> dict[str, Any]:
    """Returns the error that ``connect`` reports to a program."""
    began = time.monotonic()
    try:
        socket.create_connection((host, port)).close()
        said = "connected"
    except OSError as error:
        said = type(error).__name__
    return {"said": said, "seconds": time.monotonic() - began}


def reset(host: str, port: int, _: int) -> dict[str, Any]:
    """Returns the error that a program gets when the server resets the connection."""
    with socket.create_connection((host, port)) as connection:
        connection.sendall(b"reset\n")
        try:
            said = repr(connection.recv(1))
        except OSError as error:
            said = type(error).__name__
    return {"said": said}


ACTIONS = {action.__name__: action for action in (get, put, talk, crowd, refused, reset)}

if __name__ == "__main__":
    name, host, port, *number = sys.argv[1:]
    print(json.dumps(ACTIONS[name](host, int(port), int(number[0]) if number else 0)))
