"""Figures of a sweep: a line or bars over one factor, heat maps over two, panels over more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from mptcplab.metrics.arrays import Floats
from mptcplab.plots.cells import COLOURS, CellPanel, Cells
from mptcplab.plots.comparison import bars
from mptcplab.plots.drawing import Drawing, Line, new_figure
from mptcplab.plots.look import INK, Look
from mptcplab.plots.specification import Axis, Curve, Panel, Specification
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
#: Columns of a heat map whose names have more letters stand upright.
MOST_LETTERS = 60
#: The room at the ends of an axis, as a part of its length.
MARGIN = 0.02
#: Units of metrics and factors that are converted for figures.
SCALED = {"bit/s": (1e-6, "Mbit/s"), "B": (1e-6, "MB")}

#: The spread of a metric at each combination, by the values of the factors in their order.
Spreads = Mapping[tuple[str, ...], Spread]


def sweep_drawings(outcome: Outcome) -> list[Drawing]:
    """Returns the medians of the metric over all combinations, and a figure for each crossing that
    was searched.
    """
    wanted = dict.fromkeys(entry["metric"] for entry in outcome.found if entry["kind"] == "crossover")
    drawn = [_surface(outcome), *(_crossings(outcome, number, metric) for number, metric in enumerate(wanted, 1))]
    return [drawing for drawing in drawn if drawing is not None]


def _surface(outcome: Outcome) -> Drawing | None:
    """Draws lines or bars of one factor, or else heat maps of the first two. Returns None without
    values.
    """
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
    x, y = _axis(only), Axis(metric_in_words(metric), unit)
    panel = _from_zero(Panel((_curve("", only, of_values, 0),), x, y))
    title = f"{metric_in_words(metric)} over {key_in_words(only.name)}"
    specification = Specification((panel,), height=3.7)
    return Drawing.specified("sweep", title, _said([line], unit), specification, only.name, metric, [line])


def _crossings(outcome: Outcome, number: int, metric: str) -> Drawing | None:
    """Draws both arms over the numeric factor, their crossing and its interval, with panels for the
    other factors.
    """
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

    x, y = _axis(axis.over), Axis(metric_in_words(metric), unit)
    drawn = [
        _from_zero(Panel(tuple(_curve(arm, axis.over, arms[arm], place) for place, arm in enumerate(arms)), x, y, at))
        for arms, at in zip(curves, (in_words(entry["at"]) for entry in shown), strict=True)
    ]
    top = max(panel.top for panel in drawn)
    crossed = [
        replace(panel, curves=(*panel.curves, *_crossing(entry, axis.over, panel.y.low, top)))
        for panel, entry in zip(drawn, shown, strict=True)
    ]
    remark = "Dashed: where they cross, with the interval in grey."
    remarks = (remark,) if any(entry["value"] is not None for entry in shown) else ()
    specification = Specification(tuple(crossed), remarks=remarks, height=3.7 if len(shown) == 1 else None).levelled()
    over, arms = key_in_words(axis.over.name), " and ".join(axis.arms.values)
    title = f"{metric_in_words(metric)} over {over}, {arms}{_more(len(shown), len(panels))}"
    name = f"crossing-{number}"
    return Drawing.specified(name, title, _said(lines, unit), specification, axis.over.name, metric, lines)


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
    """Returns the spread of a metric at each combination that has one, and the
    unit of the figure.
    """
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
    tables, lines = [], []
    for picked in shown:
        at = dict(zip((other.name for other in others), picked, strict=True))
        values = _cells(factors, across, up, at, spreads)
        texts = tuple(tuple(f"{value:.3g}" if np.isfinite(value) else "" for value in row) for row in values)
        # The largest value of a factor is at the top, as on an axis.
        tables.append(CellPanel(in_words(at), values[::-1], texts[::-1]))
        lines += [
            Line(_panel(f"{up.name}={value}", at), _places(across), row)
            for value, row in zip(_in_order(up), values, strict=True)
        ]
    titles = (key_in_words(up.name), key_in_words(across.name), _with_unit(metric_in_words(metric), unit))
    rows, columns = tuple(reversed(_in_order(up))), tuple(_in_order(across))
    cells = Cells(tuple(tables), rows, columns, *titles, limits=(min(medians), max(medians)))
    title = f"{metric_in_words(metric)} over {titles[1]} and {titles[0]}{_more(len(shown), len(panels))}"
    paint = partial(_paint_heat_maps, cells)
    return Drawing("sweep", title, _said(lines, unit), paint, across.name, metric, lines, cells)


def _paint_heat_maps(cells: Cells, look: Look) -> Figure:
    count, rows, columns = len(cells.panels), len(cells.rows), len(cells.columns)
    across = min(2 if look.is_narrow else MOST_COLUMNS, count)
    height = 0.7 + -(-count // across) * min(5.0, 1.2 + 0.4 * rows)
    figure, axes = new_figure(look, -(-count // across), across, height=height, sharex=True, sharey=True)
    mesh: Any = None
    rotation = 90 if max(map(len, cells.columns)) * columns > MOST_LETTERS else 0
    for plot, panel in zip(axes.flat, cells.panels, strict=False):
        mesh = _paint_heat_map(plot, cells, panel, look)
        plot.set_xticks(np.arange(columns), cells.columns, rotation=rotation, color=INK)
        plot.set_yticks(np.arange(rows), cells.rows, color=INK)
        plot.set_title(panel.title)
    for plot in axes.flat[count:]:
        plot.set_visible(False)
    for plot in axes.flat[max(0, count - across) : count]:
        plot.tick_params(labelbottom=True)
    bar = figure.colorbar(mesh, ax=list(axes.flat[:count]))
    bar.set_label(cells.value_title, labelpad=look.font_pt)
    figure.supxlabel(cells.column_title, fontsize=look.font_pt)
    figure.supylabel(cells.row_title, fontsize=look.font_pt)
    return figure


def _paint_heat_map(plot: Axes, cells: Cells, panel: CellPanel, look: Look) -> Any:
    rows, columns = panel.values.shape
    edges = (np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5)
    low, high = cells.limits
    mesh = plot.pcolormesh(*edges, np.ma.masked_invalid(panel.values), cmap=COLOURS, vmin=low, vmax=high)
    plot.grid(visible=False)
    plot.set_ylim(rows - 0.5, -0.5)
    most = MOST_NUMBERED_COLUMNS // 2 if look.is_narrow else MOST_NUMBERED_COLUMNS
    if columns > most or rows > MOST_NUMBERED_ROWS:
        return mesh
    for (row, column), value in np.ndenumerate(panel.values):
        if np.isfinite(value):
            text, colour = panel.texts[row][column], cells.ink_on(value)
            plot.text(column, row, text, ha="center", va="center", color=colour, fontsize=look.small_pt)
    return mesh


def _cells(factors: Sequence[Factor], across: Factor, up: Factor, at: Mapping[str, str], spreads: Spreads) -> Floats:
    """Returns medians with a row for each value of ``up``, and nan for a missing one."""

    def median(x: str, y: str) -> float:
        found = spreads.get(_key(factors, {**at, across.name: x, up.name: y}))
        return float("nan") if found is None else found.median

    return np.array([[median(x, y) for x in _in_order(across)] for y in _in_order(up)])


def _ordered(over: Factor, of_values: Mapping[str, Spread]) -> tuple[list[float], list[Spread]]:
    """Returns the numbers of a numeric factor in ascending order, in the unit of the axis, with
    their spreads.
    """
    number = dict(zip(over.values, over.numbers or (), strict=True))
    ordered = sorted(of_values, key=number.__getitem__)
    scale, _ = SCALED.get(over.unit, (1.0, over.unit))
    return [scale * number[value] for value in ordered], [of_values[value] for value in ordered]


def _line(over: Factor, of_values: Mapping[str, Spread], label: str) -> Line:
    x, spreads = _ordered(over, of_values)
    return Line(label, x, [spread.median for spread in spreads])


def _curve(label: str, over: Factor, of_values: Mapping[str, Spread], colour: int) -> Curve:
    """Returns medians with their intervals over a numeric factor."""
    x, spreads = _ordered(over, of_values)
    median, low, high = (np.array([getattr(s, name) for s in spreads]) for name in ("median", "low", "high"))
    return Curve(label, np.array(x), median, "joined", colour, low, high)


def _axis(factor: Factor) -> Axis:
    """Returns the axis of a numeric factor, with a little room at both ends."""
    scale, unit = SCALED.get(factor.unit, (1.0, factor.unit))
    numbers = [scale * number for number in factor.numbers or ()]
    room = MARGIN * (max(numbers) - min(numbers) or abs(numbers[0]) or 1.0)
    return Axis(key_in_words(factor.name), unit, max(numbers) + room, min(numbers) - room)


def _from_zero(panel: Panel) -> Panel:
    """Returns the panel with a vertical axis that begins at 0, or below the lowest value."""
    lowest = min(float(np.min(curve.low)) for curve in panel.curves if curve.low is not None)
    return replace(panel, y=replace(panel.y, low=min(0.0, (1 + MARGIN) * lowest)))


def _crossing(entry: Mapping[str, Any], over: Factor, low: float, high: float) -> Iterator[Curve]:
    """Yields the interval of a crossing as a band, and its value as a line."""
    if entry["value"] is None:
        return
    scale, _ = SCALED.get(over.unit, (1.0, over.unit))
    ends = np.array([low, high])
    if entry["interval"] is not None:
        begin, end = (scale * value for value in entry["interval"])
        if begin < end:
            x, bottom = np.array([begin, end]), np.array([low, low])
            yield Curve("", x, bottom, "line", None, low=bottom, high=np.array([high, high]))
    yield Curve("", np.full(2, scale * entry["value"]), ends, "line", None, is_dashed=True)


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


def _key(factors: Sequence[Factor], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(values[factor.name] for factor in factors)


def _panel(label: str, at: Mapping[str, str]) -> str:
    return f"{label}, {in_words(at)}" if at else label


def _with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _more(shown: int, panels: int) -> str:
    return f"; {shown} of {panels} panels" if panels > shown else ""


def _said(lines: Sequence[Line], unit: str) -> str:
    return "; ".join(f"{line.label}: {', '.join(f'{y:.4g}' for y in line.y)} {unit}".rstrip() for line in lines)
