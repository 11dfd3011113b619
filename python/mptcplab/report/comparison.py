"""The page that shows several runs side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from posixpath import commonpath

from mptcplab.errors import UsageError
from mptcplab.plots import Drawing, bars, overlay
from mptcplab.report.agreement import metrics_grid, notes, shares_grid
from mptcplab.report.grid import Cell, Grid, Part
from mptcplab.report.kernels import chance, changes_grid, counters_grid, release_of
from mptcplab.report.page import Picture, render
from mptcplab.report.quantities import MISSING, head, interval, interval_of, quantity
from mptcplab.report.verdict import user_code
from mptcplab.results import METRICS, Bundle, BundleError, RunData, Spread, ratio, spread
from mptcplab.results.agreement import COMPARED
from mptcplab.results.bundle import changes_by_digest, changes_of
from mptcplab.results.entities import Json

#: What is compared of outages, with the heads of their columns.
OUTAGE = {
    "full_recovery": "came back",
    "recovery_s": "recovery",
    "full_rate_s": "full rate again",
    "shortfall_s": "short of it",
    "subflows_reused": "subflows reused",
    "subflows_recreated": "re-created",
    "gap_s": "longest silence",
    "mean_before_bps": "rate before",
    "min_during_bps": "least during",
    "mean_after_bps": "rate after",
}
MOST_FLOWS = 8
#: What an arm is called from which nothing tells it apart but that the others were changed.
AS_DESCRIBED = "as described"

Arms = dict[str, list[Bundle]]


def comparison_page(
    bundles: Sequence[Bundle], agreement: Json | None = None, families: Sequence[tuple[str, Grid]] = ()
) -> str:
    """The comparison of finished runs as HTML; the first arm is what ratios are taken to.

    ``agreement``: how far their back-ends agree, as ``results.agreement`` tells it. ``families``:
    the tables of their families, as ``members_grids`` makes them.

    Runs of one experiment on one back-end are repetitions of one arm. Raises UsageError below two
    arms, and BundleError for a bundle that is not done or is damaged.
    """
    return page_of(arms_of(bundles), {str(bundle.path): bundle.load() for bundle in bundles}, agreement, families)


def arms_of(bundles: Sequence[Bundle]) -> Arms:
    """Bundles by arm, named by what differs between them.

    Raises UsageError below two arms, and BundleError for a bundle that is not done.
    """
    for bundle in bundles:
        if bundle.status != "done":
            why = f" ({bundle.record['why']})" if bundle.record["why"] else ""
            remedy = "run it again, or remove it"
            remedy += " with `mptcplab clean`" if bundle.status == "unfinished" else ""
            raise BundleError(f"{bundle.path}: {bundle.status}{why}; {remedy}")
    experiments = {bundle.record["experiment"] for bundle in bundles}
    places = _places(bundles)
    shared = _shared_folder(experiments)
    choices = _choices(bundles)
    changes = _changes_of_variants(bundles)
    arms: Arms = {}
    for bundle in bundles:
        names = [bundle.record["experiment"].removeprefix(shared)] if len(experiments) > 1 else []
        names += [changes[bundle.record["digest"]], *choices[str(bundle.path)]]
        name = ", ".join(name for name in names if name) or AS_DESCRIBED
        if len(set(places.values())) > 1:
            place = places[str(bundle.path)]
            name = f"{name} on {place}" if any(names) else place
        arms.setdefault(name, []).append(bundle)
    if len(arms) < 2:
        raise UsageError(
            "a comparison needs runs of at least two experiments, variants, back-ends or kernels; "
            f"found {len(bundles)} of one"
        )
    return arms


def _places(bundles: Sequence[Bundle]) -> dict[str, str]:
    """Returns, by path of the bundle, its back-end, with the release of the kernel if runs on this
    back-end had several.
    """
    releases: dict[str, set[str | None]] = {}
    for bundle in bundles:
        releases.setdefault(bundle.record["backend"], set()).add(release_of(bundle.record))
    several = {backend for backend, found in releases.items() if len(found) > 1}
    return {
        str(bundle.path): f"{backend} (Linux {release_of(bundle.record)})" if backend in several else backend
        for bundle in bundles
        for backend in (bundle.record["backend"],)
    }


def shared_by(bundles: Sequence[Bundle]) -> str:
    """Returns what all bundles have in common: the name or the folder of their experiments, the
    back-end, and the changes on the command line.
    """
    experiments = {bundle.record["experiment"] for bundle in bundles}
    backends = {bundle.record["backend"] for bundle in bundles}
    name = _shared_folder(experiments).rstrip("/") if len(experiments) > 1 else next(iter(experiments))
    first, *others = changes_by_digest(bundles).values()
    changes = [change for change in first if all(change in other for other in others)]
    return " · ".join([*filter(None, [name]), *(backends if len(backends) == 1 else ()), *changes])


def in_order(bundles: Iterable[Bundle]) -> list[Bundle]:
    """Sorts bundles: experiments by their numbers, and for each first the run without changes."""
    return sorted(bundles, key=_place)


def _place(bundle: Bundle) -> tuple[list[tuple[str, int]], list[str], str, int]:
    pieces = re.findall(r"(\D*)(\d*)", bundle.record["experiment"])
    numbered = [(text, int(number or 0)) for text, number in pieces]
    return numbered, changes_of(bundle), bundle.record["backend"], bundle.record["seed"]


def _changes_of_variants(bundles: Sequence[Bundle]) -> dict[str, str]:
    """Returns, by digest, the changes on the command line that not all runs have, and the digest if
    files differ.
    """
    variants = {bundle.record["digest"]: bundle for bundle in bundles}
    changes = changes_by_digest(bundles)
    everywhere = set.intersection(*(set(changed) for changed in changes.values()))
    telling = {digest: [c for c in changed if c not in everywhere] for digest, changed in changes.items()}
    names = {digest: ", ".join(_shortened(changed, telling.values())) for digest, changed in telling.items()}
    alike = Counter((variants[digest].record["experiment"], name) for digest, name in names.items())
    return {
        digest: name if alike[variants[digest].record["experiment"], name] == 1 else f"{name} ({digest[:8]})".strip()
        for digest, name in names.items()
    }


def _shortened(changed: Sequence[str], variants: Iterable[Sequence[str]]) -> list[str]:
    """``queue=10p`` for ``links.a.queue=10p`` and ``links.b.queue=10p``, if all with a queue change
    both alike.
    """
    keys_by_name: dict[str, set[tuple[str, ...]]] = {}
    for variant in variants:
        for name, keys in _by_name(variant).items():
            keys_by_name.setdefault(name, set()).add(tuple(keys))
    short = []
    for name, values in _by_name(changed).items():
        is_plain = len(keys_by_name[name]) == 1 and len(set(values.values())) == 1
        short += [f"{name if is_plain else key}={value}" for key, value in values.items()]
    return list(dict.fromkeys(short))


def _by_name(changes: Iterable[str]) -> dict[str, dict[str, str]]:
    """Returns keys and new values by the last name in the key."""
    found: dict[str, dict[str, str]] = {}
    for change in changes:
        key, _, value = change.partition("=")
        found.setdefault(key.rpartition(".")[2], {})[key] = value
    return found


def _choices(bundles: Sequence[Bundle]) -> dict[str, list[str]]:
    """Returns, by path of the bundle, the choices from preference lists in which equal
    experiments differ.
    """
    used = {
        str(bundle.path): ", ".join(f"{s['where']}={s['used']}" for s in bundle.record["substitutions"])
        or "all first choices"
        for bundle in bundles
    }
    of_same: dict[tuple[str, str, str], set[str]] = {}
    for bundle in bundles:
        of_same.setdefault(_same(bundle), set()).add(used[str(bundle.path)])
    return {str(bundle.path): [used[str(bundle.path)]] if len(of_same[_same(bundle)]) > 1 else [] for bundle in bundles}


def _same(bundle: Bundle) -> tuple[str, str, str]:
    return bundle.record["experiment"], bundle.record["backend"], bundle.record["digest"]


def _shared_folder(experiments: set[str]) -> str:
    """Returns the folders that all ids begin with, with a final slash."""
    folder = commonpath([experiment.rpartition("/")[0] for experiment in experiments])
    return f"{folder}/" if folder else ""


def comparison_drawings(bundles: Sequence[Bundle]) -> list[Drawing]:
    """Returns the figures of a comparison. Raises what `comparison_page` raises."""
    return _drawings(arms_of(bundles), {str(bundle.path): bundle.load() for bundle in bundles})


def _drawings(arms: Arms, data: dict[str, RunData]) -> list[Drawing]:
    loaded = {name: [data[str(bundle.path)] for bundle in bundles] for name, bundles in arms.items()}
    flows = _flows_of_runs(data.values())
    drawn = [(overlay(f"overlay-{n}", loaded, flow), _bars(f"goodput-{n}", arms, flow)) for n, flow in enumerate(flows)]
    return [drawing for drawing in chain(*drawn) if drawing is not None]


def _flows_of_runs(runs: Iterable[RunData]) -> list[str]:
    return list(dict.fromkeys(flow for run in runs for flow in run.flows))[:MOST_FLOWS]


def page_of(
    arms: Arms, data: dict[str, RunData], agreement: Json | None = None, families: Sequence[tuple[str, Grid]] = ()
) -> str:
    """Returns the comparison from its arms and the data of each bundle by path."""
    flows = _flows_of_runs(data.values())
    runs = list(chain(*arms.values()))
    smallest = min(len(bundles) for bundles in arms.values())
    return render(
        "comparison.html.j2",
        title=f"Comparison of {len(arms)} arms",
        shared=shared_by(runs),
        arms=[(name, len(bundles)) for name, bundles in arms.items()],
        reference=next(iter(arms)),
        provisional=smallest < 6,
        own=_user_code_of(arms),
        smallest=smallest,
        pictures=[Picture.of(drawing) for drawing in _drawings(arms, data)],
        table_of_arms=table_of(arms, flows),
        outages=outages_of(arms),
        families=families,
        kernel_counters=counters_grid(runs),
        kernel_chance=chance(runs),
        kernel_changes=changes_grid(runs),
        agreement=agreement,
        agreement_of_metrics=metrics_grid(agreement) if agreement else None,
        agreement_of_shares=shares_grid(agreement) if agreement else None,
        agreement_notes=notes(agreement) if agreement else [],
    )


def _user_code_of(arms: Arms) -> list[str]:
    """Returns the user-defined algorithms of each arm that has some."""
    found = []
    for name, bundles in arms.items():
        told = dict.fromkeys(user_code(entry) for one in bundles for entry in one.record.get("user_code", ()))
        found += [f"{name}: {', '.join(told)}"] if told else []
    return found


def flows_of(arms: Arms) -> list[str]:
    """Returns the flows that at least one arm has."""
    records = [bundle.record for bundles in arms.values() for bundle in bundles]
    return list(dict.fromkeys(flow["id"] for record in records for flow in record["flows"]))


def _bars(name: str, arms: Arms, flow: str) -> Drawing | None:
    found = {arm: spread(bundles, f"flows.{flow}", "goodput_bps") for arm, bundles in arms.items()}
    shown = {arm: s.scaled(1e-6) for arm, s in found.items() if s is not None}
    return bars(name, f"Goodput of {flow}", "Mbit/s", shown) if shown else None


def table_of(arms: Arms, flows: list[str] | None = None) -> Grid:
    """Returns medians, intervals and ratios to the first arm, for each flow (default: the first
    `MOST_FLOWS`) and metric.
    """
    (_, reference), *_ = arms.items()
    if flows is None:
        flows = flows_of(arms)[:MOST_FLOWS]
    rows = []
    for flow in flows:
        for metric in _telling(arms, flow):
            for name, bundles in arms.items():
                row = _row(bundles, reference, f"flows.{flow}", metric)
                if row is not None:
                    rows.append([flow, head(metric), name, *row])
    heads = ["flow", "metric", "arm", "n", "median", "interval", "ratio", "interval of the ratio"]
    return Grid(heads, rows, frozenset(range(3, len(heads))), has_unit_per_row=True)


def by_metric(grid: Grid) -> Grid:
    """Returns the table of `table_of` for a narrow place: arms below the name of their metric,
    without the interval of the ratio.
    """
    rows: list[list[str]] = []
    told = ("", "")
    for flow, metric, arm, *values, _ in grid.rows:
        if (flow, metric) != told:
            told = flow, metric
            rows.append([f"{flow}: {metric}", *[""] * len(values)])
        rows.append([f"  {arm}", *values])
    return Grid(["", *grid.heads[3:-1]], rows, frozenset(range(1, len(grid.heads) - 3)))


def outages_of(arms: Arms, *, intervals: bool = True) -> Grid | None:
    """How each arm got over outages and repairs, a row for each arm and event: medians over the
    runs; None without.

    ``intervals``: whether medians have their intervals beside them.
    """
    names: dict[str, None] = {}
    for bundle in (bundle for bundles in arms.values() for bundle in bundles):
        events = bundle.record["events"]
        names |= dict.fromkeys(event["parent"] or event["id"] for event in events)
    found = {
        (event, arm): {metric: spread(bundles, f"events.{event}", metric) for metric in OUTAGE}
        for event in names
        for arm, bundles in arms.items()
    }
    told = {key: spreads for key, spreads in found.items() if spreads["mean_before_bps"] or spreads["recovery_s"]}
    shown = [metric for metric in OUTAGE if any(spreads[metric] is not None for spreads in told.values())]
    rows = [
        [event, arm, str(len(arms[arm])), *(_told(arms[arm], event, m, spreads[m], intervals=intervals) for m in shown)]
        for (event, arm), spreads in told.items()
    ]
    heads = ["event", "arm", "n", *(OUTAGE[metric] for metric in shown)]
    return Grid(heads, rows, frozenset(range(2, len(heads)))) if rows else None


def _told(bundles: Sequence[Bundle], event: str, metric: str, found: Spread | None, *, intervals: bool) -> str:
    """The median, with its interval where runs differ, and how many have a value; of yes or no, how
    many runs did.
    """
    if found is None:
        return MISSING
    runs, unit = len(bundles), METRICS["event", metric].unit.replace("subflows", "")
    if unit == "0/1" and found.low != found.high:
        values = [bundle.record["metrics"].get(f"events.{event}", {}).get(metric) for bundle in bundles]
        return f"{values.count(1)} of {runs}"
    text: str = quantity(found.median, unit)
    if intervals and quantity(found.low, unit) != quantity(found.high, unit):
        text += f" ({interval(found.low, found.high, unit)})"
    return text if found.n == runs else f"{text} in {found.n} of {runs}"


def _telling(arms: Arms, flow: str) -> list[str]:
    """Returns the metrics of a flow that are not 0 in every run."""
    records = [bundle.record["metrics"].get(f"flows.{flow}", {}) for bundles in arms.values() for bundle in bundles]
    return [metric for metric in COMPARED if any(record.get(metric) for record in records)]


def _row(bundles: list[Bundle], reference: list[Bundle], entity: str, metric: str) -> list[str] | None:
    found = spread(bundles, entity, metric)
    if found is None:
        return None
    unit = METRICS["flow", metric].unit
    ratios = _ratios(ratio(bundles, reference, entity, metric))
    return [str(found.n), quantity(found.median, unit), interval_of(found, unit), *ratios]


def _ratios(found: Spread | None) -> list[str]:
    """Returns the cells of a ratio and of its interval."""
    if found is None:
        return [quantity(None, ""), interval(None, None, "")]
    median = Cell(f"{found.median:.3f}", Part(found.median))
    if found.n == 1:
        return [median, interval(None, None, "")]
    bounds = Part(found.low, name="low"), Part(found.high, name="high")
    return [median, Cell(f"{found.low:.3f} to {found.high:.3f}", *bounds)]
