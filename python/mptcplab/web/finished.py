"""The page of a folder of results, and its requests: browse, compare, download, delete, start."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from mptcplab.backends import BACKENDS
from mptcplab.errors import MptcplabError
from mptcplab.web import pages
from mptcplab.web.live import LivePage
from mptcplab.web.pace import SPEEDS
from mptcplab.web.shelf import NotThere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from starlette.requests import Request

    from mptcplab.web.offers import Offers
    from mptcplab.web.shelf import Shelf
    from mptcplab.web.started import Launcher, StartedRun

Json = dict[str, Any]

#: Runs in one comparison, in one download, and in one request to delete.
MOST_RUNS = 100
#: Bytes of a download that are read at once.
PART_BYTES = 1 << 20
#: Matplotlib draws one page at a time.
_drawing = threading.Lock()


class ResultsPage:
    """The application of a folder of results."""

    def __init__(self, shelf: Shelf, launcher: Launcher, offers: Offers) -> None:
        self._shelf = shelf
        self._launcher = launcher
        self._offers = offers
        self._app = Starlette(
            routes=[
                Route("/", self._page),
                Route("/finished.js", self._script),
                Route("/finished.css", self._style),
                Route("/runs", self._runs),
                Route("/experiments", self._experiments),
                Route("/report/{name:path}", self._report),
                Route("/compare", self._compare),
                Route("/download", self._download),
                Route("/delete", self._delete, methods=["POST"]),
                Route("/start", self._start, methods=["POST"]),
            ]
        )

    def app(self) -> Starlette:
        """Returns the ASGI application, for a server with a gate."""
        return self._app

    async def _page(self, _request: Request) -> Response:
        folder = str(self._shelf.root)
        return pages.page("finished.html.j2", folder=folder, backends=list(BACKENDS), speeds=list(SPEEDS))

    async def _script(self, _request: Request) -> Response:
        return pages.script("finished")

    async def _style(self, _request: Request) -> Response:
        return pages.style("finished.css")

    async def _runs(self, _request: Request) -> Response:
        """Tells the runs in the folder, and where those that go on are shown."""
        entries = await run_in_threadpool(self._shelf.entries)
        here = {run.job.place.resolve(): run for run in self._launcher.runs if run.goes_on}
        for entry in entries:
            run = here.get(self._shelf.root / entry["id"])
            if run is not None and entry["status"] == "running":
                entry["live"] = _address_of(run)
        failed = [f"{run.job.experiment['name']}: {run.error}" for run in self._launcher.runs if run.error]
        return JSONResponse({"runs": entries, "failed": failed})

    async def _experiments(self, _request: Request) -> Response:
        titles = await run_in_threadpool(lambda: self._offers.titles)
        return JSONResponse([{"id": name, "title": title} for name, title in titles.items()])

    async def _report(self, request: Request) -> Response:
        name = request.path_params["name"]
        return await run_in_threadpool(_told, lambda: pages.report(self._drawn_report(name)))

    def _drawn_report(self, name: str) -> str:
        from mptcplab.report.run import run_page

        with _drawing:
            return run_page(self._shelf.bundle(name), [])

    async def _compare(self, request: Request) -> Response:
        names = request.query_params.getlist("run")
        return await run_in_threadpool(_told, lambda: pages.report(self._drawn_comparison(names)))

    def _drawn_comparison(self, names: list[str]) -> str:
        from mptcplab.report.comparison import comparison_page, in_order

        with _drawing:
            return comparison_page(in_order([self._shelf.bundle(name) for name in names[:MOST_RUNS]]))

    async def _download(self, request: Request) -> Response:
        names = request.query_params.getlist("run")[:MOST_RUNS]
        return await run_in_threadpool(_told, lambda: self._packed(names))

    def _packed(self, names: list[str]) -> Response:
        if not names:
            raise NotThere("no run was chosen")
        file = self._shelf.packed(names)
        name = names[0].replace("/", "-") if len(names) == 1 else "runs"
        # Quotes and control characters end a header early.
        safe = "".join(
            letter if letter.isalnum() or letter in "-_." else "_"
            for letter in name.encode("ascii", "replace").decode()
        )
        headers = {"content-disposition": f'attachment; filename="{safe}.zip"'}
        return StreamingResponse(_parts(file), media_type="application/zip", headers=headers)

    async def _delete(self, request: Request) -> Response:
        match await pages.body(request):
            case {"runs": [*names]} if 0 < len(names) <= MOST_RUNS and all(isinstance(name, str) for name in names):
                return await run_in_threadpool(_refused_or, lambda: self._deleted(names))
        return pages.refused(f"allowed: runs, a list of 1 to {MOST_RUNS} paths", 400)

    def _deleted(self, names: list[str]) -> Response:
        self._shelf.delete(names)
        return JSONResponse({"deleted": len(names)})

    async def _start(self, request: Request) -> Response:
        asked = await pages.body(request)
        if not isinstance(asked, dict):
            return pages.refused("allowed: experiment or again, backend, seed, speed", 400)
        return await run_in_threadpool(_refused_or, lambda: self._started(asked))

    def _started(self, asked: Json) -> Response:
        again = asked.get("again")
        place = self._shelf.place(again) if isinstance(again, str) else None
        run = self._launcher.start(asked, place)
        live = LivePage(run.watched, run.experiment)
        self._app.router.routes.append(Mount(f"/live/{run.number}", app=live.app()))
        return JSONResponse({"live": _address_of(run)})


def _address_of(run: StartedRun) -> str:
    return f"live/{run.number}/"


def _told(answer: Callable[[], Response]) -> Response:
    """Returns an answer, or a page with one sentence if there is none."""
    try:
        return answer()
    except NotThere as error:
        return _sentence(str(error), 404)
    except (MptcplabError, OSError) as error:
        return _sentence(str(error), 409)


def _refused_or(answer: Callable[[], Response]) -> Response:
    try:
        return answer()
    except NotThere as error:
        return pages.refused(str(error), 404)
    except (MptcplabError, OSError) as error:
        return pages.refused(str(error), 409)


def _sentence(text: str, status: int) -> Response:
    answer = pages.page("sentence.html.j2", text=text)
    answer.status_code = status
    return answer


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(PART_BYTES):
            yield part
