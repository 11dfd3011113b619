"""Figures of a sweep: a line or bars over one factor, heat maps over two, panels over more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from mptcplab.metrics.arrays import Floats
from mptcplab.plots.comparison import bars
from mptcplab.plots.drawing import BAND, INK, PALETTE, Drawing, Line, label_line_ends, new_figure, style
from mptcplab.results import Spread
from mptcplab.sweep import crossing_axis, in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mptcplab.sweep import Factor, Outcome

MOST_PANELS = 12
MOST_COLUMNS = 3
#: Cells of larger heat maps have no room for their numbers.
MOST_NUMBERED_COLUMNS, MOST_NUMBERED_ROWS = 16, 30
COLOURS = "cividis"
#: Colours of text on cells, which look the same on any page.
ON_DARK, ON_LIGHT = "#ffffff", "#000000"
DARK_BELOW = 0.5
#: Units of metrics that are converted for figures.
SCALED = {"bit/s": (1e-6, "Mbit/s"), "B": (1e-6, "MB")}

#: The spread of a metric at each combination, by the values of the factors in their order.
Spreads = Mapping[tuple[str, ...], Spread]


def sweep_drawings(outcome: Outcome) -> list[Drawing]:
    """Returns the medians of the metric over all combinations, and a figure for each crossing that was searched."""
    wanted = dict.fromkeys(entry["metric"] for entry in outcome.found if entry["kind"] == "crossover")
    drawn = [_surface(outcome), *(_crossings(outcome, number, metric) for number, metric in enumerate(wanted, 1))]
    return [drawing for drawing in drawn if drawing is not None]


def _surface(outcome: Outcome) -> Drawing | None:
    """Draws lines or bars of one factor, or else heat maps of the first two. Returns None without values."""
    factors, metric = outcome.sweep.factors, outcome.metric
    spreads, unit = _spreads(outcome, metric)
    if not spreads:
        return None
    if len(factors) > 1:
        return _heat_maps(factors, spreads, metric, unit)
    (only,) = factors
    of_values = {value: spreads[value,] for value in only.values if (value,) in spreads}
    if only.numbers is None:
        return bars("sweep", metric, unit, {f"{only.name}={value}": found for value, found in of_values.items()})
    with style():
        figure, axes = new_figure(height=3.7)
        (plot,) = axes.flat
        line = _curve(plot, only, of_values, PALETTE[0], metric)
        plot.set(xlabel=_title(only), ylabel=_with_unit(metric, unit))
    return Drawing("sweep", f"{metric} over {only.name}", _said([line], unit), figure, only.name, metric, [line])


def _crossings(outcome: Outcome, number: int, metric: str) -> Drawing | None:
    """Draws both arms over the numeric factor, their crossing and its interval, with panels for the other factors."""
    factors, axis = outcome.sweep.factors, crossing_axis(outcome.sweep.factors)
    spreads, unit = _spreads(outcome, metric)
    panels = [entry for entry in outcome.found if (entry["kind"], entry["metric"]) == ("crossover", metric)]
    shown = panels[:MOST_PANELS]
    lines: list[Line] = []
    ends = []
    with style():
        figure, axes = _panel_figure(len(shown), row_height=3.0)
        for plot, entry in zip(axes.flat, shown, strict=False):
            drawn = []
            for arm, colour in zip(axis.arms.values, PALETTE, strict=False):
                fixed = {**entry["at"], axis.arms.name: arm}
                keys = {value: _key(factors, {**fixed, axis.over.name: value}) for value in axis.over.values}
                of_values = {value: spreads[key] for value, key in keys.items() if key in spreads}
                if of_values:
                    drawn.append((_curve(plot, axis.over, of_values, colour, arm), colour))
            if entry["value"] is not None:
                _mark(plot, entry["value"], entry["interval"])
            ends.append([(float(line.y[-1]), line.label, colour) for line, colour in drawn])
            plot.set_title(in_words(entry["at"]))
            lines += [Line(_panel(line.label, entry["at"]), line.x, line.y) for line, _ in drawn]
        # The shared axes have their limits only after all panels are drawn.
        for plot, labels in zip(axes.flat, ends, strict=False):
            label_line_ends(plot, labels)
        _finish(figure, axes, len(shown), _title(axis.over), _with_unit(metric, unit))
    title = f"{metric} over {axis.over.name}, {' and '.join(axis.arms.values)}{_more(len(shown), len(panels))}"
    return Drawing(f"crossing-{number}", title, _said(lines, unit), figure, axis.over.name, metric, lines)


def _spreads(outcome: Outcome, metric: str) -> tuple[Spreads, str]:
    """Returns the spread of a metric at each combination that has one, and the unit of the figure."""
    unit = outcome.unit(metric)
    scale, drawn_unit = SCALED.get(unit, (1.0, unit))
    factors = outcome.sweep.factors
    found = zip(outcome.sweep.combinations, outcome.spreads(metric), strict=True)
    return {_key(factors, one.values): s.scaled(scale) for one, s in found if s is not None}, drawn_unit


def _heat_maps(factors: Sequence[Factor], spreads: Spreads, metric: str, unit: str) -> Drawing:
    across, up, *others = factors
    panels = list(product(*(other.values for other in others)))
    shown = panels[:MOST_PANELS]
    medians = [found.median for found in spreads.values()]
    limits = (min(medians), max(medians))
    lines = []
    with style():
        figure, axes = _panel_figure(len(shown), row_height=min(5.0, 1.2 + 0.4 * len(up.values)))
        mesh = None
        for plot, picked in zip(axes.flat, shown, strict=False):
            at = dict(zip((other.name for other in others), picked, strict=True))
            cells = _cells(factors, across, up, at, spreads)
            mesh = _heat_map(plot, cells, limits)
            plot.set_xticks(np.arange(len(across.values)), _in_order(across), rotation=_rotation(across), color=INK)
            plot.set_yticks(np.arange(len(up.values)), _in_order(up), color=INK)
            plot.set_title(in_words(at))
            lines += [
                Line(_panel(f"{up.name}={value}", at), _places(across), row)
                for value, row in zip(_in_order(up), cells, strict=True)
            ]
        figure.colorbar(mesh, ax=list(axes.flat[: len(shown)]), label=_with_unit(metric, unit))
        _finish(figure, axes, len(shown), across.name, up.name)
    title = f"{metric} over {across.name} and {up.name}{_more(len(shown), len(panels))}"
    return Drawing("sweep", title, _said(lines, unit), figure, across.name, metric, lines)


def _heat_map(plot: Axes, cells: Floats, limits: tuple[float, float]) -> Any:
    rows, columns = cells.shape
    edges = (np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5)
    mesh = plot.pcolormesh(*edges, np.ma.masked_invalid(cells), cmap=COLOURS, vmin=limits[0], vmax=limits[1])
    plot.grid(visible=False)
    if columns > MOST_NUMBERED_COLUMNS or rows > MOST_NUMBERED_ROWS:
        return mesh
    for (row, column), value in np.ndenumerate(cells):
        if np.isfinite(value):
            colour = ON_DARK if value - limits[0] < DARK_BELOW * (limits[1] - limits[0]) else ON_LIGHT
            plot.text(column, row, f"{value:.3g}", ha="center", va="center", color=colour, fontsize=9)
    return mesh


def _cells(factors: Sequence[Factor], across: Factor, up: Factor, at: Mapping[str, str], spreads: Spreads) -> Floats:
    """Returns medians with a row for each value of ``up``, and nan for a missing one."""

    def median(x: str, y: str) -> float:
        found = spreads.get(_key(factors, {**at, across.name: x, up.name: y}))
        return float("nan") if found is None else found.median

    return np.array([[median(x, y) for x in _in_order(across)] for y in _in_order(up)])


def _curve(plot: Axes, over: Factor, of_values: Mapping[str, Spread], colour: str, label: str) -> Line:
    """Draws medians with their intervals over a numeric factor."""
    number = dict(zip(over.values, over.numbers or (), strict=True))
    ordered = sorted(of_values, key=number.__getitem__)
    x = [number[value] for value in ordered]
    spreads = [of_values[value] for value in ordered]
    medians = [spread.median for spread in spreads]
    plot.fill_between(x, [s.low for s in spreads], [s.high for s in spreads], color=colour, alpha=0.2, linewidth=0)
    plot.plot(x, medians, "o-", color=colour, markersize=4.5)
    plot.margins(x=0.02)
    return Line(label, x, medians)


def _mark(plot: Axes, value: float, interval: Sequence[float] | None) -> None:
    if interval is not None and interval[0] < interval[1]:
        plot.axvspan(interval[0], interval[1], color=BAND, zorder=0, linewidth=0)
    plot.axvline(value, color=INK, linewidth=1, linestyle=(0, (5, 3)))


def _panel_figure(panels: int, *, row_height: float) -> tuple[Any, Any]:
    columns = min(MOST_COLUMNS, panels)
    rows = -(-panels // columns)
    return new_figure(rows, columns, height=0.7 + rows * row_height, sharex=True, sharey=True)


def _finish(figure: Any, axes: Any, panels: int, x_title: str, y_title: str) -> None:
    for plot in axes.flat[panels:]:
        plot.set_visible(False)
    for plot in axes.flat[max(0, panels - axes.shape[1]) : panels]:
        plot.tick_params(labelbottom=True)
    figure.supxlabel(x_title, fontsize=10)
    figure.supylabel(y_title, fontsize=10)


def _in_order(factor: Factor) -> list[str]:
    """Returns the values of a factor: numbers ascending, others in the order given."""
    if factor.numbers is None:
        return list(factor.values)
    return [value for _, value in sorted(zip(factor.numbers, factor.values, strict=True))]


def _places(factor: Factor) -> list[float]:
    return sorted(factor.numbers) if factor.numbers is not None else [float(n) for n in range(len(factor.values))]


def _rotation(factor: Factor) -> int:
    return 90 if max(map(len, factor.values)) * len(factor.values) > 60 else 0


def _key(factors: Sequence[Factor], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(values[factor.name] for factor in factors)


def _panel(label: str, at: Mapping[str, str]) -> str:
    return f"{label}, {in_words(at)}" if at else label


def _title(factor: Factor) -> str:
    return _with_unit(factor.name, factor.unit)


def _with_unit(name: str, unit: str) -> str:
    return f"{name} in {unit}" if unit else name


def _more(shown: int, panels: int) -> str:
    return f"; {shown} of {panels} panels" if panels > shown else ""


def _said(lines: Sequence[Line], unit: str) -> str:
    return "; ".join(f"{line.label}: {', '.join(f'{y:.4g}' for y in line.y)} {unit}".rstrip() for line in lines)
