"""The reason for a verdict in one sentence: the numbers that decided, and what happened to the
subflows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from mptcplab.reproduction.notation import Measure
from mptcplab.reproduction.observation import Observation
from mptcplab.reproduction.outcome import Compared, Outcome, Verdict
from mptcplab.reproduction.quantities import measured
from mptcplab.reproduction.study import AS_DESCRIBED
from mptcplab.results import Absent
from mptcplab.results.fates import fates

#: Kernel counters of data that were transmitted needlessly.
COUNTERS = {
    "MPTcpExtDuplicateData": "{} segments came twice",
    "MPTcpExtNoDSSInWindow": "{} segments that TCP had acknowledged were dropped beyond the connection's window",
}

#: The words for a quantity whose name does not explain it.
WORDS = {
    "mean_bps": "mean goodput",
    "min_bps": "smallest second of goodput",
    "min_arrived_bps": "smallest second of what arrives",
    "mean_arrived_bps": "mean of what arrives",
    "variation": "variation of the seconds",
    "longest_pause_s": "longest pause",
    "jitter_s2": "variance of the deliveries' distances",
    "waiting_bytes": "data waiting for earlier data",
    "jain_index": "Jain's index",
    "fct_s": "completion time",
    "subflows_opened": "opened",
    "subflows_reused": "subflows used again",
    "connection_survived": "connection alive",
    "connection_established": "connection established",
    "timeouts": "timeouts",
    "rto_count": "timeouts",
    "gap_s": "longest silence",
    "outage_asked_s": "the length asked for",
    "rtt_min_s": "smallest round-trip time",
    "recovery_s": "recovery",
    "full_rate_s": "time to the full rate",
    "paths_used": "paths that carry data",
}
#: The same for a quantity of what follows the point.
WORDS_OF = {
    "share_over": "share over {}",
    "established_as": "connection established as {}",
    "recovered_by": "recovery: {}",
}


def why(outcome: Outcome, verdict: Verdict) -> str:
    """Returns the reason for the verdict of a claim in an arm."""
    if verdict.claim.untested is not None:
        return verdict.claim.untested
    one = verdict.decisive
    if one is None:
        return "nothing was run for it"
    if one.why_not is not None:
        return f"{one.on}: {one.why_not}{_beside(verdict)}"
    parts = [numbers(one)]
    runs = _runs(outcome, verdict, one)
    told = subflows_told(runs, one.comparison.above.window_s)
    parts += [told, *counters_told(runs)] if told else []
    agreeing = sum(part.judged.kind == "reproduced" for part in verdict.compared)
    if agreeing and len(verdict.compared) > 1:
        parts.append(_agreement(agreeing, len(verdict.compared)))
    if verdict.flipped:
        parts.append(f"the opposite holds with {' and with '.join(verdict.flipped)}")
    return "; ".join(parts)


def _agreement(agreeing: int, of: int) -> str:
    if agreeing == of:
        return f"{'both' if of == 2 else f'all {of}'} comparisons are as published"
    return f"{agreeing} of {of} comparisons {'is' if agreeing == 1 else 'are'} as published"


def numbers(one: Compared) -> str:
    """Formats numbers: ``fig9/n3: 7.52 (7.51 to 7.53, n = 10) Mbit/s, published
    below 6.5 Mbit/s``.
    """
    spread, comparison = one.judged.spread, one.comparison
    said = f", published: {comparison.published}" if comparison.published else ""
    if spread is None:
        gone = f" ({one.why_without})" if one.why_without else ""
        return f"{one.on}: no values{gone}{said}"
    scale, unit = (1e-6, "Mbit/s") if comparison.unit == "bit/s" else (1.0, comparison.unit)
    scale, unit = (scale, unit) if comparison.is_plain else (1.0, "")
    unit = f" {unit}" if unit not in ("", "0/1") else ""
    low, middle, high = (f"{scale * value:.3g}" for value in (spread.low, spread.median, spread.high))
    between = f" ({low} to {high}, n = {spread.n})" if low != high else f" (n = {spread.n})"
    gone = f", and no value in {one.without} more: {one.why_without}" if one.without else ""
    return f"{one.on}: {what(one)} {middle}{unit}{between}{said}{gone}"


def what(one: Compared) -> str:
    """Returns what a comparison measures, without its experiment."""
    comparison = one.comparison
    named = _named(comparison.above)
    if comparison.share:
        return f"share of runs with {named}"
    if comparison.trend is not None:
        return f"rank correlation of {named} with {comparison.trend}"
    if comparison.largest_at is not None:
        return f"{comparison.largest_at} with the largest {named}"
    named = f"{comparison.flow}: {named}" if comparison.flow else named
    if comparison.below is None:
        return named
    beside = "" if one.over in (None, one.on) else f" of {one.over}"
    if comparison.paired:
        return f"{named} over that of the same flow{beside}"
    divisor = _named(comparison.below)
    return f"{named} over that{beside}" if divisor == named else f"{named} over {divisor}{beside}"


def _named(measure: Measure) -> str:
    window = "" if measure.window_s is None else " {:g}-{:g} s".format(*measure.window_s)
    name = measure.name.rpartition(".")[2]
    quantity, _, argument = measure.name.partition(".")
    if quantity in WORDS_OF:
        name = WORDS_OF[quantity].format(argument)
    elif measure.is_rate:
        return f"rate of {measure.name}{window}"
    if measure.of_several is not None:
        name = f"{measure.of_several} of {WORDS.get(name, name)}"
    return WORDS.get(name, name.removesuffix("_bps").replace("_", " ")) + window


def subflows_told(runs: Sequence[Observation], window_s: tuple[float, float] | None = None) -> str | None:
    """Returns what happened to the subflows that failures hit, as medians over the runs.

    Returns None if nothing failed before the end of ``window_s``.
    """
    of_runs = [fates(run.run, next(iter(run.run.flows))) for run in runs]
    every = [fate for of_run in of_runs for fate in of_run]
    if not every or (window_s is not None and window_s[1] <= min(fate.hit_s for fate in every)):
        return None
    hit = median(len(of_run) for of_run in of_runs)
    recreated = median(sum(fate.recreated_s is not None for fate in of_run) for of_run in of_runs)
    told = [f"subflows hit {hit:g}, re-created {recreated:g}"]
    told += _median_time("stale", "after the failure", (_after(f.stale_s, f.hit_s) for f in every))
    told += _median_time(
        "carrying new data", "after their path was back", (_after(f.resumed_s, f.back_s) for f in every)
    )
    if not recreated:
        timeouts = [fate.timeouts for fate in every if fate.timeouts is not None]
        each = median(timeouts) if timeouts else 0
        told += [f"after {each:g} {'timeout' if each == 1 else 'timeouts'} each"] if each else []
    lost = median(sum(f.back_s is not None and f.resumed_s is None for f in of_run) for of_run in of_runs)
    told += [f"{lost:g} carried no data again before the end"] if lost else []
    return ", ".join(told)


def counters_told(runs: Sequence[Observation]) -> list[str]:
    """Returns the hosts' counters of needlessly transmitted data, as medians over the runs. Only a
    kernel has them.
    """
    told = []
    for name, words in COUNTERS.items():
        usual = median(_counted(run, name) for run in runs)
        told += [words.format(f"{usual:g}")] if usual else []
    return [", ".join(told)] if told else []


def apart(outcome: Outcome, verdict: Verdict) -> list[str]:
    """Returns the background of a verdict on which back-ends differ, from all runs of its decisive
    comparison.

    This is the rate of arrivals over the subflows in the window of the comparison, and its relation
    to counters of data transmitted needlessly.
    """
    one = verdict.decisive
    if one is None or one.comparison.above.window_s is None:
        return []
    arrived_in = Measure("mean_arrived_bps", one.comparison.above.window_s, None)
    cells = outcome.study.experiments(one.comparison.above.on or "", verdict.arm, AS_DESCRIBED)
    arrived = [
        (run, value * 1e-6)
        for cell in cells
        for run in outcome.observations.get(cell.key, ())
        if not isinstance(value := measured(arrived_in, run), Absent)
    ]
    if not arrived:
        return []
    rates = [rate for _, rate in arrived]
    spread = f"{median(rates):.3g} Mbit/s ({min(rates):.3g} to {max(rates):.3g}, n = {len(rates)})"
    told = [f"over its subflows {spread} arrived in {'{:g}-{:g} s'.format(*arrived_in.window_s or ())}"]
    for name, words in COUNTERS.items():
        counted = sorted((_counted(run, name), rate) for run, rate in arrived)
        told += [f"{words.format(f'{counted[0][0]} to {counted[-1][0]}')}: {one}" for one in _thirds(counted)]
    return told


def _thirds(counted: Sequence[tuple[int, float]]) -> list[str]:
    """Returns the median rates of the thirds of runs with the smallest and largest counts; none if
    all are equal.
    """
    third = len(counted) // 3
    if not third or counted[0][0] == counted[-1][0]:
        return []
    fewest, most = (median(rate for _, rate in part) for part in (counted[:third], counted[-third:]))
    return [
        f"the rate was {fewest:.3g} Mbit/s in the third of the runs with the fewest (up to {counted[third - 1][0]}), "
        f"and {most:.3g} in the third with the most (from {counted[-third][0]})"
    ]


def _counted(run: Observation, name: str) -> int:
    """Returns the sum of a counter over all hosts; 0 if the back-end does not have it."""
    return sum((host.get("counters") or {}).get(name, 0) for host in run.run.result.get("hosts") or [])


def _after(at_s: float | None, since_s: float | None) -> float | None:
    return None if at_s is None or since_s is None else at_s - since_s


def _median_time(done: str, since: str, delays_s: Iterable[float | None]) -> list[str]:
    known = [delay for delay in delays_s if delay is not None]
    return [f"{done} {median(known):.2g} s {since}"] if known else []


def _runs(outcome: Outcome, verdict: Verdict, one: Compared) -> list[Observation]:
    """Returns the runs of a comparison; of a trend, those of its last experiment."""
    cells = outcome.study.experiments(one.on, verdict.arm, AS_DESCRIBED)
    return list(outcome.observations.get(cells[-1].key, ())) if cells else []


def _beside(verdict: Verdict) -> str:
    """Returns the results of the parts of a claim that could be tested."""
    able = [one for one in verdict.compared if one.why_not is None]
    return f"; {', '.join(f'{one.judged.kind} in {numbers(one)}' for one in able)}" if able else ""
