"""Actions for a running experiment, written as the events of a description."""

from __future__ import annotations

from collections.abc import Mapping

from mptcplab.document import Node, given, parse_value, wrong
from mptcplab.experiment import schedule
from mptcplab.experiment.events import ACTIONS, Event
from mptcplab.experiment.recoveries import check_detection
from mptcplab.experiment.resolve import Resolved
from mptcplab.experiment.schedule import Action
from mptcplab.experiment.validation import at, validated


def parse_action(words: str | Mapping[str, object], resolved: Resolved, now_ns: int = 0) -> Action:
    """Parses an action such as `down: client.wlan0` or `set: wifi, delay: 20ms`, at `now_ns` of the
    experiment.

    Raises SpecError if the text is wrong, or if it stands for several actions (a list, an outage, a
    handover, a sequence), which `parse_actions` returns.
    """
    tree = _tree(words)
    actions = _parsed(tree, resolved, now_ns)
    if len(actions) != 1:
        raise wrong(tree, (_event(tree).action,), f"stands for {len(actions)} actions", "one action at a time")
    return actions[0][1]


def parse_actions(words: str | Mapping[str, object], resolved: Resolved, now_ns: int = 0) -> list[tuple[int, Action]]:
    """Parses an action that may stand for several, such as `outage: wifi, for: 100ms`.

    Returns each with the time in ns after the first. Raises SpecError if the text is wrong.
    """
    return _parsed(_tree(words), resolved, now_ns)


def _parsed(tree: Node, resolved: Resolved, now_ns: int) -> list[tuple[int, Action]]:
    world = schedule.World.of(_links_at(resolved, now_ns))
    walk = schedule.Walk(world)
    with at(tree):
        steps = schedule.in_order(schedule.steps(_event(tree, now_ns), 0, world))
        for step in steps:
            if world.switched is not None:
                check_detection(world.switched, step)
        return [(step.at_ns - now_ns, _complete(step, walk)) for step in steps]


def _complete(step: schedule.Step, walk: schedule.Walk) -> Action:
    """Returns the action of a step. Whether an interface is up now is known
    only to the back-end.
    """
    return walk.take(step) or step.action if step.action["kind"] == "set_link" else step.action


def _event(tree: Node, now_ns: int = 0) -> Event:
    return validated(Event, Node({"at": Node(f"{now_ns}ns", tree.source), **tree.mapping}, tree.source))


def _tree(words: str | Mapping[str, object]) -> Node:
    if not isinstance(words, str):
        return given(words)
    text = words.strip()
    tree = parse_value(text if text.startswith("{") else f"{{{text}}}")
    if not isinstance(tree.value, dict) or not tree.value:
        raise wrong(tree, (), f"found '{words}'", f"ACTION: NAME, where ACTION is one of {', '.join(ACTIONS)}")
    return tree


def _links_at(resolved: Resolved, now_ns: int) -> dict[str, object]:
    """Returns the resolved experiment with the settings of its links at
    `now_ns` by the schedule.
    """
    links = {link["id"]: link for link in resolved.data["links"]}
    for event in resolved.data["events"]:
        action = event["action"]
        if action["kind"] == "set_link" and event["at_ns"] <= now_ns:
            links[action["link"]] = links[action["link"]] | {
                "forward": action["forward"],
                "backward": action["backward"],
            }
    return {**resolved.data, "links": list(links.values())}
