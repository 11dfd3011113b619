"""Tests of the example that measures figures 6 and 7 of Sonkoly et al. through tunnels."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from documentation import EXAMPLES

pytestmark = pytest.mark.kernel

LOSSY = "sonkoly2014/fig7/ntnu_bme/10%"


def test_figures_6_and_7_go_through_a_tunnel() -> None:
    kinds = [f"sonkoly2014/fig6/{kind}/45ms" for kind in ("tcp_overlay", "mptcp_overlay")]
    command = [sys.executable, str(EXAMPLES / "overlay" / "figures.py"), *kinds, LOSSY, "--seconds", "3"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended
    found = {one["experiment"]: one for one in map(json.loads, ended.stdout.splitlines())}
    assert list(found) == [*kinds, LOSSY]
    shares = [found[name]["share_of_tunnel"] for name in kinds]
    # TCP has one path. MPTCP, whose first subflow is in the tunnel, uses the regular path too.
    assert shares[0] > 0.99
    assert 0.05 < shares[1] < 0.95, found
    # No path carries more than its rate, nor does a path with loss carry most of the data.
    assert 0 < found[kinds[0]]["goodput_bps"] < 28e6
    assert 0 < found[LOSSY]["goodput_bps"] < 1.1 * 28e6
    assert [found[name]["transport"] for name in kinds] == ["tcp", "mptcp"]
    # A connection whose first SYNs are lost becomes TCP, and has the regular path alone.
    is_mptcp = found[LOSSY]["transport"] == "mptcp"
    assert (found[LOSSY]["share_of_tunnel"] > 0.5) == is_mptcp, found
