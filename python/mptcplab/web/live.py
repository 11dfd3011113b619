"""The pages and requests of a watched run."""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as TooLate
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from mptcplab.errors import MptcplabError, SpecError
from mptcplab.report.page import dressed
from mptcplab.web import pages
from mptcplab.web.pace import SPEEDS, UNLIMITED
from mptcplab.web.saved import saved_experiment

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.websockets import WebSocket

    from mptcplab.experiment import Experiment
    from mptcplab.web.watching import Watched

#: How long a run may take to carry out an action, in seconds.
PATIENCE_S = 5.0


class LivePage:
    """The application of a run that viewers watch. `experiment` is its description, if there is
    one, and `style` the style of its pages, if it is not the usual one.
    """

    def __init__(self, watched: Watched, experiment: Experiment | None, style: str | None = None) -> None:
        self._watched = watched
        self._experiment = experiment
        self._page_style = style

    def app(self) -> Starlette:
        """Returns the ASGI application, for a server with a gate."""
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/live.js", self._script),
                Route("/live.css", self._style),
                Route("/experiment.yaml", self._saved),
                Route("/report.html", self._report),
                Route("/actions", self._act, methods=["POST"]),
                Route("/pace", self._pace, methods=["POST"]),
                WebSocketRoute("/messages", self._messages),
            ]
        )

    async def _page(self, _request: Request) -> Response:
        title = self._watched.job.choice.experiment["title"] or self._watched.job.choice.experiment["name"]
        speeds = [None if speed == UNLIMITED else int(speed) for speed in SPEEDS.values()]
        return pages.page("live.html.j2", self._page_style, title=title, speeds=speeds)

    async def _script(self, _request: Request) -> Response:
        return pages.script("live")

    async def _style(self, _request: Request) -> Response:
        return pages.style("live.css")

    async def _messages(self, socket: WebSocket) -> None:
        """Sends all messages of the run, from its start, as JSON lists."""
        await socket.accept()
        sending = asyncio.create_task(self._send_messages(socket))
        try:
            while True:
                await socket.receive_text()
        except WebSocketDisconnect:
            sending.cancel()

    async def _send_messages(self, socket: WebSocket) -> None:
        with suppress(WebSocketDisconnect):
            async for messages in self._watched.feed.follow():
                await socket.send_text(messages)

    async def _act(self, request: Request) -> Response:
        words = await pages.body(request)
        if not isinstance(words, dict):
            return pages.refused('found no action; allowed: an event without a time, as in {"down": "wifi"}', 400)
        return await run_in_threadpool(self._acted, words)

    def _acted(self, words: dict[str, Any]) -> Response:
        try:
            if "exec" in words:
                return pages.refused("the page runs no programs", 403)
            return JSONResponse(self._watched.act(words).result(PATIENCE_S))
        except SpecError as error:
            return pages.refused(str(error), 400)
        except TooLate:
            return pages.refused(f"the run did not answer within {PATIENCE_S:g} s", 503)
        except MptcplabError as error:
            return pages.refused(str(error), 409)

    async def _pace(self, request: Request) -> Response:
        asked = await pages.body(request)
        try:
            match asked:
                case {"speed": None}:
                    self._watched.set_pace(lambda pace: pace.change(UNLIMITED))
                case {"speed": int(speed) | float(speed)} if speed > 0:
                    self._watched.set_pace(lambda pace: pace.change(speed))
                case {"is_paused": True}:
                    self._watched.set_pace(lambda pace: pace.pause())
                case {"is_paused": False}:
                    self._watched.set_pace(lambda pace: pace.go_on())
                case {"step_s": int(length_s) | float(length_s)} if length_s > 0:
                    self._watched.set_pace(lambda pace: pace.step(length_s))
                case _:
                    return pages.refused("allowed: speed (a number above 0, or null), is_paused, step_s", 400)
        except MptcplabError as error:
            return pages.refused(str(error), 409)
        return Response(status_code=204)

    async def _saved(self, _request: Request) -> Response:
        """The description that does the same again. Only a run that has ended has all of its
        events.
        """
        bundle, experiment = self._watched.bundle, self._experiment
        if bundle is None:
            return PlainTextResponse("the run goes on; it can be saved when it has ended", 409)
        if experiment is None:
            return PlainTextResponse("the run was started from a bundle, which has no description", 409)
        events = (bundle.record["result"] or {"events": []})["events"]
        resolved, done = self._watched.job.choice.experiment, self._watched.done
        text = await run_in_threadpool(saved_experiment, experiment, resolved, events, done)
        name = f"{experiment.name.rpartition('/')[2]}-live.yaml"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(text, media_type="application/yaml", headers=headers)

    async def _report(self, _request: Request) -> Response:
        """The page of the finished run."""
        bundle = self._watched.bundle
        if bundle is None or bundle.record["result"] is None:
            return PlainTextResponse("there is no report, because the run has no result", 409)
        from mptcplab.report.run import run_page

        return pages.report(dressed(await run_in_threadpool(run_page, bundle, []), self._page_style))
