"""Figures in the style of the caller: matplotlib's settings as they are, in a new figure or in axes
that exist.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure

from mptcplab.errors import UsageError
from mptcplab.plots.drawing import Drawing
from mptcplab.plots.look import BAND, FAINT, INK, PALETTE, Look, style

Draw: TypeAlias = Callable[[], Drawing | None]
#: How much of the colour of text a band has that marks an outage.
BAND_OPACITY = 0.12
_PROPERTIES = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")
#: The number of colours that the figures in some axes have used.
_colours_used: WeakKeyDictionary[Axes, int] = WeakKeyDictionary()


class Shown(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        """Returns what a notebook shows."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", bbox_inches="tight")
        return buffer.getvalue()


def as_image(figure: Shown, alt: str) -> str:
    """Returns a figure as an image in HTML."""
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{b64encode(figure._repr_png_()).decode()}">'


class NewFigure:
    """A canvas: a figure of the size that the caller has set. Panels in rows make it higher."""

    is_given = False

    def panels(self, rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
        """Returns a new figure and its axes."""
        width, height = mpl.rcParams["figure.figsize"]
        figure = Shown(figsize=(width, height * max(1.0, rows / 2)), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False, **options)


class GivenAxes:
    """A canvas: axes that exist, one for each panel."""

    is_given = True

    def __init__(self, axes: Any) -> None:
        self.axes: list[Axes] = list(np.atleast_1d(np.asarray(axes, dtype=object)).flat)
        for found in self.axes:
            if not isinstance(found, Axes):
                raise UsageError(f"ax={found!r}; allowed: axes of matplotlib, as in ax=plt.gca()")

    def panels(self, rows: int, columns: int, **_options: Any) -> tuple[Any, Any]:
        """Returns the given axes and their figure. Raises UsageError if their number is not that of
        the panels.
        """
        if len(self.axes) != rows * columns:
            raise UsageError(
                f"ax: found {len(self.axes)} axes for {rows * columns} panels in {rows} rows of {columns}; "
                "give as many axes as there are panels, or none"
            )
        return self.axes[0].figure, np.array(self.axes, dtype=object).reshape(rows, columns)


def drawn(draw: Draw, nothing: str, axes: Any = None, run: str = "") -> Any:
    """Draws a figure and returns it. With ``axes``, draws into them and returns them; their legend
    names the ``run``.

    Raises UsageError with the words of ``nothing`` if there is nothing to draw.
    """
    canvas = NewFigure() if axes is None else GivenAxes(axes)
    before = canvas.axes if isinstance(canvas, GivenAxes) else []
    drawing = draw()
    if drawing is None:
        raise UsageError(nothing)
    look = Look(mpl.rcParams["figure.figsize"][0], float(mpl.rcParams["font.size"]), canvas=canvas)
    with _limits_kept(before), style(look):
        there = {id(artist) for plot in before for artist in plot.findobj()}
        figure = drawing.paint(look)
        artists = figure.findobj() if axes is None else [one for plot in before for one in plot.findobj()]
        shift = max((_colours_used.get(plot, 0) for plot in before), default=0)
        used = _recolour([artist for artist in artists if id(artist) not in there], shift)
        for plot in before:
            _colours_used[plot] = shift + used
            _name_in_legend(plot, there, run)
    return figure if axes is None else axes


def _name_in_legend(plot: Axes, before: set[int], run: str) -> None:
    """Adds the run to the names of curves that were not there, and makes the legend anew."""
    artists, names = plot.get_legend_handles_labels()
    for artist, name in zip(artists, names, strict=True):
        if id(artist) not in before and run:
            artist.set_label(f"{name}, {run}")
    if artists:
        plot.legend()


@contextmanager
def _limits_kept(axes: Sequence[Axes]) -> Iterator[None]:
    """Lets axes that show something show it still."""
    before = [(plot, plot.get_xlim(), plot.get_ylim()) for plot in axes if plot.has_data()]
    yield
    for plot, x, y in before:
        plot.set_xlim(min(x[0], plot.get_xlim()[0]), max(x[1], plot.get_xlim()[1]))
        plot.set_ylim(min(y[0], plot.get_ylim()[0]), max(y[1], plot.get_ylim()[1]))


def _recolour(artists: Sequence[Any], shift: int) -> int:
    """Replaces the colours of pages by those of the caller, and returns the number of colours of
    lines.

    Lines keep the palette that any colour vision can tell apart, unless the caller has set
    ``axes.prop_cycle``.
    """
    cycle = list(PALETTE)
    if mpl.rcParams["axes.prop_cycle"] != mpl.rcParamsDefault["axes.prop_cycle"]:
        cycle = [to_hex(colour) for colour in mpl.rcParams["axes.prop_cycle"].by_key().get("color", PALETTE)]
    new: dict[str, Any] = {
        to_hex(colour): to_rgba(cycle[(place + shift) % len(cycle)]) for place, colour in enumerate(PALETTE)
    }
    text = mpl.rcParams["text.color"]
    new |= {INK: to_rgba(text), FAINT: to_rgba(text, 0.65), BAND: to_rgba(text, BAND_OPACITY)}
    used: set[str] = set()
    for artist in artists:
        # All are read first, because the colour of a marker can be that of its line.
        getters = {name: getattr(artist, f"get_{name}", None) for name in _PROPERTIES}
        found = {name: get() for name, get in getters.items() if get is not None}
        for name, colour in found.items():
            used |= _replace(artist, name, colour, new)
    return len(used & {to_hex(colour) for colour in PALETTE})


def _replace(artist: Any, name: str, found: Any, new: dict[str, Any]) -> set[str]:
    """Gives an artist its new colours, each with its opacity, and returns the old ones that have a
    new one.
    """
    colours = mpl.colors.to_rgba_array(found)
    old = [to_hex(colour) for colour in colours]
    if not set(old) & set(new):
        return set()
    replaced = [
        (*new[name][:3], new[name][3] * colour[3]) if name in new else tuple(colour)
        for name, colour in zip(old, colours, strict=True)
    ]
    several = isinstance(found, np.ndarray) and found.ndim == 2
    getattr(artist, f"set_{name}")(replaced if several else replaced[0])
    return set(old) & set(new)
