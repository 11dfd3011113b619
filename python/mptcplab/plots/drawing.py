"""A figure with its name, a description for people who cannot see it, and its numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mptcplab.errors import MptcplabError
from mptcplab.metrics.arrays import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, distinguishable with any colour vision, in order of contrast.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f6000", "#5b4fa0")
INK, FAINT, GRID, BAND = "#202428", "#6b7278", "#dfe3e6", "#f6e7d8"
VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    GRID: "var(--grid)",
    BAND: "var(--band)",
    **{colour: f"var(--c{number})" for number, colour in enumerate(PALETTE, start=1)},
}
MOST_POINTS = 1200
LABEL_HEIGHT_POINTS = 13
FORMATS = ("png", "svg", "csv")

_SETTINGS: Any = {
    "text.parse_math": False,  # names are text, even with special characters
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "mptcplab",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "lines.linewidth": 1.8,
    "lines.solid_joinstyle": "round",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


class Canvas(Protocol):
    """Where figures are drawn, in the style of whoever gives it, instead of in figures of mptcplab's pages."""

    def panels(self, rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
        """Returns the figure and its axes as a two-dimensional array. `options` are those of ``Figure.subplots``."""


_canvas: ContextVar[Canvas | None] = ContextVar("canvas", default=None)


@contextmanager
def drawing_on(canvas: Canvas) -> Iterator[None]:
    """Draws all figures of the block on ``canvas`` and with matplotlib's settings as they are."""
    token = _canvas.set(canvas)
    try:
        yield
    finally:
        _canvas.reset(token)


@dataclass(frozen=True)
class Line:
    """A series as drawn: label and coordinates."""

    label: str
    x: Numbers
    y: Numbers


@dataclass(frozen=True)
class Drawing:
    """A figure, its title, its description in words, and its numbers with the names of their coordinates."""

    name: str
    title: str
    alt: str
    figure: Figure
    x_name: str
    y_name: str
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w-]+", self.name):
            raise ValueError(f"{self.name!r} names files and elements: only letters, digits, - and _ are allowed")

    def svg(self) -> str:
        """Returns the figure as an SVG element of a page. Colours are CSS variables. Ids are unique to the drawing."""
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


def export(drawings: Iterable[Drawing], directory: Path) -> list[Path]:
    """Writes each drawing as PNG, SVG and CSV, and returns the paths. Raises MptcplabError if that fails."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return [path for drawing in drawings for path in _export(drawing, directory)]
    except OSError as error:
        raise MptcplabError(f"{directory}: figures cannot be written: {error.strerror}") from error


def _export(drawing: Drawing, directory: Path) -> Iterator[Path]:
    for ending in FORMATS:
        path = directory / f"{drawing.name}.{ending}"
        if ending == "csv":
            drawing.write_csv(path)
        else:
            with style():
                drawing.figure.savefig(path, dpi=160, facecolor="white")
        yield path


def style() -> Any:
    """Returns the settings of all figures, as a context that restores matplotlib's own settings.

    On a canvas, these are the settings as they are, except that names are always text.
    """
    import matplotlib as mpl

    return mpl.rc_context(_SETTINGS if _canvas.get() is None else {"text.parse_math": False})


def font_size(part: float) -> float:
    """Returns a part of the usual size of the font, in points."""
    import matplotlib as mpl

    return part * float(mpl.rcParams["font.size"])


def new_figure(rows: int = 1, columns: int = 1, *, height: float = 3.3, **options: Any) -> tuple[Figure, Any]:
    """Makes a figure 9 inches wide, with its axes as a two-dimensional array. Call it within ``style()``.

    On a canvas, returns the figure and axes of the canvas.
    """
    from matplotlib.figure import Figure

    canvas = _canvas.get()
    if canvas is not None:
        return canvas.panels(rows, columns, **options)
    figure = Figure(figsize=(9, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def thinned(x: Numbers, y: Numbers, most: int = MOST_POINTS) -> tuple[Any, Any]:
    """Returns the smallest and largest value of each part of a long series, so that the drawing looks the same."""
    xs, ys = np.asarray(x), np.asarray(y)
    if len(xs) <= most:
        return xs, ys
    keep: set[int] = {0, len(xs) - 1}
    for stretch in np.array_split(np.arange(len(xs)), most // 2):
        keep |= {int(stretch[ys[stretch].argmin()]), int(stretch[ys[stretch].argmax()])}
    kept = sorted(keep)
    return xs[kept], ys[kept]


def sampled(x: Numbers, y: Numbers, most: int) -> tuple[Any, Any]:
    """Returns a random but reproducible selection of points, with the highest one. Even strides would alias."""
    xs, ys = np.asarray(x), np.asarray(y)
    if len(xs) <= most:
        return xs, ys
    kept = np.union1d(np.random.default_rng(0).choice(len(xs), most, replace=False), ys.argmax())
    return xs[kept], ys[kept]


def label_line_ends(axes: Axes, labels: list[tuple[float, str, str]]) -> None:
    """Writes labels (y, text, colour) at the right edge, and moves them apart if they would overlap."""
    low, high = axes.get_ylim()
    apart = LABEL_HEIGHT_POINTS / axes.get_window_extent().height * 100 / 72 * (high - low)
    ordered = sorted(labels)
    for (_, text, colour), at in zip(ordered, _spread_out([y for y, _, _ in ordered], apart, low, high), strict=True):
        axes.annotate(
            text,
            (1, at),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )


def _spread_out(places: list[float], apart: float, low: float, high: float) -> list[float]:
    """Moves ascending places at least ``apart``: upwards, and then down again if they exceed the top."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + apart if moved else low))
    ceiling = high
    for i in range(len(moved) - 1, -1, -1):
        moved[i] = min(moved[i], ceiling)
        ceiling = moved[i] - apart
    return moved
