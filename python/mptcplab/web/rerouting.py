"""Networks of controlled switches: the ways over which viewers can send paths, how the network
recovers from a failure that a viewer makes, and the strategies that a viewer can choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from mptcplab.experiment.recoveries import reroutes
from mptcplab.experiment.schedule import Step
from mptcplab.experiment.switched_network import SwitchedNetwork
from mptcplab.paths import ways_in_order
from mptcplab.recovery import STRATEGIES

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
        ways = islice(ways_in_order(network.graph, source, target), MOST_WAYS) if source != target else ()
        for nodes in dict.fromkeys(network.graph.nodes_of(way, source) for way in ways):
            yield {"flow": flow, "path": number + 1, "over": list(nodes)}


def possible_strategies(experiment: Resolved) -> list[dict[str, str]]:
    """Returns the strategies by which the network can recover, each with what it does. The
    description may name a class of the user, which is among them.
    """
    control = experiment["control"]
    if control is None:
        return []
    first = control["recovery"]["strategy"]
    own = [{"name": first, "does": "a class of the user"}] if first not in STRATEGIES else []
    return [*own, *({"name": name, "does": strategy.summary} for name, strategy in STRATEGIES.items())]


class HandMade:
    """The failures and the choices of strategies that viewers of a simulated run have made, and the
    reroutes that follow.

    The schedule of a description has the reroutes that follow from its own events. A controller of
    real switches reacts by itself.
    """

    def __init__(self, experiment: Resolved) -> None:
        self._network = SwitchedNetwork.of(experiment)
        self._steps = _described(experiment)
        #: The reroutes that the run knows of.
        self._known = self._reroutes()

    def follows_from(self, at_ns: int, actions: Sequence[tuple[int, Action]]) -> list[tuple[int, Action]]:
        """Returns the reroutes that follow from actions at `at_ns`, each with its time after that
        in ns.
        """
        if self._network is None:
            return []
        for after_ns, action in actions:
            self._steps.append(Step(at_ns + after_ns, len(self._steps), action))
        known, self._known = self._known, self._reroutes()
        new = [step for step in self._known if step not in known and step.at_ns >= at_ns]
        # The run carries these out too, so that each path goes on over the way that it has by then.
        outdated = [self._undone(step) for step in known if step not in self._known and step.at_ns > at_ns]
        found = sorted([*outdated, *new], key=lambda step: step.at_ns)
        return [(step.at_ns - at_ns, step.action) for step in found]

    def _reroutes(self) -> list[Step]:
        return list(reroutes(self._network, self._steps)) if self._network is not None else []

    def _undone(self, outdated: Step) -> Step:
        """Returns the reroute that gives the path of an outdated one the way that it has then."""
        assert self._network is not None
        flow, number = outdated.action["flow"], outdated.action["path"]
        of_path = [
            step.action
            for step in sorted([*self._steps, *self._known], key=lambda step: step.at_ns)
            if step.at_ns <= outdated.at_ns
            and step.action["kind"] == "reroute"
            and (step.action["flow"], step.action["path"]) == (flow, number)
        ]
        original = self._network.reroute((flow, number), self._network.whole.original((flow, number)), "recovery")
        last = of_path[-1] if of_path else original
        return Step(outdated.at_ns, outdated.event, {**last, "by": "recovery"})


def _described(experiment: Resolved) -> list[Step]:
    """Returns what a description does to links, paths and the strategy, without what follows from
    it.
    """
    events = [event for event in experiment["events"] if event["action"].get("by") != "recovery"]
    return [Step(event["at_ns"], number, event["action"]) for number, event in enumerate(events)]
