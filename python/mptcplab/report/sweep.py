"""The page of a sweep: findings, figures, and the medians of one metric for all combinations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mptcplab.metrics import SMALLEST_SAMPLE
from mptcplab.plots import Drawing
from mptcplab.report.grid import Cell, Grid, Part
from mptcplab.report.page import Picture, render
from mptcplab.report.quantities import full_head, interval, interval_of, quantity
from mptcplab.results.entities import Json
from mptcplab.sweep import in_words

if TYPE_CHECKING:
    from mptcplab.sweep import Factor, Outcome


def sweep_page(outcome: Outcome, drawings: Sequence[Drawing], table_name: str) -> str:
    """Returns the page as HTML. The file `table_name` is beside it."""
    return render(
        "sweep.html.j2",
        title=f"Sweep of {outcome.sweep.name}",
        swept=[f"{factor.name}: {', '.join(factor.values)}" for factor in outcome.sweep.factors],
        provisional=outcome.least_done < SMALLEST_SAMPLE,
        smallest=outcome.least_done,
        findings=findings(outcome),
        pictures=[Picture.of(drawing) for drawing in drawings],
        medians=medians_of(outcome),
        table_name=table_name,
    )


def medians_of(outcome: Outcome) -> Grid:
    """Returns a row for each combination: values, done runs, and the median and interval of the
    metric.
    """
    names = [factor.name for factor in outcome.sweep.factors]
    unit = outcome.unit(outcome.metric)
    rows = []
    for combination, found in zip(outcome.sweep.combinations, outcome.spreads(outcome.metric), strict=True):
        told = ["0", quantity(None, unit), interval(None, None, unit)]
        if found is not None:
            told = [str(found.n), quantity(found.median, unit), interval_of(found, unit)]
        rows.append([*(_value(factor, combination.values[factor.name]) for factor in outcome.sweep.factors), *told])
    heads = [*names, "n", full_head(outcome.metric), "interval"]
    return Grid(heads, rows, frozenset(range(len(names), len(heads))))


def _value(factor: Factor, value: str) -> str:
    """Returns the cell of a value of a factor."""
    if factor.numbers is None:
        return value
    return Cell(value, Part(factor.numbers[factor.values.index(value)], factor.unit))


def findings(outcome: Outcome) -> list[str]:
    """Returns a sentence for each finding."""
    return [_finding(entry, outcome.unit(entry["metric"])) for entry in outcome.found]


def _finding(entry: Json, metric_unit: str) -> str:
    at = in_words(entry["at"] or {})
    if entry["kind"] == "crossover":
        text = _crossing(entry)
        text = f"{at}: {text}" if at else text
    elif entry["why"] is not None:
        text = f"{entry['metric']}: {entry['why']}"
    else:
        word = "largest" if entry["kind"] == "max" else "smallest"
        text = f"{entry['metric']} is {word} at {at}: {quantity(entry['value'], metric_unit)}"
        text += _with_interval(entry, metric_unit, "best in")
    return f"{text}; provisional, {_runs(entry['n'])}" if entry["provisional"] and entry["why"] is None else text


def _crossing(entry: Json) -> str:
    arms = " and ".join(entry["arms"])
    if entry["why"] is not None:
        return f"{entry['metric']} of {arms}: {entry['why']}"
    low, high = entry["between"]
    where = f"between {low} and {high}" if low != high else f"at {low}"
    text = (
        f"{entry['metric']} of {arms} crosses at {entry['over']} = {quantity(entry['value'], entry['unit'])}, {where}"
    )
    return text + _with_interval(entry, entry["unit"], "crossing in")


def _with_interval(entry: Json, unit: str, share: str) -> str:
    if entry["interval"] is None:
        return ""
    low, high = entry["interval"]
    return f" (95 % of resamples: {interval(low, high, unit)}; {share} {100 * entry['share']:.0f} %)"


def _runs(n: int) -> str:
    return "one run" if n == 1 else f"{n} runs"
