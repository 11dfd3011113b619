"""Makes the synthetic traces of mptcplab, which hold no measured data: rate, delay and loss drawn
by a seed.

python scripts/synthetic_traces.py [FOLDER]

Each kind has the statistics of published measurements, which its source names. The same seed makes
the same files.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mptcplab.traces.formats import cellreplay, table
from mptcplab.traces.library import SYNTHETIC
from mptcplab.traces.model import Origin, Step, Trace, Train, evenly, merged
from mptcplab.traces.text import comments

SEED = 1
MS = 1_000_000
SECOND = 1000 * MS
LICENCE = "MIT OR Apache-2.0"
MADE = "synthetic, scripts/synthetic_traces.py"
#: Starlink changes the paths of all dishes at these seconds of a minute, and every 15 s.
LEO_PHASE_S, LEO_SLOT_S = 12, 15


@dataclass(frozen=True)
class Fading:
    """A rate that fades: its median in bit/s, and the standard deviation and correlation time in
    intervals of a slow and a fast part of its logarithm. Outages begin and end per interval with
    these probabilities.
    """

    median_bps: float
    slow: tuple[float, float]
    fast: tuple[float, float]
    outage_begins: float
    outage_ends: float
    highest_bps: float


#: Quantiles of the rate in 100 ms and its correlation are those of the traces of mahimahi: p5/p50
#: up to 0.14, p95/p50 2.0 to 3.7, correlation 0.71 to 0.87 after 100 ms and 0.18 to 0.68 after 1 s.
LTE_DOWN = Fading(4.1e6, (0.55, 25), (0.4, 2), 0.012, 0.18, 40e6)
LTE_UP = Fading(2.2e6, (0.5, 20), (0.45, 2), 0.025, 0.18, 15e6)
#: Rates of each second of static 5G downloads in Ireland (Raca 2020): quartiles 15, 49 and 144
#: Mbit/s, correlation 0.85 after 1 s and 0.5 after 5 s.
NR_DOWN = Fading(45e6, (1.2, 7), (0.35, 1), 0.004, 0.5, 260e6)


def correlated(draw: random.Random, deviation: float, intervals: float) -> Iterator[float]:
    """Yields a Gaussian process with a correlation time in intervals."""
    kept = math.exp(-1 / intervals)
    value = draw.gauss(0, deviation)
    while True:
        yield value
        value = kept * value + draw.gauss(0, deviation * math.sqrt(1 - kept * kept))


def fading(draw: random.Random, kind: Fading, count: int, interval_ns: int) -> Trace:
    """Returns a trace of a rate that fades, rounded to 10 kbit/s."""
    slow, fast = (correlated(draw, *part) for part in (kind.slow, kind.fast))
    is_out = False
    steps = []
    for number in range(count):
        is_out = draw.random() >= kind.outage_ends if is_out else draw.random() < kind.outage_begins
        rate = min(kind.median_bps * math.exp(next(slow) + next(fast)), kind.highest_bps)
        steps.append(Step(number * interval_ns, 0 if is_out else round(rate / 10_000) * 10_000))
    return Trace(count * interval_ns, rates=merged(steps))


def leo(draw: random.Random, median_bps: float, length_s: int) -> Trace:
    """Returns a trace of Starlink: rate and delay step every 15 s, and losses are short times in
    which all is lost.
    """
    slots = 1 + length_s // LEO_SLOT_S
    # From second to second rates change by a tenth, at the end of a slot by a quarter (Starlink on
    # the Road, 2024).
    of_slot, of_second = correlated(draw, 0.31, 2.0), correlated(draw, 0.085, 0.1)
    levels = [next(of_slot) for _ in range(slots)]
    # Bent pipe of 36 to 48 ms and 10 ms to the server, there and back (Mohan 2024): one way half of
    # it.
    delays_ms = [min(max(draw.gauss(20, 3), 10.2), 35) + 5 for _ in range(slots)]
    rates = []
    for second in range(length_s):
        slot = (second - LEO_PHASE_S) // LEO_SLOT_S % slots
        rate = median_bps * math.exp(levels[slot] + next(of_second))
        rates.append(Step(second * SECOND, round(rate / 100_000) * 100_000))
    starts = [0, *range(LEO_PHASE_S, length_s, LEO_SLOT_S)]
    steps = [Step(start * SECOND, round(delays_ms[number] * 10) * MS // 10) for number, start in enumerate(starts)]
    return Trace(length_s * SECOND, rates=merged(rates), delays=merged(steps), losses=losses(draw, length_s))


#: Length of the times in which Starlink loses all, by their quantiles, in microseconds (Michel
#: 2022, messages; the ends are assumed).
LOSS_LENGTHS_US = ((0.0, 20), (0.5, 49), (0.9, 113), (0.95, 1500), (0.99, 127_000), (1.0, 2_000_000))
#: Assumed.
LOSSES_PER_S = 0.15


def losses(draw: random.Random, length_s: int) -> tuple[Step[float], ...]:
    """Returns times in which everything is lost, as a Poisson process."""
    steps = [Step(0, 0.0)]
    at_s = draw.expovariate(LOSSES_PER_S)
    while at_s < length_s - 1:
        begin = max(round(at_s * 1e6) * 1000, steps[-1].from_ns + 1000)
        steps += [Step(begin, 1.0), Step(begin + loss_length_us(draw.random()) * 1000, 0.0)]
        at_s += draw.expovariate(LOSSES_PER_S)
    return tuple(steps)


def loss_length_us(quantile: float) -> int:
    """Returns the length at a quantile, log-linear between those that are known."""
    for (low, shorter), (high, longer) in itertools.pairwise(LOSS_LENGTHS_US):
        if quantile <= high:
            part = (quantile - low) / (high - low)
            return round(math.exp((1 - part) * math.log(shorter) + part * math.log(longer)))
    raise AssertionError(quantile)


#: Times between two probes of a pair, and what they find: the delay of a packet after a pause, and
#: the part of the saturated rate that a short burst gets. CellReplay says that bursts get less than
#: a saturated link gives (Sentosa 2025). The numbers are assumed.
PROBE_MS = 250
PROBE_DELAY_MS, PROBE_DELAY_SD_MS, LEAST_DELAY_MS = 28, 6, 15
PROBE_RATE = (0.25, 0.7)
PROBE_PACKETS = 12


def pair(draw: random.Random, kind: Fading, length_s: int) -> Trace:
    """Returns a trace with opportunities under load, and with trains after a pause."""
    rates = fading(draw, kind, 10 * length_s, 100 * MS)
    size_bytes = cellreplay.OPPORTUNITY_BYTES
    trains = []
    for number in range(1000 * length_s // PROBE_MS):
        delay_ms = max(round(draw.gauss(PROBE_DELAY_MS, PROBE_DELAY_SD_MS)), LEAST_DELAY_MS)
        rate_bps = kind.median_bps * draw.uniform(*PROBE_RATE)
        spacing_ms = 8 * size_bytes / rate_bps * 1000
        light = tuple(round(packet * spacing_ms) * MS for packet in range(PROBE_PACKETS))
        trains.append(Train(number * PROBE_MS * MS, delay_ms * MS, light))
    instants = tuple(evenly(rates, size_bytes))
    return Trace(rates.period_ns, opportunities_ns=instants, trains=tuple(trains), opportunity_bytes=size_bytes)


MAHIMAHI = "the LTE traces of mahimahi (2012, 2016)"
STARLINK = "Michel 2022, Mohan 2024 and Starlink on the Road 2024"
KINDS: dict[str, tuple[str, Callable[[random.Random], Trace]]] = {
    "lte-driving-down": (MAHIMAHI, lambda draw: fading(draw, LTE_DOWN, 1200, 100 * MS)),
    "lte-driving-up": (MAHIMAHI, lambda draw: fading(draw, LTE_UP, 1200, 100 * MS)),
    "5g-static-down": ("the 5G downloads of Raca 2020", lambda draw: fading(draw, NR_DOWN, 600, SECOND)),
    "leo-down": (STARLINK, lambda draw: leo(draw, 295e6, 300)),
    "leo-up": (STARLINK, lambda draw: leo(draw, 18e6, 300)),
}
CELLREPLAY = "the LTE traces of mahimahi under load, light opportunities assumed after CellReplay (2025)"
PAIRS: dict[str, tuple[str, Callable[[random.Random], Trace]]] = {
    "lte-pair-down": (CELLREPLAY, lambda draw: pair(draw, LTE_DOWN, 20)),
    "lte-pair-up": (CELLREPLAY, lambda draw: pair(draw, LTE_UP, 20)),
}


def contents() -> dict[str, str]:
    """Returns the content of each file by its name."""
    found = {}
    for name, (like, make) in KINDS.items():
        trace = make(random.Random(f"{SEED} {name}"))
        origin = Origin(f"{MADE}; statistics of {like}", LICENCE)
        found[f"{name}.csv"] = comments(origin) + table.write(trace, None)[""]
    for name, (like, make) in PAIRS.items():
        trace = make(random.Random(f"{SEED} {name}"))
        origin = Origin(f"{MADE}; statistics of {like}", LICENCE)
        files = cellreplay.write(trace, PROBE_MS * MS).items()
        found |= {f"{name}{ending}": comments(origin) + text for ending, text in files}
    return found


def main() -> None:
    """Writes the files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SYNTHETIC
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in contents().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
