"""Tests of the example that measures figures 6 and 7 of Sonkoly et al. through tunnels."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from documentation import EXAMPLES

pytestmark = pytest.mark.kernel

SEVERE = "sonkoly2014/fig7/ntnu_bme/20%"


def test_figures_6_and_7_go_through_a_tunnel() -> None:
    kinds = [f"sonkoly2014/fig6/{kind}/45ms" for kind in ("tcp_overlay", "mptcp_overlay")]
    command = [sys.executable, str(EXAMPLES / "overlay" / "figures.py"), *kinds, SEVERE, "--seconds", "3"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended
    found = {one["experiment"]: one for one in map(json.loads, ended.stdout.splitlines())}
    assert list(found) == [*kinds, SEVERE]
    shares = [found[name]["share_of_tunnel"] for name in kinds]
    # TCP has one path. MPTCP, whose first subflow is in the tunnel, uses the regular path too.
    assert shares[0] > 0.99
    assert 0.05 < shares[1] < 0.95, found
    # No path carries more than its rate, nor does a path with severe loss carry most of the data.
    assert 0 < found[kinds[0]]["goodput_bps"] < 28e6
    assert 0 < found[SEVERE]["goodput_bps"] < 1.1 * 28e6
    assert found[SEVERE]["share_of_tunnel"] > 0.5
