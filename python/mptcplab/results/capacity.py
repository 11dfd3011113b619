"""How much of a flow's payload ceiling the network can carry at a time of the run, given what failed until then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from mptcplab.results.entities import Json
from mptcplab.results.run_data import Happening, RunData


@dataclass
class NetworkState:
    """Which interfaces, addresses and links are usable, and the rate of each link direction in bit/s."""

    down: set[str] = field(default_factory=set)
    without_address: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    rates: dict[tuple[str, str], float | None] = field(default_factory=dict)

    @classmethod
    def initial(cls, resolved: Json) -> NetworkState:
        """The state before any event."""
        state = cls(down={interface["id"] for interface in resolved["interfaces"] if not interface["up"]})
        for link in resolved["links"]:
            for direction in ("forward", "backward"):
                state.rates[link["id"], direction] = _rate(link[direction])
        return state

    def apply(self, action: Json) -> None:
        """Change the state as an action does; actions that do not touch connectivity change nothing."""
        match action["kind"]:
            case "interface_down":
                self.down.add(action["interface"])
            case "interface_up":
                self.down.discard(action["interface"])
            case "address_remove":
                self.without_address.add(action["interface"])
            case "address_add":
                self.without_address.discard(action["interface"])
            case "link_down":
                self.cut.add(action["link"])
            case "link_up":
                self.cut.discard(action["link"])
            case "set_link":
                for direction in ("forward", "backward"):
                    self.rates[action["link"], direction] = _rate(action[direction])


def capacity_bps(run: RunData, flow: str, at_s: float) -> float | None:
    """Payload in bit/s that the flow's usable paths carry right after ``at_s``; None where no rate limits it.

    The ceiling of the description, scaled by the max-flow over the usable paths to the one over all paths at the start.
    """
    ceiling = run.flows[flow]["ceiling_bps"]
    state = NetworkState.initial(run.resolved)
    everything = NetworkState(rates=state.rates.copy())
    for happening in run.happenings:
        if happening.actual_s <= at_s:
            state.apply(happening.action)
    whole, left = (_max_flow(run.resolved, run.flows[flow], s) for s in (everything, state))
    return None if ceiling is None or not whole or left is None else float(ceiling * left / whole)


def lowers_capacity(run: RunData, flow: str, happening: Happening) -> bool | None:
    """Whether a change of a link takes capacity from a flow (True), gives some (False) or neither (None)."""
    before, after = (capacity_bps(run, flow, happening.actual_s - shift) for shift in (1e-9, 0.0))
    if before is None or after is None or before == after:
        return None
    return after < before


def _rate(direction: Json) -> float | None:
    """Rate of a direction in bit/s; a trace of delivery opportunities counts as its mean rate."""
    trace = direction["trace"]
    if trace is None:
        rate: float | None = direction["rate_bps"]
        return rate
    return len(trace["opportunities_ns"]) * trace["opportunity_bytes"] * 8e9 / float(trace["period_ns"])


def _max_flow(resolved: Json, flow: Json, state: NetworkState) -> float | None:
    """Max-flow in bit/s over the usable paths; None if a usable path has no rate limit."""
    links = {link["id"]: link for link in resolved["links"]}
    interfaces = {interface["id"]: interface["node"] for interface in resolved["interfaces"]}
    media = {medium["id"]: medium["rate_bps"] for medium in resolved["media"]}
    paths = flow["paths"][:1] if flow["transport"] == "udp" else flow["paths"]
    graph: Any = nx.DiGraph()
    graph.add_nodes_from([flow["from"], flow["to"]])
    for path in paths:
        if not _usable(path, links, state):
            continue
        for hop in path["hops"]:
            _add_hop(graph, links[hop["link"]], hop["direction"], interfaces, media, state)
    try:
        return float(nx.maximum_flow_value(graph, flow["from"], flow["to"]))
    except nx.NetworkXUnbounded:
        return None


def _add_hop(
    graph: Any, link: Json, direction: str, interfaces: dict[str, str], media: dict[str, Any], state: NetworkState
) -> None:
    """A link direction as an edge of its own; links of one medium share the edge, as they share the serializer."""
    ends = (link["a"], link["b"]) if direction == "forward" else (link["b"], link["a"])
    rate = state.rates[link["id"], direction]
    name: tuple[str, ...] = (link["id"], direction)
    if link["medium"] is not None and media[link["medium"]] is not None:
        name, rate = (link["medium"],), media[link["medium"]]
    capacity = {} if rate is None else {"capacity": rate}
    graph.add_edge(interfaces[ends[0]], (*name, "in"))
    graph.add_edge((*name, "in"), (*name, "out"), **capacity)
    graph.add_edge((*name, "out"), interfaces[ends[1]])


def _usable(path: Json, links: dict[str, Json], state: NetworkState) -> bool:
    crossed = [links[hop["link"]] for hop in path["hops"]]
    touched = {link[end] for link in crossed for end in ("a", "b")}
    return (
        not touched & state.down
        and not {link["id"] for link in crossed} & state.cut
        and not {path["local"], path["remote"]} & state.without_address
    )
