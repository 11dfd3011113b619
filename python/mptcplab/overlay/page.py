"""The page of an overlay that is up: its sites, tunnels and hosts, and what an operator can cut."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mptcplab.errors import MptcplabError
from mptcplab.overlay.client import call
from mptcplab.overlay.failure import OverlayFailed
from mptcplab.web import pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from mptcplab.overlay.client import HostControllerAddress

#: However many viewers there are, the host controller is asked at most once in this time.
FRESH_S = 0.4


class OverlayPage:
    """The application of an overlay, for a server with a gate. `operator` is the address of the host
    controller with the token of the operator, which no page gets. `ask` calls its methods.
    """

    def __init__(self, name: str, operator: HostControllerAddress, ask: Callable[..., Any] = call) -> None:
        self._name = name
        self._operator = operator
        self._ask = ask
        self._asking = threading.Lock()
        self._status: Any = None
        self._asked_s = 0.0

    def app(self) -> Starlette:
        """Returns the ASGI application."""
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/overlay.js", self._script),
                Route("/overlay.css", self._style),
                Route("/status", self._tell),
                Route("/{action}", self._act, methods=["POST"]),
            ]
        )

    async def _page(self, _request: Request) -> Response:
        return pages.page("overlay.html.j2", name=self._name)

    async def _script(self, _request: Request) -> Response:
        return pages.script("overlay")

    async def _style(self, _request: Request) -> Response:
        return pages.style("live.css")

    async def _tell(self, _request: Request) -> Response:
        return await run_in_threadpool(_answered, self._fresh_status)

    def _fresh_status(self) -> Any:
        with self._asking:
            if self._status is None or monotonic() - self._asked_s > FRESH_S:
                self._status = None
                self._status = self._ask(self._operator, "overlay.status")
                self._asked_s = monotonic()
            return self._status

    async def _act(self, request: Request) -> Response:
        """Cuts or restores a site, `{"node": SITE}`, or a tunnel, `{"node": SITE, "other": SITE}`."""
        action, asked = request.path_params["action"], await pages.body(request)
        if action not in ("cut", "restore"):
            return pages.refused(f"found {action}; allowed: cut, restore", 404)
        match asked:
            case {"node": str(node), "other": str(other)}:
                names = {"node": node, "other": other}
            case {"node": str(node), **others} if not others:
                names = {"node": node}
            case _:
                return pages.refused('allowed: {"node": SITE} or {"node": SITE, "other": SITE}', 400)
        return await run_in_threadpool(_answered, lambda: self._ask(self._operator, f"overlay.{action}", **names))


def _answered(ask: Callable[[], Any]) -> Response:
    """Returns what the host controller answers, or why there is no answer."""
    try:
        return JSONResponse(ask())
    except MptcplabError as error:
        return pages.refused(str(error), 409 if isinstance(error, OverlayFailed) else 503)
