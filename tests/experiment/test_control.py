"""Tests controlled switches: the ways of flows, outages of groups, recovery, error models, and
topology files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mptcplab.backends import backend
from mptcplab.errors import SpecError
from mptcplab.experiment import Experiment, Resolved, members, parse_action, parse_actions, resolve

MS = 1_000_000


def geant(
    *, flow: dict[str, Any] | None = None, attach: int = 2, control: dict[str, Any] | None = None, **fields: object
) -> dict[str, Any]:
    """Returns the resolved form of a flow between two hosts of GEANT."""
    base = {
        "name": "x",
        "topology": {"geant5": {"attach": attach}},
        "control": {"policy": "edge_disjoint"} | (control or {}),
        "flows": {"bulk": {"from": "h-uk", "to": "h-de", "path_manager": "full_mesh"} | (flow or {})},
    }
    return resolve(Experiment.model_validate(base | fields)).data


def ways(data: dict[str, Any], flow: int = 0) -> list[list[str]]:
    """Returns the links between switches of each path."""
    return [[hop["link"] for hop in path["hops"][1:-1]] for path in data["flows"][flow]["paths"]]


def actions(data: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Returns the time in ms, the kind and the target of each event."""
    return [
        (event["at_ns"] // MS, one["kind"], one.get("link") or one.get("flow"))
        for event in data["events"]
        for one in [event["action"]]
    ]


def refusal(**changes: Any) -> str:
    with pytest.raises(SpecError) as refused:
        geant(**changes)
    return str(refused.value)


def test_a_path_policy_gives_each_pair_of_interfaces_its_own_way() -> None:
    data = geant()
    assert ways(data) == [["uk-de"], ["uk-nl", "de-nl"]]
    ends = [(path["local"], path["remote"]) for path in data["flows"][0]["paths"]]
    assert ends == [("h-uk.eth0", "h-de.eth0"), ("h-uk.eth1", "h-de.eth1")]
    assert (data["flows"][0]["policy"], data["flows"][0]["paths"][0]["rtt_ns"]) == ("edge_disjoint", 18.6 * MS)


def test_one_pair_of_interfaces_has_a_way_for_each_subflow() -> None:
    data = geant(attach=1, flow={"path_manager": {"n_diff_ports": {"subflows": 3}}})
    assert ways(data) == [["uk-de"], ["uk-nl", "de-nl"], ["x5-uk", "x5-de"]]
    assert {(path["local"], path["remote"]) for path in data["flows"][0]["paths"]} == {("h-uk.eth0", "h-de.eth0")}


def test_a_policy_of_a_flow_comes_before_that_of_control() -> None:
    assert ways(geant(flow={"policy": "shortest"})) == [["uk-de"], ["uk-de"]]


def test_costs_decide_which_way_is_the_first() -> None:
    weighted = geant(control={"cost": {"uk-de": 10}})
    assert "uk-de" not in ways(weighted)[0] + ways(weighted)[1]
    assert ways(geant(control={"cost": "hops"}))[0] == ["uk-de"]
    assert {one["cost"] for one in weighted["control"]["costs"]} == {1, 10}


def test_plain_tcp_and_udp_take_one_way() -> None:
    flow = {"from": "h-uk", "to": "h-de", "transport": "tcp"}
    data = resolve(
        Experiment.model_validate(
            {
                "name": "x",
                "topology": {"geant5": {}},
                "control": {"policy": "edge_disjoint"},
                "flows": {"bulk": flow},
            }
        )
    ).data
    assert ways(data) == [["uk-de"]]


def test_given_routes_are_ways() -> None:
    data = geant(flow={"routes": [["uk", "x5", "de"], ["uk", "hr", "de"]]})
    assert ways(data) == [["x5-uk", "x5-de"], ["uk-hr", "hr-de"]]
    assert data["flows"][0]["policy"] is None


def test_the_outage_of_a_group_takes_all_its_links_down() -> None:
    data = geant(
        control={"srlg": {"tunnel": ["uk-de", "uk-nl"]}},
        events=[{"id": "dig", "at": "1s", "outage": {"srlg": "tunnel"}, "for": "2s", "by": "port_down"}],
    )
    assert actions(data) == [
        (1000, "link_down", "uk-de"),
        (1000, "link_down", "uk-nl"),
        (3000, "link_up", "uk-de"),
        (3000, "link_up", "uk-nl"),
    ]
    assert {event["parent"] for event in data["events"]} == {"dig"}


CUT = [{"id": "cut", "at": "1s", "outage": "uk-de", "for": "2s", "by": "port_down"}]


def test_optical_recovery_brings_the_link_back() -> None:
    data = geant(control={"recovery": "optical"}, events=CUT)
    assert actions(data) == [(1000, "link_down", "uk-de"), (1050, "link_up", "uk-de")]


def test_reactive_recovery_reroutes_after_detection_and_installation() -> None:
    recovery = {"ip_reactive": {"detect": "10ms", "install": "20ms"}}
    data = geant(control={"recovery": recovery}, events=CUT)
    assert actions(data) == [
        (1000, "link_down", "uk-de"),
        (1030, "reroute", "bulk"),
        (3000, "link_up", "uk-de"),
        (3030, "reroute", "bulk"),
    ]
    there = [hop["link"] for hop in data["events"][1]["action"]["there"]]
    assert there == ["h-uk-eth0", "uk-nl", "de-nl", "h-de-eth0"]
    assert data["events"][1]["action"]["by"] == "recovery"


def test_a_failure_that_ends_before_it_is_detected_changes_no_route() -> None:
    short = [CUT[0] | {"for": "5ms"}]
    data = geant(control={"recovery": {"ip_reactive": {"detect": "10ms"}}}, events=short)
    assert [kind for _, kind, _ in actions(data)] == ["link_down", "link_up"]


CHANGE = [{"id": "change", "at": "2s", "recovery": "ip_reactive"}]


def test_a_change_of_the_strategy_is_an_action_and_the_reroutes_that_follow() -> None:
    data = geant(attach=1, control={"policy": "shortest", "recovery": "none"}, events=[*CUT, *CHANGE])
    assert data["control"]["recovery"]["strategy"] == "none"
    change, reroute, repair, back = data["events"][1:]
    assert (change["id"], change["parent"], change["at_ns"]) == ("change.1", "change", 2000 * MS)
    assert change["action"] == {"kind": "set_recovery", "strategy": "ip_reactive"}
    assert (reroute["id"], reroute["at_ns"], reroute["action"]["by"]) == ("change.2", 2000 * MS, "recovery")
    assert [hop["link"] for hop in reroute["action"]["there"]][1:-1] == ["uk-nl", "de-nl"]
    assert (repair["action"]["kind"], back["action"]["by"]) == ("link_up", "recovery")
    assert [hop["link"] for hop in back["action"]["there"]][1:-1] == ["uk-de"], "the new strategy sees the repair"


def test_an_outage_after_a_change_to_optical_recovery_is_short() -> None:
    change = [{"at": "500ms", "recovery": "optical"}]
    data = geant(attach=1, control={"policy": "shortest"}, events=[*change, *CUT])
    assert [(at_ms, kind) for at_ms, kind, _ in actions(data) if kind.startswith("link")] == [
        (1000, "link_down"),
        (1050, "link_up"),
    ]
    resolved = Resolved(data, {})
    after_ns = [after_ns for after_ns, _ in parse_actions("outage: uk-nl, for: 1s, by: port_down", resolved, 600 * MS)]
    assert after_ns == [0, 50 * MS], "an injected one, too"


def test_an_injected_change_of_the_strategy_is_one_action() -> None:
    resolved = Resolved(geant(control={"recovery": {"ip_reactive": {"install": "20ms"}}}), {})
    assert parse_action("recovery: optical", resolved) == {"kind": "set_recovery", "strategy": "optical"}


def test_the_description_can_reroute_a_path() -> None:
    data = geant(events=[{"at": "1s", "reroute": "bulk", "path": 2, "over": ["uk", "hr", "de"]}])
    action = data["events"][0]["action"]
    assert (action["path"], [hop["link"] for hop in action["there"]][1:-1]) == (1, ["uk-hr", "hr-de"])
    assert [hop["link"] for hop in action["back"]] == ["h-de-eth1", "hr-de", "uk-hr", "h-uk-eth1"]


def test_an_injected_reroute_is_the_same_action() -> None:
    experiment = Experiment.model_validate(
        {
            "name": "x",
            "topology": {"geant5": {"attach": 2}},
            "control": {"policy": "edge_disjoint"},
            "flows": {"bulk": {"from": "h-uk", "to": "h-de", "path_manager": "full_mesh"}},
        }
    )
    action = parse_action("reroute: bulk, over: [uk, x5, de]", resolve(experiment))
    assert [hop["link"] for hop in action["there"]][1:-1] == ["x5-uk", "x5-de"]


def test_an_injected_outage_ends_by_itself(tmp_path: Path) -> None:
    experiment = Experiment.model_validate(
        {
            "name": "x",
            "topology": {"geant5": {"rate": "5mbit"}},
            "flows": {"call": {"from": "h-uk", "to": "h-de", "transport": "udp", "app": {"cbr": {"rate": "1mbit"}}}},
            "duration": "3s",
        }
    )
    resolved = resolve(experiment)
    run = backend("sim").start(resolved.data, seed=1, directory=tmp_path)
    actions = parse_actions("outage: uk-de, for: 250ms, by: drop_rule", resolved)
    assert [after_ns for after_ns, _ in actions] == [0, 250 * MS]
    for tick in run.samples():
        if tick.time_ns == 1000 * MS:
            for after_ns, action in actions:
                run.inject_later(action, after_ns)
    happened = [(event["actual_ns"] // MS, event["action"]["kind"]) for event in run.result()["events"]]
    assert happened == [(1000, "link_down"), (1250, "link_up")]


def test_an_error_model_makes_the_same_events_for_the_same_draw() -> None:
    def drawn(draw: int) -> dict[str, Any]:
        return geant(errors={"poisson": {"mtbf": "20s", "mttr": "200ms", "draw": draw, "links": ["uk-[1-1]"]}})

    with pytest.raises(SpecError, match="uk-1"):
        drawn(1)
    errors = {"poisson": {"mtbf": "20s", "mttr": "200ms", "draw": 1}}
    first, again = geant(errors=errors)["events"], geant(errors=errors)["events"]
    assert first == again
    assert first
    assert geant(errors={"poisson": errors["poisson"] | {"draw": 2}})["events"] != first


def test_failures_that_overlap_on_a_link_become_one() -> None:
    srlg = {"a": ["uk-de", "uk-nl"], "b": ["uk-de", "de-nl"]}
    errors = {"srlg": {"mtbf": "2s", "mttr": "1s", "draw": 3}}
    data = geant(control={"srlg": srlg}, errors=errors)
    down: set[str] = set()
    for _, kind, link in actions(data):
        assert (link in down) == (kind == "link_up")
        (down.discard if kind == "link_up" else down.add)(link)


GML = """graph [
  node [ id 0 label "London" Latitude 51.5 Longitude -0.1 ]
  node [ id 1 label "Paris" Latitude 48.9 Longitude 2.3 ]
  node [ id 2 label "New York" ]
  edge [ source 0 target 1 LinkSpeedRaw 10000000000.0 ]
  edge [ source 1 target 2 ]
]
"""


@pytest.fixture
def gml(tmp_path: Path) -> Path:
    (tmp_path / "net.gml").write_text(GML)
    return tmp_path


def described(folder: Path, settings: str, flow: str = "{from: h-London, to: h-New_York, transport: tcp}") -> Path:
    file = folder / "x.yaml"
    file.write_text(f"name: x\ntopology: {{graph: {{file: ./net.gml, {settings}}}}}\nflows: {{bulk: {flow}}}\n")
    return file


def test_a_topology_file_gives_rates_and_delays(gml: Path) -> None:
    (member,) = members(described(gml, "delay: 7ms, rate: 1gbit"))
    resolved = member.resolve()
    links = {link["id"]: link for link in resolved.data["links"]}
    assert links["London-Paris"]["forward"]["rate_bps"] == 1_000_000_000  # what the description gives comes first
    assert links["Paris-New_York"]["forward"]["delay_ns"] == 7 * MS
    (member,) = members(described(gml, "attach: 1"))
    resolved = member.resolve()
    near = next(link for link in resolved.data["links"] if link["id"] == "London-Paris")["forward"]
    assert near["rate_bps"] == 10_000_000_000
    assert near["delay_ns"] == pytest.approx(1.67 * MS, rel=0.05)  # 334 km at two thirds of the speed of light
    assert "km between the ends" in resolved.origins["links.London-Paris.delay"]


def test_a_topology_file_that_cannot_be_read_is_refused_with_its_place(gml: Path) -> None:
    file = described(gml, "attach: 1")
    (gml / "net.gml").write_text("graph [ node [ id")
    with pytest.raises(SpecError, match=r"topology\.graph\.file: net\.gml is not valid"):
        members(file)[0].resolve()
    (gml / "net.gml").unlink()
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        members(file)[0].resolve()
    file.write_text(file.read_text().replace("net.gml", "net.txt"))
    with pytest.raises(SpecError, match=r"net\.txt is of an unknown format; allowed: a file named \.gml or \.graphml"):
        members(file)[0].resolve()


def test_more_ways_than_the_network_has_are_refused_with_the_cut(gml: Path) -> None:
    flow = "{from: h-London, to: h-New_York, path_manager: full_mesh, policy: edge_disjoint}"
    (member,) = members(described(gml, "attach: 2", flow))
    with pytest.raises(SpecError) as refused:
        member.resolve()
    assert "flows.bulk.policy" in str(refused.value)
    assert "1 edge-disjoint route found, 2 requested; the minimum cut is" in str(refused.value)
    enough = flow.replace("edge_disjoint", "{edge_disjoint: {at_least: 1}}")
    (member,) = members(described(gml, "attach: 2", enough))
    assert len(member.resolve().data["flows"][0]["paths"]) == 1


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"attach": 1}, ["flows.bulk.policy", "edge_disjoint chooses 2 ways or more", "attach: 2"]),
    ({"control": {"policy": "edge_disjont"}}, ["control.policy", "did you mean 'edge_disjoint'?"]),
    ({"control": {"recovery": "ip"}}, ["control.recovery", "unknown strategy 'ip'", "ip_reactive"]),
    ({"control": {"srlg": {"t": ["uk-dd"]}}}, ["control.srlg.t", "unknown link 'uk-dd', did you mean 'uk-de'?"]),
    ({"control": {"cost": {"uk-dd": 2}}}, ["control.cost", "unknown link 'uk-dd'"]),
    (
        {"control": {"recovery": "ip_reactive"}, "events": [CUT[0] | {"by": "drop_rule"}]},
        ["events.0", "by: drop_rule raises no port status", "detect: 10ms"],
    ),
    ({"events": [CUT[0] | {"outage": {"srlg": "t"}}]}, ["events.0", "unknown group 't'"]),
    ({"events": [{"at": "1s", "reroute": "bulk", "over": ["uk", "fr"]}]}, ["events.0", "over", "fr"]),
    ({"events": [{"at": "1s", "reroute": "bulk", "path": 3, "over": ["uk"]}]}, ["path", "no path 3", "1 to 2"]),
    ({"events": [{"at": "1s", "reroute": "bulk"}]}, ["reroute needs 'over'"]),
    ({"errors": {"poison": {}}}, ["errors", "unknown error model 'poison', did you mean 'poisson'?"]),
    ({"errors": {"poisson": {"mtbf": "1s"}}}, ["errors", "mttr_ns"]),
    ({"flow": {"policy": "shortest", "routes": [["uk", "de"]]}}, ["flows.bulk.policy", "both policy and routes"]),
    ({"control": {"policy": {"shortest": {"weights": [1]}}}}, ["weights", "policy weighted"]),
]


@pytest.mark.parametrize(("changes", "told"), WRONG, ids=[told[-1] for _, told in WRONG])
def test_what_is_wrong_is_refused_in_one_line(changes: dict[str, Any], told: list[str]) -> None:
    text = refusal(**changes)
    assert "\n" not in text
    for part in told:
        assert part in text


def test_control_without_switches_is_refused() -> None:
    with pytest.raises(SpecError, match="has no effect without switches"):
        geant(topology={"star": {"n": 2}}, flows={"bulk": {"from": "h1", "to": "h2"}})
