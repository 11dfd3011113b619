"""Tests Wi-Fi in descriptions: its resolved form, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from mptcplab import Experiment, resolve
from mptcplab.errors import SpecError

CELL = """
name: cell
hosts: {{phone: {{}}, laptop: {{}}, server: {{}}}}
nodes: {{ap: {{kind: ap}}}}
media: {{air: {{wifi: {wifi}}}}}
links:
  phone: {{between: [phone.wlan0, ap], medium: air{phone}}}
  laptop: {{between: [ap, laptop.wlan0], medium: air}}
  line: {{between: [ap, server.eth0], rate: 1gbit}}
"""


def resolved(wifi: str = "{}", phone: str = "") -> dict[str, Any]:
    """Returns the resolved form of a cell with these settings of its air and of a station."""
    return dict(resolve(Experiment.from_yaml(CELL.format(wifi=wifi, phone=phone))).data)


def test_a_short_description_gives_each_station_the_values_of_its_network() -> None:
    data = resolved("{standard: n, width: 40mhz, snr: 30db}", ", wifi: {snr: 12.5db, rate: {mcs: 3}, streams: 1}")
    [air] = data["access"]
    assert (air["standard"], air["band"]) == ("n", "5ghz")
    phone, laptop = air["stations"]
    assert [(one["standard"], one["width_mhz"], one["guard_interval_ns"]) for one in (phone, laptop)] == [
        ("n", 40, 400),
        ("n", 40, 400),
    ]
    assert (phone["link"], phone["uplink"]) == ("phone", "forward")
    assert (laptop["link"], laptop["uplink"]) == ("laptop", "backward")
    assert phone["snr"]["means"] == [{"at_ns": 0, "mean_mdb": 12_500}]
    assert (phone["rate"], laptop["rate"]) == ({"kind": "fixed", "mcs": 3}, {"kind": "auto"})
    assert (phone["streams"], laptop["streams"]) == (1, 2)


def test_a_station_of_an_older_standard_has_the_values_of_its_standard() -> None:
    [air] = resolved("{standard: ax, band: 2.4ghz, width: 40mhz, txop: 2ms}", ", wifi: {standard: g}")["access"]
    phone, laptop = air["stations"]
    assert (phone["standard"], phone["width_mhz"], phone["streams"], phone["guard_interval_ns"]) == ("g", 20, 1, 800)
    assert phone["aggregation"]["max_mpdus"] == 1
    assert phone["edca"] == {"aifsn": 2, "cw_min": 15, "cw_max": 1023, "txop_limit_ns": 0}
    assert (laptop["standard"], laptop["width_mhz"], laptop["streams"]) == ("ax", 40, 2)
    assert laptop["aggregation"]["max_mpdus"] == 256
    assert laptop["edca"] == air["edca"][0] == {"aifsn": 3, "cw_min": 15, "cw_max": 1023, "txop_limit_ns": 2_000_000}


def test_a_station_can_have_a_smaller_width_than_its_network() -> None:
    [air] = resolved("{width: 80mhz}", ", wifi: {standard: n, width: 20mhz}")["access"]
    assert [station["width_mhz"] for station in air["stations"]] == [20, 80]
    [air] = resolved("{width: 80mhz}", ", wifi: {standard: n}")["access"]
    assert [station["width_mhz"] for station in air["stations"]] == [40, 80]


@pytest.mark.parametrize(("ap_queue", "kind", "packets"), [("fq", "fq_codel", 8192), ("fifo", "drop_tail", 1000)])
def test_the_access_point_has_the_queue_of_what_it_sends(ap_queue: str, kind: str, packets: int) -> None:
    data = resolved(f"{{ap_queue: {ap_queue}}}", ", queue: 7p")
    link = next(link for link in data["links"] if link["id"] == "phone")
    assert link["forward"]["queue"] == {"kind": "drop_tail", "limit_packets": 7, "limit_bytes": None}
    assert (link["backward"]["queue"]["kind"], link["backward"]["queue"]["limit_packets"]) == (kind, packets)
    assert data["access"][0]["ap_queue"]["kind"] == ap_queue


def test_a_signal_that_changes_is_a_list_of_instants() -> None:
    data = resolved(phone=", wifi: {snr: [{at: 0s, snr: 30db}, {at: 20s, snr: -5db}], mobility: walking}")
    snr = data["access"][0]["stations"][0]["snr"]
    means = [{"at_ns": 0, "mean_mdb": 30_000}, {"at_ns": 20_000_000_000, "mean_mdb": -5000}]
    assert snr == {"means": means, "sd_mdb": 4000, "correlation_ns": 50_000_000}


@pytest.mark.parametrize(
    ("wifi", "phone", "message"),
    [
        (
            "{standard: n, width: 80mhz}",
            "",
            "media.air.wifi.width: 802.11n has no width 80mhz at 5ghz; allowed: 20mhz, 40mhz",
        ),
        (
            "{standard: ax, band: 2.4ghz, width: 80mhz}",
            "",
            "802.11ax has no width 80mhz at 2.4ghz; allowed: 20mhz, 40mhz",
        ),
        (
            "{width: 20mhz, rate: {mcs: 9}}",
            "",
            "802.11ac has no MCS 9 at 20mhz with streams: 2; allowed: 0, 1, 2, 3, 4, 5, 6, 7, 8",
        ),
        ("{rate: {mcs: 6}}", ", wifi: {streams: 3}", "links.phone.wifi.rate: 802.11ac has no MCS 6 at 80mhz"),
        ("{standard: g, rate: 11mbit}", "", "media.air.wifi.rate: 802.11g has no rate 11mbit; allowed: 6mbit, 9mbit"),
        ("{standard: ac, rate: {mcs: 11}}", "", "media.air.wifi.rate: 802.11ac has no MCS 11; allowed: 0 to 9"),
        ("{standard: a, streams: 2}", "", "media.air.wifi.streams: 802.11a has no 2 streams; allowed: 1 to 1"),
        ("{neighbours: [{stations: 3}]}", "", "media.air.wifi.neighbours.0.load: is missing"),
        (
            "{neighbours: [{load: 1mbit, size: 0}]}",
            "",
            "neighbours.0.size: a frame carries no packet of 0; allowed: 1 to 2304 bytes",
        ),
        ("{txop: 10s}", "", "media.air.wifi.txop: 10s is too long; allowed: at most 1s"),
        ("{}", ", mtu: 60000", "links.phone.mtu: a frame of Wi-Fi carries no packet of"),
        ("{snr: 30}", "", "media.air.wifi.snr: "),
        ("{standard: g}", ", wifi: {category: voice}", "links.phone.wifi.category: 802.11g has no access categories"),
        (
            "{}",
            ", wifi: {standard: g}",
            "links.phone.wifi.standard: a network of 802.11ac at 5ghz has no stations of 802.11g; allowed: a, n, ac",
        ),
        ("{standard: n}", ", wifi: {standard: ax}", "has no stations of 802.11ax; allowed: a, n"),
        ("{standard: ac, band: 2.4ghz}", "", "media.air.wifi.band: 802.11ac has no band 2.4ghz; allowed: 5ghz"),
        (
            "{standard: n}",
            ", wifi: {width: 40mhz}",
            "links.phone.wifi.width: a station of 802.11n has no width 40mhz on a channel of 20mhz; allowed: 20mhz",
        ),
        ("{standard: n}", ", wifi: {standard: a, streams: 2}", "links.phone.wifi.streams: 802.11a has no 2 streams"),
        (
            "{standard: n, rate: {mcs: 7}}",
            ", wifi: {standard: a}",
            "links.phone.wifi.standard: 802.11a does not have the network's fixed rate; allowed: a rate of the station",
        ),
        ("{standard: n}", ", wifi: {standard: a, category: voice}", "802.11a has no access categories"),
        ("{}", ", rate: 20mbit", "links.phone.rate: the link has a rate of its own, but air is Wi-Fi"),
        ("{}", ", queue: {backward: 7p}", "links.phone.queue.backward: queue of backward: the access point queues"),
    ],
)
def test_what_a_network_does_not_have_is_refused_in_one_line(wifi: str, phone: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        resolved(wifi, phone)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_station_needs_a_wifi_medium() -> None:
    text = CELL.format(wifi="{}", phone="").replace("rate: 1gbit", "rate: 1gbit, wifi: {snr: 10db}")
    with pytest.raises(SpecError, match=r"links\.line\.wifi: the link is on no Wi-Fi medium; allowed: a medium"):
        resolve(Experiment.from_yaml(text))


def test_a_medium_has_one_access_point() -> None:
    text = CELL.format(wifi="{}", phone="").replace(
        "[ap, server.eth0], rate: 1gbit", "[server.wlan0, other], medium: air"
    )
    text = text.replace("{ap: {kind: ap}}", "{ap: {kind: ap}, other: {kind: ap}}")
    with pytest.raises(SpecError, match="air has two access points, ap and other"):
        resolve(Experiment.from_yaml(text))


def test_an_event_gives_a_station_no_rate() -> None:
    text = CELL.format(wifi="{}", phone="") + "events: [{at: 1s, set: phone, rate: 100kbit}]\n"
    with pytest.raises(
        SpecError, match="phone is on medium air, where the signal decides its rate; allowed: set with snr"
    ):
        resolve(Experiment.from_yaml(text))
