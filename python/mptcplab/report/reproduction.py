"""The page of a reproduced paper: published and measured values of each claim, and the figures of
the paper.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mptcplab.plots import (
    Axis,
    Drawing,
    Exporter,
    arrivals_of,
    bars,
    congestion_windows,
    key_in_words,
    metric_in_words,
    overlay,
    points_over,
    stacked,
    timeline,
)
from mptcplab.report.grid import Grid
from mptcplab.report.machine import machine_rows
from mptcplab.report.page import Picture, render
from mptcplab.reproduction import (
    AS_DESCRIBED,
    Arm,
    Claim,
    Compared,
    Figure,
    Measure,
    Observation,
    Outcome,
    Verdict,
    agreements,
    apart,
    measured,
    numbers,
    of_each_flow,
    rank,
    tabulated,
    why,
)
from mptcplab.results import Absent, RunData, Spread
from mptcplab.results.entities import Json
from mptcplab.sweep import Factor

NO_BREAK = "\N{NON-BREAKING HYPHEN}"
NOT_TESTED = "not tested"
ARMS = {
    "then": "the stack of the paper's time, the out-of-tree kernel's behaviour and algorithms",
    "today": "a mainline kernel's behaviour, its scheduler, and the same congestion controls by their formulas",
}


@dataclass(frozen=True)
class Sheet:
    """What one figure needs in one arm: observations by the value of the figure's parameter, and of
    its examples.
    """

    figure: Figure
    arm: Arm
    lines: Mapping[str, Sequence[Observation]]
    examples: Mapping[str, Observation]


def sheets(outcome: Outcome) -> list[Sheet]:
    """Returns the figures with runs, in the order of the paper, each in both arms."""
    found = [_sheet(outcome, figure, arm) for figure in outcome.study.paper.figures for arm in outcome.study.arms]
    return [sheet for sheet in found if sheet.lines]


def _sheet(outcome: Outcome, figure: Figure, arm: Arm) -> Sheet:
    cells = outcome.study.experiments(figure.on, arm, AS_DESCRIBED)
    seen = {cell.name: (cell, outcome.observations.get(cell.key, ())) for cell in cells}
    lines: dict[str, list[Observation]] = {}
    for name, (cell, runs) in seen.items():
        if runs:
            # Only quantities use the samples of subflows, which are most of what a sheet contains.
            used = runs if figure.of is not None else [one.of_flows() for one in runs]
            lines.setdefault(_label(figure, name, cell.experiment), []).extend(used)
    return Sheet(figure, arm, lines, {name: seen[name][1][0] for name in figure.examples if seen.get(name, (0, ()))[1]})


def _label(figure: Figure, name: str, experiment: Json) -> str:
    """``n = 3``, the name of an algorithm, or that of the experiment."""
    if figure.label is None:
        return _words_of(Measure.parse(figure.of or ""))
    if figure.label == "name":
        return name.partition("/")[2]
    value = experiment["parameters"][figure.label]
    return str(value) if isinstance(value, str) else f"{figure.label} = {value}"


def pictures_of(sheet: Sheet, exporter: Exporter | None = None) -> list[Picture]:
    """Draw one sheet; with ``exporter`` also as files. Slow enough to be done by
    several processes.
    """
    drawings = list(_drawings(sheet))
    if exporter is not None:
        exporter.write(drawings)
    return [Picture.of(drawing) for drawing in drawings]


def _drawings(sheet: Sheet) -> Iterator[Drawing]:
    runs = {label: [one.run for one in of_label] for label, of_label in sheet.lines.items()}
    flow = next(iter(next(iter(runs.values()))[0].flows))
    place = _file_name(f"{sheet.figure.id}-{sheet.arm.name}-{Path(sheet.arm.backend).name}")
    title = f"{sheet.figure.title}, {sheet.arm.label}"
    for kind, draw in (("goodput", overlay), ("arrivals", arrivals_of)):
        if kind in sheet.figure.draw and (drawing := draw(f"{place}-{kind}", runs, flow)) is not None:
            yield replace(drawing, title=title)
    if sheet.figure.of is not None:
        for kind, draw_quantity in _OF_QUANTITY.items():
            if kind in sheet.figure.draw and (drawing := draw_quantity(f"{place}-{kind}", title, sheet)) is not None:
                yield drawing
    kinds = ("subflows", "timeline", *(["windows"] if "windows" in sheet.figure.draw else []))
    for name, one in sheet.examples.items():
        where = f"{name}, seed {one.seed}, {sheet.arm.label}"
        yield from _of_run(one.run, f"{place}-{_file_name(name)}", where, kinds)


def _file_name(text: str) -> str:
    """Returns a text as part of the name of a file: ``fig6-11`` for ``fig6.11``."""
    return re.sub(r"[^\w-]", "-", text)


def _quantity(figure: Figure) -> tuple[Measure, float, str]:
    """Returns what bars and curves show, the factor of its values, and their unit."""
    factor, unit = (1e-6, "Mbit/s") if figure.unit == "bit/s" else (1.0, figure.unit)
    return Measure.parse(figure.of or ""), factor, unit


def _spread_of(measure: Measure, runs: Sequence[Observation], factor: float) -> Spread | None:
    values = [value for one in runs if not isinstance(value := measured(measure, one), Absent)]
    found = Spread.of(values)
    return found.scaled(factor) if found else None


def _bars(name: str, title: str, sheet: Sheet) -> Drawing | None:
    measure, factor, unit = _quantity(sheet.figure)
    spreads = {label: found for label, runs in sheet.lines.items() if (found := _spread_of(measure, runs, factor))}
    return bars(name, title, unit, spreads) if spreads else None


def _curves(name: str, title: str, sheet: Sheet) -> Drawing | None:
    """Draws the quantity over a parameter, as values that are numbers."""
    over = sheet.figure.over or ""
    measure, factor, unit = _quantity(sheet.figure)
    arms, axis = {}, Factor(over, ())
    for label, runs in sheet.lines.items():
        axis = Factor(over, tuple(dict.fromkeys(str(one.parameters[over]) for one in runs)))
        at = {value: [one for one in runs if str(one.parameters[over]) == value] for value in axis.values}
        spreads = zip(
            axis.numbers or (), (_spread_of(measure, of_value, factor) for of_value in at.values()), strict=True
        )
        arms[label] = {number: spread for number, spread in spreads if spread is not None}
    shown = {label: of_label for label, of_label in arms.items() if of_label}
    x, y = Axis(key_in_words(over), axis.unit), Axis(_words_of(measure), unit)
    return points_over(name, title, x, y, shown) if shown else None


def _pairs(name: str, title: str, sheet: Sheet) -> Drawing | None:
    """Draws a metric of each flow of a group; flows are in the order of the first arm."""
    measure, factor, unit = _quantity(sheet.figure)
    of_flows: dict[str, dict[str, Spread]] = {}
    for label, runs in sheet.lines.items():
        found = [of_each_flow(measure, one) for one in runs]
        flows = dict.fromkeys(flow for one in found for flow in one)
        spreads = {flow: Spread.of([one[flow] for one in found if flow in one]) for flow in flows}
        of_flows[label] = {flow: spread.scaled(factor) for flow, spread in spreads.items() if spread is not None}
    first = next((of_label for of_label in of_flows.values() if of_label), {})
    order = {flow: float(n) for n, flow in enumerate(sorted(first, key=lambda flow: first[flow].median), start=1)}
    shown = {
        label: {order[flow]: found for flow, found in one.items() if flow in order} for label, one in of_flows.items()
    }
    x, y = Axis("Number of the flow"), Axis(_words_of(measure), unit)
    return points_over(name, title, x, y, {label: one for label, one in shown.items() if one}) if order else None


def _words_of(measure: Measure) -> str:
    """Returns a quantity for an axis: ``Fct``, ``Goodput``."""
    return metric_in_words(measure.name) if "." in measure.name else "Goodput"


_OF_QUANTITY = {"bars": _bars, "curves": _curves, "pairs": _pairs}


_OF_RUN = {"subflows": stacked, "timeline": timeline, "windows": congestion_windows}


def _of_run(run: RunData, place: str, where: str, kinds: Sequence[str]) -> Iterator[Drawing]:
    for kind, draw in ((kind, _OF_RUN[kind]) for kind in kinds):
        drawing = draw(run)
        if drawing is not None:
            yield replace(drawing, name=f"{place}-{kind}", title=f"{drawing.title}: {where}")


def reproduction_page(outcome: Outcome, pictures: Sequence[Picture], records: Sequence[Json], command: str) -> str:
    """Returns the page as HTML. `records` are those of all runs."""
    study = outcome.study
    return render(
        "reproduction.html.j2",
        title=study.paper.title,
        says=study.paper.says,
        warnings=_warnings(outcome, records),
        tally=list(tally(outcome)),
        arms=[f"{arm.label}: {ARMS[arm.name]}" for arm in outcome.able],
        claims=_claims(outcome),
        compared=_compared(outcome),
        pictures=pictures,
        rankings=rankings(outcome),
        tables=tables(outcome),
        disagreements=_disagreements(outcome),
        contradictions=_contradictions(outcome),
        assumptions=_assumptions(outcome),
        environment=_environment(outcome, records),
        command=command,
    )


def index_page(reproduced: Sequence[tuple[Outcome, str]], command: str) -> str:
    """Returns the index of the claims of several papers as HTML. Each outcome comes with the
    address of its page.
    """
    papers = [
        {"title": outcome.study.paper.title, "page": page, "tally": list(tally(outcome)), "claims": _index(outcome)}
        for outcome, page in reproduced
    ]
    return render(
        "claims.html.j2",
        title="Claims of papers, then and today",
        papers=papers,
        agreements=list(agreement_sentences([outcome for outcome, _ in reproduced])),
        command=command,
    )


def _index(outcome: Outcome) -> Grid:
    """Returns a row for each claim, with the verdicts of its representative back-ends."""
    rows = [
        [
            claim.id.replace("-", NO_BREAK),
            claim.says,
            *(
                [NOT_TESTED, NOT_TESTED]
                if claim.untested is not None
                else [_words(outcome.verdict(claim, name)) for name in ARMS]
            ),
        ]
        for claim in outcome.study.claims
    ]
    return Grid(["claim", "what the paper says", *ARMS], rows)


def tally(outcome: Outcome) -> Iterator[str]:
    """Yields a sentence for each arm with the number of claims of each verdict."""
    for arm in outcome.study.arms if outcome.study.claims else ():
        if arm not in outcome.able:
            reasons = (part.why_not for one in outcome.verdicts if one.arm == arm for part in one.compared)
            reason = next((one for one in reasons if one is not None), "no claim is tested")
            yield f"{arm.label} cannot be run: {reason}."
            continue
        found = Counter(_kind_of(one) for one in outcome.verdicts if one.arm == arm)
        counts = ", ".join(f"{count} {kind}" for kind, count in found.most_common())
        yield f"{arm.label}: of {found.total()} {'claim' if found.total() == 1 else 'claims'} {counts}."
    yield from agreement_sentences([outcome])


def agreement_sentences(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yields on how many of the claims that both decide two back-ends agree with a stack, and the
    other claims.
    """
    for one in agreements(outcomes):
        name, (first, second) = one.arms[0].name, (arm.backend for arm in one.arms)
        share = f"{100 * len(one.alike) / one.decided:.0f} %"
        sentence = f"{name}: of {one.decided} claims that {first} and {second} both decide, "
        sentence += f"they agree on {len(one.alike)} ({share})"
        contrary = ", ".join(verdict.claim.id for verdict, _ in one.contrary)
        yield f"{sentence}; not on {contrary}." if contrary else f"{sentence}."


def _claims(outcome: Outcome) -> Grid:
    """Returns a row for each claim and arm: the statement of the paper, the verdict, and its
    reason.
    """
    heads = ["claim", "what the paper says", "stack", "verdict", "why"]
    rows = []
    for claim in outcome.study.claims:
        said = [claim.id.replace("-", NO_BREAK), f"{claim.says} ({claim.source})"]
        for one in judged(outcome, claim):
            rows.append([*said, *one])
            said = ["", ""]
    return Grid(heads, rows)


def judged(outcome: Outcome, claim: Claim) -> list[list[str]]:
    """Returns the stacks that a claim was tested on: name, verdict, and reason."""
    if claim.untested is not None:
        return [["", NOT_TESTED, claim.untested]]
    of_claim = [one for one in outcome.verdicts if one.claim is claim and one.arm in outcome.able]
    return [[one.arm.label, _words(one), why(outcome, one)] for one in of_claim]


def _kind_of(verdict: Verdict) -> str:
    return verdict.kind if verdict.claim.untested is None else NOT_TESTED


def _words(verdict: Verdict) -> str:
    """``depends on queues of 10 packets``, ``refuted, provisional``."""
    words = f"depends on {', '.join(verdict.flipped)}" if verdict.kind == "depends" else str(verdict.kind)
    return f"{words}, provisional" if verdict.provisional else words


@dataclass(frozen=True)
class RankingTable:
    """A ranking in one arm: its name in files, its title, and its combinations, best first."""

    name: str
    title: str
    says: str
    grid: Grid


def rankings(outcome: Outcome) -> list[RankingTable]:
    """Returns the rankings with runs."""
    found = []
    for ranking in outcome.study.rankings:
        scale, unit = (1e-6, "Mbit/s") if ranking.unit == "bit/s" else (1.0, ranking.unit)
        heads = ["place", *(factor.name for factor in ranking.among), *ranking.under, f"mean, {unit}", "interval"]
        first = 1 + len(ranking.among)
        for arm in outcome.study.ranked_in:
            rows = [
                [
                    str(place),
                    *one.words,
                    *(f"{scale * spread.median:.2f}" for spread in (*one.under, one.mean)),
                    f"{scale * one.mean.low:.2f} to {scale * one.mean.high:.2f}",
                ]
                for place, one in enumerate(rank(outcome.observations, ranking, arm), start=1)
            ]
            if rows:
                numeric = frozenset([0, *range(first, len(heads))])
                found.append(
                    RankingTable(
                        f"{ranking.id}-{arm.name}-{Path(arm.backend).name}",
                        f"{ranking.title}, {arm.label}",
                        ranking.says,
                        Grid(heads, rows, numeric),
                    )
                )
    return found


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: its id, its title, and what was published beside what was measured."""

    id: str
    title: str
    grid: Grid


def tables(outcome: Outcome) -> list[PaperTable]:
    """Returns the tables of the paper, with a column for what was published
    and one for each arm.
    """
    arms = outcome.study.arms
    found = []
    for table in outcome.study.tables:
        rows = [
            [
                one.experiment,
                ", ".join(
                    part
                    for part in ("Total" if one.is_total else metric_in_words(one.metric), one.published.unit)
                    if part
                ),
                " ".join(part for part in (one.published.op, f"{one.published.value:.4g}") if part),
                *(_spread(spread) for spread in one.measured),
            ]
            for one in tabulated(outcome, table, arms)
        ]
        numeric = frozenset(range(2, 3 + len(arms)))
        heads = ["experiment", "measured", "published", *(arm.label for arm in arms)]
        found += [PaperTable(table.id, table.title, Grid(heads, rows, numeric))] if rows else []
    return found


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return ""
    low, middle, high = (f"{value:.4g}" for value in (spread.low, spread.median, spread.high))
    return middle if low == high else f"{middle} ({low} to {high})"


def _compared(outcome: Outcome) -> Grid:
    rows = [
        [
            one.claim.id.replace("-", NO_BREAK),
            one.arm.label,
            part.judged.kind,
            _numbers(part),
            f"holds if {part.comparison.holds}",
            one.claim.tolerance or "",
        ]
        for one in outcome.verdicts
        if one.arm in outcome.able
        for part in one.compared
    ]
    return Grid(["claim", "stack", "verdict", "measured", "tolerance", "because"], rows)


def _numbers(part: Compared) -> str:
    return f"{part.on}: {part.why_not}" if part.why_not is not None else numbers(part)


def _warnings(outcome: Outcome, records: Sequence[Json]) -> list[str]:
    found = []
    if outcome.study.quick:
        shorter = "fewer repetitions and shorter runs" if outcome.study.paper.quick else "fewer repetitions"
        found.append(f"A quick look: {shorter}, and other assumptions were not tried. Verdicts are provisional.")
    spoiled = [record for record in records if record["status"] != "done"]
    found += [f"{one['experiment']}, seed {one['seed']}, is {one['status']}: {one['why']}" for one in spoiled[:10]]
    return found


def _disagreements(outcome: Outcome) -> Grid:
    """A row for each back-end: its verdict and sentence, and what lies behind them in all runs of
    the comparison.
    """
    rows = [
        [
            *([one.claim.id.replace("-", NO_BREAK), f"{one.claim.says} ({one.arm.name})"] if v is one else ["", ""]),
            v.arm.backend,
            v.as_described,
            why(outcome, v),
            "; ".join(apart(outcome, v)),
        ]
        for one, other in outcome.disagreements()
        for v in (one, other)
    ]
    return Grid(
        ["claim", "what the paper says", "back-end", "verdict", "why", "over all runs of this comparison"], rows
    )


def _contradictions(outcome: Outcome) -> Grid:
    rows = [
        [one.id, one.says, one.reading, _tried(outcome, {alternative.label for alternative in one.instead})]
        for one in outcome.study.contradictions
    ]
    return Grid(["", "what contradicts itself", "how it was read", "read otherwise"], rows)


def _assumptions(outcome: Outcome) -> Grid:
    rows = [
        [one.id, one.says, one.why, _tried(outcome, {alternative.label for alternative in one.instead})]
        for one in outcome.study.paper.assumptions
    ]
    return Grid(["", "assumed", "why", "with another"], rows)


def _tried(outcome: Outcome, labels: set[str]) -> str:
    """What the verdicts are under other values: ``queues of 10 packets: CL-A8 then (sim)
    reproduced``.
    """
    found: dict[str, list[str]] = {}
    for one in outcome.verdicts:
        for label, kind in one.tried.items():
            if label in labels:
                found.setdefault(label, []).append(f"{one.claim.id} {one.arm.label} {kind}")
    if not found:
        return "not tried in this run" if labels else ""
    return ". ".join(f"With {label}: {', '.join(told)}" for label, told in found.items())


def _environment(outcome: Outcome, records: Sequence[Json]) -> Grid:
    rows = machine_rows(records[0]) if records else []
    for backend in dict.fromkeys(record["backend"] for record in records):
        seeds = [record["seed"] for record in records if record["backend"] == backend]
        rows.append([f"runs on {backend}", f"{len(seeds)}, seeds {min(seeds)} to {max(seeds)}"])
    for arm in outcome.study.arms:
        ran = [cell for cell in outcome.study.cells.values() if cell.arm == arm and cell.chosen.choice is not None]
        used = dict.fromkeys(
            f"{s['where']}: {s['used']} instead of {s['asked']}"
            for cell in ran
            for s in (cell.chosen.choice.substitutions if cell.chosen.choice else ())
        )
        rows += [[f"second choices of {arm.label}", "; ".join(used)]] if used else []
    return Grid(["", ""], rows)
