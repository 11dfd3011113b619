"""Tests the shares of congestion controls over two paths with random losses against their fluid
models.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from mptcplab import load, run
from mptcplab.algorithms import CC, Control, equilibrium, why_no_fluid
from mptcplab.results import RunData

WORLD = """
name: equilibrium
hosts: {{client: {{rcvbuf: 4MiB, sndbuf: 4MiB}}, server: {{rcvbuf: 4MiB, sndbuf: 4MiB}}}}
links:
  better: {{between: [client.eth1, server.eth1], rate: 1gbit, delay: {delays[0]}, loss: {{forward: 0.1%, backward: 0%}}, queue: 1000p}}
  worse: {{between: [client.eth2, server.eth2], rate: 1gbit, delay: {delays[1]}, loss: {{forward: 0.4%, backward: 0%}}, queue: 1000p}}
flows:
  bulk: {{from: client, to: server, transport: mptcp, app: {{bulk: {{}}}}, cc: {cc}, scheduler: min_rtt, path_manager: full_mesh}}
measure: {{every: 100ms}}
duration: 300s
"""
#: Loss rates and round-trip times.
PATHS = [(0.001, 0.1), (0.004, 0.1)]
#: The path with less loss has the longer round-trip time.
UNLIKE_PATHS = [(0.001, 0.2), (0.004, 0.02)]
REPETITIONS = 10
SETTLED_S = 20
SEGMENT_BYTES = 1420

CONTROLS = [name for name in CC.names if why_no_fluid(name) is None]
#: Fluids that leave nothing to the worse path. A control keeps its smallest window there.
BEST_ALONE = ("coupled", "olia")


def windows(data: RunData) -> tuple[float, float]:
    """Returns the mean windows of both paths after they settled, in bytes."""
    found = []
    for subflow in (0, 1):
        series = data.samples.series(f"flows.bulk.subflows.{subflow}", "cwnd_bytes")
        assert series is not None
        found.append(float(np.mean(series.values[series.times_s > SETTLED_S])))
    return found[0], found[1]


def settled(cc: str, delays: tuple[str, str], tmp_path: Path) -> tuple[float, float]:
    """Returns the mean windows over the repetitions, in packets."""
    description = tmp_path / "equilibrium.yaml"
    description.write_text(WORLD.format(cc=cc, delays=delays), encoding="utf-8")
    [experiment] = load(description)
    found = [windows(bundle.load()) for bundle in run(experiment, repeat=REPETITIONS, out=tmp_path)]
    better, worse = np.mean(found, axis=0) / SEGMENT_BYTES
    return float(better), float(worse)


@pytest.mark.slow
@pytest.mark.parametrize("cc", CONTROLS)
def test_windows_settle_where_the_fluid_does(cc: str, tmp_path: Path) -> None:
    better, worse = settled(cc, ("50ms", "50ms"), tmp_path)
    fluid = equilibrium(cc, PATHS)
    assert 0.80 <= (better + worse) / sum(fluid) <= 1.05
    if cc in BEST_ALONE:
        assert fluid[1] == 0
        assert better / (better + worse) > 0.8
    else:
        assert better / (better + worse) == pytest.approx(fluid[0] / sum(fluid), abs=0.05)


@pytest.mark.soak
@pytest.mark.parametrize("cc", ["ewtcp", "semicoupled", "lia", "olia", "balia"])
def test_rates_over_a_short_path_and_one_ten_times_as_long_are_shared_as_the_fluid_does(
    cc: str, tmp_path: Path
) -> None:
    """`coupled` is omitted: its fluid leaves the short path empty, where its window oscillates
    above its minimum.
    """
    far, near = settled(cc, ("100ms", "10ms"), tmp_path)
    shares = []
    for long, short in ((far, near), equilibrium(cc, UNLIKE_PATHS)):
        of_long, of_short = long / UNLIKE_PATHS[0][1], short / UNLIKE_PATHS[1][1]
        shares.append(of_short / (of_long + of_short))
    assert shares[0] == pytest.approx(shares[1], abs=0.05)


def test_a_control_without_a_fluid_says_why() -> None:
    assert why_no_fluid("lia") is None
    assert why_no_fluid("cubic") == "cubic has no fluid: its windows grow with the time since a loss"
    assert "no fluid of ./mine.py:Mine is known" in str(why_no_fluid("./mine.py:Mine"))
    assert "ack_counting" in str(why_no_fluid({"name": "reno", "ack_counting": "acks"}))


def test_parameters_move_an_equilibrium() -> None:
    eager = equilibrium({"name": "semicoupled", "a": 4.0}, PATHS)
    assert eager == pytest.approx([2 * window for window in equilibrium("semicoupled", PATHS)])


@pytest.mark.parametrize(
    ("control", "paths", "why"),
    [
        ("wvegas", PATHS, "wvegas has no fluid: its windows follow delays"),
        ("lia", [(0.01, 0.1), (0.0, 0.1)], "path 1: found a loss rate of 0, allowed is above 0 and below 1"),
        ("lia", [(0.01, 0.0)], "path 0: found a round-trip time of 0 s"),
        ("lia", [], "found no path"),
        ({"name": "semicoupled", "a": -1}, PATHS, "a: found -1, allowed is"),
        ({"name": "lia", "b": 1}, PATHS, "b: found"),
    ],
)
def test_what_has_no_equilibrium_says_why(control: Control, paths: list[tuple[float, float]], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        equilibrium(control, paths)
