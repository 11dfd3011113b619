"""Tests the middlebox matrix with the kernel at one host: a cell of each row in `make test`, all in
`make soak`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import measured
from middlebox_matrix import Cell, Ends, cells, one_of_each

pytestmark = pytest.mark.kernel

ENDS: tuple[Ends, Ends] = ("ours - kernel", "kernel - ours")
CHOSEN = one_of_each(ENDS)
OTHERS = [cell for cell in cells(ENDS) if cell not in CHOSEN]


@pytest.mark.parametrize("cell", [*CHOSEN, *(pytest.param(cell, marks=pytest.mark.soak) for cell in OTHERS)], ids=str)
def test_what_is_left_is_allowed(cell: Cell, tmp_path: Path) -> None:
    assert cell.outcome(tmp_path) in cell.allowed()


#: Middleboxes at layer 2 and layer 3, at hosts and nodes, in both directions.
EVERYWHERE = """
name: everywhere
hosts: {client: {}, server: {}}
nodes: {hub: {kind: switch}, core: {kind: router}}
links:
  office: {between: [client.eth0, hub], rate: 20mbit, delay: 2ms}
  access: {between: [hub, core], rate: 20mbit, delay: 2ms}
  uplink: {between: [core, server.eth0], rate: 20mbit, delay: 2ms}
middleboxes:
  - {at: client.eth0, rewrite_sequence: {}}
  - {at: hub.p2, split: {largest: 400}}
  - {at: core.p1, duplicate: {probability: 5%}}
  - {at: core.p2, acknowledge_early: {}}
  - {at: server.eth0, direction: arriving, coalesce: {}}
flows:
  upload: {from: client, to: server, transport: tcp, app: {bulk: {bytes: 1MB}}}
expect: [flows.upload.bytes_in_order == 1e6]
duration: 10s
"""


@pytest.mark.parametrize("on", ["kernel", "userspace"])
def test_tcp_passes_them_on_both_layers_and_their_packets_are_counted(on: str, tmp_path: Path) -> None:
    run = measured(EVERYWHERE, tmp_path, on=on)
    assert [expectation["held"] for expectation in run.record["expectations"]] == [True]
    counted = run.record["result"]["middleboxes"]
    assert all(one["packets"] > 100 and one["changed_packets"] + one["made_packets"] > 10 for one in counted), counted
