"""The specification of a figure: what it shows, for every renderer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from mptcplab.metrics.arrays import Numbers

#: `step` holds in the bin around x, `hold` from x to the next x, `area` is filled from `low` to y
#: in bins. `joined` is a line with a dot at each point. `marks` are larger dots without a line.
Form = Literal["step", "hold", "line", "joined", "dots", "marks", "area"]
POINTS = ("dots", "marks")
Layout = Literal["grid", "rows", "columns"]
Json = dict[str, Any]

#: More points of a curve are thinned to the smallest and largest of each part.
MOST_POINTS = 1200
#: An axis ends at this multiple of what the network can carry, if a curve exceeds it.
CLIPPED_AT = 1.5
#: Curves that differ by less than this part of their largest value look the same.
SAME_WITHIN = 0.004
#: How much room is above the highest point.
HEADROOM = 1.08


@dataclass(frozen=True)
class Axis:
    """What an axis counts, in words and with its unit, and its ends. Without `high` it ends above
    the highest point.
    """

    quantity: str
    unit: str = ""
    high: float | None = None
    low: float = 0.0

    @property
    def label(self) -> str:
        """``Throughput (Mbit/s)``."""
        return f"{self.quantity} ({self.unit})" if self.unit else self.quantity


@dataclass(frozen=True)
class Mark:
    """An event: a moment, or a period in which something was down."""

    label: str
    start_s: float
    end_s: float | None


@dataclass(frozen=True)
class Curve:
    """A series. Its colour is the number of its entity; None is the colour of text.

    `low` and `high` are the ends of a band around it, or `low` the lower edge of an area.
    `is_context` draws it in grey behind the others.
    """

    label: str
    x: Numbers
    y: Numbers
    form: Form = "line"
    colour: int | None = None
    low: Numbers | None = None
    high: Numbers | None = None
    is_dashed: bool = False
    is_context: bool = False

    def looks_like(self, other: Curve) -> bool:
        """Returns whether the two cannot be told apart in a figure."""
        one, two = np.asarray(self.y, dtype=float), np.asarray(other.y, dtype=float)
        if len(one) != len(two) or not len(one) or not np.allclose(self.x, other.x):
            return False
        return bool(np.max(np.abs(one - two)) <= SAME_WITHIN * max(np.max(np.abs(one)), 1e-12))


@dataclass(frozen=True)
class Panel:
    """A pair of axes with curves, events, and what the network can carry as a step line."""

    curves: tuple[Curve, ...]
    x: Axis
    y: Axis
    title: str = ""
    marks: tuple[Mark, ...] = ()
    ceiling: Curve | None = None

    @property
    def shown(self) -> list[Curve]:
        """The curves in front."""
        return [curve for curve in self.curves if not curve.is_context]

    @property
    def highest(self) -> float:
        """The largest value of the panel, or 1e-12."""
        drawn = [*self.curves, *([self.ceiling] if self.ceiling else [])]
        ends = [end for one in drawn for end in (one.y, one.high) if end is not None and len(end)]
        return max([float(np.nanmax(end)) for end in ends] + [1e-12])

    @property
    def top(self) -> float:
        """Where the vertical axis ends: above the highest point, but not far above what the network
        can carry.
        """
        if self.y.high is not None:
            return self.y.high
        if self.ceiling is not None and len(self.ceiling.y):
            return min(HEADROOM * self.highest, CLIPPED_AT * float(np.max(self.ceiling.y)))
        return HEADROOM * self.highest

    @property
    def is_clipped(self) -> bool:
        """Whether a curve goes on above the axis."""
        return self.highest > self.top * (1 + 1e-9)


@dataclass(frozen=True)
class Specification:
    """A figure: panels, their arrangement, and remarks on what cannot be seen in it."""

    panels: tuple[Panel, ...]
    layout: Layout = "grid"
    remarks: tuple[str, ...] = ()
    #: The parts of the height or width that panels in rows or columns have.
    parts: tuple[float, ...] = ()
    #: The height on a page in inches; None is that of a grid of panels.
    height: float | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What lines and shades mean, the curves that hide each other, and where the axis ends
        below a curve.
        """
        found = [*self.remarks, *_meanings(self.panels), *_coinciding(self.panels)]
        clipped = [panel for panel in self.panels if panel.is_clipped]
        if clipped:
            panel = max(clipped, key=lambda one: one.highest)
            found.append(
                f"Values above {panel.top:.3g} {panel.y.unit} are cut off (▲); the highest is {panel.highest:.3g} "
                f"{panel.y.unit}."
            )
        return tuple(found)

    def levelled(self) -> Specification:
        """Returns the figure with the vertical axis of the highest panel in all panels."""
        top = max((panel.top for panel in self.panels), default=1.0)
        return replace(self, panels=tuple(replace(p, y=replace(p.y, high=top)) for p in self.panels))

    def told_apart(self) -> Specification:
        """Returns the figure with every curve dashed that would hide an earlier one."""
        return replace(self, panels=tuple(replace(p, curves=tuple(_told_apart(p.curves))) for p in self.panels))

    def document(self) -> Json:
        """Returns the figure as JSON."""
        return {
            "layout": self.layout,
            "notes": list(self.notes),
            "panels": [_panel_document(panel) for panel in self.panels],
        }


def _told_apart(curves: Sequence[Curve]) -> Iterable[Curve]:
    for number, curve in enumerate(curves):
        hides = any(curve.looks_like(other) for other in curves[:number] if not (other.is_context or curve.is_context))
        yield replace(curve, is_dashed=True) if hides and curve.form not in ("area", *POINTS) else curve


def _coinciding(panels: Sequence[Panel]) -> Iterable[str]:
    """Yields a remark for each group of curves that cannot be told apart, also
    in different panels.
    """
    curves = [curve for panel in panels for curve in panel.shown if curve.form not in ("area", *POINTS)]
    told: set[str] = set()
    for number, curve in enumerate(curves):
        alike = [
            other.label for other in curves[number + 1 :] if other.label != curve.label and curve.looks_like(other)
        ]
        alike = [label for label in dict.fromkeys(alike) if label not in told]
        if alike and curve.label not in told and np.any(np.asarray(curve.y) != 0):
            told |= {curve.label, *alike}
            yield f"{' and '.join(alike)} {'coincides' if len(alike) == 1 else 'coincide'} with {curve.label}."


def _meanings(panels: Sequence[Panel]) -> Iterable[str]:
    """Yields what is drawn without a word beside it."""
    marks = [mark for panel in panels for mark in panel.marks]
    if any(panel.ceiling for panel in panels):
        yield "Dashed: the capacity, which is what the network can carry after the events so far."
    if any(mark.end_s is not None for mark in marks):
        yield "Shaded: something is down."
    if any(curve.low is not None and curve.form == "step" and curve.label for p in panels for curve in p.shown):
        yield "Bands: the range of the runs."


def _panel_document(panel: Panel) -> Json:
    return {
        "title": panel.title,
        "x": axis_document(panel.x, panel.x.high),
        "y": axis_document(panel.y, panel.top),
        "marks": [mark_document(mark) for mark in panel.marks],
        "ceiling": None if panel.ceiling is None else _curve_document(panel.ceiling),
        # Curves in grey are those of the other panels.
        "has_others": any(curve.is_context for curve in panel.curves),
        "curves": [_curve_document(curve) for curve in panel.shown],
    }


def axis_document(axis: Axis, high: float | None) -> Json:
    """Returns an axis as JSON, with the end that it has in the figure."""
    return {"quantity": axis.quantity, "unit": axis.unit, "label": axis.label, "low": axis.low, "high": high}


def mark_document(mark: Mark) -> Json:
    """Returns an event as JSON."""
    return {"label": mark.label, "start_s": mark.start_s, "end_s": mark.end_s}


def _curve_document(curve: Curve) -> Json:
    kept = kept_places(curve)
    columns = {"x": curve.x, "y": curve.y, "low": curve.low, "high": curve.high}
    numbers = {name: _rounded(np.asarray(c)[kept]) for name, c in columns.items() if c is not None}
    return {
        "label": curve.label,
        "form": curve.form,
        "colour": curve.colour,
        "dashed": curve.is_dashed,
        **numbers,
    }


def kept_places(curve: Curve) -> Any:
    """Returns the indices of the points to draw: of dots a selection, else the extremes of each
    part.
    """
    length = len(curve.x)
    if length <= MOST_POINTS:
        return np.arange(length)
    y = np.asarray(curve.y)
    if curve.form in POINTS:
        # Even strides would alias.
        chosen = np.random.default_rng(0).choice(length, MOST_POINTS, replace=False)
        return np.union1d(chosen, [int(y.argmax())])
    keep = {0, length - 1}
    for stretch in np.array_split(np.arange(length), MOST_POINTS // 2):
        keep |= {int(stretch[y[stretch].argmin()]), int(stretch[y[stretch].argmax()])}
    return np.array(sorted(keep))


def _rounded(values: Any) -> list[float | None]:
    """Returns numbers with six significant digits, which is more than a screen shows."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.astype(float)]
