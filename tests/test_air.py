"""Tests the ceiling of flows over Wi-Fi: what the formulas give is what the simulator delivers over
an empty channel.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from mptcplab import load, run

CELL = """
name: cell
vary: none
hosts: {{laptop: {{}}, server: {{}}}}
nodes: {{ap: {{kind: ap}}}}
media: {{air: {{wifi: {{{wifi}, snr: 60db, mobility: none}}}}}}
links:
  air: {{between: [laptop.wlan0, ap], medium: air, wifi: {{{station}}}}}
  line: {{between: [ap, server.eth0], rate: 10gbit, delay: 1ms, queue: 10000p}}
flows: {{flow: {{from: laptop, to: server, transport: udp, app: {{cbr: {{rate: {rate}, size: {size}}}}}}}}}
duration: 2s
"""


@pytest.mark.parametrize(
    ("wifi", "station", "size"),
    [
        ("standard: b, rate: 11mbit", "", 1472),
        ("standard: b, rate: 1mbit", "", 1472),
        ("standard: g, rate: 54mbit", "", 972),
        ("standard: a, rate: 6mbit", "", 1472),
        ("standard: n, streams: 1, guard_interval: 800ns, rate: {mcs: 0}", "", 1472),
        ("standard: n, width: 40mhz, rate: {mcs: 7}", "", 1472),
        ("standard: ac, rate: {mcs: 9}", "category: voice", 200),
        ("standard: ac, streams: 3, aggregate: 1, rate: {mcs: 9}", "", 1472),
        ("standard: ax, width: 20mhz, rate: {mcs: 11}", "category: video", 1472),
        ("standard: n, rate: ideal, txop: 3008us", "streams: 1", 1472),
    ],
)
def test_a_flow_that_has_the_air_for_itself_reaches_its_ceiling(
    tmp_path: Path, wifi: str, station: str, size: int
) -> None:
    file = tmp_path / "cell.yaml"
    file.write_text(CELL.format(wifi=wifi, station=station, size=size, rate="1mbit"))
    ceiling = load(file)[0].resolve().data["flows"][0]["ceiling_bps"]
    assert ceiling is not None
    file.write_text(CELL.format(wifi=wifi, station=station, size=size, rate=f"{round(1.2 * ceiling)}bit"))
    [ran] = run(load(file), out=tmp_path / "results")
    assert ran.record["metrics"]["flows.flow"]["goodput_bps"] == pytest.approx(ceiling, rel=0.02)


def test_the_ceiling_of_a_changing_signal_is_that_of_its_best_moment(tmp_path: Path) -> None:
    file = tmp_path / "cell.yaml"

    def ceiling(station: str) -> int:
        file.write_text(CELL.format(wifi="standard: n, rate: auto", station=station, size=1472, rate="1mbit"))
        flow = load(file)[0].resolve().data["flows"][0]
        assert flow["ceiling_bps"] == flow["paths"][0]["ceiling_bps"]
        return int(flow["ceiling_bps"] or 0)

    fades = ceiling("snr: [{at: 0s, snr: 25db}, {at: 1s, snr: 3db}]")
    assert fades == ceiling("snr: 25db")
    assert fades > 5 * ceiling("snr: 3db")


def test_stations_of_one_network_share_a_ceiling(tmp_path: Path) -> None:
    text = CELL.replace("links:", "  # of two radios\nlinks:\n  second: {{between: [laptop.wlan1, ap], medium: air}}")
    text = text.replace("transport: udp, app: {{cbr: {{rate: {rate}, size: {size}}}}}", "transport: mptcp")
    file = tmp_path / "cell.yaml"
    file.write_text(text.format(wifi="standard: n", station="", rate="", size=""))
    flow = load(file)[0].resolve().data["flows"][0]
    assert len(flow["paths"]) == 2
    assert flow["ceiling_bps"] == flow["paths"][0]["ceiling_bps"]
