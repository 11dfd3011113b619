"""The host controller: JSON-RPC over HTTP, behind a gate.

A request passes if its host is this server's, its token is right, its address does not send too
many, it was not sent before, and its body is not too large. Every refusal is an error of JSON-RPC.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from time import monotonic, time
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mptcplab.overlay import methods as codes
from mptcplab.overlay.methods import Overlay, dispatcher, document
from mptcplab.overlay.rpc import INVALID_REQUEST, error_body
from mptcplab.web.gate import ROLE, BearerGate

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MOST_BYTES = 64 * 1024
#: Requests that one address may send at once, and in a second.
BURST, PER_SECOND = 100, 50
MOST_ADDRESSES = 1000
#: The headers against replay: a text that is used once, and the time of the sender in seconds.
NONCE_HEADER, TIME_HEADER = "x-mptcplab-nonce", "x-mptcplab-time"
#: How far the sender's clock may be from this one.
SKEW_S = 60.0
_NONCE = re.compile(r"[A-Za-z0-9_-]{16,64}")
HOST, OPERATOR = "host", "operator"
_DOCUMENT = "/openrpc.json"


class Rates:
    """Counts requests by address: a token bucket each. Forgets the address that was silent for
    longest.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, address: str) -> bool:
        """Counts a request. Returns whether it is not one too many."""
        now_s = self._now_s()
        left, at_s = self._left.pop(address, (float(BURST), now_s))
        left = min(left + (now_s - at_s) * PER_SECOND, BURST)
        self._left[address] = (max(left - 1, 0), now_s)
        if len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)
        return left >= 1


class Nonces:
    """The requests that were seen while their time is valid."""

    def __init__(self, now_s: Callable[[], float] = time) -> None:
        self._now_s = now_s
        #: When each may be forgotten, in the order of arrival.
        self._seen: OrderedDict[str, float] = OrderedDict()

    def refusal(self, nonce: str, sent: str) -> str | None:
        """Records a request. Returns why it is refused; None if it is new."""
        now_s = self._now_s()
        while self._seen and next(iter(self._seen.values())) < now_s:
            self._seen.popitem(last=False)
        if not _NONCE.fullmatch(nonce):
            return f"the header {NONCE_HEADER} is missing or wrong; allowed: 16 to 64 letters, digits, _ and -"
        if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", sent):
            return f"the header {TIME_HEADER} is missing or wrong; allowed: seconds since 1970"
        if abs(float(sent) - now_s) > SKEW_S:
            return f"the request is of {float(sent):.0f} s and here it is {now_s:.0f} s; allowed: {SKEW_S:.0f} s apart"
        if nonce in self._seen:
            return "the request was sent before"
        self._seen[nonce] = now_s + 2 * SKEW_S
        return None


class HostController:
    """Answers the requests for an overlay."""

    def __init__(self, overlay: Overlay, port: int) -> None:
        """`port` is the UDP port of the sites."""
        self._dispatcher = dispatcher(overlay, port)
        self._rates = Rates()
        self._nonces = Nonces()

    def app(self, tokens: Mapping[str, str], hosts: Collection[str]) -> ASGIApp:
        """Returns the ASGI application. `tokens` has that of HOST and that of OPERATOR; `hosts` are
        the names and addresses of the server with its port.
        """
        routes = [Route("/", self._answer, methods=["POST"]), Route(_DOCUMENT, self._document)]
        return BearerGate(
            Starlette(routes=routes, exception_handlers={HTTPException: _unknown}), tokens, hosts, _refused
        )

    async def _document(self, _request: Request) -> Response:
        return JSONResponse(document())

    async def _answer(self, request: Request) -> Response:
        caller = request.client.host if request.client else ""
        if not self._rates.allows(caller):
            return refusal(429, codes.TOO_MANY, f"allowed: {PER_SECOND} requests a second")
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > MOST_BYTES:
                    return refusal(413, codes.TOO_LARGE, f"the body is too large; allowed: {MOST_BYTES} bytes")
        except ClientDisconnect:
            return refusal(400, INVALID_REQUEST, "the connection ended before the body")
        replayed = self._nonces.refusal(request.headers.get(NONCE_HEADER, ""), request.headers.get(TIME_HEADER, ""))
        if replayed:
            return refusal(409, codes.REPLAYED, replayed)
        answer = self._dispatcher.answer(body, caller, is_operator=request.scope[ROLE] == OPERATOR)
        if answer is None:
            return Response(status_code=204)
        return Response(answer, media_type="application/json")


async def _unknown(request: Request, error: Exception) -> Response:
    """Refuses another path or another HTTP method."""
    assert isinstance(error, HTTPException)
    found = f"{request.method} {request.url.path}"
    return refusal(error.status_code, INVALID_REQUEST, f"found {found}; allowed: POST / and GET {_DOCUMENT}")


def _refused(status: int, why: str) -> Response:
    return refusal(status, codes.NOT_AUTHORIZED, why)


def refusal(status: int, code: int, message: str) -> Response:
    """Returns an HTTP answer with an error of JSON-RPC."""
    return Response(error_body(code, message), status, media_type="application/json")
