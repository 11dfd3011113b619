"""Traces and framing of links in descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mptcplab.errors import SpecError
from mptcplab.experiment import load

MS = 1_000_000
TWO_LINKS = """name: x
hosts: {{a: {{}}, b: {{}}}}
links:
  l: {{between: [a.e, b.e], {link}}}
  m: {{between: [a.f, b.f], {other}}}
flows: {{f: {{from: a, to: b}}}}
events: [{events}]
"""


def resolved(tmp_path: Path, link: str, other: str = "rate: 1mbit", events: str = "") -> dict[str, Any]:
    """Returns the resolved form of two links between two hosts."""
    file = tmp_path / "x.yaml"
    file.write_text(TWO_LINKS.format(link=link, other=other, events=events))
    return load(file)[0].resolve().data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with traces."""
    (tmp_path / "delays.csv").write_text("time_s,delay_ms,loss\n0,10,0\n1,20,0.5\n")
    (tmp_path / "short.rates").write_text("0 8\n1 0\n2 16\n")
    (tmp_path / "long.rates").write_text("0 8\n10 4\n")
    (tmp_path / "pointer.csv").write_text("version https://git-lfs.github.com/spec/v1\n")
    (tmp_path / "back.rates").write_text("0 8\n2 8\n1 8\n")
    (tmp_path / "drive").mkdir()
    (tmp_path / "drive" / "lte.rates").write_text("0 8\n1 4\n")
    return tmp_path


def test_rates_of_a_trace_are_its_capacity(folder: Path) -> None:
    data = resolved(folder, "trace: short.rates, delay: 5ms")
    direction = data["links"][0]["forward"]
    assert direction["rate_bps"] is None
    assert [step["rate_bps"] for step in direction["trace"]["rates"]] == [8_000_000, 0, 16_000_000]
    assert data["flows"][0]["paths"][0]["rate_bps"] == 8_000_000
    assert direction["trace"]["start"] == {"kind": "at", "at_ns": 0}


def test_a_trace_of_delay_and_loss_is_beside_a_rate(folder: Path) -> None:
    data = resolved(folder, "trace: {forward: delays.csv}, rate: 2mbit, delay: 1ms")
    direction = data["links"][0]["forward"]
    assert direction["rate_bps"] == 2_000_000
    assert direction["trace"]["delays"] == [
        {"from_ns": 0, "delay_ns": 10 * MS},
        {"from_ns": 1000 * MS, "delay_ns": 20 * MS},
    ]
    assert [step["probability"] for step in direction["trace"]["losses"]] == [0.0, 0.5]
    # The round trip has the least delay of the trace.
    assert data["flows"][0]["paths"][0]["rtt_ns"] == 12 * MS


def test_a_start_that_the_seed_draws_is_common_to_a_folder_and_within_its_shortest_trace(folder: Path) -> None:
    data = resolved(folder, "trace: {file: short.rates, start: drawn}", "trace: {file: long.rates, start: drawn}")
    starts = [link[side]["trace"]["start"] for link in data["links"] for side in ("forward", "backward")]
    assert starts == [{"kind": "drawn", "recording": ".", "below_ns": 3000 * MS}] * 4

    apart = resolved(
        folder,
        "trace: {file: drive/lte.rates, start: drawn}",
        "trace: {file: long.rates, start: drawn, recorded_together: other}",
    )
    starts = [link["forward"]["trace"]["start"] for link in apart["links"]]
    assert [(start["recording"], start["below_ns"]) for start in starts] == [
        ("drive", 2000 * MS),
        ("other", 20_000 * MS),
    ]


def test_a_new_rate_ends_the_capacity_of_a_trace_and_not_its_delay(folder: Path) -> None:
    (folder / "both.csv").write_text("time_s,rate_mbps,delay_ms\n0,8,10\n1,4,20\n")
    data = resolved(
        folder, "trace: both.csv", "trace: short.rates", "{at: 1s, set: l, rate: 2mbit}, {at: 2s, set: m, rate: 2mbit}"
    )
    changed, plain = (event["action"]["forward"] for event in data["events"])
    assert (changed["rate_bps"], changed["trace"]["rates"]) == (2_000_000, [])
    assert len(changed["trace"]["delays"]) == 2
    assert plain["trace"] is None


def test_a_pair_of_cellreplay_has_trains_after_a_pause(folder: Path) -> None:
    (folder / "up-pdo").write_text("1\n2\n1000\n")
    (folder / "up-delay-light-pdo").write_text("0 20 0 1 5\n500 20 0 0\n")
    data = resolved(folder, "trace: {file: up-delay-light-pdo, pause: 75ms}", "trace: up-delay-light-pdo")
    named, usual = (link["forward"]["trace"] for link in data["links"])
    assert named["trains"] == {
        "pause_ns": 75 * MS,
        "probes": [
            {"at_ns": 0, "opportunities_ns": [0, 1 * MS, 5 * MS]},
            {"at_ns": 500 * MS, "opportunities_ns": [0, 0]},
        ],
    }
    # Delays change linearly between these, so equal ones stay.
    assert [step["from_ns"] for step in named["delays"]] == [0, 500 * MS]
    assert usual["trains"]["pause_ns"] == 100 * MS


REFUSED = {
    "trace: {file: short.rates, pause: 50ms}": "trace short.rates: 'pause' has no effect without light opportunities",
    "trace: {synthetic: lte-pair-up, pause: 0s}": "trace lte-pair-up: pause is 0; allowed: more than 0s",
    "cellular: {}, trace: {synthetic: lte-pair-up}": "a pair of CellReplay has the states of the radio in it",
    "trace: short.rates, rate: 2mbit": "links.l.trace: has both trace and rate; allowed: one of them, or a trace with",
    "trace: {file: a, measured: b}": "links.l.trace: a trace needs exactly one of these, found file and measured",
    "trace: {synthetic: lte}": "there is no synthetic trace 'lte'",
    "trace: back.rates": "links.l.trace: trace back.rates, line 3: time 1 s comes after 2 s; allowed: ascending times",
    "trace: pointer.csv": "trace pointer.csv, line 1: is a pointer of Git LFS",
    "trace: {file: short.rates, start: 3s}": "trace short.rates: start 3s is not before its end; allowed: less than 3s",
    "trace: {file: short.rates, recorded_together: x}": "'recorded_together' has no effect without 'start: drawn'",
    "trace: {file: delays.csv, columns: {rate: up}}": "trace delays.csv, line 1: columns.rate: there is no column 'up'",
    "cellular: {}, trace: {forward: short.rates}": "links.l.trace: the cellular link has no trace backward",
    "rate: 1mbit, overhead: cells": "links.l.overhead",
}


@pytest.mark.parametrize("link", REFUSED)
def test_a_wrong_trace_is_refused_at_its_place(folder: Path, link: str) -> None:
    with pytest.raises(SpecError) as refused:
        resolved(folder, link)
    assert REFUSED[link] in str(refused.value)
    assert str(refused.value).startswith(f"{folder}/x.yaml:4:")
    assert "\n" not in str(refused.value)


def test_cells_and_encoding_of_a_line_are_counted_in_capacity_and_queue(tmp_path: Path) -> None:
    data = resolved(tmp_path, "rate: 1mbit, overhead: atm, delay: 1ms, queue: 1bdp", "rate: 1mbit, overhead: ptm")
    atm, ptm = (link["forward"] for link in data["links"])
    assert (atm["framing"], atm["overhead_bytes"]) == ("atm", 32)
    assert (ptm["framing"], ptm["overhead_bytes"]) == ("ptm", 22)
    assert atm["queue"]["limit_bytes"] == 10 * 1696
    ceilings = [path["ceiling_bps"] for path in data["flows"][0]["paths"]]
    assert ceilings == [1_000_000 * 1424 // 1696, 1_000_000 * 1424 // 1546]


@pytest.mark.parametrize("profile", ["adsl2+", "vdsl2", "cable", "ftth"])
def test_lines_to_homes_have_buffers_in_bytes(tmp_path: Path, profile: str) -> None:
    link = resolved(tmp_path, f"profile: {profile}")["links"][0]
    assert all(link[side]["queue"]["limit_bytes"] for side in ("forward", "backward"))
    assert link["forward"]["rate_bps"] <= link["backward"]["rate_bps"]


def test_a_cable_line_waits_for_grants(tmp_path: Path) -> None:
    data = resolved(tmp_path, "profile: cable")
    [access] = data["access"]
    assert (access["kind"], access["uplink"]) == ("cable", "forward")
    # A round trip of 7 to 10 ms to the head end, with the wait for the grant.
    ways_ns = sum(data["links"][0][side]["delay_ns"] for side in ("forward", "backward"))
    requests = access["requests"]
    assert ways_ns + requests["grant_ns"] >= 7_000_000
    assert ways_ns + requests["grant_ns"] + requests["period_ns"] <= 10_000_000
