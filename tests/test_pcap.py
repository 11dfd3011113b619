"""``mptcplab pcap``: what it says of captures, held against a plain count of their bytes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from brute_force import count
from mptcplab import load, run
from mptcplab.captures import decode, explain, one_way
from wireshark import needs_tshark

RECORDED = Path(__file__).parents[1] / "crates/mptcp/tests/captures"
CAPTURES = sorted(RECORDED.glob("*.pcap"))


def by_direction(document: dict) -> dict:
    """(source, destination) to what was sent."""
    found = {}
    for connection in document["connections"]:
        for subflow in connection["subflows"]:
            local, remote = subflow["local"], subflow["remote"]
            found[local, remote] = subflow["directions"]["client"]
            found[remote, local] = subflow["directions"]["server"]
    return found


def assert_equals_plain_count(capture: Path) -> None:
    document, counted = explain([capture]), count(capture)
    ours = by_direction(document)
    for ends, direction in counted.directions.items():
        assert ours[ends]["bytes"] == direction.bytes, ends
        assert ours[ends]["retransmitted_bytes"] == direction.retransmitted_bytes, ends
        assert ours[ends]["unmapped_bytes"] == 0, ends
    for connection in document["connections"]:
        ends = frozenset((connection["subflows"][0]["local"], connection["subflows"][0]["remote"]))
        theirs = counted.connections[ends]
        for subflow in connection["subflows"]:
            assert counted.connections[frozenset((subflow["local"], subflow["remote"]))] == theirs
        for side, is_client in (("client", True), ("server", False)):
            data = counted.data[theirs, is_client]
            assert connection["data"][side]["bytes"] == data.bytes
            assert connection["data"][side]["reinjected"]["bytes"] == data.reinjected_bytes


@needs_tshark
@pytest.mark.slow
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_the_kernels_captures_equal_a_plain_count(capture: Path) -> None:
    assert_equals_plain_count(capture)


TWO_LINKS = """
name: captured
hosts: {client: {SETTINGS}, server: {SETTINGS}}
links:
  wifi: {between: [client.wlan0, server.eth0], rate: 4mbit, delay: 10ms, queue: 20p, loss: 1%}
  lte: {between: [client.wwan0, server.eth1], rate: 2mbit, delay: 40ms, queue: 20p, loss: 1%}
flows:
  upload: {from: client, to: server, transport: mptcp, app: {bulk: {bytes: 400kB}}, scheduler: SCHEDULER, cc: lia, path_manager: full_mesh}
events: EVENTS
measure: {captures: [client.wlan0, client.wwan0, server.eth0, server.eth1]}
duration: 40s
"""
CUT_AND_BACK = "[{at: 300ms, outage: wifi, for: 5s, by: cut}]"
#: Settings of both hosts, scheduler, events.
SIMULATED = {
    "redundant": ("", "redundant", "[]"),
    "cut-and-back": ("", "min_rtt", CUT_AND_BACK),
    "checksums-and-backup": ("checksum: true", "round_robin", "[{at: 300ms, backup: client.wwan0, on: true}]"),
    "removal": ("", "blest", "[{at: 300ms, remove_address: server.eth1}, {at: 900ms, add_address: server.eth1}]"),
}


def captured(name: str, to: Path) -> dict[str, Path]:
    """The captures of a simulated run, by interface."""
    settings, scheduler, events = SIMULATED[name]
    text = TWO_LINKS.replace("SETTINGS", settings).replace("SCHEDULER", scheduler).replace("EVENTS", events)
    description = to / "captured.yaml"
    description.write_text(text)
    [bundle] = run(next(iter(load(description))), on="sim", out=to)
    return {path.stem: path for path in (bundle.path / "captures").iterdir()}


@needs_tshark
@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_the_engines_captures_equal_a_plain_count(name: str, tmp_path: Path) -> None:
    captures = captured(name, tmp_path)
    merged = tmp_path / "merged.pcapng"
    interfaces = [captures["client.wlan0"], captures["client.wwan0"]]
    subprocess.run(["mergecap", "-w", merged, *interfaces], check=True)
    assert_equals_plain_count(merged)
    apart, together = explain(interfaces), explain([merged])
    assert by_direction(apart) == by_direction(together)
