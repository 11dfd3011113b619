"""The page of results: every row of every case, with known causes of differences."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from string import Template

from mptcplab.fidelity.bounds import DIFFERENCES, Bounds
from mptcplab.fidelity.cases import Case
from mptcplab.fidelity.judgement import LEVEL, Row
from mptcplab.fidelity.recorded import Recorded
from mptcplab.metrics import largest_unseen
from mptcplab.report.quantities import quantity

TEMPLATE = "page.md"
UNITS = {"goodput": "bit/s", "delay": "s", "recovery": "s"}
WORDS = {
    "goodput": "goodput",
    "share": "share of links",
    "recovery": "recovery",
    "delay": "delay (p50, p95, p99)",
    "fairness": "Jain's index of a group",
}


def page(cases: Sequence[Case], rows: Sequence[Row], bounds: Bounds, recorded: Recorded) -> str:
    """Returns the page as Markdown. Its fixed parts are in ``page.md`` beside this file, with the
    source of each fact.
    """
    titles = {case.name: case.title for case in cases}
    seeds = {seed for case in cases for seed in recorded.cases[case.name]}
    template = Template((files("mptcplab.fidelity") / TEMPLATE).read_text(encoding="utf-8"))
    return template.substitute(
        kernel=recorded.release,
        day=recorded.day,
        seeds=len(seeds),
        cases=len(cases),
        unseen=f"{100 * largest_unseen(len(seeds)):.0f} %",
        summary=_summary(rows, bounds),
        verdict=_verdict(rows),
        exemptions=_exemptions(bounds, rows),
        rows="\n\n".join(_case(name, titles[name], list(of)) for name, of in groupby(rows, key=lambda row: row.case)),
    )


def _summary(rows: Sequence[Row], bounds: Bounds) -> str:
    """Returns the number of measures of each kind within their bounds."""
    lines = ["| | within | measures | hold | undecided | exempt | miss |", "|---|---|---|---|---|---|---|"]
    for kind, word in WORDS.items():
        of = [row.verdict for row in rows if row.kind == kind]
        bound = bounds.bounds[kind]
        within = {"share": f"{100 * bound:g} points", "fairness": f"{bound:g}"}.get(kind, f"{100 * bound:g} %")
        exempt = of.count("exempt") + of.count("exempt no longer")
        counts = [len(of), of.count("holds"), of.count("undecided"), exempt, of.count("misses")]
        lines.append(" | ".join([f"| {word}", within, *map(str, counts)]) + " |")
    return "\n".join(lines)


def _verdict(rows: Sequence[Row]) -> str:
    tested = sum(row.p_outside is not None for row in rows)
    missed = [row for row in rows if row.verdict == "misses"]
    chance = f"{tested} measures could be tested. If every true difference were exactly at its bound, chance alone"
    chance += f" would give at most {LEVEL * tested:.0f} misses. If there were no true differences, it would give"
    chance += " almost none."
    if not missed:
        return f"**No measure misses its bound.** {chance}"
    named = ", ".join(f"{row.measure} of {row.case}" for row in missed)
    return f"**{len(missed)} miss: {named}.** {chance}"


def _exemptions(bounds: Bounds, rows: Sequence[Row]) -> str:
    lines = ["| cases | measures | expected | found | mechanism |", "|---|---|---|---|---|"]
    for one in bounds.exemptions:
        found = [row for row in rows if row.exemption is one]
        if not found:
            continue
        least, most = (choose(row.apart for row in found) for choose in (min, max))
        kinds = {row.kind in DIFFERENCES for row in found}
        style = "+.2f" if kinds == {True} else ".2f"
        told = f"{least:{style}}" if least == most else f"{least:{style}} to {most:{style}}"
        idle = sum(row.verdict == "exempt no longer" for row in found)
        told += f", {idle} of {len(found)} within the bound" if idle else ""
        expected = f"{one.holds[0]:g} to {one.holds[1]:g}"
        lines.append(f"| {_short(one.cases)} | {one.measures} | {expected} | {told} | {one.mechanism} |")
    return "\n".join(lines)


def _case(name: str, title: str, rows: Sequence[Row]) -> str:
    lines = [f"**{_short(name)}**: {title}; {rows[0].of} seeds.", ""]
    lines += ["| | simulator | kernel | ratio or points | 90 % interval | |", "|---|---|---|---|---|---|"]
    return "\n".join(lines + [_line(row) for row in rows])


def _line(row: Row) -> str:
    if row.kind == "share":
        sides = [f"{100 * side:.1f} %" for side in (row.simulated, row.measured)]
        apart, interval = f"{100 * row.apart:+.1f}", _interval(row, 100, "+.1f")
    elif row.kind == "fairness":
        sides = [f"{side:.3f}" for side in (row.simulated, row.measured)]
        apart, interval = f"{row.apart:+.3f}", _interval(row, 1, "+.3f")
    else:
        sides = [quantity(side, UNITS[row.kind]) for side in (row.simulated, row.measured)]
        apart, interval = f"{row.apart:.3f}", _interval(row, 1, ".3f")
    fewer = f", {row.pairs} seeds" if row.pairs < row.of else ""
    verdict = f"**{row.verdict}**" if row.verdict == "misses" else row.verdict
    return f"| {row.measure} | {sides[0]} | {sides[1]} | {apart} | {interval} | {verdict}{fewer} |"


def _interval(row: Row, factor: float, style: str) -> str:
    if row.interval is None:
        return ""
    low, high = (factor * end for end in row.interval)
    return f"{low:{style}} to {high:{style}}"


def _short(name: str) -> str:
    return name.removeprefix("fidelity/")
