"""Paints the specification of a figure with matplotlib's object interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mptcplab.plots.drawing import binned, label_line_ends, new_figure
from mptcplab.plots.lettering import LEAST_PT, in_lines, text_width_in
from mptcplab.plots.look import INK, Look, colour_of
from mptcplab.plots.marks import draw_marks
from mptcplab.plots.specification import POINTS, Axis, Curve, Panel, Specification, kept_places

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: More curves than this in one panel have a legend in place of labels at their ends.
MOST_LABELS = 8
#: What a row of a legend below the axes adds to the height of a figure on a page, in inches.
LEGEND_ROW = 0.36
#: What a further line of the titles of panels adds to the height of a row of them, in inches.
TITLE_LINE = 0.25
#: The part of the room of a panel that its title may fill.
TITLE_PART = 0.85
DASHES, CEILING_DASHES = (0, (3, 1.6)), (0, (5, 3))
STEPS = {"step": "steps-mid", "hold": "steps-post", "line": "default", "joined": "default"}


def paint(specification: Specification, look: Look) -> Figure:
    """Returns the figure in a look. Call it within ``style()``."""
    panels = specification.panels
    rows, columns = _arrangement(specification, look)
    options = _shared(specification)
    if specification.parts:
        options["height_ratios" if rows > 1 else "width_ratios"] = specification.parts
    titles = _titles(panels, columns, look)
    lines = max((title.count("\n") for title in titles.texts), default=0)
    height = (specification.height or _grid_height(rows, look)) + TITLE_LINE * lines * rows
    if look.is_narrow:
        height += LEGEND_ROW * max((_legend_rows(panel) for panel in panels), default=0)
    figure, axes = new_figure(look, rows, columns, height=height, **options)
    for plot, panel, title in zip(axes.flat, panels, titles.texts, strict=False):
        _paint_panel(plot, panel, look)
        if title:
            plot.set_title(title, fontsize=titles.size_pt)
    for plot in axes.flat[len(panels) :]:
        plot.set_visible(False)
    _label_axes(figure, axes, specification, look)
    # The shared axes have their limits only after all panels are drawn.
    is_grid = specification.layout == "grid" and len(panels) > 1
    for number, (plot, panel) in enumerate(zip(axes.flat, panels, strict=False)):
        has_labels = not is_grid and (number == 0 or specification.layout == "columns")
        there = {text.get_text() for text in plot.texts}
        draw_marks(plot, [mark for mark in panel.marks if mark.label not in there], look, labels=has_labels)
        if look.canvas is not None and look.canvas.is_given:
            continue
        _name_curves(figure, plot, panel, look, is_grid=is_grid, is_last=number == len(panels) - 1)
    return figure


@dataclass(frozen=True)
class Titles:
    """The titles of panels in lines, and the size of their letters."""

    texts: tuple[str, ...]
    size_pt: float


def _titles(panels: Sequence[Panel], columns: int, look: Look) -> Titles:
    """Returns the titles in lines that are no longer than a panel is wide. Their letters are
    smaller if a word would be.
    """
    room_in = TITLE_PART * look.width_in / columns
    longest = max((word for panel in panels for word in panel.title.split()), key=len, default="")
    size_pt = look.font_pt * min(1.0, room_in / max(text_width_in(longest, look.font_pt), 1e-9))
    size_pt = max(size_pt, min(look.font_pt, LEAST_PT))
    return Titles(tuple(in_lines(panel.title, room_in, size_pt) for panel in panels), size_pt)


def _arrangement(specification: Specification, look: Look) -> tuple[int, int]:
    count = len(specification.panels)
    if specification.layout == "rows":
        return count, 1
    if specification.layout == "columns":
        return 1, count
    most = 2 if count in (2, 4) or look.is_narrow else 3 if count == 3 or look.width_in < 8 else 4
    columns = min(most, count)
    return -(-count // columns), columns


def _grid_height(rows: int, look: Look) -> float:
    # More rows for the same panels are not made lower than on a page.
    return 0.5 + (1.9 if look.is_narrow else 1.55) * rows


def _legend_rows(panel: Panel) -> int:
    """Returns the rows of the legend below a panel that has no names at the ends of its curves."""
    return (len({curve.label for curve in panel.shown if curve.label}) + bool(panel.ceiling) + 1) // 2


def _shared(specification: Specification) -> dict[str, Any]:
    panels = specification.panels
    return {
        "sharex": all(panel.x == panels[0].x for panel in panels),
        "sharey": all(panel.y == panels[0].y for panel in panels) and specification.layout != "rows",
    }


def _paint_panel(plot: Axes, panel: Panel, look: Look) -> None:
    plot.set_xlim(panel.x.low, panel.x.high if panel.x.high is not None else None)
    plot.set_ylim(panel.y.low, panel.top)
    # Not 2.5, so that counts are whole.
    plot.locator_params(axis="x", steps=[1, 2, 5, 10])
    areas = [curve for curve in panel.curves if curve.form == "area"]
    for curve in sorted(panel.curves, key=lambda one: not one.is_context):
        _paint_curve(plot, curve, look, panel.top, has_edge=not areas)
    if panel.ceiling is not None:
        x, y = panel.ceiling.x, panel.ceiling.y
        plot.plot(
            x,
            y,
            color=INK,
            linewidth=look.line_scale,
            linestyle=CEILING_DASHES,
            drawstyle="steps-post",
            label=_label(panel.ceiling),
        )


def _paint_curve(plot: Axes, curve: Curve, look: Look, top: float, *, has_edge: bool) -> None:
    colour, opacity = ("#b4babf", 1.0) if curve.is_context else colour_of(curve.colour)
    kept = kept_places(curve)
    x, y = np.asarray(curve.x)[kept], np.asarray(curve.y)[kept]
    scale = look.width_in / 9.0
    if curve.form == "area":
        _paint_area(plot, curve, colour, opacity)
        return
    if curve.form in POINTS:
        mark, size = (".", 2.5) if curve.form == "dots" else ("o", 4.0)
        plot.plot(x, y, mark, color=colour, alpha=opacity, markersize=size * max(scale, 0.6), label=_label(curve))
        return
    if curve.low is not None and curve.high is not None and not curve.is_context:
        low, high = np.asarray(curve.low)[kept], np.asarray(curve.high)[kept]
        stepped: Any = "mid" if curve.form == "step" else "post" if curve.form == "hold" else None
        plot.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0, step=stepped)
    width = (0.8 if curve.is_context else 1.5 if has_edge else 1.2) * max(scale, 0.7) * look.line_scale
    line = DASHES if curve.is_dashed else "solid"
    dot: Any = {"marker": "o", "markersize": 4.5 * max(scale, 0.7)} if curve.form == "joined" else {}
    dot |= {"drawstyle": STEPS[curve.form], "label": _label(curve)}
    plot.plot(x, y, color=colour, alpha=opacity, linewidth=width, linestyle=line, **dot)
    above = y > top * (1 + 1e-9)
    if above.any() and not curve.is_context:
        at = x[above]
        plot.plot(at, np.full(len(at), top), "^", color=colour, markersize=3.5, clip_on=False)


def _label(curve: Curve) -> str:
    """Returns the name of a curve for a legend, which leaves out those that begin with a line."""
    return curve.label if curve.label and not curve.is_context else "_"


def _paint_area(plot: Axes, curve: Curve, colour: str, opacity: float) -> None:
    from matplotlib.patches import StepPatch

    if not len(curve.x):
        return
    width = binned(curve.x)
    edges = np.append(np.asarray(curve.x) - width / 2, curve.x[-1] + width / 2)
    low: Any = np.zeros(len(curve.x)) if curve.low is None else np.asarray(curve.low)
    area = StepPatch(
        np.asarray(curve.y), edges, baseline=low, fill=True, color=colour, alpha=opacity, label=_label(curve)
    )
    # Unlike stairs(), this does not measure the area, because the axes have their limits.
    plot.add_artist(area)


def _label_axes(figure: Figure, axes: Any, specification: Specification, look: Look) -> None:
    """Writes a common title of an axis once, and otherwise one at each panel."""
    panels = specification.panels
    shown = len(panels)
    if _shared(specification)["sharey"] and shown > 1 and specification.layout == "grid":
        figure.supylabel(_broken(panels[0].y, figure, look), fontsize=look.font_pt)
    else:
        for plot, panel in zip(axes.flat, panels, strict=False):
            plot.set_ylabel(panel.y.label)
    columns = axes.shape[1]
    for number, (plot, panel) in enumerate(zip(axes.flat, panels, strict=False)):
        is_lowest = number + columns >= shown
        if is_lowest or panel.x != panels[min(number + columns, shown - 1)].x:
            plot.set_xlabel(panel.x.label)
            plot.tick_params(labelbottom=True)


def _broken(axis: Axis, figure: Figure, look: Look) -> str:
    """Returns the label of the vertical axis, with the unit on a line of its own if it is longer
    than the figure is high.
    """
    return (
        axis.label
        if text_width_in(axis.label, look.font_pt) < figure.get_figheight()
        else f"{axis.quantity}\n({axis.unit})"
    )


def _name_curves(figure: Figure, plot: Axes, panel: Panel, look: Look, *, is_grid: bool, is_last: bool) -> None:
    """Writes the names of curves at their ends. Areas and many curves have a legend, in the order
    of the names.
    """
    areas = [curve for curve in panel.shown if curve.form == "area"]
    named = [curve for curve in panel.shown if curve.label]
    if is_grid:
        if is_last and panel.ceiling is not None:
            figure.legend(handles=[_key(panel.ceiling, is_ceiling=True)], loc="outside lower right", frameon=False)
        return
    if areas or len(named) > MOST_LABELS or look.is_narrow:
        _legend(figure, plot, panel, named, look)
        return
    labels = [(_end(curve), curve.label, colour_of(curve.colour)[0]) for curve in named if len(curve.y)]
    if panel.ceiling is not None and len(panel.ceiling.y):
        labels.append((float(panel.ceiling.y[-1]), panel.ceiling.label, INK))
    if labels:
        label_line_ends(plot, labels, look)


def _end(curve: Curve) -> float:
    """Returns the last value that the curve has."""
    values = np.asarray(curve.y, dtype=float)
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else 0.0


def _legend(figure: Figure, plot: Axes, panel: Panel, named: Sequence[Curve], look: Look) -> None:
    unique = {curve.label: curve for curve in named}
    keys = [_key(curve) for curve in unique.values()]
    if panel.ceiling is not None:
        keys.append(_key(panel.ceiling, is_ceiling=True))
    if len(keys) == 1 and not panel.ceiling:
        return
    if look.is_narrow:
        figure.legend(handles=keys, loc="outside lower center", ncols=2, frameon=False)
    else:
        plot.legend(handles=keys, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _key(curve: Curve, *, is_ceiling: bool = False) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colour, opacity = colour_of(curve.colour)
    if is_ceiling:
        return Line2D([], [], color=INK, linewidth=1, linestyle=CEILING_DASHES, label=curve.label)
    if curve.form == "area":
        return Patch(color=colour, alpha=opacity, label=curve.label)
    if curve.form in POINTS:
        return Line2D([], [], linestyle="none", marker="o", markersize=4, color=colour, label=curve.label)
    line: Any = DASHES if curve.is_dashed else "solid"
    return Line2D([], [], color=colour, alpha=opacity, linestyle=line, label=curve.label)
