"""Tests the catalogue against the papers: its experiments, and the numbers that define them."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from mptcplab.catalogue import catalogue, find
from mptcplab.experiment import Member
from mptcplab.reproduction import claims_about

IDS = (Path(__file__).parent.parent / "data" / "catalogue-ids.txt").read_text(encoding="utf-8").split()
MEMBERS = catalogue()
SWEEPS = {
    "ghosh/goal1": 7,
    "ghosh/goal2": 2,
    "ghosh/goal4": 3,
    "ghosh/graph3": 7,
    "ghosh/graph5/udp": 21,
    "ghosh/single/mptcp_n_subflows": 7,
    "ghosh/single/tcp_n_connections": 7,
    "ghosh/graph6/A": 2,
    **{f"sonkoly2014/fig6/{kind}": 5 for kind in ("tcp_regular", "tcp_overlay", "mptcp_regular", "mptcp_overlay")},
    **{f"sonkoly2014/fig7/{pair}": 12 for pair in ("uk_de", "hr_nl", "ntnu_bme")},
    **{f"sonkoly2014/syn/loss/{transport}": 3 for transport in ("mptcp", "tcp")},
    "sonkoly2014/outage": 7,
    "sonkoly2014/issues/primary": 2,
    "sonkoly2014/issues/large_bdp": 2,
}
#: Conditions of the goals of RFC 6356, and experiments of chapter 3 of Barreira's thesis.
CASES = ("busy", "shared", "worse")
BESIDE_TCP = ("campus", "datacentre", "outage/long", "outage/short", "rack")
#: Experiments that are in no paper, but that a paper's claims need.
OURS = {
    *(f"alenazi2019/apart/n{n}/{outage}" for n in (1, 3, 5, 7) for outage in ("short", "long")),
    *(f"sonkoly2014/syn/loss/race/{loss}" for loss in ("50%", "60%", "80%")),
    "sonkoly2014/syn/race",
    "sonkoly2014/iprecovery/none",
    "ghosh/graph5/tcp",
    "ghosh/beside/n=5",
    "ghosh/beside/n=10",
    *(f"barreira2014/overhead/n={n}" for n in (1, 2, 3, 5, 8)),
    "barreira2014/handover/tcp",
    *(f"cited/{name}" for name in ("controls/lia", "controls/olia", "controls/balia")),
    *(f"cited/{name}" for name in ("blocking/min_rtt", "blocking/blest", "video/min_rtt", "video/ecf")),
    *(f"cited/{name}" for name in ("networks/ethernet/mptcp", "networks/ethernet/tcp", "servers")),
    *(f"cited/{name}" for name in ("networks/mobile/mptcp", "networks/mobile/tcp")),
    *(f"cited/wvegas/{control}" for control in ("balia", "lia", "olia", "wvegas")),
    *(f"barreira2014/goals/{case}/{tested}" for case, tested in product(CASES, ("lia", "olia", "reno", "tcp"))),
    *(f"barreira2014/{name}/{stack}" for name, stack in product(BESIDE_TCP, ("mptcp", "tcp"))),
    *(f"barreira2014/{name}" for name in ("best/lia", "best/olia", "flips/coupled", "flips/lia")),
    *(f"barreira2014/streaming/{rate}" for rate in ("capacity", "enough", "less")),
}
MBIT = 1_000_000


def resolved(name: str) -> dict[str, Any]:
    """Returns the only experiment of a name, as back-ends get it."""
    (member,) = find(name)
    return member.resolve().data


def links(name: str) -> dict[str, dict[str, Any]]:
    return {link["id"]: link for link in resolved(name)["links"]}


def flows(name: str) -> dict[str, dict[str, Any]]:
    return {flow["id"]: flow for flow in resolved(name)["flows"]}


def timeline(name: str) -> list[tuple[float, str, str]]:
    """Returns (seconds, kind of action, target) of each event."""
    return [
        (event["at_ns"] / 1e9, event["action"]["kind"], event["action"].get("link") or event["action"]["interface"])
        for event in resolved(name)["events"]
    ]


def test_every_experiment_of_the_papers_is_there_and_no_other() -> None:
    assert len(IDS) == 153
    covered = Counter(identifier for member in MEMBERS for identifier in IDS if _is_under(member.name, identifier))
    assert covered == {identifier: SWEEPS.get(identifier, 1) for identifier in IDS}
    assert {member.name for member in MEMBERS} >= OURS
    assert covered.total() == len(MEMBERS) - len(OURS)


def _is_under(name: str, identifier: str) -> bool:
    return name == identifier or name.startswith(f"{identifier}/")


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_every_experiment_resolves(member: Member) -> None:
    data = member.resolve().data
    assert data["flows"]
    assert member.experiment.repetitions


def test_every_experiment_has_a_title_of_its_own() -> None:
    titles = [member.title for member in MEMBERS]
    assert all(titles)
    assert len(set(titles)) == len(titles)


def test_what_is_published_names_its_source() -> None:
    silent = ("ghosh/single/",)
    for member in MEMBERS:
        published = member.experiment.published
        assert published or claims_about(member.name) or member.name.startswith(silent) or member.name in OURS, (
            member.name
        )
        assert all(one.source and one.value is not None for one in published), member.name


# ---- Alenazi -------------------------------------------------------------------------------------


def test_alenazi_has_eight_links_of_1_mbit_and_10_ms() -> None:
    found = links("alenazi2019/fig5/mptcp")
    assert list(found) == [f"link{number}" for number in range(1, 9)]
    for link in found.values():
        for side in ("forward", "backward"):
            assert (link[side]["rate_bps"], link[side]["delay_ns"]) == (MBIT, 10_000_000)
            assert link[side]["queue"]["limit_packets"] == 100


@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize(("figure", "hosts"), [(9, ["client"]), (10, ["server"]), (11, ["client", "server"])])
def test_alenazi_interfaces_fail_and_return_one_every_two_seconds(figure: int, hosts: list[str], n: int) -> None:
    numbers = range(1, n + 1)
    fail = [(10.0 + 2 * (i - 1), "interface_down", f"{host}.eth{i}") for i in numbers for host in hosts]
    restore = [(10.0 + 2 * n + 2 * (i - 1), "interface_up", f"{host}.eth{i}") for i in numbers for host in hosts]
    name = f"alenazi2019/fig{figure}/n{n}"
    assert timeline(name) == fail + restore
    assert resolved(name)["parameters"] == {"n": n}


@pytest.mark.parametrize("cc", ["lia", "olia", "balia", "wvegas"])
def test_alenazi_half_of_the_links_fail_under_each_congestion_control(cc: str) -> None:
    name = f"alenazi2019/fig6/{cc}"
    halves = [f"link{number}" for number in range(1, 5)]
    down, up = [(20.0, "link_down", link) for link in halves], [(40.0, "link_up", link) for link in halves]
    assert timeline(name) == down + up
    bulk = flows(name)["bulk"]
    assert (bulk["from"], bulk["opened_by"], bulk["cc"][:2]) == ("server", "to", [f"{cc}-oot", cc])


@pytest.mark.parametrize("scheduler", ["min_rtt", "round_robin", "redundant"])
def test_alenazi_figure_8_is_the_run_of_figure_7_seen_unit_by_unit(scheduler: str) -> None:
    one, other = resolved(f"alenazi2019/fig7/{scheduler}"), resolved(f"alenazi2019/fig8/{scheduler}")
    for key in ("hosts", "links", "flows", "events", "duration_ns"):
        assert one[key] == other[key]
    assert one["flows"][0]["app"]["bytes"] == 15_000_000
    assert one["flows"][0]["scheduler"][0] == scheduler
    assert {at for at, _, _ in timeline(f"alenazi2019/fig7/{scheduler}")} == {10.0, 20.0}
    assert other["measure"]["unit_bytes"] < one["measure"]["unit_bytes"]


def test_alenazi_full_mesh_of_three_by_three_has_nine_paths() -> None:
    assert len(flows("alenazi2019/fig3/full_mesh3")["bulk"]["paths"]) == 9


# ---- Ghosh ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 15, 20])
def test_ghosh_rivals_share_the_server_port_and_subflows_are_swept(n: int) -> None:
    for experiment in ("goal1", "graph3"):
        found = flows(f"ghosh/{experiment}/n={n}")
        assert found["bulk"]["path_manager"] == [{"name": "n_diff_ports", "subflows": n}]
        assert found["rival"]["transport"] == "tcp"
        for flow in found.values():
            assert {"link": "eth_server", "direction": "forward"} in flow["paths"][0]["hops"]
    assert len(flows(f"ghosh/single/tcp_n_connections/n={n}")) == n


@pytest.mark.parametrize("rate", [10, 50, 90])
def test_ghosh_udp_rival_sends_at_a_constant_rate(rate: int) -> None:
    rival = flows(f"ghosh/graph5/udp/n=10/udp={rate}mbit")["rival"]
    assert (rival["transport"], rival["app"]["rate_bps"]) == ("udp", rate * MBIT)


def test_ghosh_has_fast_ethernet_and_half_duplex_wifi() -> None:
    data = resolved("ghosh/graph4/olia")
    found = links("ghosh/graph4/olia")
    assert (found["eth"]["forward"]["rate_bps"], found["eth"]["medium"]) == (100 * MBIT, None)
    assert (found["wifi"]["forward"]["rate_bps"], found["wifi"]["medium"]) == (8 * MBIT, "air")
    assert data["media"][0]["rate_bps"] == 8 * MBIT
    assert data["flows"][0]["app"]["bytes"] == 100_000_000


def test_ghosh_round_trip_and_loss_of_ethernet_rise_every_ten_seconds() -> None:
    rtt, loss = resolved("ghosh/goal3/rtt")["events"], resolved("ghosh/goal3/loss")["events"]
    assert [event["at_ns"] / 1e9 for event in rtt] == [event["at_ns"] / 1e9 for event in loss] == [10, 20, 30, 40, 50]
    delays = [event["action"]["forward"]["delay_ns"] / 1e6 for event in rtt]
    losses = [event["action"]["forward"]["loss"]["probability"] for event in loss]
    assert delays == [20, 50, 100, 200, 400]
    assert losses == pytest.approx([0.001, 0.005, 0.01, 0.02, 0.05])


@pytest.mark.parametrize(
    ("arm", "connections", "subflows"), [("A/mptcp", 5, None), ("A/tcp", 5, None), ("B", 5, 10), ("C", 1, 5)]
)
def test_ghosh_graph_6_compares_connections_with_subflows(arm: str, connections: int, subflows: int | None) -> None:
    found = flows(f"ghosh/graph6/{arm}").values()
    assert len(found) == connections
    wanted = {"name": "n_diff_ports", "subflows": subflows}
    assert all((wanted in flow["path_manager"]) == (subflows is not None) for flow in found)


# ---- Barreira ------------------------------------------------------------------------------------

WIFI, ETHERNET = ("wifi", None, 100_000), ("eth", 100 * MBIT, 100_000)
DESKTOPS = {
    "A.1": [ETHERNET, WIFI],
    "B.1": [("eth0", *ETHERNET[1:]), ("eth1", *ETHERNET[1:])],
    "C.1": [WIFI],
    "C.5": [ETHERNET],
    "D.1": [WIFI],
    "D.5": [ETHERNET],
}


@pytest.mark.parametrize("scenario", DESKTOPS)
def test_barreira_desktops_have_the_links_of_their_scenario(scenario: str) -> None:
    name = f"barreira2014/{scenario}"
    found = links(name).values()
    assert [(link["id"], link["forward"]["rate_bps"], link["forward"]["delay_ns"]) for link in found] == DESKTOPS[
        scenario
    ]
    assert all((link["medium"] == "air") == (link["id"] == "wifi") for link in found)
    assert flows(name)["bulk"]["transport"] == ("tcp" if scenario.startswith("D") else "mptcp")
    three = flows(name)["bulk"]["path_manager"] == [{"name": "n_diff_ports", "subflows": 3}]
    assert three == scenario.startswith("C")
    assert resolved(name)["duration_ns"] == 100_000_000_000


@pytest.mark.parametrize(
    "scenario", ["A.7", "B.6", "C.3", "C.7", "D.3", "D.7", *(f"{g}.{i}/updown" for g in "FG" for i in (1, 2, 3))]
)
def test_barreira_up_and_down_run_at_once(scenario: str) -> None:
    found = flows(f"barreira2014/{scenario}")
    assert [(flow["from"], flow["to"]) for flow in (found["bulk.up"], found["bulk.down"])] == [
        (found["bulk.down"]["to"], "server"),
        ("server", found["bulk.up"]["from"]),
    ]


@pytest.mark.parametrize(
    "scenario", ["A.8", "B.7", "C.4", "C.8", "D.4", "D.8", "L.6.2", *(f"{g}.{i}/five" for g in "FG" for i in (1, 2, 3))]
)
def test_barreira_five_clients_are_five_flows(scenario: str) -> None:
    assert len(flows(f"barreira2014/{scenario}")) == 5


@pytest.mark.parametrize(
    ("scenario", "cut"),
    [
        ("A.2", ["eth"]),
        ("A.3", ["wifi"]),
        ("A.6", ["eth", "wifi"]),
        ("B.2", ["eth0"]),
        ("B.4", ["eth0", "eth1"]),
        ("C.2", ["wifi"]),
        ("D.6", ["eth"]),
        ("F.1/recovery", ["local_server"]),
        ("F.2/recovery", ["campus_server"]),
        ("G.3/recovery", ["campus_server"]),
    ],
)
def test_barreira_links_are_cut_from_30_to_40_s(scenario: str, cut: list[str]) -> None:
    down, up = [(30.0, "link_down", link) for link in cut], [(40.0, "link_up", link) for link in cut]
    assert timeline(f"barreira2014/{scenario}") == down + up


@pytest.mark.parametrize(
    ("scenario", "before", "after", "address_s"),
    [
        ("A.4", "client.wlan0", "client.eth0", None),
        ("A.5", "client.eth0", "client.wlan0", None),
        ("B.3", "client.eth0", "client.eth1", None),
        ("F.4", "phone.wwan0", "phone.wlan1", 33.5),
        ("F.5", "phone.wlan1", "phone.wwan0", None),
        ("F.6", "phone.wlan1", "phone.wlan0", None),
        ("F.7", "phone.wlan0", "phone.wlan1", 33.5),
        ("F.8", "phone.wlan0", "phone.wwan0", None),
        ("F.9", "phone.wwan0", "phone.wlan0", None),
    ],
)
def test_barreira_handovers_break_before_they_make(
    scenario: str, before: str, after: str, address_s: float | None
) -> None:
    name = f"barreira2014/{scenario}"
    steps = timeline(name)
    assert (0.0, "interface_down", after) in steps
    assert steps.index((30.0, "interface_down", before)) < steps.index((30.0, "interface_up", after))
    assert [at for at, kind, _ in steps if kind == "address_add"] == ([address_s] if address_s else [])
    paths = flows(name)["bulk"]["paths"]
    assert [path["local"] for path in paths] == [before, after]


def test_barreira_phone_uses_one_network_at_a_time_and_reaches_the_server_over_the_campus() -> None:
    (phone, _) = resolved("barreira2014/F.2/throughput")["hosts"]
    assert phone["one_at_a_time"]
    (path,) = flows("barreira2014/F.2/throughput")["bulk"]["paths"]
    assert [hop["link"] for hop in path["hops"]] == ["wifi_campus", "ap_campus", "campus_server"]
    assert (path["rate_bps"], path["rtt_ns"]) == (8_000_000, 10_200_000)
    mobile = links("barreira2014/F.3/throughput")["mobile"]
    assert (mobile["forward"]["rate_bps"], mobile["backward"]["rate_bps"]) == (9_400_000, 12_100_000)
    assert flows("barreira2014/G.3/throughput")["bulk"]["transport"] == "tcp"


@pytest.mark.parametrize(
    ("scenario", "transport", "interfaces", "rivals"),
    [
        ("E.1", "mptcp", ["client.wlan0", "client.eth1"], ["tcpclient1", "tcpclient2"]),
        ("E.2", "mptcp", ["client.eth0", "client.eth1"], ["tcpclient1", "tcpclient2"]),
        ("E.3", "mptcp", ["client.wlan0"], ["tcpclient1"]),
        ("E.4", "mptcp", ["client.eth1"], ["tcpclient2"]),
        ("E.5", "tcp", ["client.wlan0"], ["tcpclient1"]),
        ("E.6", "tcp", ["client.eth1"], ["tcpclient2"]),
    ],
)
def test_barreira_users_compete(scenario: str, transport: str, interfaces: list[str], rivals: list[str]) -> None:
    name = f"barreira2014/{scenario}"
    found = flows(name)
    assert list(found) == ["client", *rivals]
    assert found["client"]["transport"] == transport
    assert [path["local"] for path in found["client"]["paths"]] == interfaces
    assert all(found[rival]["transport"] == "tcp" for rival in rivals)
    on_air = {link["id"] for link in links(name).values() if link["medium"] == "wlan"}
    assert on_air == {"user1_ap"} | ({"client_ap"} if links(name)["client_ap"]["a"] == "client.wlan0" else set())


@pytest.mark.parametrize("scenario", ["A.1", "E.1", "F.1/throughput", "G.2/throughput"])
def test_barreira_wifi_is_a_shared_air_and_4g_a_cellular_link(scenario: str) -> None:
    data = resolved(f"barreira2014/{scenario}")
    networks = [access for access in data["access"] if access["kind"] == "wifi"]
    assert networks
    for network in networks:
        assert (network["standard"], network["band"], network["ap_queue"]["kind"]) == ("n", "2.4ghz", "fifo")
        assert all((station["width_mhz"], station["streams"]) == (20, 1) for station in network["stations"])
        standards = {station["link"]: station["standard"] for station in network["stations"]}
        assert standards == {link: "g" if link == "user1_ap" else "n" for link in standards}
    others = [access["link"] for access in data["access"] if access["kind"] == "cellular"]
    assert others == (["mobile"] if scenario[0] in "FG" else [])


def test_barreira_strangles_one_cable_and_captures_both_links() -> None:
    (event,) = resolved("barreira2014/B.5")["events"]
    assert (event["at_ns"], event["action"]["link"]) == (30_000_000_000, "eth1")
    assert event["action"]["forward"]["rate_bps"] == 10 * MBIT
    capture = resolved("barreira2014/W.1")
    assert capture["measure"]["captures"] == ["client.eth0", "client.wlan0"]
    addresses = {interface["id"]: interface["ipv4"] for interface in capture["interfaces"]}
    assert addresses["client.wlan0"] == "192.168.88.3/24"


# ---- Sonkoly -------------------------------------------------------------------------------------


def over(flow: dict[str, Any]) -> list[list[str]]:
    """Returns the links between switches on each path of a flow."""
    return [[hop["link"] for hop in path["hops"][1:-1]] for path in flow["paths"]]


@pytest.mark.parametrize(
    ("experiment", "paths", "cut"),
    [
        ("fig3a/mptcp/exp1", [["uk-de"], ["uk-hr", "hr-de"]], "uk-de"),
        ("fig3b/mptcp/exp2", [["hr-nl"], ["uk-hr", "uk-nl"]], "hr-nl"),
        ("fig3a/tcp/exp2", [["hr-nl"]], "hr-nl"),
        ("fig4/mptcp", [["uk-de"], ["uk-hr", "hr-de"]], "uk-de"),
    ],
)
def test_sonkoly_paths_are_those_of_the_table_and_the_direct_one_fails(
    experiment: str, paths: list[list[str]], cut: str
) -> None:
    name = f"sonkoly2014/{experiment}"
    assert over(flows(name)["bulk"]) == paths
    end = 10.1 if "fig4" in name else 20.0
    assert timeline(name) == [(10.0, "link_down", cut), (end, "link_up", cut)]


@pytest.mark.parametrize(
    ("path", "rate_bps", "rtt_ms"),
    [
        ("uk_de_direct", 320_800_000, 18.6),
        ("hr_nl_direct", 258_500_000, 44.8),
        ("uk_de_through_hr", 255_800_000, 75.4),
        ("hr_nl_through_uk", 257_900_000, 47.8),
    ],
)
def test_sonkoly_links_add_up_to_the_paths_of_the_table(path: str, rate_bps: int, rtt_ms: float) -> None:
    name = f"sonkoly2014/table/{path}"
    (way,) = over(flows(name)["bulk"])
    ends = [links(name)[link] for link in way]
    assert min(link["forward"]["rate_bps"] for link in ends) == rate_bps
    delays = sum(link[direction]["delay_ns"] for link in ends for direction in ("forward", "backward"))
    assert delays / 1e6 == pytest.approx(rtt_ms)


@pytest.mark.parametrize("transport", ["tcp", "mptcp"])
def test_sonkoly_all_hosts_send_to_all_others(transport: str) -> None:
    found = flows(f"sonkoly2014/fig5b/{transport}")
    bulk = [flow for name, flow in found.items() if name.startswith("bulk.")]
    noise = [flow for name, flow in found.items() if name.startswith("noise.")]
    assert (len(bulk), len(noise)) == (20, 20)
    assert {flow["app"]["rate_bps"] for flow in noise} == {125 * MBIT}
    for flow in bulk:
        ways = over(flow)
        assert len(ways) == (2 if transport == "mptcp" else 1)
        assert len({link for way in ways for link in way}) == sum(map(len, ways))


@pytest.mark.parametrize("kind", ["mptcp_regular", "mptcp_overlay"])
def test_sonkoly_the_primary_path_is_the_one_of_the_name(kind: str) -> None:
    first = flows(f"sonkoly2014/fig6/{kind}/80ms")["bulk"]["paths"][0]["hops"][0]["link"]
    assert first == {"mptcp_regular": "regular", "mptcp_overlay": "tunnel"}[kind]


@pytest.mark.parametrize("member", catalogue("sonkoly2014"), ids=lambda member: member.name)
def test_sonkoly_scaled_by_four_keeps_the_number_of_packets_on_every_link(member: Member) -> None:
    (scaled,) = find(member.name, {"scale": "4"})
    one, four = member.resolve().data, scaled.resolve().data
    for link, other in zip(one["links"], four["links"], strict=True):
        for side in ("forward", "backward"):
            rate, delay = link[side]["rate_bps"] or 0, link[side]["delay_ns"]
            assert (other[side]["rate_bps"] or 0) * 4 == pytest.approx(rate)
            assert other[side]["delay_ns"] == 4 * delay
    assert four["parameters"]["scale"] == 4
    if not member.name.startswith(("sonkoly2014/outage", "sonkoly2014/iprecovery")):
        assert four["duration_ns"] == 4 * one["duration_ns"]
        assert [event["at_ns"] for event in four["events"]] == [4 * event["at_ns"] for event in one["events"]]
