"""Captures of the kernel's own MPTCP, explained."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import TWO_LINKS, measured
from mptcplab.captures import explain

pytestmark = pytest.mark.kernel

CUT = """
flows: {upload: {from: client, to: server, transport: mptcp, app: {bulk: {bytes: 4MB}}, path_manager: kernel_endpoints}}
events: [{at: 1s, outage: one, for: 2s, by: cut}]
measure: {captures: [client.eth1, client.eth2]}
duration: 20s
"""


def test_a_path_that_is_cut_and_comes_back_is_told(tmp_path: Path) -> None:
    run = measured(TWO_LINKS + CUT, tmp_path, on="kernel")
    document = explain(sorted((run.bundle.path / "captures").iterdir()))
    [connection] = [one for one in document["connections"] if one["version"] == 1]
    data = connection["data"]["client"]
    assert (data["bytes"], data["unseen_bytes"]) == (4_000_000, 0)
    # What was on the cut path goes again over the other, which carries on.
    assert data["reinjected"]["useful_bytes"] > 0
    first, second = connection["subflows"]
    assert first["directions"]["client"]["timeouts"]
    assert second["directions"]["client"]["timeouts"] == []
    # What the kernel itself counted as sent again on each subflow.
    counted = {subflow["local"]: subflow["retransmitted_bytes"] for subflow in run.subflows("upload")}
    for subflow in (first, second):
        seen = subflow["directions"]["client"]["retransmitted_bytes"]
        assert seen == pytest.approx(counted[subflow["local"]], abs=3000)
