"""The OpenFlow switches of a resolved experiment, as recovery strategies see them, and their reactions as actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mptcplab import recovery
from mptcplab.paths import Edge, Graph
from mptcplab.recovery import Checked, Detour, Network, PathKey

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form


@dataclass(frozen=True)
class SwitchedNetwork:
    """The links between switches, the paths over them, and the strategy that recovers them."""

    graph: Graph
    groups: Mapping[str, list[str]]
    """The links of each shared-risk group."""
    strategy: Checked
    detect_ns: int | None
    """Time from a failure until the controller knows of it; None if a switch reports it."""
    ends: Mapping[PathKey, tuple[str, str]]
    """The switches at the two ends of each path."""
    paths: Mapping[PathKey, form.Path]
    links: Mapping[str, form.Link]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> SwitchedNetwork | None:
        """Returns the switches of a resolved experiment, or of the parts of one; None without any."""
        control = data["control"]
        if control is None:
            return None
        links = {link["id"]: link for link in data["links"]}
        groups = {group["id"]: list(group["links"]) for group in control["srlg"]}
        edges = [
            Edge(one["link"], _ends(links[one["link"]]), one["cost"], _groups_of(one["link"], groups))
            for one in control["costs"]
        ]
        graph = Graph(edges, (node["id"] for node in data["nodes"] if node["kind"] == "openflow"))
        paths = {
            (flow["id"], number): path
            for flow in data["flows"]
            for number, path in enumerate(flow["paths"])
            if len(path["hops"]) > 1 and all(hop["link"] in graph.edges for hop in path["hops"][1:-1])
        }
        ends = {key: _switches_at(path, links) for key, path in paths.items()}
        asked = control["recovery"]
        strategy = recovery.strategy(asked["strategy"], asked["parameters"], data["user_code"])
        return cls(graph, groups, strategy, asked["detect_ns"], ends, paths, links)

    def seen_by_strategies(self, down: Iterable[str] = ()) -> Network:
        """Returns the network while the links `down` are down."""
        ways = {key: tuple(hop["link"] for hop in path["hops"][1:-1]) for key, path in self.paths.items()}
        return Network(self.graph, ways, self.ends, frozenset(down))

    def reroute(self, key: PathKey, detour: Detour, by: form.RerouteBy) -> dict[str, Any]:
        """Returns the action that sends a path over the ways of a detour."""
        flow, number = key
        first, *_, last = self.paths[key]["hops"]
        source, target = self.ends[key]
        return {
            "kind": "reroute",
            "flow": flow,
            "path": number,
            "there": [first, *self._hops(source, detour.there), last],
            "back": [_reversed(last), *self._hops(target, detour.back), _reversed(first)],
            "by": by,
        }

    def _hops(self, node: str, way: Iterable[str]) -> list[form.Hop]:
        """Returns the hops over links, which begin at `node`."""
        hops: list[form.Hop] = []
        for link in way:
            a, b = _ends(self.links[link])
            hops.append({"link": link, "direction": "forward" if node == a else "backward"})
            node = b if node == a else a
        return hops


def _ends(link: form.Link) -> tuple[str, str]:
    """Returns the nodes at the two ends of a link."""
    return link["a"].partition(".")[0], link["b"].partition(".")[0]


def _groups_of(link: str, groups: Mapping[str, list[str]]) -> frozenset[str]:
    return frozenset(name for name, links in groups.items() if link in links)


def _switches_at(path: form.Path, links: Mapping[str, form.Link]) -> tuple[str, str]:
    """Returns the far end of the first link of a path, and the near end of the last."""
    first, last = path["hops"][0], path["hops"][-1]
    a, b = _ends(links[first["link"]])
    c, d = _ends(links[last["link"]])
    return b if first["direction"] == "forward" else a, c if last["direction"] == "forward" else d


def _reversed(hop: form.Hop) -> form.Hop:
    return {"link": hop["link"], "direction": "backward" if hop["direction"] == "forward" else "forward"}
