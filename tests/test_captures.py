"""Tests captures of the simulator with another program that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mptcplab import load, run
from wireshark import complaints, needs_tshark, options

CAPTURED = """
name: captured
hosts: {client: {}, server: {}}
links:
  wifi: {between: [client.wlan0, server.eth0], rate: 20mbit, delay: 10ms, queue: 2000p}
  lte: {between: [client.wwan0, server.eth1], rate: 10mbit, delay: 25ms, queue: 2000p}
flows:
  upload: {from: client, to: server, transport: mptcp, app: {bulk: {bytes: 2MB}}, scheduler: blest, cc: olia, path_manager: full_mesh}
  call: {from: client, to: server, transport: udp, app: {cbr: {rate: 200kbit}}, primary: wifi}
  pinged: {from: client, to: server, transport: udp, app: {probe: {every: 50ms}}, primary: lte}
  asked: {from: server, to: client, opened_by: to, app: {request_response: {request: 200, response: 20kB, count: 50}}, path_manager: full_mesh}
events:
  - {at: 300ms, backup: client.wwan0, on: true}
  - {at: 500ms, remove_address: server.eth1}
  - {at: 1s, add_address: server.eth1}
measure: {captures: [client.wlan0, client.wwan0, server.eth0, server.eth1]}
duration: 5s
"""

#: MP_CAPABLE, MP_JOIN, DSS, ADD_ADDR, REMOVE_ADDR and MP_PRIO.
SUBTYPES = {0, 1, 2, 3, 4, 5}


def test_the_metrics_of_a_run_count_the_options_in_its_captures(tmp_path: Path) -> None:
    description = tmp_path / "captured.yaml"
    description.write_text(
        """
name: options
hosts: {client: {}, server: {}}
links:
  wifi: {between: [client.wlan0, server.eth0], rate: 20mbit, delay: 10ms}
  lte: {between: [client.wwan0, server.eth1], rate: 10mbit, delay: 25ms}
flows:
  upload: {from: client, to: server, app: {bulk: {bytes: 200kB}}, path_manager: kernel_endpoints}
measure: {captures: [client.wlan0, client.wwan0]}
duration: 5s
"""
    )
    metrics = {}
    for name, changes in (
        ("captured", {}),
        ("alone", {"hosts.client.mptcp": "false"}),
        ("none", {"measure.captures": "[]"}),
    ):
        [bundle] = run(load(description, set=changes), on="sim", out=tmp_path / name)
        metrics[name] = bundle.record["metrics"]["run"]
    found = metrics["captured"]
    # The server announces its second address, and the client echoes it.
    assert (found["add_addr_seen"], found["add_addr_bytes"]) == (2, 16)
    # SYN, SYN/ACK and ACK of the join.
    assert (found["mp_join_seen"], found["mp_join_syn_bytes"]) == (3, 12)
    assert (found["tokens"], found["data_fin_seen"], found["remove_addr_seen"]) == (1, 1, 0)
    assert (metrics["alone"]["tokens"], metrics["alone"]["mp_join_seen"], metrics["alone"]["mp_join_syn_bytes"]) == (
        0,
        0,
        None,
    )
    assert metrics["none"]["captured_packets"] is None


@pytest.mark.slow
@needs_tshark
def test_wireshark_finds_nothing_wrong_with_what_is_simulated(tmp_path: Path) -> None:
    description = tmp_path / "captured.yaml"
    description.write_text(CAPTURED)
    [bundle] = run(next(iter(load(description))), on="sim", out=tmp_path)
    captures = list((bundle.path / "captures").iterdir())
    assert len(captures) == 4
    assert complaints(captures) == []
    assert options(captures) >= SUBTYPES
