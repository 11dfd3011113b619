"""How far back-ends agree on the same experiment: equivalence of means, beside the spread of the reference itself.

Two one-sided tests at 5 % (TOST): equivalent if the 90 % interval of the ratio of means lies within the band.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Any

from mptcplab import metrics
from mptcplab.results.bundle import Bundle
from mptcplab.results.entities import Json

#: What the others are held against, if it was asked.
REFERENCE = "kernel"
#: Metrics of flows whose means are compared.
COMPARED = ("goodput_bps", "fct_s", "delay_p50_s", "delay_p99_s", "jitter_s", "loss_ratio", "reordering_ratio")
#: The same of subflows, by the link that they take.
COMPARED_BY_LINK = ("cwnd_bytes",)
#: By which part the ratio of two means may be off 1, and the difference of two shares off 0, unless somebody says.
BAND = 0.05
TOO_FEW = "needs two done runs on either side"

Interval = tuple[float, float]


def agreement(bundles: Sequence[Bundle], band: float = BAND) -> Json | None:
    """How far the back-ends agree; None unless several ran the same experiment.

    ``band``: by which part the ratio of two means may be off 1, and the difference of two shares off 0. Keys:
    ``reference band metrics shares``. Of both lists an entry has ``experiment flow backend n reference_n mean
    reference_mean ci90 self_ci90 verdict provisional why``; ``metrics`` also ``metric ratio``, and of subflows
    ``link``; ``shares`` also ``link difference``. ``self_ci90`` is that of every other run of the reference against the
    rest of them. Verdicts: ``equivalent``, ``different`` (the interval is outside the band) or ``undecided``.
    """
    done = [bundle for bundle in bundles if bundle.status == "done"]
    backends = list(dict.fromkeys(bundle.record["backend"] for bundle in done))
    if len(backends) < 2:
        return None
    reference = REFERENCE if REFERENCE in backends else backends[0]
    of_metrics: list[Json] = []
    of_shares: list[Json] = []
    for runs in _by_experiment(done).values():
        if reference not in runs:
            continue
        for backend in (name for name in backends if name != reference and name in runs):
            about = {"experiment": runs[reference][0].record["experiment"], "backend": backend}
            of_metrics += _metrics(about, runs[backend], runs[reference], band)
            of_shares += _shares(about, runs[backend], runs[reference], band)
    if not of_metrics and not of_shares:
        return None
    return {"reference": reference, "band": band, "metrics": of_metrics, "shares": of_shares}


def _by_experiment(bundles: Sequence[Bundle]) -> dict[str, dict[str, list[Bundle]]]:
    """Runs by what was asked for, whatever it ran as, and by back-end."""
    found: dict[str, dict[str, list[Bundle]]] = {}
    for bundle in bundles:
        found.setdefault(bundle.record["digest"], {}).setdefault(bundle.record["backend"], []).append(bundle)
    return found


def _metrics(about: Json, runs: Sequence[Bundle], reference: Sequence[Bundle], band: float) -> Iterator[Json]:
    for flow in _flows(reference):
        for name in COMPARED:
            values, others = (_values(side, flow, name) for side in (runs, reference))
            if any(values) and any(others):
                yield about | {"flow": flow, "metric": name} | _ratio(values, others, band)
        for name, link in product(COMPARED_BY_LINK, _links(reference, flow)):
            values, others = (_values_on_link(side, flow, link, name) for side in (runs, reference))
            if any(values) and any(others):
                yield about | {"flow": flow, "link": link, "metric": name} | _ratio(values, others, band)


def _ratio(values: Sequence[float], others: Sequence[float], band: float) -> Json:
    found = metrics.ratio_of_means(values, others)
    itself = metrics.ratio_of_means(others[::2], others[1::2])
    entry = _entry(values, others, found, itself, (1 - band, 1 + band))
    return {"ratio": fmean(values) / fmean(others)} | entry


def _shares(about: Json, runs: Sequence[Bundle], reference: Sequence[Bundle], band: float) -> Iterator[Json]:
    for flow in _flows(reference):
        of_runs, of_reference = ([_share_of_links(run, flow) for run in side] for side in (runs, reference))
        links = dict.fromkeys(link for shares in (*of_reference, *of_runs) for link in shares)
        if len(links) < 2:
            continue
        for link in links:
            values, others = ([shares.get(link, 0.0) for shares in side if shares] for side in (of_runs, of_reference))
            if not values or not others:
                continue
            found = metrics.difference_of_means(values, others)
            itself = metrics.difference_of_means(others[::2], others[1::2])
            entry = _entry(values, others, found, itself, (-band, band))
            yield about | {"flow": flow, "link": link, "difference": fmean(values) - fmean(others)} | entry


def _entry(
    values: Sequence[float],
    others: Sequence[float],
    found: tuple[float, Interval] | None,
    itself: tuple[float, Interval] | None,
    allowed: Interval,
) -> Json:
    enough = min(len(values), len(others)) >= 2
    return {
        "n": len(values),
        "reference_n": len(others),
        "mean": fmean(values),
        "reference_mean": fmean(others),
        "ci90": list(found[1]) if found else None,
        "self_ci90": list(itself[1]) if itself else None,
        "verdict": _verdict(found[1], allowed) if found else "undecided",
        "provisional": min(len(values), len(others)) < metrics.SMALLEST_SAMPLE,
        "why": None if found else "the reference cannot be told from 0" if enough else TOO_FEW,
    }


def _verdict(interval: Interval, allowed: Interval) -> str:
    if allowed[0] <= interval[0] and interval[1] <= allowed[1]:
        return "equivalent"
    return "different" if interval[1] < allowed[0] or interval[0] > allowed[1] else "undecided"


def _flows(runs: Sequence[Bundle]) -> list[str]:
    return list(dict.fromkeys(flow["id"] for run in runs for flow in run.record["flows"]))


def _values(runs: Sequence[Bundle], flow: str, metric: str) -> list[float]:
    """The values of the runs that have one, in order of their seeds."""
    ordered = sorted(runs, key=lambda run: run.record["seed"])
    found: Iterator[Any] = (run.record["metrics"].get(f"flows.{flow}", {}).get(metric) for run in ordered)
    return [value for value in found if value is not None]


def _values_on_link(runs: Sequence[Bundle], flow: str, link: str, metric: str) -> list[float]:
    """Of the runs that have subflows on a link, the mean of their values, in order of the seeds."""
    found: list[float] = []
    for run in sorted(runs, key=lambda run: run.record["seed"]):
        of_run: dict[str, Json] = run.record["metrics"]
        here = [one for one in _subflows(run, flow) if _link(one) == link]
        values = [of_run.get(f"flows.{flow}.subflows.{one['id']}", {}).get(metric) for one in here]
        known = [value for value in values if value is not None]
        found += [fmean(known)] if known else []
    return found


def _share_of_links(run: Bundle, flow: str) -> Mapping[str, float]:
    """Which part of a flow's payload went over which link; empty if none did."""
    carried: dict[str, int] = {}
    for subflow in _subflows(run, flow):
        carried[_link(subflow)] = carried.get(_link(subflow), 0) + subflow["bytes"]
    total = sum(carried.values())
    return {link: count / total for link, count in carried.items()} if total else {}


def _links(runs: Sequence[Bundle], flow: str) -> list[str]:
    return list(dict.fromkeys(_link(subflow) for run in runs for subflow in _subflows(run, flow)))


def _link(subflow: Json) -> str:
    """The link that a subflow takes, or where the back-end does not know it its ends."""
    return subflow["link"] or f"{subflow['local']}-{subflow['remote']}"


def _subflows(run: Bundle, flow: str) -> list[Json]:
    return next((one["subflows"] for one in run.record["flows"] if one["id"] == flow), [])
