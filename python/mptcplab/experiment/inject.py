"""Actions for a running experiment, written as the events of a description."""

from __future__ import annotations

from collections.abc import Mapping

from mptcplab.document import Node, given, parse_value, wrong
from mptcplab.experiment import schedule
from mptcplab.experiment.events import ACTIONS, Event
from mptcplab.experiment.resolve import Resolved
from mptcplab.experiment.schedule import Action
from mptcplab.experiment.validation import at, validated


def parse_action(words: str | Mapping[str, object], resolved: Resolved, now_ns: int = 0) -> Action:
    """Parses an action such as `down: client.wlan0` or `set: wifi, delay: 20ms`, at `now_ns` of the
    experiment.

    Raises SpecError if the text is wrong, or if it stands for several actions (a list, a handover, a
    sequence).
    """
    tree = _tree(words)
    event = validated(Event, Node({"at": Node("0s", tree.source), **tree.mapping}, tree.source))
    world = schedule.World.of(_links_at(resolved, now_ns))
    with at(tree):
        steps = schedule.steps(event, 0, world)
    if len(steps) != 1:
        raise wrong(tree, (event.action,), f"stands for {len(steps)} actions", "one action at a time")
    step = steps[0]
    # Whether an interface is up now is known only to the back-end.
    if step.action["kind"] != "set_link":
        return step.action
    with at(tree):
        return schedule.Walk(world).take(step) or step.action


def _tree(words: str | Mapping[str, object]) -> Node:
    if not isinstance(words, str):
        return given(words)
    text = words.strip()
    tree = parse_value(text if text.startswith("{") else f"{{{text}}}")
    if not isinstance(tree.value, dict) or not tree.value:
        raise wrong(tree, (), f"found '{words}'", f"ACTION: NAME, where ACTION is one of {', '.join(ACTIONS)}")
    return tree


def _links_at(resolved: Resolved, now_ns: int) -> dict[str, object]:
    """Returns the resolved experiment with the settings of its links at `now_ns` by the schedule."""
    links = {link["id"]: link for link in resolved.data["links"]}
    for event in resolved.data["events"]:
        action = event["action"]
        if action["kind"] == "set_link" and event["at_ns"] <= now_ns:
            links[action["link"]] = links[action["link"]] | {
                "forward": action["forward"],
                "backward": action["backward"],
            }
    return {**resolved.data, "links": list(links.values())}
