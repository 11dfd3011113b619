"""Tests the resolution of descriptions to the form that back-ends read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mptcplab.errors import SpecError
from mptcplab.experiment import Experiment, Flow, Host, Link, load, members, parse_action, resolve
from mptcplab.units import Rate


def parallel(n: int, **link: object) -> Experiment:
    """Returns an experiment with `n` links between a client and a server, and one flow."""
    settings = {"parallel_links": {"n": n, **link}}
    return Experiment.model_validate(
        {"name": "x", "topology": settings, "flows": {"bulk": {"from": "client", "to": "server"}}}
    )


def data_of(**fields: object) -> dict[str, Any]:
    """Returns the resolved form of a description of two hosts with two links and further fields."""
    base = {
        "name": "x",
        "hosts": {"client": {}, "server": {}},
        "links": {
            "wifi": {"between": ["client.wlan0", "server.eth0"], "rate": "10mbit", "delay": "5ms"},
            "lte": {"between": ["client.wwan0", "server.eth1"], "rate": "5mbit", "delay": "20ms"},
        },
        "flows": {"bulk": {"from": "client", "to": "server"}},
    }
    return resolve(Experiment.model_validate(base | fields)).data


def test_the_example_of_the_design(two_paths: Path) -> None:
    first, second = (member.resolve().data for member in load(two_paths))
    assert (first["name"], second["name"]) == ("two-paths/queue=1bdp", "two-paths/queue=4bdp")
    assert second["parameters"] == {"queue": "4bdp"}
    wifi, lte = second["links"]
    assert (wifi["medium"], wifi["forward"]["rate_bps"], wifi["forward"]["loss_at"]) == ("air", 47_000_000, "egress")
    assert lte["forward"]["queue"] == {"kind": "drop_tail", "limit_packets": None, "limit_bytes": 360_000}
    assert lte["backward"]["queue"]["limit_bytes"] == 1_200_000
    (flow,) = first["flows"]
    assert [path["hops"] for path in flow["paths"]] == [
        [{"link": "wifi", "direction": "forward"}],
        [{"link": "lte", "direction": "forward"}],
    ]
    assert [interface["ipv4"] for interface in first["interfaces"]] == [
        "10.1.1.1/24",
        "10.1.1.2/24",
        "10.1.2.1/24",
        "10.1.2.2/24",
    ]
    assert first["origins"]["links.wifi.delay"] == "x.yaml:5"
    assert first["origins"]["media.air.rate"].startswith("profile wifi_n, illustrative (assumed: the thesis measured")
    assert first["origins"]["flows.bulk.opened_by"] == "default"
    json.dumps(first, allow_nan=False)


@pytest.mark.parametrize(
    ("links", "rate", "ceilings"),
    [(8, "1mbit", (7.52, 7.41, 7.59)), (2, "100mbit", (188.1, 185.2, 189.9))],
)
def test_payload_ceilings(links: int, rate: str, ceilings: tuple[float, ...]) -> None:
    for overhead, expected in zip(("frame", "ethernet", "ip"), ceilings, strict=True):
        flow = resolve(parallel(links, rate=rate, overhead=overhead)).data["flows"][0]
        digits = 2 if expected < 10 else 1
        assert round(flow["ceiling_bps"] / 1e6, digits) == expected
        assert len(flow["paths"]) == links


def test_a_shared_link_counts_once() -> None:
    data = data_of(
        nodes={"core": {"kind": "router"}},
        links={
            "a": {"between": ["client.a", "core"], "rate": "10mbit"},
            "b": {"between": ["client.b", "core"], "rate": "10mbit"},
            "out": {"between": ["core", "server.eth0"], "rate": "12mbit"},
        },
    )
    (flow,) = data["flows"]
    assert [path["local"] for path in flow["paths"]] == ["client.a", "client.b"]
    assert flow["ceiling_bps"] == 12_000_000 * 1424 // 1514
    assert flow["paths"][0]["ceiling_bps"] == 10_000_000 * 1424 // 1514


def test_headers_follow_the_transport() -> None:
    def ceiling(transport: str) -> int:
        flow = {
            "from": "client",
            "to": "server",
            "transport": transport,
            "app": {"cbr": {"rate": "1mbit", "size": 972}},
        }
        return int(data_of(flows={"f": flow})["flows"][0]["ceiling_bps"])

    assert ceiling("udp") == 10_000_000 * 972 // 1014
    assert ceiling("tcp") == 10_000_000 * 1448 // 1514


def test_parallel_links_pair_up_unless_all_pairs_are_asked_for() -> None:
    eight = parallel(8, rate="1mbit")
    assert len(resolve(eight).data["flows"][0]["paths"]) == 8
    everywhere = resolve(eight.override({"reachability": "all_pairs"})).data["flows"][0]
    assert len(everywhere["paths"]) == 64
    assert everywhere["ceiling_bps"] == pytest.approx(7_524_438, abs=10)


def test_a_switch_extends_a_subnet_and_a_router_ends_it() -> None:
    links = {"a": {"between": ["client.eth0", "mid"]}, "b": {"between": ["mid", "server.eth0"]}}
    switched = data_of(nodes={"mid": {"kind": "switch"}}, links=links)
    routed = data_of(nodes={"mid": {"kind": "router"}}, links=links)
    assert (len(switched["subnets"]), len(routed["subnets"])) == (1, 2)
    assert [link["layer"] for link in switched["links"] + routed["links"]] == [2, 2, 3, 3]
    ports = {interface["id"]: interface["ipv4"] for interface in switched["interfaces"]}
    assert ports == {"client.eth0": "10.1.1.1/24", "mid.p1": None, "mid.p2": None, "server.eth0": "10.1.1.2/24"}
    assert [hop["link"] for hop in routed["flows"][0]["paths"][0]["hops"]] == ["a", "b"]


def test_hosts_do_not_forward() -> None:
    links = {"a": {"between": ["client.eth0", "mid.eth0"]}, "b": {"between": ["mid.eth1", "server.eth0"]}}
    with pytest.raises(Exception, match="there is no path from client to server"):
        data_of(hosts={"client": {}, "mid": {}, "server": {}}, links=links)


def test_given_routes_win_over_the_shortest() -> None:
    nodes = {name: {"kind": "switch"} for name in ("uk", "de", "hr")}
    links = {
        "l1": {"between": ["client.eth0", "uk"]},
        "l2": {"between": ["de", "server.eth0"]},
        "uk-de": {"between": ["uk", "de"]},
        "uk-hr": {"between": ["uk", "hr"]},
        "hr-de": {"between": ["hr", "de"]},
    }
    flow = {"from": "client", "to": "server", "routes": [["uk", "hr", "de"]]}
    data = data_of(nodes=nodes, links=links, flows={"f": flow})
    assert [hop["link"] for hop in data["flows"][0]["paths"][0]["hops"]] == ["l1", "uk-hr", "hr-de", "l2"]


def test_hosts_take_the_time_of_linux_unless_told_otherwise() -> None:
    jitter = {"p50": "1us", "p90": "2us", "p99": "3us", "max": "4us"}
    hosts = {"client": {"host_jitter": "none"}, "server": {}, "other": {"host_jitter": jitter}}
    client, server, other = (host["host_jitter"] for host in data_of(hosts=hosts)["hosts"])
    assert client == {"kind": "none"}
    assert server == {"kind": "linux", "p50_ns": 20_000, "p90_ns": 50_000, "p99_ns": 140_000, "max_ns": 350_000}
    assert other == {"kind": "quantiles", "p50_ns": 1000, "p90_ns": 2000, "p99_ns": 3000, "max_ns": 4000}


def test_addresses_can_be_given() -> None:
    data = data_of(hosts={"client": {"interfaces": {"wlan0": {"address": "10.1.1.7/24", "up": False}}}, "server": {}})
    addresses = {interface["id"]: interface["ipv4"] for interface in data["interfaces"]}
    assert addresses["client.wlan0"] == "10.1.1.7/24"
    assert addresses["server.eth0"] == "10.1.1.1/24"
    assert addresses["client.wwan0"] == "10.1.2.1/24"
    assert data["interfaces"][0]["up"] is False


def test_a_queue_in_bdp_holds_at_least_ten_packets() -> None:
    links = {
        "a": {"between": ["client.a", "server.a"], "rate": "1mbit", "delay": "1ms", "queue": "1bdp"},
        "b": {"between": ["client.b", "server.b"], "rate": "8mbit", "queue": "2bdp", "bdp_rtt": "100ms"},
    }
    tight, stated = data_of(links=links)["links"]
    assert tight["forward"]["queue"]["limit_bytes"] == 10 * 1514
    assert stated["forward"]["queue"]["limit_bytes"] == 200_000


def test_rtt_is_halved_and_says_so() -> None:
    link = {"between": ["client.a", "server.a"], "rate": "1mbit", "rtt": "18.6ms"}
    resolved = resolve(
        Experiment.model_validate({"name": "x", "hosts": {"client": {}, "server": {}}, "links": {"a": link}})
    )
    assert resolved.data["links"][0]["backward"]["delay_ns"] == 9_300_000
    assert resolved.description["links"]["a"]["delay"] == "9300us"
    assert resolved.origins["links.a.delay"] == "derived from rtt"


def test_a_trace_is_read_beside_the_description(tmp_path: Path) -> None:
    (tmp_path / "lte.trace").write_text("1\n1\n4\n10\n")
    (tmp_path / "x.yaml").write_text(
        "name: x\nhosts: {a: {}, b: {}}\nlinks: {l: {between: [a.e, b.e], trace: lte.trace}}\n"
        "flows: {f: {from: a, to: b}}\n"
    )
    data = load(tmp_path / "x.yaml")[0].resolve().data
    trace = data["links"][0]["forward"]["trace"]
    assert trace["opportunities_ns"] == [0, 1_000_000, 1_000_000, 4_000_000]
    assert trace["period_ns"] == 10_000_000
    assert data["links"][0]["forward"]["rate_bps"] is None
    assert data["flows"][0]["paths"][0]["rate_bps"] == 4_800_000


def test_patterns_directions_and_parallel_flows() -> None:
    def ids(**flow: object) -> list[str]:
        topology = {"star": {"n": 4, "rate": "1mbit"}}
        description = {"name": "x", "topology": topology, "flows": {"f": flow}}
        return [flow["id"] for flow in resolve(Experiment.model_validate(description)).data["flows"]]

    assert ids(**{"from": "h1", "to": "h2", "parallel": 2, "direction": "both"}) == [
        "f.up.1",
        "f.up.2",
        "f.down.1",
        "f.down.2",
    ]
    assert len(ids(pattern="all_to_all", hosts=["h[1-4]"])) == 12
    assert ids(pattern="incast", hosts=["h[1-4]"], to="h3") == ["f.h1-h3", "f.h2-h3", "f.h4-h3"]
    assert ids(pattern="stride", hosts=["h[1-4]"], stride=2) == ["f.h1-h3", "f.h2-h4", "f.h3-h1", "f.h4-h2"]
    permutation = ids(pattern="permutation", hosts=["h[1-4]"])
    pairs = [name.removeprefix("f.").split("-") for name in permutation]
    assert sorted(receiver for _, receiver in pairs) == ["h1", "h2", "h3", "h4"]
    assert all(sender != receiver for sender, receiver in pairs)


def test_a_fat_tree_spreads_flows_over_equal_routes() -> None:
    flow = {"pattern": "permutation", "hosts": ["h[1-16]"], "path_manager": {"n_diff_ports": {"subflows": 4}}}
    description = {"name": "x", "topology": {"fattree": {"k": 4, "rate": "100mbit"}}, "flows": {"f": flow}}
    data = resolve(Experiment.model_validate(description)).data
    assert (len(data["hosts"]), len(data["nodes"]), len(data["links"])) == (16, 20, 48)
    longest = max(data["flows"], key=lambda flow: len(flow["paths"][0]["hops"]))
    assert len(longest["paths"]) == 4
    assert len({json.dumps(path["hops"]) for path in longest["paths"]}) == 4
    assert longest["ceiling_bps"] == 100_000_000 * 1424 // 1514


def test_where_routers_choose_a_path_has_its_first_and_last_link() -> None:
    fattree = {"k": 4, "rate": "100mbit", "delay": "10us", "next_hop": "ecmp"}
    flow = {"from": "h1", "to": "h16", "path_manager": {"n_diff_ports": {"subflows": 4}}}
    description = {
        "name": "x",
        "topology": {"fattree": fattree},
        "nodes": {"core1": {"hash": "l3"}, "core2": {"next_hop": "by_port"}},
        "links": {"edge1-1-agg1-2": {"rate": "10mbit", "delay": "20us"}, "h1-edge1-1": {"mtu": 1400}},
        "flows": {"f": flow, "pinned": {**flow, "routes": [["edge1-1", "agg1-1", "core1", "agg4-1", "edge4-2"]]}},
    }
    with pytest.raises(SpecError, match="'hash' has no effect without next_hop ecmp"):
        resolve(Experiment.model_validate(description | {"nodes": {"core2": {"next_hop": "random", "hash": "l3"}}}))
    data = resolve(Experiment.model_validate(description)).data
    choices = {node["id"]: node["next_hop"] for node in data["nodes"]}
    assert (choices["edge1-1"], choices["core1"], choices["core2"]) == ("ecmp_l4", "ecmp_l3", "by_port")
    routed, pinned = (flow["paths"] for flow in data["flows"])
    assert routed == [
        {
            "local": "h1.eth0",
            "remote": "h16.eth0",
            "hops": [
                {"link": "h1-edge1-1", "direction": "forward"},
                {"link": "h16-edge4-2", "direction": "backward"},
            ],
            "routed": True,
            "rate_bps": 100_000_000,
            "ceiling_bps": 100_000_000 * 1324 // 1414,
            "rtt_ns": 120_000,
        }
    ]
    assert [(len(path["hops"]), path["routed"]) for path in pinned] == [(6, False)]


def test_a_dual_homed_fat_tree_has_two_edge_routers_for_each_host() -> None:
    data = resolve(Experiment.model_validate({"name": "x", "topology": {"fattree": {"k": 4, "homes": 2}}})).data
    assert (len(data["hosts"]), len(data["links"])) == (16, 64)
    links = {link["id"] for link in data["links"]}
    assert {"h1-edge1-1", "h1-edge1-2", "h3-edge1-2", "h3-edge1-1"} <= links
    interfaces = {interface["id"]: interface["link"] for interface in data["interfaces"]}
    assert (interfaces["h3.eth0"], interfaces["h3.eth1"]) == ("h3-edge1-2", "h3-edge1-1")


@pytest.mark.parametrize(
    ("topology", "hosts", "links"),
    [
        ({"dumbbell": {"left": 2, "right": 3, "bottleneck": {"rate": "5mbit"}, "access": {"rate": "1gbit"}}}, 5, 6),
        ({"full_mesh": {"n": 4, "rate": "1mbit"}}, 4, 6),
        ({"star": {"n": 3}}, 3, 3),
    ],
)
def test_generators(topology: dict[str, object], hosts: int, links: int) -> None:
    data = resolve(Experiment.model_validate({"name": "x", "topology": topology})).data
    assert (len(data["hosts"]), len(data["links"])) == (hosts, links)


def test_generated_links_can_be_changed_by_name() -> None:
    description = {
        "name": "x",
        "topology": {"parallel_links": {"n": 2, "rate": "1mbit", "delay": "10ms"}},
        "links": {"link2": {"rtt": "50ms"}},
    }
    first, second = resolve(Experiment.model_validate(description)).data["links"]
    assert (first["forward"]["delay_ns"], second["forward"]["delay_ns"]) == (10_000_000, 25_000_000)
    assert second["forward"]["rate_bps"] == 1_000_000


def test_python_objects_make_the_same_experiment() -> None:
    built = Experiment(
        name="x",
        hosts={"a": Host(), "b": Host(mptcp=False)},
        links={"l": Link(between=["a.e", "b.e"], rate=Rate(1_500_000), queue={"limit": "1bdp", "discipline": "codel"})},
        flows={"f": Flow(from_="a", to="b", cc=["lia"])},
    )
    again = Experiment.from_yaml(built.to_yaml())
    assert again == built
    assert "rate: 1500kbit" in built.to_yaml()
    assert resolve(again).data["links"] == resolve(built).data["links"]
    assert resolve(built).origins["links.l.rate"] == "given"


def test_words_for_a_running_experiment(two_paths: Path) -> None:
    resolved = load(two_paths)[0].resolve()
    assert parse_action("down: client.wlan0", resolved) == {"kind": "interface_down", "interface": "client.wlan0"}
    assert parse_action({"backup": "client.wwan0"}, resolved)["on"] is True
    changed = parse_action("set: lte, delay: {forward: 20ms}, queue: 1bdp", resolved)
    assert changed["forward"]["delay_ns"] == 20_000_000
    assert changed["forward"]["queue"]["limit_bytes"] == 60_000
    assert changed["backward"]["delay_ns"] == 30_000_000
    with pytest.raises(Exception, match="did you mean 'client"):
        parse_action("down: client.wlan", resolved)
    with pytest.raises(Exception, match="stands for 2 actions"):
        parse_action("down: [client.wlan0, client.wwan0]", resolved)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("oot", [("oot", 500)]),
        ("{preset: mainline, path_manager_delay: 500ms}", [("mainline", 500)]),
        ("{path_manager_delay: 2s}", [("mainline", 2000)]),
        ("[oot, {preset: mainline, path_manager_delay: 500ms}]", [("oot", 500), ("mainline", 500)]),
    ],
)
def test_a_behaviour_is_one_or_a_list_of_preference(
    write: Callable[[str], Path], written: str, expected: list[tuple[str, int]]
) -> None:
    text = (
        f"name: b\nhosts: {{a: {{behaviour: {written}}}, b: {{}}}}\n"
        "links: {l: {between: [a.e0, b.e0], rate: 1mbit}}\nflows: {f: {from: a, to: b}}\nduration: 5s\n"
    )
    resolved = load(write(text))[0].resolve()
    behaviours = resolved.data["hosts"][0]["behaviour"]
    assert [(one["name"], one["path_manager_delay_ns"] // 1_000_000) for one in behaviours] == expected
    assert {"behaviour.0.preset", "behaviour.0.failed_after"} <= {
        path.removeprefix("hosts.a.") for path in resolved.origins
    }


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("mainline", ("backoff", 100, 30_000)),
        ("oot", ("never", 100, 30_000)),
        ("{preset: oot, recreation: backoff, recreation_longest: 1min}", ("backoff", 100, 60_000)),
    ],
)
def test_presets_say_whether_lost_subflows_are_opened_again(written: str, expected: tuple[str, int, int]) -> None:
    text = f"""
name: x
hosts: {{a: {{behaviour: {written}}}, b: {{}}}}
links: {{l: {{between: [a.x, b.x]}}}}
flows: {{f: {{from: a, to: b}}}}
"""
    behaviour = resolve(Experiment.from_yaml(text)).data["hosts"][0]["behaviour"][0]
    waits = (behaviour[f"recreation_{which}_ns"] // 1_000_000 for which in ("first", "longest"))
    assert (behaviour["recreation"], *waits) == expected


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        ("cc: {fixed_cwnd: {packets: 20}}", ("cc", [{"name": "fixed_cwnd", "packets": 20}])),
        (
            "scheduler: [{RoundRobin: {num_segments: 4}}, min_rtt]",
            ("scheduler", [{"name": "round_robin", "num_segments": 4}, "min_rtt"]),
        ),
        ("path_manager: n_diff_ports", ("path_manager", [{"name": "n_diff_ports", "subflows": 2}])),
        (
            "path_manager: {kernel_endpoints: {subflows: 1}}",
            ("path_manager", [{"name": "kernel_endpoints", "subflows": 1}]),
        ),
        ("handshake: race", ("handshake", "race")),
    ],
)
def test_algorithms_carry_their_parameters(written: str, resolved: tuple[str, object]) -> None:
    text = f"""
name: x
hosts: {{a: {{}}, b: {{}}}}
links: {{l: {{between: [a.x, b.x]}}}}
flows: {{f: {{from: a, to: b, {written}}}}}
"""
    experiment = Experiment.from_yaml(text)
    field, value = resolved
    assert resolve(experiment).data["flows"][0][field] == value
    again = Experiment.from_yaml(experiment.to_yaml())
    assert resolve(again).json(origins=False) == resolve(experiment).json(origins=False)


def test_a_path_goes_over_the_family_that_both_ends_have_ipv4_first() -> None:
    text = """
name: x
hosts: {a: {interfaces: {y: {family: ipv6}, z: {family: ipv4}}}, b: {}, c: {interfaces: {x: {family: ipv6}}}}
nodes: {r: {kind: router}}
links:
  one: {between: [a.x, b.x], rate: 15mbit}
  two: {between: [a.y, b.y], rate: 15mbit}
  three: {between: [a.z, r], rate: 15mbit}
  four: {between: [a.u, r], rate: 15mbit}
  out: {between: [r, c.x], rate: 100mbit}
flows: {f: {from: a, to: b}, g: {from: a, to: b, via: [a.x]}, h: {from: a, to: c}}
"""
    data = resolve(Experiment.from_yaml(text)).data
    families = {it["id"]: [family for family in ("ipv4", "ipv6") if it[family]] for it in data["interfaces"]}
    assert (families["a.x"], families["a.y"], families["a.z"]) == (["ipv4", "ipv6"], ["ipv6"], ["ipv4"])
    assert families["r.p1"] == ["ipv4", "ipv6"]
    both, only_ipv4, only_ipv6 = data["flows"]
    assert [path["local"] for path in both["paths"]] == ["a.x", "a.y"]
    assert [path["local"] for path in only_ipv6["paths"]] == ["a.u"]
    # Full packets of all paths leave room for the longest headers: 1404 and 1424 of 1500 bytes are
    # payload, with 14 bytes of Ethernet.
    assert both["ceiling_bps"] == 2 * (15_000_000 * 1404 // 1514)
    assert only_ipv4["ceiling_bps"] == 15_000_000 * 1424 // 1514


FELT = """
name: felt
hosts: {client: {first_hop: host}, server: {}}
links:
  cable: {between: [client.eth0, server.eth0], rate: 10mbit, delay: 5ms, loss: 1%, queue: 50p}
flows: {bulk: {from: client, to: server}}
events: [{at: 1s, set: cable, rate: 5mbit, queue: 20p}]
duration: 2s
"""


def test_a_host_that_feels_its_link_has_its_queue(tmp_path: Path) -> None:
    (tmp_path / "felt.yaml").write_text(FELT)
    data = members(tmp_path / "felt.yaml")[0].resolve().data
    for both, limit in ((data["links"][0], 50), (data["events"][0]["action"], 20)):
        host, back = both["forward"], both["backward"]
        assert host["queue"] == {"kind": "drop_tail", "limit_packets": None, "limit_bytes": None}
        assert (host["loss_at"], back["loss_at"]) == ("egress", "ingress")
        assert back["queue"]["limit_packets"] == limit


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("queue: 50p", "queue: {forward: 50p}", "links.cable.queue.forward: queue of forward"),
        ("server: {}", "server: {first_hop: host}", "links.cable.queue: packets wait in client and server"),
        ("queue: 50p", "loss_at: ingress", "links.cable.loss_at: loss before the queue of forward"),
        ("queue: 20p", "queue: {forward: 20p}", "events.0.set: queue of forward: packets wait in client"),
    ],
)
def test_what_has_no_effect_behind_a_host_is_refused(old: str, new: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "felt.yaml").write_text(FELT.replace(old, new))
    with pytest.raises(SpecError) as error:
        members(tmp_path / "felt.yaml")[0].resolve()
    assert place in str(error.value)
