"""The gates in front of servers: who may pass.

`Gate` is for pages. Whoever has the address that the command printed may. It holds a token, which a
cookie keeps afterwards. Another page in the same browser has neither the header that changes need,
nor the origin that a WebSocket needs, and a name that somebody else makes point to this machine is
not a known host. `BearerGate` is for programs, which send the token with each request.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: The header of requests that change something. Its value is of no importance.
CHANGES_HEADER = "x-mptcplab"
#: The query parameter of the token.
TOKEN = "token"
READING = ("GET", "HEAD")
#: Where the scope of a request has the role of whose token it came with.
ROLE = "mptcplab.role"

#: The header that says what a page may load and ask for.
POLICY = "content-security-policy"
#: Headers of answers that have none of their own.
HEADERS = {
    POLICY: (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Gate:
    """Passes requests to `app` that come from who has the token, and refuses all others.

    `hosts` are the names and addresses of this server, with its port.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The interface of an ASGI application."""
        refusal = self._refusal(HTTPConnection(scope))
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            # Refused before it is accepted, which a browser sees as a failed connection.
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refusal(scope, receive, send)

    def _refusal(self, asked: HTTPConnection) -> Response | None:
        host = asked.headers.get("host", "")
        if host not in self._hosts:
            return PlainTextResponse(_no_such_host(host), 421)
        is_websocket = asked.scope["type"] == "websocket"
        if is_websocket and urlsplit(asked.headers.get("origin", "")).netloc != host:
            return PlainTextResponse("only a page of this server may follow", 403)
        if not is_websocket and asked.scope["method"] not in READING and CHANGES_HEADER not in asked.headers:
            return PlainTextResponse(f"a change needs the header {CHANGES_HEADER}", 403)
        if self._is_token(asked.cookies.get(self._cookie(host), "")):
            return None
        if not is_websocket and self._is_token(asked.query_params.get(TOKEN, "")):
            return self._with_cookie(asked, host)
        return PlainTextResponse("open the address that mptcplab printed, with its token", 401)

    def _with_cookie(self, asked: HTTPConnection, host: str) -> Response:
        """Sends the browser to the same page without the token in the address."""
        answer = RedirectResponse(asked.url.path, 303)
        answer.set_cookie(self._cookie(host), self._token, httponly=True, samesite="strict")
        return answer

    def _cookie(self, host: str) -> str:
        """Cookies do not know ports, so each server has its own name."""
        return f"mptcplab-{host.rpartition(':')[2]}"

    def _is_token(self, given: str) -> bool:
        return is_same(given, self._token)


class BearerGate:
    """Passes requests to `app` that come with a token, and refuses all others by `refused`, which
    gets the HTTP status and the reason.

    `tokens` has the token of each role, and the scope of a request the role under `ROLE`. `hosts`
    are the names and addresses of this server, with its port.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Mapping[str, str],
        hosts: Collection[str],
        refused: Callable[[int, str], Response],
    ) -> None:
        self._app = app
        self._tokens = dict(tokens)
        self._hosts = frozenset(hosts)
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The interface of an ASGI application."""
        asked = HTTPConnection(scope)
        host = asked.headers.get("host", "")
        kind, _, given = asked.headers.get("authorization", "").partition(" ")
        roles = [role for role, token in self._tokens.items() if is_same(given, token)]
        if host not in self._hosts:
            await self._refused(421, _no_such_host(host))(scope, receive, send)
        elif kind.lower() != "bearer" or not roles:
            await self._refused(401, "the token is missing or wrong")(scope, receive, send)
        else:
            scope[ROLE] = roles[0]
            await self._app(scope, receive, _with_headers(send))


def is_same(given: str, token: str) -> bool:
    """Returns whether a token is the right one, in a time that does not tell how much of it is."""
    return secrets.compare_digest(given.encode(), token.encode())


def _no_such_host(host: str) -> str:
    return f"this server is not {host!r}"


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.decode().lower() for name, _ in message["headers"]}
            ours = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name not in given]
            message["headers"] = [*message["headers"], *ours]
        await send(message)

    return send_with_headers
