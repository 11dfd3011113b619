"""Tables of the agreement between back-ends."""

from __future__ import annotations

from mptcplab.metrics import largest_unseen
from mptcplab.report.grid import Grid
from mptcplab.report.quantities import MISSING, head, interval, quantity
from mptcplab.results import METRICS
from mptcplab.results.entities import Json

MOST_ROWS = 200


def metrics_grid(agreement: Json) -> Grid:
    """Returns the table of metrics: means with ranges, their ratio, its interval, the reference
    alone, the verdict.
    """
    reference = agreement["reference"]
    heads = ["flow", "metric", "back-end", "n", "mean", f"{reference} n", f"{reference} mean"]
    heads += ["ratio", "90 % interval", f"{reference} against itself", "of", "verdict"]
    several = _several(agreement["metrics"])
    rows = []
    for entry in agreement["metrics"]:
        unit = METRICS["subflow" if "link" in entry else "flow", entry["metric"]].unit
        measured = [str(entry["n"]), _mean(entry, "", unit)]
        measured += [str(entry["reference_n"]), _mean(entry, "reference_", unit)]
        ratios = [f"{entry['ratio']:.3f}", _interval(entry["ci90"], 1, 3), _interval(entry["self_ci90"], 1, 3)]
        of = f"{_flow(entry, several)}, {entry['link']}" if "link" in entry else _flow(entry, several)
        rows.append([of, entry["metric"], entry["backend"], *measured, *ratios, entry["method"], _verdict(entry)])
    return Grid(heads, rows, frozenset(range(3, 10)))


def shares_grid(agreement: Json) -> Grid:
    """Returns the table of link shares: percentages, their difference in points, and further
    columns as for metrics.
    """
    reference = agreement["reference"]
    heads = ["flow", "link", "back-end", "share", f"{reference} share"]
    heads += ["points", "90 % interval", f"{reference} against itself", "of", "verdict"]
    several = _several(agreement["shares"])
    rows = []
    for entry in agreement["shares"]:
        shares = [f"{100 * entry['mean']:.1f} %", f"{100 * entry['reference_mean']:.1f} %"]
        points = [
            f"{100 * entry['difference']:+.1f}",
            _interval(entry["ci90"], 100, 1),
            _interval(entry["self_ci90"], 100, 1),
        ]
        told = [entry["method"], _verdict(entry)]
        rows.append([_flow(entry, several), entry["link"], entry["backend"], *shares, *points, *told])
    return Grid(heads, rows, frozenset(range(3, 8)))


def notes(agreement: Json) -> list[str]:
    """Returns notes on the tables: how runs were paired, the effect of chance, and what few runs
    can miss.
    """
    reference, count = agreement["reference"], agreement["comparisons"]
    entries = [*agreement["metrics"], *agreement["shares"]]
    said = [_pairing(entries, reference)]
    if count:
        chance = f"{agreement['different_by_chance']:.1f}".removesuffix(".0")
        said.append(
            f"{count} comparisons were tested. On its own, each has a chance of at most 5 % of being called different"
            f" although nothing differs, so {chance} would be expected. A difference that does not remain after Holm's"
            " correction for all comparisons is undecided."
        )
    rows = sum(bool(entry["apart"]) for entry in entries)
    if rows:
        said.append(
            f"In {rows} of {len(entries)} rows, a run is an outlier: it is more than five median absolute deviations"
            " from the median (more if there are few runs), and outside the band. Its seed is listed next to the"
            " verdict. Such a row is never called equivalent."
        )
    smallest = min(min(entry["n"], entry["reference_n"]) for entry in entries)
    unseen = f"{100 * largest_unseen(smallest):.0f} %"
    runs = "run" if smallest == 1 else "runs"
    said.append(
        f"With {smallest} {runs}, behaviour that occurs in up to {unseen} of runs may have been missed (95 %"
        " confidence)."
    )
    return said


def _pairing(entries: list[Json], reference: str) -> str:
    """Returns a sentence that says which rows compare pairs, and why other rows do not."""
    pairs = sum(entry["method"] == "pairs" for entry in entries)
    how = "the ratio is the geometric mean of the ratios seed by seed, the interval Student's t on their logarithms"
    if pairs == len(entries):
        return f"Seeds are paired: {how}; of shares the differences."
    why = f"the seeds of one side are not all among {reference}'s, there are fewer than two, or a value is 0"
    means = "the ratio is that of means, with Fieller's interval; of shares Welch's"
    return f"Seeds are paired in {pairs} of {len(entries)} rows: {how}. In the others {means}, because {why}."


def _mean(entry: Json, side: str, unit: str) -> str:
    """Returns a mean, with the range of the runs if they differ."""
    low, high = entry[f"{side}range"]
    mean = quantity(entry[f"{side}mean"], unit)
    return mean if quantity(low, unit) == quantity(high, unit) else f"{mean} ({interval(low, high, unit)})"


def metrics_side_by_side(agreement: Json, other: str) -> Grid:
    """Returns a table of metrics of single runs, without intervals: the reference, ``other``, and
    their ratio.
    """
    rows = [
        [entry["flow"], head(entry["metric"]), *_values(entry, METRICS["flow", entry["metric"]].unit)]
        for entry in agreement["metrics"]
        if "link" not in entry
    ]
    return Grid(["flow", "", *_of_two(agreement, other)], rows[:MOST_ROWS], frozenset({2, 3, 4}))


def links_side_by_side(agreement: Json, other: str) -> Grid:
    """Returns a table of links in single runs: windows with their ratio, shares with their
    difference.
    """
    rows = [
        [entry["flow"], entry["link"], head(entry["metric"]), *_values(entry, METRICS["subflow", entry["metric"]].unit)]
        for entry in agreement["metrics"]
        if "link" in entry
    ]
    for entry in agreement["shares"]:
        shares = [f"{100 * entry[key]:.1f} %" for key in ("reference_mean", "mean")]
        rows.append([entry["flow"], entry["link"], "share", *shares, f"{100 * entry['difference']:+.1f} points"])
    heads = ["flow", "link", "", *_of_two(agreement, other)]
    # Sorts numbered links by their numbers.
    rows.sort(key=lambda row: (row[0], len(row[1]), row[1]))
    return Grid(heads, rows[:MOST_ROWS], frozenset({3, 4, 5}))


def _of_two(agreement: Json, other: str) -> list[str]:
    return [agreement["reference"], other, f"{other} / {agreement['reference']}"]


def _values(entry: Json, unit: str) -> list[str]:
    return [*(quantity(entry[key], unit) for key in ("reference_mean", "mean")), f"{entry['ratio']:.2f}"]


def _several(entries: list[Json]) -> bool:
    return len({entry["experiment"] for entry in entries}) > 1


def _flow(entry: Json, several: bool) -> str:
    return f"{entry['experiment']}: {entry['flow']}" if several else str(entry["flow"])


def _interval(ends: list[float] | None, factor: float, digits: int) -> str:
    if ends is None:
        return MISSING
    low, high = (factor * end for end in ends)
    return f"{low:.{digits}f} to {high:.{digits}f}"


def _verdict(entry: Json) -> str:
    """Returns the verdict, with the reason if there is none, its reliability, and the outliers."""
    seeds = ", ".join(dict.fromkeys(str(one["seed"]) for one in entry["apart"]))
    apart = f"; apart: seed {seeds}" if seeds else ""
    if entry["why"] is not None:
        return f"{entry['verdict']}: {entry['why']}{apart}"
    return f"{entry['verdict']}{', provisional' if entry['provisional'] else ''}{apart}"
