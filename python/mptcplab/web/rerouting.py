"""Networks of switches under control: the ways over which viewers can send paths, and how the
network recovers from a failure that a viewer makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mptcplab.experiment.recoveries import reroutes
from mptcplab.experiment.schedule import Step
from mptcplab.experiment.switched_network import SwitchedNetwork
from mptcplab.paths.policies import k_shortest

Resolved = Mapping[str, Any]
Action = dict[str, Any]

#: Ways that are offered for a path, and paths for which any are.
MOST_WAYS = 4
MOST_PATHS = 8


def possible_reroutes(experiment: Resolved) -> Iterator[dict[str, Any]]:
    """Yields the shortest ways over which paths can be sent, as `reroute` events name them."""
    network = SwitchedNetwork.of(experiment)
    if network is None:
        return
    for (flow, number), (source, target) in sorted(network.whole.ends.items())[:MOST_PATHS]:
        ways = k_shortest(network.graph, source, target, MOST_WAYS) if source != target else []
        for nodes in dict.fromkeys(network.graph.nodes_of(way, source) for way in ways):
            yield {"flow": flow, "path": number + 1, "over": list(nodes)}


class HandMade:
    """The failures that viewers of a simulated run have made, and the reroutes that follow.

    The schedule of a description has the reroutes that follow from its own failures. A controller
    of real switches reacts by itself.
    """

    def __init__(self, experiment: Resolved) -> None:
        self._network = SwitchedNetwork.of(experiment)
        self._steps: list[Step] = []
        self._known = 0

    def follows_from(self, at_ns: int, actions: Sequence[tuple[int, Action]]) -> list[tuple[int, Action]]:
        """Returns the reroutes that follow from actions at `at_ns`, each with its time after that
        in ns.
        """
        if self._network is None:
            return []
        for after_ns, action in actions:
            if self._is_noticed(action):
                self._steps.append(Step(at_ns + after_ns, 0, action))
        found = list(reroutes(self._network, self._steps))[self._known :]
        self._known += len(found)
        return [(max(step.at_ns - at_ns, 0), step.action) for step in found]

    def _is_noticed(self, action: Action) -> bool:
        """Returns whether a controller learns of it: from its port status only if a port goes
        down.
        """
        assert self._network is not None
        is_failure = action["kind"] in ("link_down", "link_up")
        return is_failure and (self._network.detect_ns is not None or action["by"] == "port_down")
