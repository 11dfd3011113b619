"""What a recovery strategy sees and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from mptcplab.paths import Graph, Way

PathKey: TypeAlias = tuple[str, int]
"""The id of a flow, and the index of one of its paths."""

PORT_STATUS_NS = 2_500_000
"""Model of the time from the failure of a link until a switch has reported the state of its port:
the median of 40 failures of TAP ports of Open vSwitch 3.1.0 on two shared cores; the 95th
percentile was 4.3 ms.
"""


@dataclass(frozen=True, slots=True)
class Detour:
    """The ways that a path takes from now on: from the sender's switch to the
    receiver's, and back.
    """

    there: Way
    back: Way


@dataclass(frozen=True, slots=True)
class Reaction:
    """The answer to a failure or a repair: new ways for some paths. The others keep theirs."""

    detours: Mapping[PathKey, Detour] = field(default_factory=dict)
    after_ns: int = 0
    """Model of the time from the detection until the entries of the switches forward."""


@dataclass(frozen=True, slots=True)
class Network:
    """The network as a strategy sees it. It never changes; each call gets the
    network of its time.
    """

    graph: Graph
    """All links between nodes, also those that are down."""
    ways: Mapping[PathKey, Way]
    """The ways that the policies chose, whatever is down."""
    ends: Mapping[PathKey, tuple[str, str]]
    """The switches of the sender and of the receiver."""
    down: frozenset[str] = frozenset()
    """The links that are down. In `failed` the failed link is among them, in `repaired` the
    repaired one is not.
    """

    def original(self, key: PathKey) -> Detour:
        """Returns the way of a path without failures, in both directions."""
        return both_directions(self.ways[key])


def both_directions(way: Way) -> Detour:
    """Returns a way as a detour over the same links in both directions."""
    return Detour(way, way[::-1])


class Strategy:
    """The base of all strategies: it reacts to nothing.

    The same object makes the actions of the simulator and drives the controller of a real network,
    so its answers depend on their arguments alone.
    """

    summary: ClassVar[str] = "a class of the user"

    link_returns_after_ns: int | None = None
    """The time after which a failed link works again by means below the network; None if only a
    repair brings it back.
    """

    def reserves(self, network: Network) -> Mapping[str, int]:  # noqa: ARG002
        """Returns for links how many units of capacity are kept free. One path needs one unit."""
        return {}

    def prepare(self, network: Network) -> Mapping[tuple[PathKey, str], Detour]:  # noqa: ARG002
        """Returns the ways for paths and failed links that switches are given beforehand."""
        return {}

    def failed(self, network: Network, link: str) -> Reaction:  # noqa: ARG002
        """Returns the reaction to the failure of a link."""
        return Reaction()

    def repaired(self, network: Network, link: str) -> Reaction:  # noqa: ARG002
        """Returns the reaction to the repair of a link."""
        return Reaction()


class Rerouting(Strategy):
    """The base of strategies whose ways follow from what is down."""

    def way_now(self, network: Network, key: PathKey) -> Detour | None:
        """Returns the way of a path in the network as it is; None if it has none."""
        raise NotImplementedError

    def install_time_ns(self) -> int:
        """Returns the model of the time from the detection until the entries of the switches
        forward.
        """
        raise NotImplementedError

    def failed(self, network: Network, link: str) -> Reaction:
        return self._changes(replaced(network, network.down - {link}), network)

    def repaired(self, network: Network, link: str) -> Reaction:
        return self._changes(replaced(network, network.down | {link}), network)

    def _changes(self, before: Network, now: Network) -> Reaction:
        """Returns the new ways of the paths that have another one now. A path without any keeps the
        last.
        """
        found = {key: self.way_now(now, key) for key in now.ways}
        changed = {key: way for key, way in found.items() if way is not None and way != self.way_now(before, key)}
        return Reaction(changed, self.install_time_ns())


def replaced(network: Network, down: frozenset[str]) -> Network:
    """Returns the same network with other links down."""
    return Network(network.graph, network.ways, network.ends, down)
