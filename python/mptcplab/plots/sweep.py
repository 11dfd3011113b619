"""Figures of a sweep: a line or bars over one factor, heat maps over two, panels over more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from mptcplab.metrics.arrays import Floats
from mptcplab.plots.comparison import bars
from mptcplab.plots.drawing import Drawing, Line, label_line_ends, new_figure
from mptcplab.plots.look import BAND, INK, PALETTE, Look
from mptcplab.plots.words import key_in_words, metric_in_words
from mptcplab.results import Spread
from mptcplab.sweep import crossing_axis, in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mptcplab.sweep import Factor, Outcome

MOST_PANELS = 12
MOST_COLUMNS = 3
#: Cells of larger heat maps have no room for their numbers.
MOST_NUMBERED_COLUMNS, MOST_NUMBERED_ROWS = 16, 30
COLOURS = "cividis"
#: Colours of text on cells, which look the same on any page.
ON_DARK, ON_LIGHT = "#ffffff", "#000000"
DARK_BELOW = 0.5
#: Units of metrics and factors that are converted for figures.
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
        return bars(
            "sweep",
            metric_in_words(metric),
            unit,
            {f"{only.name}={value}": found for value, found in of_values.items()},
        )
    line = _line(only, of_values, metric)

    def paint(look: Look) -> Figure:
        figure, axes = new_figure(look, height=3.7)
        (plot,) = axes.flat
        _curve(plot, only, of_values, PALETTE[0])
        plot.set(xlabel=_title(only), ylabel=_with_unit(metric_in_words(metric), unit))
        return figure

    title = f"{metric_in_words(metric)} over {key_in_words(only.name)}"
    return Drawing("sweep", title, _said([line], unit), paint, only.name, metric, [line])


def _crossings(outcome: Outcome, number: int, metric: str) -> Drawing | None:
    """Draws both arms over the numeric factor, their crossing and its interval, with panels for the other factors."""
    factors, axis = outcome.sweep.factors, crossing_axis(outcome.sweep.factors)
    spreads, unit = _spreads(outcome, metric)
    panels = [entry for entry in outcome.found if (entry["kind"], entry["metric"]) == ("crossover", metric)]
    shown = panels[:MOST_PANELS]
    curves = [_arms_of_panel(factors, axis, entry, spreads) for entry in shown]
    lines = [
        replace(_line(axis.over, of_values, arm), label=_panel(arm, entry["at"]))
        for entry, arms in zip(shown, curves, strict=True)
        for arm, of_values in arms.items()
    ]

    def paint(look: Look) -> Figure:
        figure: Figure
        figure, axes = _panel_figure(look, len(shown), row_height=3.0)
        ends = []
        for plot, entry, arms in zip(axes.flat, shown, curves, strict=False):
            drawn = [
                (_curve(plot, axis.over, of_values, colour), arm, colour)
                for (arm, of_values), colour in zip(arms.items(), PALETTE, strict=False)
            ]
            if entry["value"] is not None:
                _mark(plot, entry["value"], entry["interval"], SCALED.get(axis.over.unit, (1.0, ""))[0])
            ends.append(drawn)
            plot.set_title(in_words(entry["at"]))
        # The shared axes have their limits only after all panels are drawn.
        for plot, labels in zip(axes.flat, ends, strict=False):
            label_line_ends(plot, labels, look)
        _finish(figure, axes, len(shown), _title(axis.over), _with_unit(metric_in_words(metric), unit), look)
        return figure

    over, arms = key_in_words(axis.over.name), " and ".join(axis.arms.values)
    title = f"{metric_in_words(metric)} over {over}, {arms}{_more(len(shown), len(panels))}"
    return Drawing(f"crossing-{number}", title, _said(lines, unit), paint, axis.over.name, metric, lines)


def _arms_of_panel(
    factors: Sequence[Factor], axis: Any, entry: Mapping[str, Any], spreads: Spreads
) -> dict[str, dict[str, Spread]]:
    """Returns, for each arm of a crossing, the spread by value of the numeric factor."""
    found = {}
    for arm in axis.arms.values:
        fixed = {**entry["at"], axis.arms.name: arm}
        keys = {value: _key(factors, {**fixed, axis.over.name: value}) for value in axis.over.values}
        found[arm] = {value: spreads[key] for value, key in keys.items() if key in spreads}
    return {arm: of_values for arm, of_values in found.items() if of_values}


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
    cells = []
    lines = []
    for picked in shown:
        at = dict(zip((other.name for other in others), picked, strict=True))
        cells.append((at, _cells(factors, across, up, at, spreads)))
        lines += [
            Line(_panel(f"{up.name}={value}", at), _places(across), row)
            for value, row in zip(_in_order(up), cells[-1][1], strict=True)
        ]

    def paint(look: Look) -> Figure:
        figure: Figure
        figure, axes = _panel_figure(look, len(shown), row_height=min(5.0, 1.2 + 0.4 * len(up.values)))
        mesh: Any = None
        for plot, (at, values) in zip(axes.flat, cells, strict=False):
            mesh = _heat_map(plot, values, limits, look)
            plot.set_xticks(np.arange(len(across.values)), _in_order(across), rotation=_rotation(across), color=INK)
            plot.set_yticks(np.arange(len(up.values)), _in_order(up), color=INK)
            plot.set_title(in_words(at))
        bar = figure.colorbar(mesh, ax=list(axes.flat[: len(shown)]))
        bar.set_label(_with_unit(metric_in_words(metric), unit), labelpad=look.font_pt)
        _finish(figure, axes, len(shown), key_in_words(across.name), key_in_words(up.name), look)
        return figure

    title = f"{metric_in_words(metric)} over {key_in_words(across.name)} and {key_in_words(up.name)}"
    titled = f"{title}{_more(len(shown), len(panels))}"
    return Drawing("sweep", titled, _said(lines, unit), paint, across.name, metric, lines)


def _heat_map(plot: Axes, cells: Floats, limits: tuple[float, float], look: Look) -> Any:
    rows, columns = cells.shape
    edges = (np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5)
    mesh = plot.pcolormesh(*edges, np.ma.masked_invalid(cells), cmap=COLOURS, vmin=limits[0], vmax=limits[1])
    plot.grid(visible=False)
    most = MOST_NUMBERED_COLUMNS // 2 if look.is_narrow else MOST_NUMBERED_COLUMNS
    if columns > most or rows > MOST_NUMBERED_ROWS:
        return mesh
    for (row, column), value in np.ndenumerate(cells):
        if np.isfinite(value):
            colour = ON_DARK if value - limits[0] < DARK_BELOW * (limits[1] - limits[0]) else ON_LIGHT
            plot.text(column, row, f"{value:.3g}", ha="center", va="center", color=colour, fontsize=look.small_pt)
    return mesh


def _cells(factors: Sequence[Factor], across: Factor, up: Factor, at: Mapping[str, str], spreads: Spreads) -> Floats:
    """Returns medians with a row for each value of ``up``, and nan for a missing one."""

    def median(x: str, y: str) -> float:
        found = spreads.get(_key(factors, {**at, across.name: x, up.name: y}))
        return float("nan") if found is None else found.median

    return np.array([[median(x, y) for x in _in_order(across)] for y in _in_order(up)])


def _ordered(over: Factor, of_values: Mapping[str, Spread]) -> tuple[list[float], list[Spread]]:
    """Returns the numbers of a numeric factor in ascending order, in the unit of the axis, with their spreads."""
    number = dict(zip(over.values, over.numbers or (), strict=True))
    ordered = sorted(of_values, key=number.__getitem__)
    scale, _ = SCALED.get(over.unit, (1.0, over.unit))
    return [scale * number[value] for value in ordered], [of_values[value] for value in ordered]


def _line(over: Factor, of_values: Mapping[str, Spread], label: str) -> Line:
    x, spreads = _ordered(over, of_values)
    return Line(label, x, [spread.median for spread in spreads])


def _curve(plot: Axes, over: Factor, of_values: Mapping[str, Spread], colour: str) -> float:
    """Draws medians with their intervals over a numeric factor, and returns the last median."""
    x, spreads = _ordered(over, of_values)
    medians = [spread.median for spread in spreads]
    plot.fill_between(x, [s.low for s in spreads], [s.high for s in spreads], color=colour, alpha=0.2, linewidth=0)
    plot.plot(x, medians, "o-", color=colour, markersize=4.5)
    plot.margins(x=0.02)
    return medians[-1]


def _mark(plot: Axes, value: float, interval: Sequence[float] | None, scale: float) -> None:
    value, interval = scale * value, [scale * end for end in interval] if interval is not None else None
    if interval is not None and interval[0] < interval[1]:
        plot.axvspan(interval[0], interval[1], color=BAND, zorder=0, linewidth=0)
    plot.axvline(value, color=INK, linewidth=1, linestyle=(0, (5, 3)))


def _panel_figure(look: Look, panels: int, *, row_height: float) -> tuple[Any, Any]:
    columns = min(2 if look.is_narrow else MOST_COLUMNS, panels)
    rows = -(-panels // columns)
    return new_figure(look, rows, columns, height=0.7 + rows * row_height, sharex=True, sharey=True)


def _finish(figure: Any, axes: Any, panels: int, x_title: str, y_title: str, look: Look) -> None:
    for plot in axes.flat[panels:]:
        plot.set_visible(False)
    for plot in axes.flat[max(0, panels - axes.shape[1]) : panels]:
        plot.tick_params(labelbottom=True)
    figure.supxlabel(x_title, fontsize=look.font_pt)
    figure.supylabel(y_title, fontsize=look.font_pt)


def _in_order(factor: Factor) -> list[str]:
    """Returns the values of a factor: numbers ascending, others in the order given."""
    if factor.numbers is None:
        return list(factor.values)
    return [value for _, value in sorted(zip(factor.numbers, factor.values, strict=True))]


def _places(factor: Factor) -> list[float]:
    if factor.numbers is None:
        return [float(n) for n in range(len(factor.values))]
    scale, _ = SCALED.get(factor.unit, (1.0, factor.unit))
    return [scale * number for number in sorted(factor.numbers)]


def _rotation(factor: Factor) -> int:
    return 90 if max(map(len, factor.values)) * len(factor.values) > 60 else 0


def _key(factors: Sequence[Factor], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(values[factor.name] for factor in factors)


def _panel(label: str, at: Mapping[str, str]) -> str:
    return f"{label}, {in_words(at)}" if at else label


def _title(factor: Factor) -> str:
    return _with_unit(key_in_words(factor.name), SCALED.get(factor.unit, (1.0, factor.unit))[1])


def _with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _more(shown: int, panels: int) -> str:
    return f"; {shown} of {panels} panels" if panels > shown else ""


def _said(lines: Sequence[Line], unit: str) -> str:
    return "; ".join(f"{line.label}: {', '.join(f'{y:.4g}' for y in line.y)} {unit}".rstrip() for line in lines)
