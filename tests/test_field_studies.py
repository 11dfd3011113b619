"""Tests the direction of what was found in the field about Wi-Fi and LTE together.

docs/results/field-studies.md has the same comparisons as a table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

import pytest
from mptcplab import load, run

pytestmark = pytest.mark.slow

#: A phone at a place with LTE and a Wi-Fi whose line has a rate of its own.
PLACE = """
name: {name}
vary: none
hosts: {{phone: {{{buffers}}}, server: {{{buffers}}}}}
nodes: {{ap: {{kind: ap}}, internet: {{kind: router}}}}
media: {{air: {{wifi: {{{wifi}}}}}}}
links:
  wifi: {{between: [phone.wlan0, ap], medium: air}}
  line: {{between: [ap, internet], rate: {line_bps}bit, delay: {line_delay}, queue: 1MB}}
  lte: {{between: [phone.wwan0, internet], cellular: {{rate: {lte_bps}bit, mobility: static}}, delay: {lte_delay}}}
  net: {{between: [internet, server.eth0], rate: 10gbit, delay: 1ms, queue: 10000p}}
flows:
  download: {{from: server, to: phone, opened_by: to, {flow}}}
duration: {duration}
"""
#: Linux' defaults of 2017: 4 MiB to send; 6 MiB to receive, of which half is window
#: (tcp_adv_win_scale 1).
LINUX_BUFFERS = "rcvbuf: 3MiB, sndbuf: 4MiB"
LARGE_BUFFERS = "rcvbuf: 32MiB, sndbuf: 32MiB"

WIFI_ALONE, LTE_ALONE = "transport: tcp, via: phone.wlan0", "transport: tcp, via: phone.wwan0"
MULTIPATH = "transport: mptcp"
#: The congestion control of Linux, on single paths and on each subflow.
CUBIC = "cc: cubic"


def download(out: Path, flow: str, app: str, seed: int = 1, **place: Any) -> dict[str, Any]:
    """Runs a download at a place and returns its metrics."""
    usual = {
        "name": "place",
        "wifi": "standard: n, snr: 35db",
        "line_delay": "10ms",
        "lte_delay": "20ms",
        "buffers": LINUX_BUFFERS,
        "duration": "10s",
    }
    file = out / "place.yaml"
    file.write_text(PLACE.format(**{**usual, **place}, flow=f"{flow}, {CUBIC}, app: {{bulk: {{{app}}}}}"))
    [ran] = run(load(file), seed=seed, out=out / "results")
    metrics: dict[str, Any] = ran.record["metrics"]["flows.download"]
    return metrics


# ---- equal and unequal round trips (multipath-tcp/mptcp#168) ----

EQUAL = {"line_bps": 150_000_000, "lte_bps": 146_500_000, "line_delay": "20ms", "lte_delay": "15ms"}
#: Much faster than the line behind it.
GOOD_WIFI = "standard: ac, snr: 45db, mobility: none"
#: The round trip over LTE is twice that over Wi-Fi.
DOUBLE = {"line_bps": 320_000_000, "lte_bps": 146_500_000, "line_delay": "10ms", "lte_delay": "40ms"}


def aggregated(out: Path, place: dict[str, Any], buffers: str) -> float:
    """Returns the goodput of Multipath TCP, as a part of the sum of TCP on each path with large
    buffers.
    """
    alone = {**place, "wifi": GOOD_WIFI, "buffers": LARGE_BUFFERS, "duration": "20s"}
    single = [download(out, flow, "", **alone)["goodput_bps"] for flow in (WIFI_ALONE, LTE_ALONE)]
    together = download(out, MULTIPATH, "", **{**alone, "buffers": buffers})["goodput_bps"]
    print(f"{single[0] / 1e6:.0f} and {single[1] / 1e6:.0f} Mbit/s alone, {together / 1e6:.0f} together")
    return float(together / sum(single))


def test_equal_round_trips_add_up(tmp_path: Path) -> None:
    """269 of 282 Mbit/s: 95 %."""
    assert aggregated(tmp_path, EQUAL, LARGE_BUFFERS) >= 0.9


def test_with_twice_the_round_trip_the_buffers_decide(tmp_path: Path) -> None:
    """305 of 451 Mbit/s with small buffers, 441 of 490 with large ones: 67 and 90 %."""
    small, large = (aggregated(tmp_path, DOUBLE, buffers) for buffers in (LINUX_BUFFERS, LARGE_BUFFERS))
    assert small < 0.75
    assert large >= 0.85


# ---- places (Deng, IMC 2014) ----

PLACES = 40
#: Rates of LTE in Mbit/s by quantile: Huang, SIGCOMM 2013, table 1, large flows.
LTE_MBPS = ((0.05, 0.57), (0.5, 9.2), (0.95, 24.2))
#: Rates of lines in the United States, where Huang measured: 34 % above 10 Mbit/s, 19 % above 15
#: Mbit/s (Akamai, State of the Internet, Q4 2013 and Q2 2014), as a lognormal distribution.
LINE_MBPS = ((1 - 0.34, 10.0), (1 - 0.19, 15.0))


def drawn(quantiles: tuple[tuple[float, float], ...]) -> Callable[[float], float]:
    """Returns the function from a probability to a rate in Mbit/s: lognormal between two quantiles,
    and beyond them.
    """

    def of(probability: float) -> float:
        pairs = list(itertools.pairwise(quantiles))
        (low, low_mbps), (high, high_mbps) = next((p for p in pairs if probability <= p[1][0]), pairs[-1])
        at, left, right = (NormalDist().inv_cdf(one) for one in (probability, low, high))
        return low_mbps * math.exp(math.log(high_mbps / low_mbps) * (at - left) / (right - left))

    return of


def places() -> list[dict[str, Any]]:
    """Returns places with independent rates of LTE and line: the quantiles in two orders, by the
    golden ratio.
    """
    lte, line = drawn(LTE_MBPS), drawn(LINE_MBPS)
    golden = (math.sqrt(5) - 1) / 2
    return [
        {
            "lte_bps": round(1e6 * lte((n + 0.5) / PLACES)),
            "line_bps": round(1e6 * line(((n + 0.5) * golden) % 1)),
        }
        for n in range(PLACES)
    ]


def test_lte_is_faster_than_wifi_in_a_good_part_of_the_places(tmp_path: Path) -> None:
    """40 % of 750 users' measurements."""
    faster = 0
    for seed, place in enumerate(places(), start=1):
        wifi, lte = (download(tmp_path, flow, "", seed, **place)["goodput_bps"] for flow in (WIFI_ALONE, LTE_ALONE))
        faster += lte > wifi
    print(f"LTE is faster in {faster} of {PLACES} places")
    assert 0.25 <= faster / PLACES <= 0.6


def test_a_short_flow_gains_nothing_from_a_second_path(tmp_path: Path) -> None:
    """Of flows of 10 kB, Multipath TCP had less throughput than TCP on the faster link."""
    ratios = []
    for seed, place in enumerate(places()[::2], start=1):
        times = {
            flow: download(tmp_path, flow, "bytes: 10kB", seed, duration="60s", **place)["fct_s"]
            for flow in (WIFI_ALONE, LTE_ALONE, MULTIPATH)
        }
        ratios.append(times[MULTIPATH] / min(times[WIFI_ALONE], times[LTE_ALONE]))
    print(f"time over both paths / on the faster one: median {median(ratios):.3f}, least {min(ratios):.3f}")
    assert median(ratios) >= 0.99
    assert min(ratios) > 0.95
