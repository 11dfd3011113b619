"""A description on disk, and the experiment of the design's example."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TWO_PATHS = """\
name: two-paths
hosts: {client: {}, server: {mptcp: true, rcvbuf: 4MiB}}
media: {air: {profile: wifi_n}}
links:
  wifi: {between: [client.wlan0, server.eth0], medium: air, delay: 5ms}
  lte:  {between: [client.wwan0, server.eth1], rate: {forward: 12mbit, backward: 40mbit}, delay: 30ms, queue: $queue,
         loss: 0.1%}
flows:
  bulk: {from: client, to: server, transport: mptcp, app: {bulk: {bytes: 15MB}}, cc: [lia, reno],
         scheduler: [min_rtt, kernel_default], path_manager: full_mesh, primary: wifi, start: 0s}
events:
  - {id: cut, at: 10s, down: client.wlan0}
  - {at: 20s, up: client.wlan0}
  - {at: 30s, handover: {from: client.wlan0, to: client.wwan0, gap: 200ms, detect: 0s, address: 1s, auth: 3.5s}}
  - {sequence: {down: [client.wlan0, client.wwan0], every: 2s, then: restore}, at: 45s}
parameters: {queue: [1bdp, 4bdp]}
measure: {every: 100ms, captures: [client.wlan0], units: 64kB, probe: {rtt: 100ms}}
expect: ["flows.bulk.goodput_bps > 6.8e6", "events.cut.recovery_s < 2"]
duration: 60s
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a description to `x.yaml` and returns its path."""

    def to_file(text: str) -> Path:
        path = tmp_path / "x.yaml"
        path.write_text(text)
        return path

    return to_file


@pytest.fixture
def two_paths(write: Write) -> Path:
    """The example of the design."""
    return write(TWO_PATHS)
