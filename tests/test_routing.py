"""Tests what rules, routes and endpoints a machine should have, and what the command refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import is_refused, mptcplab
from mptcplab.errors import UsageError
from mptcplab.routing.machine import Endpoint, Interface, Machine, Route, Rule
from mptcplab.routing.plan import Choice, planned, unmatched

WLAN, LTE = Interface("wlan0", 3, ("192.0.2.5", "2001:db8::5")), Interface("wwan0", 4, ("198.51.100.7",))
MAIN = (
    Route(4, 254, "default", "wlan0", "192.0.2.1", metric=600),
    Route(4, 254, "default", "wlan0", "192.0.2.9", metric=50),
    Route(4, 254, "192.0.2.0/24", "wlan0", source="192.0.2.5"),
    Route(4, 254, "default", "wwan0", metric=700),
    Route(4, 254, "198.51.100.0/24", "wwan0", source="198.51.100.7"),
    Route(4, 254, "10.8.0.0/16", "tun0"),
)


def machine(*interfaces: Interface, main: tuple[Route, ...] = MAIN) -> Machine:
    return Machine(interfaces, main, frozenset(), frozenset(), {})


def test_each_address_has_a_rule_and_each_uplink_a_table() -> None:
    plan = planned(machine(WLAN, LTE), Choice())
    # There is no default route over IPv6, so that address has none.
    assert plan.rules == {Rule(4, "192.0.2.5", 770003), Rule(4, "198.51.100.7", 770004)}
    assert plan.endpoints == {Endpoint("192.0.2.5", "wlan0"), Endpoint("198.51.100.7", "wwan0")}


def test_a_table_has_its_best_default_route_and_no_link_of_another_uplink() -> None:
    plan = planned(machine(WLAN, LTE), Choice())
    tunnel = "10.8.0.0/16"
    of_wlan = {(route.destination, route.device, route.gateway) for route in plan.routes if route.table == 770003}
    assert of_wlan == {
        ("default", "wlan0", "192.0.2.9"),
        ("192.0.2.0/24", "wlan0", None),
        (tunnel, "tun0", None),
    }
    of_lte = {(route.destination, route.device, route.gateway) for route in plan.routes if route.table == 770004}
    assert of_lte == {("default", "wwan0", None), ("198.51.100.0/24", "wwan0", None), (tunnel, "tun0", None)}


def test_a_table_has_what_main_refuses_and_its_own_next_hop() -> None:
    refusal = Route(4, 254, "10.66.0.0/16", "", kind="blackhole")
    hops = [Route(4, 254, "10.9.0.0/16", device) for device in ("tun0", "wwan0", "wlan0")]
    plan = planned(machine(WLAN, LTE, main=(*MAIN, refusal, *hops)), Choice())
    kinds = {(route.table, route.kind) for route in plan.routes if route.destination == refusal.destination}
    assert kinds == {(770003, "blackhole"), (770004, "blackhole")}
    of_hops = {(route.table, route.device) for route in plan.routes if route.destination == "10.9.0.0/16"}
    assert of_hops == {(770003, "wlan0"), (770004, "wwan0")}


def test_an_interface_without_a_default_route_is_no_uplink() -> None:
    assert planned(machine(WLAN, main=MAIN[2:3]), Choice()).rules == frozenset()
    assert planned(machine(), Choice()).rules == frozenset()


def test_a_choice_names_interfaces_by_patterns() -> None:
    plan = planned(machine(WLAN, LTE), Choice(("ww*",), ("wwan[0-9]",)))
    assert plan.rules == {Rule(4, "198.51.100.7", 770004)}
    assert plan.endpoints == {Endpoint("198.51.100.7", "wwan0", is_backup=True)}
    assert planned(machine(WLAN, LTE), Choice(with_endpoints=False)).endpoints == frozenset()


def test_a_choice_that_leaves_out_all_uplinks_is_told() -> None:
    told = unmatched(machine(WLAN, LTE), Choice(("wlan7",)))
    assert told == "--interface wlan7 leaves out all uplinks: wlan0, wwan0"
    assert unmatched(machine(WLAN, LTE), Choice(("wlan*",))) is None
    assert unmatched(machine(), Choice(("wlan7",))) is None


@pytest.mark.parametrize("pattern", ["", "wlan0; reboot", "a\nb", "$(x)", "w" * 40])
def test_what_is_no_name_of_an_interface_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match=r"is not the name of an interface; allowed: wlan0, or eth\*"):
        Choice((pattern,))


def test_wrong_usage_is_refused(tmp_path: Path) -> None:
    command = ("routing", "install", "--root", tmp_path)
    ended = mptcplab(*command, "--by", "networkmanager", cwd=tmp_path)
    assert is_refused(ended, 2, f"there is no {tmp_path}/etc/NetworkManager/dispatcher.d; allowed here: none, but")
    assert is_refused(mptcplab("routing", "run", "--json", cwd=tmp_path), 2, "allowed: --json with show")
    assert is_refused(mptcplab("routing", "flush", cwd=tmp_path), 2, "'flush' is not one of")
    assert list(tmp_path.iterdir()) == []
