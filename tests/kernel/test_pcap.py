"""Tests the analysis of captures of the kernel's MPTCP."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest
from command_line import is_refused, mptcplab, start
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
    # Data from the cut path is reinjected on the other path, which continues.
    assert data["reinjected"]["useful_bytes"] > 0
    first, second = connection["subflows"]
    assert first["directions"]["client"]["timeouts"]
    assert second["directions"]["client"]["timeouts"] == []
    # The kernel's own count of retransmissions on each subflow.
    counted = {subflow["local"]: subflow["retransmitted_bytes"] for subflow in run.subflows("upload")}
    for subflow in (first, second):
        seen = subflow["directions"]["client"]["retransmitted_bytes"]
        assert seen == pytest.approx(counted[subflow["local"]], abs=3000)


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_goes_over_an_interface_is_followed(tmp_path: Path, number: signal.Signals) -> None:
    following = start("pcap", "--follow", "lo", "--json", cwd=tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports: set[int] = set()
        # Packets before tcpdump is ready are not captured, so connections are made until one is.
        for _ in range(20):
            with socket.create_connection(server.getsockname()) as client, server.accept()[0]:
                ports.add(client.getsockname()[1])
                client.sendall(bytes(5000))
            time.sleep(0.2)
        following.send_signal(number)
        out, err = following.communicate(timeout=30)
    assert (following.returncode, err) == (0, "")
    connections = json.loads(out)["connections"]
    ours = [one for one in connections if int(one["sides"]["client"]["address"].rpartition(":")[2]) in ports]
    assert any(one["data"]["client"]["bytes"] == 5000 for one in ours)


def test_an_interface_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert is_refused(mptcplab("pcap", "--follow", "nosuch0", cwd=tmp_path), 2, "nosuch0")
