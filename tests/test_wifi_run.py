"""Tests Wi-Fi from the description to the metrics of a run in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import mptcplab
from mptcplab.results import Bundle

CELL = """
name: {name}
vary: none
hosts: {{laptop: {{}}, server: {{}}}}
nodes: {{ap: {{kind: ap}}}}
media: {{air: {{wifi: {{standard: a, rate: 54mbit, snr: 40db, mobility: none}}}}}}
links:
  air: {{between: [laptop.wlan0, ap], medium: air}}
  line: {{between: [ap, server.eth0], rate: 1gbit, delay: 1ms, queue: 1000p}}
flows: {{flow: {{from: {sender}, to: {receiver}, transport: {transport}, app: {app}}}}}
duration: 10s
"""
#: One exchange of 802.11a at 54 Mbit/s in us: PPDU, SIFS and ACK. A packet of 1500 bytes takes 57
#: symbols of 216 bits, an acknowledgment of TCP of 52 bytes 4.
DATA_US, ACK_US = 20 + 57 * 4 + 16 + 28, 20 + 4 * 4 + 16 + 28
#: DIFS, and the mean backoff of a sender that is never idle.
DIFS_US, BACKOFF_US = 34, 7.5 * 9


def cell(out: Path, name: str, **settings: str) -> dict[str, Any]:
    """Returns the metrics of a flow alone in the cell."""
    metrics: dict[str, Any] = ran(out, name, CELL.format(name=name, **settings))["metrics"]
    return metrics


def ran(out: Path, name: str, text: str) -> dict[str, Any]:
    """Runs a description in the simulator and returns the record of its bundle."""
    description = out / f"{name}.yaml"
    description.write_text(text)
    ended = mptcplab("run", description, "--out", out / "results", cwd=out)
    assert ended.status == 0, ended
    [path] = (out / "results" / name).glob("sim-*")
    return Bundle.open(path).record


@pytest.mark.parametrize(("sender", "receiver"), [("laptop", "server"), ("server", "laptop")])
def test_acknowledgments_of_tcp_take_air(tmp_path: Path, sender: str, receiver: str) -> None:
    """An acknowledgment takes an exchange of its own. Its backoff runs while that of the data does.
    A collision takes as long as the data.
    """
    ends = {"sender": sender, "receiver": receiver}
    flood = "{cbr: {rate: 40mbit, size: 1472}}"
    datagrams = cell(tmp_path, "datagrams", transport="udp", app=flood, **ends)["flows.flow"]["goodput_bps"]
    packet_us = DATA_US + DIFS_US + BACKOFF_US
    assert datagrams == pytest.approx(1472 * 8e6 / packet_us, rel=0.01)
    metrics = cell(tmp_path, "stream", transport="tcp", app="{bulk: {}}", **ends)
    acknowledgments, packets = sorted(metrics[f"links.air.{way}"]["exchanges"] for way in ("forward", "backward"))
    collisions = metrics["links.air.forward"]["retried_packets"]
    data_us = packets * packet_us
    others_us = acknowledgments * (ACK_US + DIFS_US) + collisions * (DATA_US + DIFS_US)
    stream = datagrams * 1448 / 1472 * data_us / (data_us + others_us)
    assert metrics["flows.flow"]["goodput_bps"] == pytest.approx(stream, rel=0.05)


def test_a_run_has_the_metrics_of_the_air(tmp_path: Path) -> None:
    text = """
name: home
hosts: {phone: {}, laptop: {}, server: {}}
nodes: {ap: {kind: ap}}
media: {air: {wifi: {standard: ac, width: 80mhz, streams: 2, snr: 30db, ap_queue: fq}}}
links:
  phone: {between: [phone.wlan0, ap], medium: air, wifi: {snr: 12db, mobility: walking}}
  laptop: {between: [laptop.wlan0, ap], medium: air}
  line: {between: [ap, server.eth0], rate: 1gbit, delay: 5ms, queue: 1000p}
flows:
  down: {from: server, to: phone, opened_by: to, transport: tcp, app: {bulk: {}}}
  up: {from: laptop, to: server, transport: tcp, app: {bulk: {}}}
duration: 3s
expect: [links.laptop.forward.exchanges > 10, links.phone.backward.air_time_s > 0.3]
"""
    record = ran(tmp_path, "home", text)
    metrics = record["metrics"]
    up, down = metrics["links.laptop.forward"], metrics["links.phone.backward"]
    assert up["aggregated_packets"] / up["exchanges"] > 3
    assert 0.9 < up["air_time_s"] + down["air_time_s"] < 3
    assert down["retried_packets"] > 0
    line = metrics["links.line.forward"]
    assert line["air_time_s"] is None
    assert record["absent"]["links.line.forward"]["air_time_s"] == "the link is on no access network"
