"""Where the congestion controls settle over two paths with equal round-trip times and random losses, against their fluids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mptcplab import load, run
from mptcplab.results import RunData

#: Loss of each path; one TCP on the better one has a window of sqrt(2 / p) = 44.7 packets.
WORLD = """
name: equilibrium
hosts: {{client: {{rcvbuf: 4MiB, sndbuf: 4MiB}}, server: {{rcvbuf: 4MiB, sndbuf: 4MiB}}}}
links:
  better: {{between: [client.eth1, server.eth1], rate: 1gbit, delay: 50ms, loss: {{forward: 0.1%, backward: 0%}}, queue: 1000p}}
  worse: {{between: [client.eth2, server.eth2], rate: 1gbit, delay: 50ms, loss: {{forward: 0.4%, backward: 0%}}, queue: 1000p}}
flows:
  bulk: {{from: client, to: server, transport: mptcp, app: {{bulk: {{}}}}, cc: {cc}, scheduler: min_rtt, path_manager: full_mesh}}
measure: {{every: 100ms}}
duration: 300s
"""
REPETITIONS = 10
SETTLED_S = 20
SEGMENT_BYTES = 1420

#: The sum of both windows in packets, and the share of the better path, of the fluids.
FLUIDS = {
    "reno": (67.1, 0.667),
    "ewtcp": (33.5, 0.667),
    "coupled": (44.7, None),
    "semicoupled": (50.0, 0.80),
    "lia": (44.7, 0.80),
    "olia": (44.7, None),
    "balia": (44.7, 0.843),
}


def windows(data: RunData) -> tuple[float, float]:
    """The mean windows of both paths once they have settled, in bytes."""
    found = []
    for subflow in (0, 1):
        series = data.samples.series(f"flows.bulk.subflows.{subflow}", "cwnd_bytes")
        assert series is not None
        found.append(float(np.mean(series.values[series.times_s > SETTLED_S])))
    return found[0], found[1]


@pytest.mark.slow
@pytest.mark.parametrize(("cc", "fluid"), FLUIDS.items(), ids=FLUIDS)
def test_windows_settle_where_the_fluid_does(cc: str, fluid: tuple[float, float | None], tmp_path: Path) -> None:
    description = tmp_path / "equilibrium.yaml"
    description.write_text(WORLD.format(cc=cc), encoding="utf-8")
    [experiment] = load(description)
    found = [windows(bundle.load()) for bundle in run(experiment, repeat=REPETITIONS, out=tmp_path)]
    better, worse = np.mean(found, axis=0) / SEGMENT_BYTES
    window, share = fluid
    assert 0.80 <= (better + worse) / window <= 1.05
    if share is None:
        assert better / (better + worse) > 0.8
    else:
        assert better / (better + worse) == pytest.approx(share, abs=0.05)
