"""Figures with a row for each of several things: bars with their intervals, and lifetimes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mptcplab.plots.drawing import Drawing, Line, new_figure
from mptcplab.plots.lettering import LEAST_PT, in_lines, text_width_in
from mptcplab.plots.look import INK, Look, colour_of
from mptcplab.plots.marks import draw_marks
from mptcplab.plots.specification import Axis, Json, Mark, axis_document, mark_document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: What can lie over a part: the pattern of matplotlib, and what it is called.
PATTERNS = {"dots": ("..", "Dotted"), "strokes": ("////", "Hatched"), "crosses": ("xxxx", "Crossed")}
#: The pattern of a part in each state that has one: of subflows, then of radios.
HATCHES = {
    "backup": "dots",
    "stale": "strokes",
    "DRX": "dots",
    "asleep": "dots",
    "idle": "strokes",
    "scanning": "strokes",
    "stalled": "strokes",
    "without 5G": "strokes",
    "between cells": "crosses",
    "roaming": "crosses",
}
#: The signs at a moment of a row: that of matplotlib, and that in words.
SIGNS = {
    "handover": ("D", "\N{BLACK DIAMOND}"),
    "re-created": (">", "\N{BLACK RIGHT-POINTING TRIANGLE}"),
    "closed": ("x", "\N{MULTIPLICATION SIGN}"),
    "path manager": ("|", "|"),
}
#: Signs of this kind stand below the bar, because there are many.
BELOW = "path manager"
#: How far an axis goes on behind the largest value, for the number beside it.
ROOM = 1.12
#: Names that are wider than this part of the figure stand above their rows, which are higher then.
MOST_BESIDE, ABOVE_HEIGHT = 0.4, 1.7
#: The parts of the width and the height of a figure that its axis and its rows have.
AXIS_PART, ROWS_PART = 0.9, 0.75
#: The part of the height of a row that is above its bar, and where that begins.
GAP_PART, BAR_TOP = 0.3, 0.33


@dataclass(frozen=True)
class Span:
    """A filled part of a row. Its colour is the number of its entity."""

    start: float
    end: float
    colour: int | None
    #: Shows only a value, so it is pale behind the dot of that value.
    is_pale: bool = False
    #: A state that hatches the part, of `HATCHES`; it has no colour then.
    state: str = ""
    #: What the part is without such a state.
    name: str = "open"


@dataclass(frozen=True)
class Sign:
    """A sign at a moment, of `SIGNS`."""

    at: float
    kind: str


@dataclass(frozen=True)
class Row:
    """A row with its name. With an interval it shows a value as a dot and as a number."""

    label: str
    spans: tuple[Span, ...]
    signs: tuple[Sign, ...] = ()
    value: float | None = None
    interval: tuple[float, float] | None = None

    @classmethod
    def of_value(cls, label: str, value: float, interval: tuple[float, float], colour: int) -> Row:
        """Returns a bar from 0 to the value, with its interval."""
        return cls(label, (Span(0.0, value, colour, is_pale=True),), (), value, interval)

    @property
    def number(self) -> str:
        """The value as it stands beside the bar."""
        return "" if self.value is None else f"{self.value:.4g}"


@dataclass(frozen=True)
class Rows:
    """A figure of rows over an axis, with events. `height` is that on a page in inches."""

    rows: tuple[Row, ...]
    x: Axis
    height: float
    marks: tuple[Mark, ...] = ()

    @property
    def end(self) -> float:
        """Where the axis ends."""
        if self.x.high is not None:
            return self.x.high
        ends = [max(row.interval[1], row.value or 0.0) for row in self.rows if row.interval]
        return ROOM * max([*ends, 1e-12])

    @property
    def kinds(self) -> list[str]:
        """The states and signs in the figure, in the order of their tables."""
        used = {span.state for row in self.rows for span in row.spans} | {
            s.kind for row in self.rows for s in row.signs
        }
        return [kind for kind in (*HATCHES, *SIGNS) if kind in used]

    @property
    def notes(self) -> tuple[str, ...]:
        """What signs, hatches and shades mean."""
        words = {kind: (PATTERNS[HATCHES[kind]] if kind in HATCHES else SIGNS[kind])[1] for kind in self.kinds}
        alike = {word: [kind for kind in words if words[kind] == word] for word in words.values()}
        told = [f"{word}: {' or '.join(kinds)}." for word, kinds in alike.items()]
        if any(mark.end_s is not None for mark in self.marks):
            told.append("Shaded: something is down.")
        return tuple(told)

    def document(self) -> Json:
        """Returns the figure as JSON."""
        panel = {
            "title": "",
            "x": axis_document(self.x, self.end),
            "marks": [mark_document(mark) for mark in self.marks],
            "rows": [_row_document(row) for row in self.rows],
        }
        return {"layout": "rows", "notes": list(self.notes), "panels": [panel]}


def drawing_of_rows(
    name: str, title: str, alt: str, rows: Rows, x_name: str, y_name: str, lines: list[Line]
) -> Drawing:
    """Returns the drawing of rows."""
    return Drawing(name, title, alt, partial(_paint, rows), x_name, y_name, lines, rows)


def _row_document(row: Row) -> Json:
    return {
        "label": row.label,
        "number": row.number,
        "value": row.value,
        "interval": row.interval,
        "spans": [_span_document(span) for span in row.spans],
        "signs": [{"at": sign.at, "kind": sign.kind} for sign in row.signs],
    }


def _span_document(span: Span) -> Json:
    return {
        "start": span.start,
        "end": span.end,
        "colour": span.colour,
        "pale": span.is_pale,
        "pattern": HATCHES.get(span.state),
        "name": span.state or span.name,
    }


def _paint(figure_of: Rows, look: Look) -> Figure:
    rows = figure_of.rows
    width_in = max((text_width_in(row.label, look.font_pt) for row in rows), default=0.0)
    is_above = width_in > MOST_BESIDE * look.width_in
    height = figure_of.height * (ABOVE_HEIGHT if is_above else 1.0)
    figure, axes = new_figure(look, height=height)
    (plot,) = axes.flat
    places = [len(rows) - 1 - index for index in range(len(rows))]
    for place, row in zip(places, rows, strict=True):
        _paint_row(plot, row, place)
    label = in_lines(figure_of.x.label, look.width_in * AXIS_PART, look.font_pt)
    top = len(rows) - (0.1 if is_above else 0.4)
    plot.set(xlabel=label, xlim=(0, figure_of.end), ylim=(-0.7, top))
    plot.set_yticks(places, [""] * len(rows) if is_above else [row.label for row in rows], color=INK)
    if is_above:
        _write_above(plot, figure_of, places, look, figure.get_figheight())
    plot.grid(visible=False, axis="y")
    keys: Any = list(_keys(figure_of.kinds))
    if keys and look.is_narrow:
        figure.legend(handles=keys, loc="outside lower center", ncols=3, frameon=False)
    elif keys:
        plot.legend(handles=keys, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    draw_marks(plot, figure_of.marks, look)
    return figure


def _write_above(plot: Axes, figure_of: Rows, places: Sequence[float], look: Look, height_in: float) -> None:
    """Writes the name of each row above it, in letters that fit between two rows."""
    row_in = height_in * ROWS_PART / len(figure_of.rows)
    longest = max((row.label for row in figure_of.rows), key=len)
    fits_pt = look.font_pt * look.width_in * AXIS_PART / text_width_in(longest, look.font_pt)
    size_pt = max(min(look.font_pt, row_in * GAP_PART * 72, fits_pt), LEAST_PT)
    for place, row in zip(places, figure_of.rows, strict=True):
        plot.annotate(
            row.label,
            (0, place + BAR_TOP),
            xycoords=("axes fraction", "data"),
            xytext=(2, 0),
            textcoords="offset points",
            va="bottom",
            fontsize=size_pt,
            color=INK,
        )


def _paint_row(plot: Axes, row: Row, place: float) -> None:
    for span in row.spans:
        length, height = span.end - span.start, 0.62 if span.is_pale else 0.5
        colour, opacity = colour_of(span.colour)
        look: dict[str, Any] = {"color": colour, "alpha": 0.25 if span.is_pale else opacity}
        if span.state:
            look = {"fill": False, "edgecolor": INK, "hatch": PATTERNS[HATCHES[span.state]][0], "linewidth": 0}
        plot.barh(place, length, left=span.start, height=height, **look)
    for sign in row.signs:
        size, width = (5, 1.0) if sign.kind == BELOW else (7, 1.8)
        at = place - 0.38 if sign.kind == BELOW else place
        plot.plot([sign.at], [at], SIGNS[sign.kind][0], color=INK, markersize=size, markeredgewidth=width)
    if row.interval is None or row.value is None:
        return
    colour, opacity = colour_of(row.spans[0].colour)
    plot.plot(row.interval, [place, place], color=INK, linewidth=1.6)
    plot.plot([row.value], [place], "o", color=colour, alpha=opacity, markersize=6)
    beside = (max(row.interval[1], row.value), place)
    plot.annotate(row.number, beside, xytext=(8, 0), textcoords="offset points", va="center")


def _keys(kinds: list[str]) -> Iterator[object]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    for kind in kinds:
        if kind in HATCHES:
            yield Patch(fill=False, edgecolor=INK, hatch=PATTERNS[HATCHES[kind]][0], linewidth=0, label=kind)
        else:
            yield Line2D([], [], linestyle="none", marker=SIGNS[kind][0], color=INK, label=kind)
