"""What a recovery strategy does over the schedule: the reroutes that follow from failures of links,
and from changes of the strategy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mptcplab.experiment.base import described
from mptcplab.experiment.schedule import Action, Step
from mptcplab.experiment.switched_network import SwitchedNetwork
from mptcplab.paths import Way
from mptcplab.recovery import PORT_STATUS_NS, Checked, Detour, PathKey, Strategy, both_directions


@dataclass(frozen=True)
class _Notice:
    """The moment at which the controller learns that a link is down or up."""

    at_ns: int
    event: int
    link: str
    is_down: bool


class _Recovering:
    """The links that the controller knows to be down, in the order of their failures, and the
    strategy at present.
    """

    def __init__(self, network: SwitchedNetwork) -> None:
        self._network = network
        self._strategy = network.strategy
        self._down: list[str] = []
        #: The ways of paths without failures, as described or as ordered since.
        self._ways: dict[PathKey, Way] = dict(network.whole.ways)

    def take(self, notice: _Notice) -> Iterator[Step]:
        """Yields the reroutes that follow from a failure or a repair."""
        (self._down.append if notice.is_down else self._down.remove)(notice.link)
        react = self._strategy.failed if notice.is_down else self._strategy.repaired
        reaction = react(self._network.seen_by_strategies(self._ways, self._down), notice.link)
        for key, detour in reaction.detours.items():
            action = self._network.reroute(key, detour, "recovery")
            yield Step(notice.at_ns + reaction.after_ns, notice.event, action)

    def change(self, step: Step, strategy: Checked) -> Iterator[Step]:
        """Yields the reroutes of all paths to where a new strategy would have sent them by now."""
        self._strategy = strategy
        ways: dict[PathKey, Detour] = {key: both_directions(way) for key, way in self._ways.items()}
        for number, link in enumerate(self._down, 1):
            seen = self._network.seen_by_strategies(self._ways, self._down[:number])
            ways |= strategy.failed(seen, link).detours
        for key, detour in ways.items():
            yield Step(step.at_ns, step.event, self._network.reroute(key, detour, "recovery"))

    def order(self, action: Action) -> None:
        """Takes note of a path that was sent over another way, which strategies depart from."""
        self._ways[action["flow"], action["path"]] = tuple(hop["link"] for hop in action["there"][1:-1])

    def knows(self, notice: _Notice) -> bool:
        """Returns whether a notice is no news."""
        return notice.is_down == (notice.link in self._down)


def reroutes(network: SwitchedNetwork, steps: Sequence[Step]) -> Iterator[Step]:
    """Yields the reroutes that follow from the actions of a schedule, in order of time."""
    recovering = _Recovering(network)
    orders = [step for step in steps if step.action["kind"] in ("set_recovery", "reroute")]
    turns: list[_Notice | Step] = [*_notices(network, steps), *orders]
    for turn in sorted(turns, key=lambda turn: turn.at_ns):
        if isinstance(turn, _Notice):
            yield from recovering.take(turn) if not recovering.knows(turn) else ()
        elif turn.action["kind"] == "set_recovery":
            yield from recovering.change(turn, network.strategy_named(turn.action["strategy"]))
        else:
            recovering.order(turn.action)


def _notices(network: SwitchedNetwork, steps: Sequence[Step]) -> list[_Notice]:
    """Returns what the controller notices, in order of time. A failure that ends before a
    controller can notice it is not noticed; a port status reports both of its ends.
    """
    by_port = network.detect_ns is None
    after_ns = PORT_STATUS_NS if network.detect_ns is None else network.detect_ns
    changes = [
        _Notice(step.at_ns, step.event, step.action["link"], step.action["kind"] == "link_down")
        for step in sorted(steps, key=lambda step: step.at_ns)
        if _concerns(network, step) and (not by_port or step.action["by"] == "port_down")
    ]
    noticed: list[_Notice] = []
    for change in changes:
        last = next((one for one in reversed(noticed) if one.link == change.link), None)
        if not by_port and last is not None and last.is_down and change.at_ns < last.at_ns:
            noticed.remove(last)
        else:
            noticed.append(_Notice(change.at_ns + after_ns, change.event, change.link, change.is_down))
    return noticed


def check_detection(network: SwitchedNetwork, step: Step) -> None:
    """Refuses a failure that raises no port status, if the strategy waits for one."""
    strategy = network.strategy_at(step.at_ns)
    waits = network.detect_ns is None and reacts(strategy)
    is_failure = _concerns(network, step) and step.action["kind"] == "link_down"
    if waits and is_failure and step.action["by"] != "port_down":
        name = strategy.name
        problem = f"by: {step.action['by']} raises no port status, so recovery {name} would not notice it"
        raise described(problem, f"by: port_down, or recovery: {{{name}: {{detect: 10ms}}}}", field="by")


def reacts(strategy: Checked) -> bool:
    """Returns whether a strategy does anything about a failure."""
    return type(strategy.strategy).failed is not Strategy.failed


def _concerns(network: SwitchedNetwork, step: Step) -> bool:
    """Returns whether a step takes a link between switches down or up."""
    return step.action["kind"] in ("link_down", "link_up") and step.action["link"] in network.graph.edges
