"""Tests the description of cellular and satellite links: what it becomes, and what it refuses."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from mptcplab.errors import SpecError
from mptcplab.experiment import load

DESCRIPTION = """
name: phone
duration: 10s
hosts: {phone: {}, server: {}}
links:
  wifi: {between: [phone.wlan0, server.eth0], rate: 20mbit}
  lte: {between: [phone.wwan0, server.eth1], LTE}
flows:
  bulk: {from: server, to: phone}
events:
  - {at: 3s, EVENT}
"""


def resolved(tmp_path: Path, lte: str, event: str = "down: wifi") -> Any:
    file = tmp_path / "phone.yaml"
    file.write_text(textwrap.dedent(DESCRIPTION).replace("LTE", lte).replace("EVENT", event))
    return load(file)[0].resolve().data


def test_a_generation_and_a_mobility_choose_the_times(tmp_path: Path) -> None:
    lte = resolved(tmp_path, "cellular: {rate: 40mbit}")["access"][0]
    sa = resolved(tmp_path, "cellular: {rate: 40mbit, generation: sa, mobility: driving}")["access"][0]
    assert (lte["tti_ns"], lte["rrc"]["drx_cycle_ns"], lte["handovers"]) == (1_000_000, 320_000_000, None)
    assert (sa["tti_ns"], sa["rrc"]["drx_cycle_ns"]) == (500_000, 80_000_000)
    assert sa["handovers"]["gaps"]["interval_ns"] == 17_000_000_000
    assert sa["signal"]["slow_sd_mdb"] > lte["signal"]["slow_sd_mdb"]


def test_the_first_end_is_the_device(tmp_path: Path) -> None:
    data = resolved(tmp_path, "cellular: {rate: 40mbit}, delay: 30ms")
    link = data["links"][1]
    assert data["access"][0]["uplink"] == "forward"
    assert (link["forward"]["rate_bps"], link["backward"]["rate_bps"]) == (10_000_000, 40_000_000)
    assert (link["forward"]["delay_ns"], link["forward"]["overhead_bytes"]) == (30_000_000, 0)
    assert link["backward"]["queue"]["limit_bytes"] == 1_500_000


def test_a_dish_has_a_queue_of_60_ms(tmp_path: Path) -> None:
    data = resolved(tmp_path, "leo: {phase: 12s}")
    assert data["access"][0]["phase_ns"] == 12_000_000_000
    assert data["links"][1]["backward"]["queue"]["limit_bytes"] == 178_000_000 * 60 // 8000


def test_a_handover_between_cells_is_one_action(tmp_path: Path) -> None:
    events = resolved(tmp_path, "cellular: {rate: 1mbit}", "handover: {link: lte, gap: 2s, queue: lost}")["events"]
    action = {"kind": "handover", "link": "lte", "gap_ns": 2_000_000_000, "forward_queue": False}
    assert [event["action"] for event in events] == [action]


@pytest.mark.parametrize(
    ("lte", "event", "message"),
    [
        ("cellular: {}", "down: wifi", "links.lte: the cellular link has no rate; allowed: cellular: {rate: 40mbit}"),
        ("cellular: {rate: 1mbit, generation: 6g}", "down: wifi", "generation: found '6g'; allowed: lte, nsa, sa"),
        ("cellular: {rate: 1mbit}, rate: 2mbit", "down: wifi", "links.lte: has both cellular and rate"),
        ("cellular: {rate: 1mbit}, leo: {}", "down: wifi", "links.lte: has both cellular and leo"),
        ("leo: {phase: 15s}", "down: wifi", "leo: phase 15s is not within a slot; allowed: less than 15s"),
        ("cellular: {rate: 1mbit, inactivity: 1ms}", "down: wifi", "inactivity 1ms is too short; allowed: at least"),
        ("leo: {}", "handover: lte", "handover: link lte has no cellular access; allowed: nothing"),
        ("leo: {}", "roam: lte", "roam: link lte has no wifi access; allowed: nothing"),
        ("cellular: {rate: 1mbit}", "handover: {link: lte, auth: 1s}", "'auth' has no effect on a handover of the"),
        ("cellular: {rate: 1mbit}", "handover: {from: phone.wlan0}", "handover has one of from and to"),
    ],
)
def test_what_has_no_meaning_is_refused(tmp_path: Path, lte: str, event: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        resolved(tmp_path, lte, event)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
