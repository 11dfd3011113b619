"""The paths of flows through OpenFlow switches: each policy chooses ways, and each way joins two
interfaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mptcplab import capacities
from mptcplab.errors import SpecError
from mptcplab.experiment.base import described
from mptcplab.experiment.control import Control, Policy
from mptcplab.experiment.flows import Flow
from mptcplab.paths import POLICIES, Edge, Graph, NoWaysError, Way, explicit, weighted
from mptcplab.topology import Network, Port, Route

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form

#: Two interfaces, and the route between them.
Joined = tuple[Port, Port, Route]


class SwitchedPaths:
    """Chooses ways over the links between OpenFlow switches."""

    def __init__(self, network: Network, control: Control, costs: Mapping[str, int]) -> None:
        """Takes the costs of all links by name."""
        self._network = network
        self._control = control
        self._costs = costs
        self._groups = groups_of_links(control)
        between_switches = (
            link for link, ends in network.links.items() if all(self._is_switch(end.node) for end in ends)
        )
        self.graph = Graph(map(self._edge, between_switches), filter(self._is_switch, network.kinds))

    def policy_of(self, flow: Flow) -> Policy:
        """Returns the policy of a flow, or that of `control`."""
        return flow.policy or self._control.policy

    def holds_for(self, ports: Iterable[Port]) -> bool:
        """Returns whether all interfaces are at OpenFlow switches."""
        return all(self._is_switch(self._switch_of(port)) for port in ports)

    def paths(self, flow: Flow, senders: Sequence[Port], receivers: Sequence[Port], per_pair: int) -> list[Joined]:
        """Returns the paths of a flow between interfaces of two hosts, with `per_pair` subflows for
        each pair.

        Way i joins the interfaces i of both hosts, or the only one of a host. Raises an error of
        `described`.
        """
        pairs = [
            (senders[i % len(senders)], receivers[i % len(receivers)]) for i in range(max(len(senders), len(receivers)))
        ]
        count = len(pairs) * per_pair if flow.transport == "mptcp" else 1
        one_each = all(len({self._switch_of(port) for port in ports}) == 1 for ports in (senders, receivers))
        if one_each:
            ways = self._ways(flow, self.graph, [self._switch_of(end) for end in pairs[0]], count)
            chosen = [(*pairs[i % len(pairs)], way) for i, way in enumerate(ways)]
            return [(a, b, self._network.as_hops(a.node, (a.link, *way, b.link))) for a, b, way in chosen]
        access = {port.link: port for port in (*senders, *receivers)}
        graph = Graph((*self.graph.edges.values(), *map(self._edge, access)), self.graph.nodes)
        ways = self._ways(flow, graph, [senders[0].node, receivers[0].node], count)
        return [(access[way[0]], access[way[-1]], self._network.as_hops(senders[0].node, way)) for way in ways]

    def _ways(self, flow: Flow, graph: Graph, ends: Sequence[str], count: int) -> list[Way]:
        source, target = ends
        try:
            if flow.routes is not None:
                return [explicit(graph, source, target, nodes) for nodes in flow.routes]
            return self._by_policy(self.policy_of(flow), graph, (source, target), count, flow.transport)
        except SpecError as error:
            raise described(error.problem, error.allowed, field="routes" if flow.routes else "policy") from None

    def _by_policy(self, given: Policy, graph: Graph, ends: tuple[str, str], count: int, transport: str) -> list[Way]:
        policy = POLICIES[given.name]
        if transport == "mptcp" and count < policy.least:
            problem = f"{given.name} chooses {policy.least} ways or more, and this flow has one pair of interfaces"
            raise SpecError(problem, allowed="hosts with two interfaces (attach: 2), or path_manager n_diff_ports")
        try:
            if given.weights is not None:
                return weighted(graph, *ends, count, given.weights)
            return policy.function(graph, *ends, count)
        except NoWaysError as error:
            if given.at_least is not None and len(error.found) >= given.at_least:
                return error.found
            raise

    def _edge(self, link: str) -> Edge:
        a, b = self._network.links[link]
        return Edge(link, (a.node, b.node), self._costs[link], self._groups.get(link, frozenset()))

    def _is_switch(self, node: str) -> bool:
        return self._network.kinds[node] == "openflow"

    def _switch_of(self, port: Port) -> str:
        return self._network.other_end(port).node


def groups_of_links(control: Control) -> dict[str, frozenset[str]]:
    """Returns the shared-risk groups of each link that is in one."""
    links = {link for group in control.srlg.values() for link in group}
    return {link: frozenset(name for name, group in control.srlg.items() if link in group) for link in sorted(links)}


def costs_of_links(control: Control, links: Sequence[form.Link]) -> dict[str, int]:
    """Returns the cost of each link. With `cost: delay` it is the mean of both directions in
    nanoseconds.
    """
    if control.cost == "delay":
        both = {link["id"]: (link["forward"], link["backward"]) for link in links}
        return {link: sum(map(capacities.least_delay_ns, directions)) // 2 for link, directions in both.items()}
    weights = control.cost if isinstance(control.cost, dict) else {}
    return {link["id"]: weights.get(link["id"], 1) for link in links}
