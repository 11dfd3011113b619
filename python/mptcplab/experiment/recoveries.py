"""What a recovery strategy does over the schedule: the reroutes that follow from
failures of links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mptcplab.experiment.base import described
from mptcplab.experiment.schedule import Step
from mptcplab.experiment.switched_network import SwitchedNetwork
from mptcplab.recovery import PORT_STATUS_NS, Strategy


@dataclass(frozen=True)
class _Notice:
    """The moment at which the controller learns that a link is down or up."""

    at_ns: int
    event: int
    link: str
    is_down: bool


def reroutes(network: SwitchedNetwork, steps: Sequence[Step]) -> Iterator[Step]:
    """Yields the reroutes that follow from the actions of a schedule, in order of time."""
    down: set[str] = set()
    for notice in _notices(network, steps):
        (down.add if notice.is_down else down.discard)(notice.link)
        seen = network.seen_by_strategies(down)
        react = network.strategy.failed if notice.is_down else network.strategy.repaired
        reaction = react(seen, notice.link)
        for key, detour in reaction.detours.items():
            action = network.reroute(key, detour, "recovery")
            yield Step(notice.at_ns + reaction.after_ns, notice.event, action)


def _notices(network: SwitchedNetwork, steps: Sequence[Step]) -> list[_Notice]:
    """Returns what the controller notices, in order of time. A failure that ends before a
    controller can notice it is not noticed; a port status reports both of its ends.
    """
    by_port = network.detect_ns is None
    after_ns = PORT_STATUS_NS if network.detect_ns is None else network.detect_ns
    changes = [
        _Notice(step.at_ns, step.event, step.action["link"], step.action["kind"] == "link_down")
        for step in steps
        if _concerns(network, step, "link_down") or _concerns(network, step, "link_up")
    ]
    noticed: list[_Notice] = []
    for change in changes:
        last = next((one for one in reversed(noticed) if one.link == change.link), None)
        if not by_port and last is not None and last.is_down and change.at_ns < last.at_ns:
            noticed.remove(last)
        else:
            noticed.append(_Notice(change.at_ns + after_ns, change.event, change.link, change.is_down))
    return sorted(noticed, key=lambda one: one.at_ns)


def check_detection(network: SwitchedNetwork, step: Step) -> None:
    """Refuses a failure that raises no port status, if the strategy waits for one."""
    waits = network.detect_ns is None and type(network.strategy.strategy).failed is not Strategy.failed
    if waits and _concerns(network, step, "link_down") and step.action["by"] != "port_down":
        name = network.strategy.name
        problem = f"by: {step.action['by']} raises no port status, so recovery {name} would not notice it"
        raise described(problem, f"by: port_down, or recovery: {{{name}: {{detect: 10ms}}}}", field="by")


def _concerns(network: SwitchedNetwork, step: Step, kind: str) -> bool:
    """Returns whether a step is an action of this kind on a link between switches."""
    return step.action["kind"] == kind and step.action["link"] in network.graph.edges
