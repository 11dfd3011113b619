"""Tests TCP over a cellular link in the simulator: a deep queue delays, and nothing is lost before
it is full.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from mptcplab.experiment import load
from mptcplab.results import Table

core = pytest.importorskip("mptcplab._core")

SECOND = 1_000_000_000

# 26 ms each way and the grants are a round trip of 70 ms.
BULK = """
name: bloat
duration: 40s
hosts: {phone: {rcvbuf: 16MiB, sndbuf: 16MiB}, server: {rcvbuf: 16MiB, sndbuf: 16MiB}}
links:
  lte: {between: [phone.wwan0, server.eth0], cellular: {rate: 9mbit, uplink_rate: 9mbit, mobility: static}, delay: 26ms}
flows:
  bulk: {from: server, to: phone, transport: tcp, cc: cubic, app: bulk}
"""


def samples(tmp_path: Path) -> dict[str, list[float]]:
    """Returns the values of each metric of the subflow and of the link, in order of time."""
    file = tmp_path / "bloat.yaml"
    file.write_text(textwrap.dedent(BULK))
    resolved = load(file)[0].resolve().data
    for station in resolved["access"]:
        station["signal"]["fast_sd_mdb"] = station["signal"]["slow_sd_mdb"] = 0
    simulation = core.Simulation(json.dumps(resolved), 1, str(tmp_path))
    while not simulation.advance(simulation.now_ns + SECOND):
        pass
    simulation.finish()
    table = Table.read(tmp_path / "samples.parquet")
    (entities, entity_names), (metrics, metric_names) = table.labels("entity"), table.labels("metric")
    found: dict[str, list[float]] = {}
    for entity, metric, value in zip(entities, metrics, table.numbers("value"), strict=True):
        found.setdefault(f"{entity_names[entity]} {metric_names[metric]}", []).append(float(value))
    return found


def test_a_full_queue_is_a_round_trip_of_over_a_second(tmp_path: Path) -> None:
    """C4 of the model: 70 ms and 1.5 MB at 9 Mbit/s are 1.4 s, and nothing is sent again before
    that.
    """
    found = samples(tmp_path)
    link = "links.lte.backward"
    assert max(found["flows.bulk.subflows.0 srtt_s"]) == pytest.approx(0.07 + 1.5e6 * 8 / 9e6, rel=0.05)
    full = next(place for place, drops in enumerate(found[f"{link} dropped_queue_full"]) if drops > 0)
    sent = found["flows.bulk bytes_sent"][full]
    assert found["flows.bulk retransmitted_bytes"][full - 1] < 0.001 * sent
    assert found[f"{link} dropped_loss"][-1] == 0
