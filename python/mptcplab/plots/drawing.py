"""A figure with its name, a description for people who cannot see it, and its numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mptcplab.metrics.arrays import Numbers
from mptcplab.plots.look import BAND, FAINT, GRID, INK, PAGE, PALETTE, Look, style
from mptcplab.plots.specification import Json, Specification

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    GRID: "var(--grid)",
    BAND: "var(--band)",
    **{colour: f"var(--c{number})" for number, colour in enumerate(PALETTE, start=1)},
}
#: The height of a line of labels, as a multiple of the size of the font.
LABEL_HEIGHT = 1.3
#: A label that was moved farther than this has a line to the end of its curve, in heights of a
#: line.
MOVED = 0.35


class Shown(Protocol):
    """What a figure shows, for every renderer."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what cannot be seen in the figure."""

    def document(self) -> Json:
        """Returns the figure as JSON."""


@dataclass(frozen=True)
class Line:
    """A series as exported: label and coordinates."""

    label: str
    x: Numbers
    y: Numbers


@dataclass(frozen=True)
class Drawing:
    """A figure, its title, its description in words, and its numbers with the names of their
    coordinates.

    `paint` draws it in a look, and pages draw it from its `specification`.
    """

    name: str
    title: str
    alt: str
    paint: Callable[[Look], Figure]
    x_name: str
    y_name: str
    lines: list[Line] = field(default_factory=list)
    specification: Shown | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w-]+", self.name):
            raise ValueError(f"{self.name!r} names files and elements: only letters, digits, - and _ are allowed")

    @classmethod
    def specified(
        cls, name: str, title: str, alt: str, specification: Specification, x_name: str, y_name: str, lines: list[Line]
    ) -> Drawing:
        """Returns the drawing of a specification."""
        from mptcplab.plots.painting import paint

        distinct = specification.told_apart()
        return cls(name, title, alt, partial(paint, distinct), x_name, y_name, lines, distinct)

    @cached_property
    def figure(self) -> Figure:
        """The figure as pages have it."""
        return self.painted(PAGE)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what cannot be seen in the figure."""
        return self.specification.notes if self.specification else ()

    def painted(self, look: Look) -> Figure:
        """Returns the figure in a look."""
        with style(look):
            return self.paint(look)

    def svg(self) -> str:
        """Returns the figure as an SVG element of a page. Colours are CSS variables. Ids are unique
        to the drawing.
        """
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        buffer = io.StringIO()
        with style():
            # Does not use savefig, which draws everything twice.
            canvas: Any = FigureCanvasSVG(self.figure)
            canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})
        svg = buffer.getvalue()
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", svg)
        svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"|height="[\d.]+pt" ', "", svg, count=1)
        for colour, variable in VARIABLES.items():
            svg = svg.replace(colour, variable)
        return svg

    def write_csv(self, path: Path) -> None:
        """Writes the numbers as rows of series, x and y."""
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["series", self.x_name, self.y_name])
            for line in self.lines:
                rows.writerows((line.label, x, y) for x, y in zip(line.x, line.y, strict=True))


def new_figure(look: Look, rows: int = 1, columns: int = 1, *, height: float, **options: Any) -> tuple[Figure, Any]:
    """Makes a figure with its axes as a two-dimensional array. `height` is that on a page in
    inches.

    Call it within ``style()``. On a canvas, returns the figure and axes of the canvas.
    """
    from matplotlib.figure import Figure

    if look.canvas is not None:
        return look.canvas.panels(rows, columns, **options)
    figure = Figure(figsize=(look.width_in, look.height_in(height)), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for plot in axes.flat:
        # Labels reach beyond the spines, which take long to measure.
        for spine in plot.spines.values():
            spine.set_in_layout(False)
    return figure, axes


def label_line_ends(axes: Axes, labels: list[tuple[float, str, str]], look: Look) -> None:
    """Writes labels (y, text, colour) at the right edge, and moves them apart if they would
    overlap.

    A thin line leads from the end of a curve to a label that was moved.
    """
    low, high = axes.get_ylim()
    line = LABEL_HEIGHT * look.font_pt / axes.get_window_extent().height * 100 / 72 * (high - low)
    ordered = sorted((min(y, high), text, colour) for y, text, colour in labels)
    for (y, text, colour), at in zip(ordered, _spread_out([y for y, _, _ in ordered], line, low, high), strict=True):
        is_moved = abs(at - y) > MOVED * line
        if is_moved:
            axes.annotate(
                "",
                (1, y),
                (look.font_pt * 1.2, _points(axes, at - y, low, high)),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0},
                annotation_clip=False,
            )
        axes.annotate(
            text,
            (1, at),
            xycoords=("axes fraction", "data"),
            xytext=(look.font_pt * (1.4 if is_moved else 0.6), 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=look.small_pt if look.is_narrow else look.font_pt,
            annotation_clip=False,
        )


def _points(axes: Axes, height: float, low: float, high: float) -> float:
    """Returns a difference of values as a length in points."""
    return float(height / (high - low) * axes.get_window_extent().height * 72 / 100)


def _spread_out(places: list[float], apart: float, low: float, high: float) -> list[float]:
    """Moves ascending places at least ``apart``: upwards, and then down again if they exceed the
    top.
    """
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + apart if moved else low))
    ceiling = high
    for i in range(len(moved) - 1, -1, -1):
        moved[i] = min(moved[i], ceiling)
        ceiling = moved[i] - apart
    return moved


def binned(values: Numbers) -> float:
    """Returns the width of bins from their middles."""
    return float(np.diff(np.asarray(values[:2]))[0]) if len(values) > 1 else 1.0
