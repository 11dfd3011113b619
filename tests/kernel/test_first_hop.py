"""Tests the backpressure of a host's first link: on senders in the kernel, and on the userspace
stack.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from command_line import mptcplab
from measured import Measured, measured

pytestmark = pytest.mark.kernel

CABLE = """
name: cable
vary: none
hosts: {client: {first_hop: host}, server: {}}
links:
  cable: {between: [client.eth0, server.eth0], rate: 10mbit, delay: 10ms}
flows: {flows}
measure: {every: 50ms}
duration: 4s
"""
ONE = "{up: {from: client, to: server, transport: mptcp, app: {bulk: {}}, cc: cubic}}"
TWO = "{up: {from: client, to: server, transport: mptcp, app: {bulk: {}}, cc: cubic, parallel: 2}}"
DATAGRAMS = "{up: {from: client, to: server, transport: udp, app: {cbr: {rate: 20mbit, size: 1200, duration: 2s}}}}"

#: The subflow that carries the data of a flow.
SUBFLOW = "flows.{}.subflows.0"


def srtt_ms(run: Measured, flow: str) -> float:
    """Returns the median of the sender's smoothed round-trip time after the first second."""
    series = run.data.samples.series(SUBFLOW.format(flow), "srtt_s")
    assert series is not None
    return 1e3 * float(np.median(series.values[series.times_s > 1]))


@pytest.mark.parametrize("on", ["kernel", "userspace"])
@pytest.mark.parametrize(("flows", "names"), [(ONE, ["up"]), (TWO, ["up.1", "up.2"])], ids=["one", "two"])
def test_nothing_is_dropped_and_little_waits(flows: str, names: list[str], on: str, tmp_path: Path) -> None:
    run = measured(CABLE.replace("{flows}", flows), tmp_path, on=on)
    assert run.link("cable", "forward")["dropped_queue_full"] == 0
    for name in names:
        assert [subflow["retransmitted_bytes"] for subflow in run.subflows(name)] == [0]
        # In the network, 100 packets would wait for 120 ms.
        assert 20 <= srtt_ms(run, name) < 45, name
    # The link is full: payload is 0.94 of its rate.
    assert sum(run.bytes_between(f"flows.{name}", 1, 4) for name in names) * 8 / 3 > 0.9 * 10e6


def test_a_program_waits_with_its_datagrams(tmp_path: Path) -> None:
    # With headers, the link takes 4.1 s for the datagrams.
    longer = CABLE.replace("duration: 4s", "duration: 5s")
    run = measured(longer.replace("{flows}", DATAGRAMS), tmp_path)
    assert run.link("cable", "forward")["dropped_queue_full"] == 0
    # A datagram begins every 0.48 ms, the last before 2 s.
    assert run.flow("up")["bytes"] == math.ceil(2 * 20e6 / 8 / 1200) * 1200
    # Twice the rate of the link takes twice as long.
    assert run.flow("up")["end_ns"] - run.flow("up")["start_ns"] > 3.9e9


def test_a_rate_that_changes_is_felt(tmp_path: Path) -> None:
    slower = "events: [{at: 2s, set: cable, rate: 4mbit}]\nmeasure"
    run = measured(CABLE.replace("{flows}", ONE).replace("measure", slower), tmp_path)
    assert run.link("cable", "forward")["dropped_queue_full"] == 0
    assert run.bytes_between("flows.up", 2.5, 4) * 8 / 1.5 == pytest.approx(0.94 * 4e6, rel=0.1)
    queue = run.data.samples.series("links.cable.forward", "queue_packets")
    assert queue is not None
    # Excess data waited in the host.
    assert np.max(queue.values) <= 5


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("medium: air", "a medium gives the rate of link cable"),
        ("trace: {forward: fast.trace, backward: fast.trace}", "a trace gives the rate of link cable"),
    ],
)
def test_where_no_bucket_can_have_the_rate_it_is_refused(link: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "fast.trace").write_text("1\n2\n")
    air = "media: {air: {rate: 10mbit}}\nlinks" if link.startswith("medium") else "links"
    text = CABLE.replace("{flows}", ONE).replace("rate: 10mbit, ", f"{link}, ").replace("links", air, 1)
    (tmp_path / "cable.yaml").write_text(text)
    ended = mptcplab("run", "cable.yaml", "--on", "kernel", cwd=tmp_path)
    assert ended.status != 0
    assert why in ended.err
    assert mptcplab("run", "cable.yaml", "--set", "duration=1s", cwd=tmp_path).status == 0
