"""The page that compares an algorithm with all others of its kind."""

from __future__ import annotations

from dataclasses import replace

from mptcplab.plots import Cell, Drawing, bars, overview
from mptcplab.report.grid import Grid
from mptcplab.report.page import Picture, render
from mptcplab.report.quantities import MISSING, quantity
from mptcplab.results import Spread
from mptcplab.results.entities import Json

KINDS = {"cc": "congestion control", "scheduler": "scheduler", "path_manager": "path manager"}
#: Units that figures show, with what they are of those of the metrics.
SHOWN = {"bit/s": ("Mbit/s", 1e-6), "s": ("ms", 1e3)}


def contest_page(document: Json) -> str:
    """Returns the page of `benchmark.document` as HTML."""
    names = _names(document)
    return render(
        "contest.html.j2",
        title=f"{names[0]} compared with {names[1] if len(names) == 2 else f'{len(names) - 1} others'}",
        kind=KINDS[document["kind"]],
        document=document,
        overview=[Picture.of(_overview(document, names))],
        places=_places(document),
        values=_values(document, names),
        pictures=[Picture.of(drawing) for drawing in _of_measures(document)],
    )


def contest_drawings(document: Json) -> list[Drawing]:
    """Returns the heat map, and the figure of each measure that has values."""
    return [_overview(document, _names(document)), *_of_measures(document)]


def _names(document: Json) -> list[str]:
    """Returns the algorithms, the newcomer first."""
    first = document["algorithm"]
    algorithms = [value["algorithm"] for value in document["measures"][0]["values"]]
    return [first, *sorted(name for name in algorithms if name != first)]


def _of_measures(document: Json) -> list[Drawing]:
    return [drawing for n, one in enumerate(document["measures"]) if (drawing := _drawing(n, one, document))]


def _known(measure: Json) -> dict[str, Json]:
    return {value["algorithm"]: value for value in measure["values"] if "median" in value}


def _overview(document: Json, names: list[str]) -> Drawing:
    known = [_known(measure) for measure in document["measures"]]
    columns = [f"{measure['scenario']}: {measure['words']}" for measure in document["measures"]]
    rows = {
        name: [_cell(of.get(name), measure["better"]) for of, measure in zip(known, document["measures"], strict=True)]
        for name in names
    }
    return overview(columns, rows)


def _cell(value: Json | None, better: str) -> Cell | None:
    if value is None:
        return None
    ratio = value["ratio"] and value["ratio"]["value"]
    share = ratio if ratio is None or better == "more" else 1 / ratio
    return Cell(share, value["place"] == 1)


def _places(document: Json) -> Grid:
    """Returns a row for each measure: the newcomer, its ratio to the best, its place and those it
    ties with.
    """
    rows = []
    for measure in document["measures"]:
        known = _known(measure)
        own = known.get(document["algorithm"])
        best = next(iter(known), MISSING)
        rows.append(
            [
                measure["title"],
                _axis(measure),
                quantity(own["median"], measure["unit"]) if own else MISSING,
                quantity(known[best]["median"], measure["unit"]) if known else MISSING,
                best,
                _ratio(own),
                f"{own['place']}{' =' if own['tied'] else ''} of {measure['of']}" if own else MISSING,
                ", ".join(_tied_with(known, own)) or MISSING,
            ]
        )
    heads = ["scenario", "measure", "newcomer", "best", "", "ratio to the best", "place", "tied with"]
    return Grid(heads, rows, frozenset({2, 3, 5, 6}))


def _ratio(own: Json | None) -> str:
    if own is None or own["ratio"] is None:
        return MISSING
    low, high = own["ratio"]["interval"]
    value = f"{own['ratio']['value']:.3g}"
    return f"{value} [{low:.3g}, {high:.3g}]" if high > low else value


def _tied_with(known: dict[str, Json], own: Json | None) -> list[str]:
    if own is None:
        return []
    return [name for name, value in known.items() if value["place"] == own["place"] and value is not own]


def _values(document: Json, names: list[str]) -> Grid:
    """Returns a row for each algorithm and a column for each measure: median and place."""
    heads = [f"{measure['scenario']}: {measure['words']}" for measure in document["measures"]]
    columns = [
        {name: _median_and_place(value, measure["unit"]) for name, value in _known(measure).items()}
        for measure in document["measures"]
    ]
    rows = [[name, *(column.get(name, MISSING) for column in columns)] for name in names]
    return Grid(["algorithm", *heads], rows, frozenset(range(1, len(heads) + 1)))


def _median_and_place(value: Json, unit: str) -> str:
    return f"{quantity(value['median'], unit)} ({value['place']}{' =' if value['tied'] else ''})"


def _axis(measure: Json) -> str:
    """Returns the title of an axis: the measure in words, its unit, and which
    direction is better.
    """
    unit, _ = _shown(measure)
    return f"{measure['words']}{f' ({unit})' if unit else ''}, {measure['better']} is better"


def _shown(measure: Json) -> tuple[str, float]:
    return SHOWN.get(measure["unit"], (measure["unit"], 1.0))


def _drawing(number: int, measure: Json, document: Json) -> Drawing | None:
    _, factor = _shown(measure)
    spreads = {
        name: Spread(value["n"], value["median"], *value["range"]).scaled(factor)
        for name, value in _known(measure).items()
    }
    if not spreads:
        return None
    drawing = bars(f"measure-{number}", _axis(measure), "", spreads, marked=document["algorithm"])
    return replace(drawing, title=f"{measure['title']}: {measure['words']}")
