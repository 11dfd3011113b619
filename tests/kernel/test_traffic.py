"""Tests flows of all transports over emulated links: payload, direction and time."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import MOST_OF_RATE, TWO_LINKS, Measured, measured

pytestmark = pytest.mark.kernel

MIXED = (
    TWO_LINKS
    + """
flows:
  old: {from: client, to: server, transport: tcp, app: bulk, primary: one}
  new: {from: client, to: server, transport: mptcp, app: bulk, primary: one}
  back: {from: server, to: client, transport: mptcp, opened_by: to, app: bulk, primary: two}
  call: {from: client, to: server, transport: udp, app: {cbr: {rate: 500kbit, size: 1000}}, primary: two, direction: both}
measure: {probe: {rtt: 20ms}, units: 16kB}
duration: 3s
"""
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(MIXED, tmp_path_factory.mktemp("mixed"))


@pytest.mark.parametrize("flow", ["old", "new", "back", "call.up", "call.down"])
def test_flows_of_all_transports_go_together(mixed: Measured, flow: str) -> None:
    result = mixed.flow(flow)
    assert result["error"] is None
    assert result["bytes"] > 50_000
    assert mixed.data.samples.last(f"flows.{flow}", "bytes_received") <= result["bytes"]
    units = mixed.data.units.of(flow)
    assert len(units) > 1
    assert len(set(units.unit)) == len(units)
    if not flow.startswith("call"):
        assert list(units.unit) == list(range(len(units)))


def test_only_mptcp_uses_both_links(mixed: Measured) -> None:
    assert {subflow["link"] for subflow in mixed.subflows("old")} == {"one"}
    assert {subflow["link"] for subflow in mixed.subflows("new")} == {"one", "two"}
    assert {subflow["link"] for subflow in mixed.subflows("back")} == {"one", "two"}
    assert mixed.subflows("back")[0]["link"] == "two"


def test_the_client_opens_also_when_the_server_sends(mixed: Measured) -> None:
    assert {subflow["opened_by"] for subflow in mixed.subflows("back")} == {"client"}
    assert mixed.bytes_between("flows.back", 0, 3) > 0


def test_no_data_is_faster_than_its_link(mixed: Measured) -> None:
    # For a byte stream, the fastest path counts.
    least_s = {"old": 0.01, "new": 0.01, "back": 0.01, "call.up": 0.02, "call.down": 0.02}
    for flow, least in least_s.items():
        units = mixed.data.units.of(flow)
        assert (units.received_s - units.sent_s).min() >= least, flow
        assert (units.delivered_s >= units.received_s).all(), flow


def test_no_round_trip_is_shorter_than_described(mixed: Measured) -> None:
    probes = {name: mixed.data.samples.series(name, "rtt_s") for name in mixed.data.samples.entities("probes.")}
    assert len(probes) >= 2
    for name, series in probes.items():
        assert series is not None, name
        least_s = 0.02 if "eth1" in name else 0.04
        assert series.values.min() >= least_s, name


def test_every_host_tells_its_settings_routes_and_counters(mixed: Measured) -> None:
    hosts = {host["id"]: host for host in mixed.record["result"]["hosts"]}
    assert set(hosts) == {"client", "server"}
    assert hosts["client"]["settings"]["net.mptcp.enabled"] == "1"
    assert any("from 10.1.1.1" in rule for rule in hosts["client"]["rules"])
    assert any("unreachable default" in route for route in hosts["client"]["routes"])
    assert hosts["client"]["counters"]["MPTcpExtMPCapableSYNTX"] == 2
    assert hosts["server"]["counters"]["MPTcpExtMPJoinAckRx"] == 2


def test_requests_and_responses_take_a_round_trip_and_more(tmp_path: Path) -> None:
    found = measured(
        TWO_LINKS
        + """
flows:
  few: {from: client, to: server, transport: tcp, app: {request_response: {request: 200B, response: 4kB, count: 20}}, primary: two}
  many: {from: client, to: server, transport: mptcp, app: {request_response: {request: 200B, response: 4kB}}}
  short: {from: client, to: server, transport: tcp, app: {short_flows: {bytes: 8kB, every: 200ms}}, primary: one}
duration: 2s
""",
        tmp_path,
    )
    few, many, short = (found.data.units.of(flow) for flow in ("few", "many", "short"))
    assert len(few) == 20
    assert few.delays_s.min() >= 0.04
    assert len(many) > 3
    assert many.delays_s.min() >= 0.02
    assert len(short) > 1
    assert short.delays_s.min() >= 0.02
    assert found.record["metrics"]["flows.few"]["delay_p50_s"] >= 0.04


def test_subflows_of_short_transfers_open_between_samples(tmp_path: Path) -> None:
    flow = "pages: {from: client, to: server, app: {short_flows: {bytes: 20kB, every: 410ms}}, primary: one}"
    found = measured(TWO_LINKS + f"flows: {{{flow}}}\nduration: 2s\n", tmp_path)
    first = [subflow for subflow in found.subflows("pages") if subflow["link"] == "one"]
    starts_s = [0.41 * number for number in range(5)]
    opened_s = [subflow["opened_ns"] / 1e9 for subflow in first]
    # A round trip of 20 ms after connect. Samples show the subflows after 60 to 100 ms.
    late_s = [opened - start for opened, start in zip(opened_s, starts_s, strict=True)]
    assert all(0.02 <= late < 0.055 for late in late_s), late_s


def test_a_transfer_of_so_many_bytes_ends_the_run(tmp_path: Path) -> None:
    text = TWO_LINKS + "flows: {file: {from: client, to: server, app: {bulk: {bytes: 300kB}}}}\nduration: 30s\n"
    found = measured(text, tmp_path)
    assert found.flow("file")["bytes"] == 300_000
    assert found.record["result"]["end_ns"] < 30_000_000_000
    assert found.record["flows"][0]["fct_s"] >= 300_000 * 8 / 12e6


def test_clients_share_a_medium(tmp_path: Path) -> None:
    found = measured(
        """
name: shared
vary: none
hosts: {tablet: {}, phone: {}, laptop: {}, server: {}}
media: {air: {rate: 6mbit}}
links:
  tablet: {between: [tablet.wlan0, server.eth0], medium: air, delay: 2ms}
  phone: {between: [phone.wlan0, server.eth1], medium: air, delay: 2ms}
  laptop: {between: [laptop.wlan0, server.eth2], medium: air, delay: 2ms}
flows:
  film: {from: server, to: tablet, transport: tcp, app: bulk}
  backup: {from: phone, to: server, transport: udp, app: {cbr: {rate: 4mbit, size: 1400}}}
  mail: {from: laptop, to: server, transport: mptcp, app: bulk}
duration: 3s
""",
        tmp_path,
    )
    for flow in ("film", "backup", "mail"):
        assert found.flow(flow)["bytes"] > 50_000, flow
    directions = [(link, way) for link in ("tablet", "phone", "laptop") for way in ("forward", "backward")]
    carried = sum(found.link(*direction)["wire_bytes"] for direction in directions)
    assert carried * 8 <= MOST_OF_RATE * 6e6 * 3


def test_a_switch_and_a_router_between_hosts(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "router-and-switch.yaml"
    shorter = example.read_text().replace("duration: 10s", "duration: 2s").replace("rate: 50mbit", "rate: 10mbit")
    text = shorter.partition("expect:")[0].replace(
        "duration:",
        "  file: {from: bob, to: server, transport: mptcp, app: bulk}\nduration:",
    )
    found = measured(text, tmp_path)
    for flow in ("alice", "bob", "local", "file"):
        assert found.flow(flow)["bytes"] > 50_000, flow
    assert found.data.units.of("alice").delays_s.min() >= 0.0152 * 0.99
    assert {host["id"] for host in found.record["result"]["hosts"]} == {"alice", "bob", "server", "gateway"}
    assert found.link("uplink", "forward")["delivered_packets"] > found.link("uplink", "backward")["delivered_packets"]
