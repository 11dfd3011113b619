"""The OpenFlow switches of a resolved experiment, as recovery strategies see them, and their
reactions as actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mptcplab import recovery
from mptcplab.paths import Graph, Way
from mptcplab.recovery import Checked, Detour, Network, PathKey, ends_of, links_of, network_of

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form


@dataclass(frozen=True)
class SwitchedNetwork:
    """The links between switches, the paths over them, and the strategy that recovers them."""

    whole: Network
    """The network with nothing down."""
    groups: Mapping[str, list[str]]
    """The links of each shared-risk group."""
    strategy: Checked
    """The strategy of `control.recovery`, which recovers it at first."""
    changes: Sequence[tuple[int, str]]
    """The names of the strategies that follow, each with the time in ns from which it recovers, in order of time."""
    detect_ns: int | None
    """Time from a failure until the controller knows of it; None if a switch reports it."""
    paths: Mapping[PathKey, form.Path]
    links: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> SwitchedNetwork | None:
        """Returns the switches of a resolved experiment, or of the parts of one; None without any.
        Of its events, only changes of the strategy matter.
        """
        control = data["control"]
        if control is None:
            return None
        groups = {group["id"]: list(group["links"]) for group in control["srlg"]}
        whole = network_of(data)
        flows = {flow["id"]: flow["paths"] for flow in data["flows"]}
        paths = {(flow, number): flows[flow][number] for flow, number in whole.ways}
        asked = control["recovery"]
        changes = [
            (event["at_ns"], event["action"]["strategy"])
            for event in data["events"]
            if event["action"]["kind"] == "set_recovery"
        ]
        first = recovery.strategy_of(data, asked["strategy"])
        return cls(whole, groups, first, changes, asked["detect_ns"], paths, links_of(data))

    def strategy_at(self, at_ns: int) -> Checked:
        """Returns the strategy that recovers the network at a time."""
        names = [name for since_ns, name in self.changes if since_ns <= at_ns]
        return self.strategy_named(names[-1]) if names else self.strategy

    def strategy_named(self, name: str) -> Checked:
        """Returns a strategy by its name. That of `control.recovery` has its parameters."""
        return self.strategy if name == self.strategy.name else recovery.strategy(name)

    @property
    def graph(self) -> Graph:
        """The links between switches."""
        return self.whole.graph

    def seen_by_strategies(self, ways: Mapping[PathKey, Way], down: Iterable[str] = ()) -> Network:
        """Returns the network with the ways that paths take without failures, while the links
        `down` are down.
        """
        return replace(self.whole, ways=ways, down=frozenset(down))

    def reroute(self, key: PathKey, detour: Detour, by: form.RerouteBy) -> dict[str, Any]:
        """Returns the action that sends a path over the ways of a detour."""
        flow, number = key
        first, *_, last = self.paths[key]["hops"]
        source, target = self.whole.ends[key]
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
            a, b = ends_of(self.links[link])
            hops.append({"link": link, "direction": "forward" if node == a else "backward"})
            node = b if node == a else a
        return hops


def _reversed(hop: form.Hop) -> form.Hop:
    return {"link": hop["link"], "direction": "backward" if hop["direction"] == "forward" else "forward"}
