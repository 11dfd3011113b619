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
