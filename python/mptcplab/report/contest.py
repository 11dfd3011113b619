"""The page that compares an algorithm with all others of its kind."""

from __future__ import annotations

from dataclasses import replace

from mptcplab.plots import Drawing, bars, metric_in_words
from mptcplab.report.page import Grid, Picture, render
from mptcplab.report.quantities import MISSING, quantity
from mptcplab.results import Spread
from mptcplab.results.entities import Json

KINDS = {"cc": "congestion control", "scheduler": "scheduler", "path_manager": "path manager"}
#: Units that figures show, with what they are of those of the metrics.
SHOWN = {"bit/s": ("Mbit/s", 1e-6), "s": ("ms", 1e3)}


def contest_page(document: Json) -> str:
    """Returns the page of `benchmark.document` as HTML."""
    algorithms = [value["algorithm"] for value in document["measures"][0]["values"]]
    return render(
        "contest.html.j2",
        title=f"{document['algorithm']} beside {len(algorithms) - 1} others",
        kind=KINDS[document["kind"]],
        document=document,
        places=_places(document),
        values=_values(document, algorithms),
        pictures=[Picture.of(drawing) for drawing in contest_drawings(document)],
    )


def contest_drawings(document: Json) -> list[Drawing]:
    """Returns the figure of each measure that has values."""
    return [drawing for n, one in enumerate(document["measures"]) if (drawing := _drawing(n, one, document))]


def _known(measure: Json) -> dict[str, Json]:
    return {value["algorithm"]: value for value in measure["values"] if "median" in value}


def _places(document: Json) -> Grid:
    """Returns a row for each measure: the newcomer, the best of the others, and the rank of the newcomer."""
    rows = []
    for measure in document["measures"]:
        known = _known(measure)
        medians = {name: quantity(value["median"], measure["unit"]) for name, value in known.items()}
        best = next((name for name in known if name != document["algorithm"]), MISSING)
        place = f"{measure['place'] or MISSING} of {measure['of']}"
        own = medians.get(document["algorithm"], MISSING)
        rows.append([measure["title"], measure["metric"], own, best, medians.get(best, MISSING), place])
    return Grid(["scenario", "metric", "newcomer", "best of the others", "", "place"], rows, frozenset({2, 4, 5}))


def _values(document: Json, algorithms: list[str]) -> Grid:
    """Returns a row for each algorithm and a column for each measure."""
    heads = [f"{measure['scenario']}: {measure['metric'].rpartition('.')[2]}" for measure in document["measures"]]
    columns = [
        {name: quantity(value["median"], measure["unit"]) for name, value in _known(measure).items()}
        for measure in document["measures"]
    ]
    first = document["algorithm"]
    names = [first, *sorted(name for name in algorithms if name != first)]
    rows = [[name, *(column.get(name, MISSING) for column in columns)] for name in names]
    return Grid(["algorithm", *heads], rows, frozenset(range(1, len(heads) + 1)))


def _drawing(number: int, measure: Json, document: Json) -> Drawing | None:
    unit, factor = SHOWN.get(measure["unit"], (measure["unit"], 1.0))
    spreads = {
        name: Spread(value["n"], *(factor * part for part in (value["median"], *value["range"])))
        for name, value in _known(measure).items()
    }
    if not spreads:
        return None
    better = f"{metric_in_words(measure['metric'])}, {measure['better']} is better"
    drawing = bars(f"measure-{number}", better, unit, spreads, marked=document["algorithm"])
    return replace(drawing, title=f"{measure['title']}: {better}")
