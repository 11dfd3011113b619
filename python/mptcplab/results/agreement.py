"""How far back-ends agree on the same experiment: equivalence of means, with the spread of the
reference.

Uses two one-sided tests at 5 % (TOST): results are equivalent if the 90 % interval of the ratio
lies within the band. Runs with the same seeds on both back-ends are paired, because their losses
and starts are then the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, median
from typing import Any, Literal

from mptcplab import metrics
from mptcplab.results.bundle import Bundle
from mptcplab.results.entities import Json

#: The back-end that others are compared with, if it is among them.
REFERENCE = "kernel"
#: Metrics of flows whose means are compared.
COMPARED = ("goodput_bps", "fct_s", "delay_p50_s", "delay_p99_s", "jitter_s", "loss_ratio", "reordering_ratio")
#: Metrics of subflows whose means are compared, by the link that the subflow takes.
COMPARED_BY_LINK = ("cwnd_bytes",)
#: The default band: the largest allowed deviation of a ratio of means from 1, and of a difference
#: of shares from 0.
BAND = 0.05
#: The probability of a difference by chance, over all comparisons of a page together.
LEVEL = 0.05
TOO_FEW = "needs two done runs on either side"
STANDS_APART = "a run stands apart"
NOT_TOLD_FROM_0 = "the reference cannot be told from 0"

Interval = tuple[float, float]
#: Values of runs by seed, in ascending order of the seeds.
BySeed = Mapping[int, float]


def agreement(bundles: Sequence[Bundle], band: float = BAND) -> Json | None:
    """Compares the back-ends; None unless at least two of them ran the same experiment.

    ``band`` is the allowed deviation of the ratio of two means from 1, and of the difference of two
    shares from 0. Keys: ``reference band comparisons different_by_chance metrics shares``. An entry
    of ``metrics`` or ``shares`` has ``experiment flow backend method n reference_n mean
    reference_mean range reference_range apart ci90 self_ci90 p_different p_adjusted verdict
    provisional why``. Entries of ``metrics`` also have ``metric ratio``, and for subflows ``link``.
    Entries of ``shares`` also have ``link difference``. ``self_ci90`` is the interval of every
    other run of the reference against its remaining runs. Verdicts: ``equivalent``, ``different``
    (the interval is outside the band, also after correction for all comparisons) or ``undecided``.
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
    comparisons = adjust([*of_metrics, *of_shares])
    return {
        "reference": reference,
        "band": band,
        "comparisons": comparisons,
        "different_by_chance": LEVEL * comparisons,
        "metrics": of_metrics,
        "shares": of_shares,
    }


def adjust(entries: Sequence[Json]) -> int:
    """Sets Holm's adjusted p-values of comparisons judged together, and withdraws verdicts that
    they do not support.

    Returns how many comparisons could be tested.
    """
    tested = [entry for entry in entries if entry["p_different"] is not None]
    for entry, p_value in zip(tested, metrics.holm([entry["p_different"] for entry in tested]), strict=True):
        entry["p_adjusted"] = p_value
        if entry["verdict"] == "different" and p_value >= LEVEL:
            entry |= {"verdict": "undecided", "why": f"different by itself, not as one of {len(tested)} comparisons"}
    return len(tested)


def _by_experiment(bundles: Sequence[Bundle]) -> dict[str, dict[str, list[Bundle]]]:
    """Groups runs by the digest of the experiment asked for, and by back-end."""
    found: dict[str, dict[str, list[Bundle]]] = {}
    for bundle in bundles:
        found.setdefault(bundle.record["digest"], {}).setdefault(bundle.record["backend"], []).append(bundle)
    return found


def _metrics(about: Json, runs: Sequence[Bundle], reference: Sequence[Bundle], band: float) -> Iterator[Json]:
    for flow in _flows(reference):
        for name in COMPARED:
            values, others = (_values(side, flow, name) for side in (runs, reference))
            if any(values.values()) and any(others.values()):
                yield about | {"flow": flow, "metric": name} | compared_ratio(values, others, band)
        for name, link in product(COMPARED_BY_LINK, _links(reference, flow)):
            values, others = (_values_on_link(side, flow, link, name) for side in (runs, reference))
            if any(values.values()) and any(others.values()):
                yield about | {"flow": flow, "link": link, "metric": name} | compared_ratio(values, others, band)


def compared_ratio(values: BySeed, others: BySeed, band: float) -> Json:
    """Compares two samples by their ratio: of pairs if each seed of the smaller sample has one,
    else of means.

    If a value of a pair is 0, the ratio of means is used.
    """
    allowed = (1 - band, 1 + band)
    itself = metrics.ratio_of_means(*_halves(others))
    seeds = _common(values, others)
    one, other = _of(values, seeds), _of(others, seeds)
    if seeds and (found := metrics.ratio_of_pairs(one, other)):
        apart = _apart("pair", {seed: values[seed] / others[seed] for seed in seeds}, band)
        p_different = metrics.paired_ratio_outside(one, other, allowed)
        compared = _Compared("pairs", one, other, found, itself, p_different, apart)
    else:
        one, other = list(values.values()), list(others.values())
        apart = [far for side, of in _sides(values, others) for far in _apart(side, of, band * abs(_middle(of)))]
        p_different = metrics.ratio_outside(one, other, allowed)
        compared = _Compared("means", one, other, metrics.ratio_of_means(one, other), itself, p_different, apart)
    return {"ratio": compared.found[0] if compared.found else fmean(one) / fmean(other)} | compared.entry(allowed)


def compared_difference(values: BySeed, others: BySeed, band: float) -> Json:
    """Compares two samples by their difference, with pairs as in ``compared_ratio``."""
    allowed = (-band, band)
    itself = metrics.difference_of_means(*_halves(others))
    seeds = _common(values, others)
    one, other = _of(values, seeds), _of(others, seeds)
    if seeds and (found := metrics.difference_of_pairs(one, other)):
        apart = _apart("pair", {seed: values[seed] - others[seed] for seed in seeds}, band)
        p_different = metrics.paired_difference_outside(one, other, allowed)
        compared = _Compared("pairs", one, other, found, itself, p_different, apart)
    else:
        one, other = list(values.values()), list(others.values())
        apart = [far for side, of in _sides(values, others) for far in _apart(side, of, band)]
        p_different = metrics.difference_outside(one, other, allowed)
        compared = _Compared("means", one, other, metrics.difference_of_means(one, other), itself, p_different, apart)
    difference = compared.found[0] if compared.found else fmean(one) - fmean(other)
    return {"difference": difference} | compared.entry(allowed)


@dataclass(frozen=True)
class _Compared:
    """Two samples, the method of the comparison, and its result."""

    method: Literal["pairs", "means"]
    values: Sequence[float]
    others: Sequence[float]
    found: tuple[float, Interval] | None
    itself: tuple[float, Interval] | None
    p_different: float | None
    apart: Sequence[Json]

    def entry(self, allowed: Interval) -> Json:
        """Returns the entry of the comparison without the ratio or the difference."""
        smallest = min(len(self.values), len(self.others))
        verdict, why = self._judged(allowed)
        return {
            "method": self.method,
            "n": len(self.values),
            "reference_n": len(self.others),
            "mean": fmean(self.values),
            "reference_mean": fmean(self.others),
            "range": [min(self.values), max(self.values)],
            "reference_range": [min(self.others), max(self.others)],
            "apart": list(self.apart),
            "ci90": list(self.found[1]) if self.found else None,
            "self_ci90": list(self.itself[1]) if self.itself else None,
            "p_different": self.p_different,
            "p_adjusted": None,
            "verdict": verdict,
            "provisional": smallest < metrics.SMALLEST_SAMPLE,
            "why": why,
        }

    def _judged(self, allowed: Interval) -> tuple[str, str | None]:
        """Returns the verdict of this comparison alone, and why it is undecided."""
        if self.found is None:
            return "undecided", TOO_FEW if min(len(self.values), len(self.others)) < 2 else NOT_TOLD_FROM_0
        low, high = self.found[1]
        if allowed[0] <= low and high <= allowed[1]:
            return ("undecided", STANDS_APART) if self.apart else ("equivalent", None)
        return ("different" if high < allowed[0] or low > allowed[1] else "undecided"), None


def _common(values: BySeed, others: BySeed) -> list[int]:
    """Returns the seeds that both samples have; none unless every seed of the smaller sample is in
    the other.
    """
    common = [seed for seed in values if seed in others]
    return common if len(common) == min(len(values), len(others)) else []


def _of(values: BySeed, seeds: Sequence[int]) -> list[float]:
    return [values[seed] for seed in seeds]


def _halves(values: BySeed) -> tuple[list[float], list[float]]:
    """Returns every other value, and the remaining values."""
    found = list(values.values())
    return found[::2], found[1::2]


def _sides(values: BySeed, others: BySeed) -> tuple[tuple[str, BySeed], ...]:
    return ("run", values), ("reference", others)


def _middle(values: BySeed) -> float:
    return median(values.values())


def _apart(side: str, values: BySeed, least: float) -> list[Json]:
    """Returns the outliers among ``values`` that are more than ``least`` from the median."""
    seeds, found = list(values), list(values.values())
    return [{"side": side, "seed": seeds[at], "value": found[at]} for at in metrics.standing_apart(found, least)]


def _shares(about: Json, runs: Sequence[Bundle], reference: Sequence[Bundle], band: float) -> Iterator[Json]:
    for flow in _flows(reference):
        of_runs, of_reference = (shares_of_links(side, flow) for side in (runs, reference))
        links = dict.fromkeys(link for shares in (*of_reference.values(), *of_runs.values()) for link in shares)
        if len(links) < 2:
            continue
        for link in links:
            values, others = (
                {seed: shares.get(link, 0.0) for seed, shares in side.items()} for side in (of_runs, of_reference)
            )
            if values and others:
                yield about | {"flow": flow, "link": link} | compared_difference(values, others, band)


def _flows(runs: Sequence[Bundle]) -> list[str]:
    return list(dict.fromkeys(flow["id"] for run in runs for flow in run.record["flows"]))


def _in_order(runs: Sequence[Bundle]) -> list[Bundle]:
    return sorted(runs, key=lambda run: run.record["seed"])


def _values(runs: Sequence[Bundle], flow: str, metric: str) -> dict[int, float]:
    """Returns a metric of a flow by seed, without runs that do not have it."""
    found: Iterator[tuple[int, Any]] = (
        (run.record["seed"], run.record["metrics"].get(f"flows.{flow}", {}).get(metric)) for run in _in_order(runs)
    )
    return {seed: value for seed, value in found if value is not None}


def _values_on_link(runs: Sequence[Bundle], flow: str, link: str, metric: str) -> dict[int, float]:
    """Returns the mean of a metric over the subflows on a link, by seed, without runs that have
    none.
    """
    found: dict[int, float] = {}
    for run in _in_order(runs):
        of_run: dict[str, Json] = run.record["metrics"]
        here = [one for one in _subflows(run, flow) if _link(one) == link]
        values = [of_run.get(f"flows.{flow}.subflows.{one['id']}", {}).get(metric) for one in here]
        known = [value for value in values if value is not None]
        if known:
            found[run.record["seed"]] = fmean(known)
    return found


def shares_of_links(runs: Sequence[Bundle], flow: str) -> dict[int, Mapping[str, float]]:
    """Returns the share of a flow's payload on each link, by seed, without runs
    that carried none.
    """
    found = {run.record["seed"]: share_of_links(run, flow) for run in _in_order(runs)}
    return {seed: shares for seed, shares in found.items() if shares}


def share_of_links(run: Bundle, flow: str) -> Mapping[str, float]:
    """Returns the share of a flow's payload on each link; empty if it carried none."""
    carried: dict[str, int] = {}
    for subflow in _subflows(run, flow):
        carried[_link(subflow)] = carried.get(_link(subflow), 0) + subflow["bytes"]
    total = sum(carried.values())
    return {link: count / total for link, count in carried.items()} if total else {}


def _links(runs: Sequence[Bundle], flow: str) -> list[str]:
    return list(dict.fromkeys(_link(subflow) for run in runs for subflow in _subflows(run, flow)))


def _link(subflow: Json) -> str:
    """Returns the link that a subflow takes, or its two addresses if the back-end does not report
    the link.
    """
    return subflow["link"] or f"{subflow['local']}-{subflow['remote']}"


def _subflows(run: Bundle, flow: str) -> list[Json]:
    return next((one["subflows"] for one in run.record["flows"] if one["id"] == flow), [])
