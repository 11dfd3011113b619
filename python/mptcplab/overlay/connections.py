"""The server of the host controller, and how many connections others may hold open to it.

A connection needs no token until its request is there, so the bounds are on connections.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp

#: Connections at once, of all addresses and of each. The process has files for all of them.
MOST, MOST_OF_ADDRESS = 256, 32
#: How long a connection lasts, whatever it sends. A call takes milliseconds.
LONGEST_S = 10.0
#: Connections that are accepted before those that are too many are closed.
_BACKLOG = 16


class BoundedConnection(H11Protocol):
    """A connection that ends at once if it is one too many, and otherwise after `LONGEST_S`."""

    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Counts the connection."""
        super().connection_made(transport)
        of_address = sum(_address(one) == _address(self) for one in self.connections)
        if len(self.connections) > MOST or of_address > MOST_OF_ADDRESS:
            transport.abort()
        else:
            self._end = self.loop.call_later(LONGEST_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Counts the connection no longer."""
        if self._end is not None:
            self._end.cancel()
        super().connection_lost(exc)


def _address(connection: object) -> str | None:
    client = cast("H11Protocol", connection).client
    return client[0] if client else None


def server(app: ASGIApp) -> uvicorn.Server:
    """Returns a server of an application. It believes no header about who sends."""
    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        # Warnings are about what anyone may send, and would fill the log.
        log_level="error",
        lifespan="off",
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)
