"""What the pages of a server share: templates, scripts, styles, and the form of requests."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, JSONResponse, Response

from mptcplab.report.page import dressed
from mptcplab.web.gate import CHANGES_HEADER, POLICY

if TYPE_CHECKING:
    from starlette.requests import Request

#: Larger bodies of requests are refused.
MOST_BYTES = 64 * 1024
#: The policy of a report, which is one file with its scripts in it. It loads nothing and asks for
#: nothing.
OF_REPORTS = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
#: The styles of the pages with charts, in the order in which they are loaded.
STYLES = ("page.css", "chart.css", "figures.css")


def page(template: str, look: str | None = None, **values: Any) -> Response:
    """Returns a page from its template, which also has the header of requests that change
    something. ``look`` is a style of ``page.css``, None for the usual one.
    """
    html = _environment().get_template(template).render(header=CHANGES_HEADER, **values)
    return HTMLResponse(dressed(html, look))


def report(html: str) -> Response:
    """Returns a self-contained page."""
    return HTMLResponse(html, headers={POLICY: OF_REPORTS})


def script(name: str) -> Response:
    """Returns a script, as `web/build.mjs` has bundled it."""
    return Response(_script(name), media_type="text/javascript")


def style(own: str) -> Response:
    """Returns the styles of a page: those of all, and its own."""
    return Response(_joined((*STYLES, own)), media_type="text/css")


async def body(request: Request) -> Any:
    """Returns the JSON of a request, None if it has none or too much."""
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > MOST_BYTES:
            return None
    try:
        return json.loads(found)
    except (ValueError, RecursionError):
        return None


def refused(why: str, status: int) -> Response:
    """Refuses a request, with the reason for the page."""
    return JSONResponse({"why": why}, status)


@cache
def _environment() -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader("mptcplab.web"), PackageLoader("mptcplab.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _script(name: str) -> str:
    return files("mptcplab.web").joinpath("scripts", f"{name}.js").read_text(encoding="utf-8")


@cache
def _joined(names: tuple[str, ...]) -> str:
    loader = _environment().loader
    assert loader is not None
    return "\n".join(loader.get_source(_environment(), name)[0] for name in names)
