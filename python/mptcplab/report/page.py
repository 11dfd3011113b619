"""Code that all pages share: the template environment and the form of tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mptcplab.plots import Drawing
from mptcplab.report.not_done import not_done_lines
from mptcplab.report.quantities import quantity
from mptcplab.results.entities import Json


@dataclass(frozen=True)
class Picture:
    """A drawing on a page."""

    name: str
    title: str
    alt: str
    svg: Markup
    notes: tuple[str, ...] = ()
    #: What the browser draws in place of the SVG, as JSON; None if the SVG is all there is.
    document: Json | None = None

    @classmethod
    def of(cls, drawing: Drawing) -> Picture:
        """The inline form of a drawing; matplotlib escapes the text in its SVG."""
        specified = drawing.specification
        document = specified.document() if specified else None
        return cls(drawing.name, drawing.title, drawing.alt, Markup(drawing.svg()), drawing.notes, document)


def dressed(page: str, style: str | None) -> str:
    """Returns a page in a style of ``page.css``, None for the usual one."""
    return page.replace("<html ", f'<html class="{style}" ', 1) if style else page


def render(template: str, **values: Any) -> str:
    """Renders a page from its template. Everything but figures is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mptcplab.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["quantity"] = quantity
    environment.filters["not_done_lines"] = not_done_lines
    environment.globals["script"] = script
    return environment


@cache
def script(name: str) -> Markup:
    """Returns a script of the pages, as `web/build.mjs` has bundled it."""
    # esbuild writes no `</script>`, which would end the element early.
    return Markup(files("mptcplab.report").joinpath("scripts", f"{name}.js").read_text(encoding="utf-8"))
