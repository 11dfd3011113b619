"""The part of a flow's payload ceiling that the network can carry at a time of the run, after the
failures so far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mptcplab import air
from mptcplab.results.entities import Json
from mptcplab.results.network_state import NetworkState
from mptcplab.results.run_data import Happening, RunData, once_a_run

#: Payload and headers of TCP.
_FULL_PACKET_BYTES = (1448, 52)


@once_a_run
def capacity_bps(run: RunData, flow: str, at_s: float) -> float | None:
    """Returns the payload in bit/s that the flow's usable paths carry right after ``at_s``; None
    without a rate limit.

    The result is the ceiling of the description, scaled by the ratio of the max-flow over the
    usable paths to the max-flow over all paths at the start.
    """
    described = run.flows[flow]
    ceiling: float | None = described["ceiling_bps"]
    state, whole_state = run.network_at(at_s), run.whole_network
    if ceiling is None or _same(run, described, state, whole_state):
        return ceiling
    whole, left = (_max_flow(run, described, s) for s in (whole_state, state))
    return None if not whole or left is None else ceiling * left / whole


def lowers_capacity(run: RunData, flow: str, happening: Happening) -> bool | None:
    """Returns whether a link change takes capacity from a flow (True), adds capacity (False) or
    neither (None).
    """
    before, after = (capacity_bps(run, flow, happening.actual_s - shift) for shift in (1e-9, 0.0))
    if before is None or after is None or before == after:
        return None
    return after < before


def _same(run: RunData, flow: Json, state: NetworkState, whole: NetworkState) -> bool:
    """Returns whether the flow's paths are as in the whole network. This is common and cheaper than
    a max-flow.
    """
    hops = {(hop["link"], hop["direction"]) for path in flow["paths"] for hop in path["hops"]}
    usable = all(_usable(path, run.links, state) for path in flow["paths"])
    return usable and all(state.rates[hop] == whole.rates[hop] for hop in hops)


def _max_flow(run: RunData, flow: Json, state: NetworkState) -> float | None:
    """Returns the max-flow in bit/s over the usable paths; None if a usable path
    has no rate limit.
    """
    resolved, links = run.resolved, run.links
    state = replace(state, rates=state.rates | _rates_of_air(run))
    interfaces = {interface["id"]: interface["node"] for interface in resolved["interfaces"]}
    media = {medium["id"]: medium["rate_bps"] for medium in resolved["media"]}
    paths = flow["paths"][:1] if flow["transport"] == "udp" else flow["paths"]
    if _disjoint(paths, links):
        return _sum_of_narrowest([path for path in paths if _usable(path, links, state)], state)
    import networkx as nx  # loads as slowly as the rest of the results together, and few runs need it

    graph: Any = nx.DiGraph()
    graph.add_nodes_from([flow["from"], flow["to"]])
    for path in paths:
        if not _usable(path, links, state):
            continue
        if path["routed"]:
            # The part between the first and the last link is not known to be narrower.
            first, last = (_nodes(links[hop["link"]], hop["direction"], interfaces) for hop in path["hops"])
            graph.add_edge(first[1], last[0])
        for hop in path["hops"]:
            _add_hop(graph, links[hop["link"]], hop["direction"], interfaces, media, state)
    try:
        return float(nx.maximum_flow_value(graph, flow["from"], flow["to"]))
    except nx.NetworkXUnbounded:
        return None


@once_a_run
def _rates_of_air(run: RunData) -> dict[tuple[str, str], float | None]:
    """Returns what each station of Wi-Fi carries alone in full packets, in each direction."""
    return {
        (link, direction): float(bps)
        for network in run.resolved["access"]
        if network["kind"] == "wifi"
        for link, bps in air.most_payload_bps(network, *_FULL_PACKET_BYTES).items()
        for direction in ("forward", "backward")
    }


def _disjoint(paths: list[Json], links: dict[str, Json]) -> bool:
    """Returns whether no two paths share a serializer, as with parallel links. Then the max-flow is
    a sum.
    """
    hops = [hop for path in paths for hop in path["hops"]]
    used = {(hop["link"], hop["direction"]) for hop in hops}
    on_media = any(links[hop["link"]]["medium"] is not None for hop in hops)
    return len(used) == len(hops) and not on_media and not any(path["routed"] for path in paths)


def _sum_of_narrowest(paths: list[Json], state: NetworkState) -> float | None:
    """Returns the sum of the narrowest rates of disjoint paths; None if one of them has no rate
    limit.
    """
    rates = [[state.rates[hop["link"], hop["direction"]] for hop in path["hops"]] for path in paths]
    narrowest = [min((rate for rate in of_path if rate is not None), default=None) for of_path in rates]
    limited = [rate for rate in narrowest if rate is not None]
    return sum(limited) if len(limited) == len(narrowest) else None


def _add_hop(
    graph: Any, link: Json, direction: str, interfaces: dict[str, str], media: dict[str, Any], state: NetworkState
) -> None:
    """Adds a direction of a link as an edge. Links of one medium share the edge because they share
    the serializer.
    """
    start, end = _nodes(link, direction, interfaces)
    rate = state.rates[link["id"], direction]
    name: tuple[str, ...] = (link["id"], direction)
    if link["medium"] is not None and media[link["medium"]] is not None:
        name, rate = (link["medium"],), media[link["medium"]]
    capacity = {} if rate is None else {"capacity": rate}
    graph.add_edge(start, (*name, "in"))
    graph.add_edge((*name, "in"), (*name, "out"), **capacity)
    graph.add_edge((*name, "out"), end)


def _nodes(link: Json, direction: str, interfaces: dict[str, str]) -> tuple[str, str]:
    """Returns the nodes from which and to which a link leads in a direction."""
    a, b = interfaces[link["a"]], interfaces[link["b"]]
    return (a, b) if direction == "forward" else (b, a)


def _usable(path: Json, links: dict[str, Json], state: NetworkState) -> bool:
    crossed = [links[hop["link"]] for hop in path["hops"]]
    touched = {link[end] for link in crossed for end in ("a", "b")}
    return (
        not touched & state.down
        and not {link["id"] for link in crossed} & state.cut
        and not {path["local"], path["remote"]} & state.without_address
    )
