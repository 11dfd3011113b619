"""A server of pages in a thread of its own, on the first free port."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

import uvicorn

from mptcplab.errors import UsageError
from mptcplab.web.gate import TOKEN, Gate

if TYPE_CHECKING:
    from types import TracebackType

    from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"
#: Ports tried after the one that was asked for.
MORE_PORTS = 20
#: How long viewers have to take what is left when the server ends, in seconds.
GRACE_S = 2


class Server:
    """Serves an application to who has its token, from `with` to the end of it.

    Raises UsageError if neither the port nor one of the next 20 is free.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._socket = bound(port)
        self.port: int = self._socket.getsockname()[1]
        self._token = secrets.token_urlsafe(16)
        hosts = [f"{name}:{self.port}" for name in (LOOPBACK, "localhost")]
        config = uvicorn.Config(
            Gate(app, self._token, hosts),
            log_config=None,
            access_log=False,
            lifespan="off",
            # Nothing that a sender says of itself is believed.
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_S,
            # On this machine, compressing costs more than it saves.
            ws_per_message_deflate=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    @property
    def address(self) -> str:
        """The address with the token, for a browser."""
        return f"http://{LOOPBACK}:{self.port}/?{TOKEN}={self._token}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(2 * GRACE_S)
        self._socket.close()


def bound(port: int, address: str = LOOPBACK, *, option: str = "--port", more: int = MORE_PORTS) -> socket.socket:
    """Returns a socket that listens on the first free port of this one and `more`; for 0, on any.
    `option` begins the message. Raises UsageError.
    """
    for candidate in range(port, port + 1 + more) if port else [0]:
        found = socket.socket()
        # A server that has just ended does not keep its port busy.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((address, candidate))
            # Browsers can connect from now on, and are answered as soon as the server is there.
            found.listen()
        except OSError:
            found.close()
        else:
            return found
    others = f", as are the next {more}" if more else ""
    raise UsageError(f"{option} {port}: in use{others}; allowed: a free port")


def forwarding(port: int, environment: Mapping[str, str] = os.environ) -> str | None:
    """Returns the command that makes the page reachable from the machine of an SSH user, None
    without SSH.
    """
    connection = environment.get("SSH_CONNECTION", "").split()
    return f"ssh -L {port}:{LOOPBACK}:{port} {connection[2]}" if len(connection) > 2 else None
