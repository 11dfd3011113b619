"""Results of runs for people: a table of flows, a chart of throughput, expectations that did not
hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mptcplab.cli.console import escape
from mptcplab.cli.output import PROBLEMS, RESULTS, is_ascii_only, print_table
from mptcplab.errors import first_few
from mptcplab.report.grid import Cell, Grid, Part
from mptcplab.report.members import OF_MEMBERS, members_grids
from mptcplab.report.quantities import MISSING, interval, quantity
from mptcplab.report.verdict import fell_back, substituted, user_code
from mptcplab.results import Spread, arrived
from mptcplab.results.evidence import illustrative_told
from mptcplab.results.offered import is_limited_by_application, steady_bps
from mptcplab.results.recovery import UNRECOVERED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptcplab.families import Json
    from mptcplab.metrics.arrays import Floats
    from mptcplab.results import Bundle, RunData

#: Number of flows printed. --json has all.
MOST_FLOWS = 12
NARROWEST_CHART, WIDEST_CHART = 10, 100
BARS, ARROW = " ▁▂▃▄▅▆▇█", "↑"
#: For terminals that only have ASCII.
ASCII_BARS, ASCII_ARROW = " .:-=+*%#", "^"

COLUMNS = (
    "experiment",
    "flow",
    "median of",
    "goodput",
    "of ceiling",
    "of offered",
    "lost",
    "delay p50",
    "recovery",
    "full rate again",
)


def outcome_grid(bundles: Sequence[Bundle], most_flows: int | None = None) -> Grid:
    """Returns a row per flow of each experiment: the value of a single run, or the median of
    several. `most_flows` is the number of flows with a row of their own, None for all.
    """
    by_experiment: dict[str, list[Bundle]] = {}
    for bundle in bundles:
        by_experiment.setdefault(bundle.record["experiment"], []).append(bundle)
    rows = [list(row) for name, repetitions in by_experiment.items() for row in _rows(name, repetitions, most_flows)]
    return Grid(list(COLUMNS), rows, frozenset(range(2, len(COLUMNS))))


def print_outcome(bundles: Sequence[Bundle]) -> None:
    """Prints the table of flows, without the columns in which no flow has a value."""
    grid = _without_empty_columns(outcome_grid(bundles, MOST_FLOWS))
    print_table(grid.heads, [[escape(cell) for cell in row] for row in grid.rows], right=grid.numeric)


def _without_empty_columns(grid: Grid) -> Grid:
    shown = [i for i in range(len(grid.heads)) if any(row[i] not in ("", MISSING) for row in grid.rows)]
    rows = [[row[i] for i in shown] for row in grid.rows]
    numeric = frozenset(place for place, i in enumerate(shown) if i in grid.numeric)
    return Grid([grid.heads[i] for i in shown], rows, numeric)


def print_substitutions(bundles: Sequence[Bundle]) -> None:
    """Prints a line for each choice that was not the first of its list, once
    for all runs with it.
    """
    told = (substituted(entry) for bundle in bundles for entry in bundle.record["substitutions"])
    for line in dict.fromkeys(told):
        RESULTS.print(f"[yellow]substituted[/] {escape(line)}", soft_wrap=True)


def print_user_code(bundles: Sequence[Bundle]) -> None:
    """Prints a line for each user-defined algorithm, once for all runs with it."""
    told = (user_code(entry) for bundle in bundles for entry in bundle.record.get("user_code", ()))
    for line in dict.fromkeys(told):
        RESULTS.print(f"[yellow]user code[/] {escape(line)}", soft_wrap=True)


def print_illustrative(bundles: Sequence[Bundle]) -> None:
    """Prints a line for the models and profiles that make results illustrative, once for all runs
    with them.
    """
    told = (sentence for bundle in bundles if (sentence := illustrative_told(bundle.resolved)))
    for line in dict.fromkeys(told):
        RESULTS.print(f"[dim]illustrative: {escape(line)}[/]", soft_wrap=True)


def print_fallbacks(bundles: Sequence[Bundle]) -> None:
    """Prints a line for each way in which a connection fell back to TCP, with the runs in which it
    did.
    """
    runs: dict[str, list[str]] = {}
    for bundle in bundles:
        for flow in bundle.record["flows"]:
            if flow.get("fallback"):
                run = f"{bundle.record['experiment']}, seed {bundle.record['seed']}"
                runs.setdefault(fell_back(flow), []).append(run)
    for told, where in runs.items():
        line = f"{told} ({first_few(where, '; ', most=1)})"
        RESULTS.print(f"[yellow]fallback[/] {escape(line)}", soft_wrap=True)


def print_real_links(bundles: Sequence[Bundle]) -> None:
    """Prints a line for each real link of each run, with its round-trip time."""
    for bundle in bundles:
        for link in (bundle.record["result"] or {}).get("real_links", []):
            rtt = "no path crosses it"
            if link["rtt_s"] is not None:
                rtt = f"round trip {quantity(link['rtt_s'], 's')}, measured before the run"
            run = f"{bundle.record['experiment']}, seed {bundle.record['seed']}"
            RESULTS.print(escape(f"real link {link['id']}: {rtt} ({run})"), style="dim", soft_wrap=True)


def print_flow_errors(bundles: Sequence[Bundle]) -> None:
    """Prints a line for each flow that ended with an error, or has no goodput."""
    for bundle in bundles:
        for flow in (bundle.record["result"] or {}).get("flows", []):
            missing = bundle.record["absent"].get(f"flows.{flow['id']}", {})
            if why := flow.get("error") or missing.get("goodput_bps"):
                run = f"{bundle.record['experiment']}, seed {bundle.record['seed']}"
                RESULTS.print(f"[yellow]flow {escape(flow['id'])}[/] {escape(why)} ({escape(run)})", soft_wrap=True)


def print_not_done(bundles: Sequence[Bundle]) -> None:
    """Prints a line for each run that is not done, with the reason."""
    for bundle in bundles:
        if bundle.status != "done":
            why = f": {bundle.record['why']}" if bundle.record["why"] else ""
            PROBLEMS.print(f"[red]{bundle.status}[/] {escape(f'{bundle.path}{why}')}", soft_wrap=True)


def print_expectations(bundles: Sequence[Bundle]) -> None:
    """Prints each expectation that did not hold or was not judged, and the number of those that
    held.
    """
    verdicts = [(bundle, verdict) for bundle in bundles for verdict in bundle.record["expectations"]]
    for bundle, verdict in verdicts:
        run = f"{bundle.record['experiment']}, seed {bundle.record['seed']}"
        told = escape(f"{verdict['text']} ({run}: {verdict['why'] or ''})")
        if verdict["held"] is None:
            RESULTS.print(f"[yellow]not judged[/] {told}", soft_wrap=True)
        elif not verdict["held"]:
            PROBLEMS.print(f"[red]not held[/] {told}", soft_wrap=True)
    if verdicts:
        held = sum(verdict["held"] is True for _, verdict in verdicts)
        RESULTS.print(f"{held} of {len(verdicts)} expectations held")


def print_family_metrics(entries: Sequence[Json], bundles: Sequence[Bundle]) -> None:
    """Prints the metrics of the families that were run: a table of the members, best values and
    crossings.
    """
    if not entries:
        return
    for _, grid in members_grids({"": entries}, bundles):
        RESULTS.print()
        print_table(grid.heads, [[escape(cell) for cell in row] for row in grid.rows], right=grid.numeric)
    of_members = [entry for entry in entries if entry["kind"] in OF_MEMBERS]
    # A value that only some members have is a dash in the table, which needs no reason.
    valued = {entry["id"] for entry in of_members if entry["kind"] == "value" and not entry["why"]}
    without = [entry for entry in of_members if entry["why"] and entry["id"] not in valued]
    for line in dict.fromkeys(f"{entry['id']}: {entry['why']}" for entry in without):
        RESULTS.print(escape(line), soft_wrap=True)
    others = [entry for entry in entries if entry not in of_members]
    rows = [(escape(entry["id"]), escape(_subject(entry)), *_family_values(entry)) for entry in others]
    if rows:
        RESULTS.print()
        print_table(("family metric", "", "value", "interval"), rows, right=(2, 3))
    RESULTS.print()


def _subject(entry: Json) -> str:
    verb = "is largest at" if entry["kind"] == "argmax" else "cross at"
    return f"{entry['metric'].replace(' ', ' and ')} {verb} {entry['over']} ="


def _family_values(entry: Json) -> tuple[str, str]:
    """Returns the value and its interval, or the reason that there is none."""
    if entry["why"]:
        return quantity(None, ""), escape(entry["why"])
    value = quantity(entry["median"], "") if entry["value"] is None else str(entry["value"])
    low, high = entry["ci95"]
    return escape(value), interval(low, high, "")


def print_chart(bundle: Bundle) -> None:
    """Prints the throughput of each flow over time, relative to its peak, with the events below."""
    run = bundle.load()
    flows = list(run.flows)[:MOST_FLOWS]
    if not flows or run.end_s == 0:
        return
    label = max(len("events"), *(len(flow) for flow in flows))
    columns = max(NARROWEST_CHART, min(WIDEST_CHART, RESULTS.width - label - len("  peak 1000 Mbit/s")))
    RESULTS.print()
    for flow in flows:
        rates = _binned_rates(run, flow, columns)
        peak = float(rates.max(initial=0.0))
        _print_line(f"{escape(flow):>{label}} [cyan]{_bars(rates, peak)}[/] peak {quantity(peak, 'bit/s')}")
    marks = _marks(run, columns)
    if marks:
        _print_line(f"[dim]{'events':>{label}} {escape(marks)}[/]")
    _print_line(f"[dim]{'':>{label}} 0 s{quantity(run.end_s, 's'):>{columns - len('0 s')}}[/]")
    RESULTS.print()


def _bars(rates: Floats, peak: float) -> str:
    heights = ASCII_BARS if is_ascii_only() else BARS
    return "".join(heights[round(rate / peak * (len(heights) - 1))] if peak else heights[0] for rate in rates)


def _print_line(text: str) -> None:
    RESULTS.print(text, no_wrap=True, overflow="ignore", crop=False)


def _rows(name: str, repetitions: Sequence[Bundle], most_flows: int | None) -> list[tuple[str, ...]]:
    flows = [flow["id"] for flow in repetitions[0].record["flows"]]
    count = len(repetitions)
    runs = Cell(str(count) if count > 1 else MISSING, Part(count))
    described = {flow["id"]: flow for flow in repetitions[0].resolved["flows"]}
    rows = [
        (Cell("" if index else name, Part(name)), flow, runs, *_values(repetitions, flow, described.get(flow)))
        for index, flow in enumerate(flows[:most_flows])
    ]
    hidden = len(flows) - len(rows)
    return [*rows, ("", f"and {hidden} more: --json has all", *[""] * (len(COLUMNS) - 2))] if hidden else rows


def _values(repetitions: Sequence[Bundle], flow: str, described: Json | None) -> tuple[str, ...]:
    """Returns the cells of a flow. `described` is the resolved flow. One that its application
    limits has no share of its ceiling.
    """
    goodputs = _known(repetitions, flow, "goodput_bps")
    is_limited = described is not None and is_limited_by_application(described)
    offered = steady_bps(described) if described is not None else None
    return (
        _median(goodputs, "bit/s"),
        _median([] if is_limited else _known(repetitions, flow, "ceiling_ratio"), ""),
        _median([goodput / offered for goodput in goodputs] if offered else [], ""),
        _median(_known(repetitions, flow, "loss_ratio"), ""),
        _median(_known(repetitions, flow, "delay_p50_s"), "s"),
        _reached(repetitions, flow, "recovery_s"),
        _reached(repetitions, flow, "full_rate_s"),
    )


def _known(repetitions: Sequence[Bundle], flow: str, metric: str) -> list[float]:
    """Returns the value of each run that has one."""
    values = [bundle.record["metrics"].get(f"flows.{flow}", {}).get(metric) for bundle in repetitions]
    return [value for value in values if value is not None]


def _reached(repetitions: Sequence[Bundle], flow: str, metric: str) -> str:
    """Returns the longest time after an event of a run, and the number of runs in which the flow
    reached the target.
    """
    found = _known(repetitions, flow, metric)
    why = [bundle.record["absent"].get(f"flows.{flow}", {}).get(metric, "") for bundle in repetitions]
    missed = sum(reason.startswith(UNRECOVERED) for reason in why)
    median = _median(found, "s")
    text: str = median
    if missed:
        text = f"{median} in {len(found)} of {len(found) + missed}" if found else "not reached"
    return Cell(text, *median.parts, Part(len(found), name="reached"), Part(missed, name="not reached"))


def _median(values: list[float], unit: str) -> Cell:
    spread = Spread.of(values)
    return quantity(spread.median if spread else None, unit)


def _binned_rates(run: RunData, flow: str, columns: int) -> Floats:
    """Returns the mean rate of arrival, in bit/s, of each column of the chart.

    The delivery in order would jump when a gap is filled, far above what the links can carry.
    """
    series = arrived(run, flow)
    if series is None:
        return np.zeros(columns)
    edges = np.linspace(0, run.end_s, columns + 1)
    return np.diff(np.interp(edges, series.times_s, series.values)) * 8 / np.diff(edges)


def _marks(run: RunData, columns: int) -> str:
    """Returns a line with an arrow and the name at the time of each event, as far as they fit."""
    line = ""
    for happening in run.happenings:
        column = int(happening.actual_s / run.end_s * columns)
        if column >= len(line):
            line = f"{line:<{column}}{ASCII_ARROW if is_ascii_only() else ARROW}{happening.id} "
    return line
