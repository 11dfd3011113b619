"""The ways that paths take at present, and how failures, repairs and orders change them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mptcplab.controller.detours import Detour as PreparedDetour
from mptcplab.controller.network import Hops, Network
from mptcplab.controller.streams import PathKey, Side, Way
from mptcplab.errors import SpecError, Where
from mptcplab.paths.graph import Edge, Graph
from mptcplab.recovery import Network as RecoveryNetwork

if TYPE_CHECKING:
    from mptcplab.recovery import Reaction, Strategy


class Ways:
    """The way of each path, under a strategy for recovery."""

    def __init__(self, network: Network, described: Mapping[PathKey, Way], strategy: Strategy) -> None:
        self._network = network
        self._strategy = strategy
        self._graph = graph_of(network)
        #: The ways without any failure: as described, or as ordered since.
        self.base = dict(described)
        self.now = dict(described)
        #: The links that are down, in the order of their failures.
        self.down: list[str] = []

    def of_graph(self, links: Collection[str]) -> set[str]:
        """Returns those links that are between nodes. Strategies know no others."""
        return {link for link in links if link in self._graph.edges}

    def prepared(self) -> dict[tuple[PathKey, Side], list[PreparedDetour]]:
        """Returns the detours that the strategy wants to be installed beforehand."""
        found: dict[tuple[PathKey, Side], list[PreparedDetour]] = {}
        for (key, link), detour in self._strategy.prepare(self._view()).items():
            way = self._way(key, detour)
            for side in ("there", "back"):
                steps = self._network.steps(way.hops(side), f"detour of {key[0]} around {link}")
                found.setdefault((key, side), []).append(PreparedDetour(link, steps))
        return found

    def fail(self, link: str, protected: Collection[PathKey] = ()) -> dict[PathKey, Way]:
        """Records that a link is down. Returns the ways that the strategy changes, without those of
        paths that the switches protect by themselves.
        """
        self.down.append(link)
        return self._follow(self._strategy.failed(self._view(), link), protected)

    def repair(self, link: str) -> dict[PathKey, Way]:
        """Records that a link is up again. Returns the ways that the strategy changes."""
        self.down.remove(link)
        return self._follow(self._strategy.repaired(self._view(), link))

    def begin_anew(self, strategy: Strategy) -> list[str]:
        """Gives all paths their ways without any failure, under another strategy. Returns the links
        that are down, which have to fail again.
        """
        down, self.down = self.down, []
        self._strategy, self.now = strategy, dict(self.base)
        return down

    def reroute(self, key: PathKey, there: Hops, back: Hops) -> None:
        """Gives a path another way, whatever the strategy would choose."""
        place = f"reroute of {key[0]}, path {key[1]}"
        if key not in self.now:
            raise SpecError("there is no such path", Where(field=place), allowed=self._known())
        way = Way.of(there, back)
        for side in ("there", "back"):
            self._check_ends(way.hops(side), self.base[key].hops(side), place)
            self._network.steps(way.hops(side), place)
        self.base[key] = self.now[key] = way

    def _check_ends(self, given: Hops, base: Hops, place: str) -> None:
        """Raises SpecError unless a way begins and ends at the same links as another."""
        if [hop["link"] for hop in (*given[:1], *given[-1:])] != [base[0]["link"], base[-1]["link"]]:
            allowed = f"a route that begins with {base[0]['link']} and ends with {base[-1]['link']}"
            raise SpecError("the route does not join the hosts of the path", Where(field=place), allowed=allowed)

    def _known(self) -> str:
        return ", ".join(f"{flow} path {index}" for flow, index in self.now)

    def _follow(self, reaction: Reaction, protected: Collection[PathKey] = ()) -> dict[PathKey, Way]:
        chosen = ((key, detour) for key, detour in reaction.detours.items() if key not in protected)
        changed = {key: self._way(key, detour) for key, detour in chosen}
        changed = {key: way for key, way in changed.items() if way != self.now[key]}
        for key, way in changed.items():
            for side in ("there", "back"):
                self._network.steps(way.hops(side), f"way of {key[0]}, path {key[1]}")
        self.now |= changed
        return changed

    def _view(self) -> RecoveryNetwork:
        """Returns the network as strategies see it."""
        inner = {key: _inner(way.hops("there")) for key, way in self.base.items()}
        ends = {key: self._inner_ends(way.hops("there")) for key, way in self.base.items()}
        ways = {key: tuple(hop["link"] for hop in hops) for key, hops in inner.items()}
        return RecoveryNetwork(graph=self._graph, ways=ways, ends=ends, down=frozenset(self.down))

    def _inner_ends(self, hops: Hops) -> tuple[str, str]:
        return self._network.node(self._network.ends(hops[0])[1]), self._network.node(self._network.ends(hops[-1])[0])

    def _way(self, key: PathKey, detour: Any) -> Way:
        """Returns the way of a path over the links of a detour, which leaves out those of hosts."""
        base = self.base[key]
        first, last = self._inner_ends(base.hops("there"))
        there, back = base.hops("there"), base.hops("back")
        return Way.of(
            [there[0], *self._walk(first, detour.there), there[-1]],
            [back[0], *self._walk(last, detour.back), back[-1]],
        )

    def _walk(self, node: str, links: Sequence[str]) -> Iterator[dict[str, str]]:
        """Yields the hops over links that follow each other from a node."""
        for name in links:
            link = self._network.links[name]
            is_forward = self._network.node(link["a"]) == node
            yield {"link": name, "direction": "forward" if is_forward else "backward"}
            node = self._network.node(link["b"] if is_forward else link["a"])


def _inner(hops: Hops) -> Hops:
    """Returns the links between nodes: all but those of the two hosts."""
    return hops[1:-1]


def graph_of(network: Network) -> Graph:
    """Returns the links between nodes, with their costs and the groups that fail together."""
    control = network.experiment["control"]
    groups = {
        link: frozenset(group["id"] for group in control["srlg"] if link in group["links"]) for link in network.links
    }
    edges = []
    for row in control["costs"]:
        link = network.links[row["link"]]
        ends = (network.node(link["a"]), network.node(link["b"]))
        edges.append(Edge(row["link"], ends, row["cost"], groups[row["link"]]))
    return Graph(edges, (node["id"] for node in network.experiment["nodes"]))
