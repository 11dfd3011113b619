"""A watched run as a description that does the same again: with what viewers changed as events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mptcplab.experiment import Experiment
from mptcplab.units import Duration

if TYPE_CHECKING:
    from mptcplab.web.watching import Done

Json = dict[str, Any]

#: The words of a description for the steps of a sequence: the action, and the key of what it is
#: about.
_STEPS = {
    "interface_down": ("down", "interface"),
    "interface_up": ("up", "interface"),
    "link_down": ("down", "link"),
    "link_up": ("up", "link"),
}
#: Fields whose values a filled-in description has in the places that they are about.
_FILLED_IN = ("topology", "profile", "parameters", "exclude", "reference", "family")


def saved_experiment(
    experiment: Experiment, resolved: Mapping[str, Any], happened: Iterable[Mapping[str, Any]], done: Sequence[Done]
) -> str:
    """Returns the experiment as YAML with its events at the times of the run, and with what was
    `done` in it.

    `happened` are the events as recorded. The seed no longer varies their times, because `vary`
    says so. Parts of a handover keep their distance in the description.
    """
    plain = _alone(experiment)
    steps = {event["id"]: event for event in resolved["events"]}
    asked: dict[str, list[tuple[int, Json]]] = {}
    for event in happened:
        if not event["injected"]:
            step = steps[event["id"]]
            asked.setdefault(step["parent"] or step["id"], []).append((event["asked_ns"], step["action"]))
    events: list[Json] = []
    for number, event in enumerate(plain.get("events", []), 1):
        name = event.get("id", f"e{number}")
        events += _as_it_happened({"id": name, **event}, asked.get(name, []))
    events += _as_done(done, resolved["duration_ns"])
    events.sort(key=lambda event: Duration(event["at"]))
    saved = plain | {"vary": _same_times(plain.get("vary")), "events": events}
    return Experiment.model_validate(saved).to_yaml()


def _alone(experiment: Experiment) -> Json:
    """Returns the filled-in description, which needs no family, generator or profile."""
    filled: Json = experiment.tree.plain()
    return {key: value for key, value in filled.items() if key not in _FILLED_IN}


def _as_done(done: Sequence[Done], end_ns: int) -> Iterator[Json]:
    """Yields what viewers did. An outage that somebody, or the end of the run, ended early is as long
    as it was.
    """
    outages: dict[object, tuple[int, Json]] = {}
    for number, one in enumerate(done, 1):
        event: Json = {"id": f"live{number}", "at": _time(one.at_ns), **one.words}
        begun_ns, outage = outages.pop(event.get("up"), (0, {}))
        if outage and one.at_ns < begun_ns + Duration(outage["for"]):
            outage["for"] = _time(one.at_ns - begun_ns)
            continue
        if "outage" in event:
            event["for"] = _time(min(int(Duration(event["for"])), end_ns - 1 - one.at_ns))
            outages[event["outage"]] = one.at_ns, event
        yield event


def _as_it_happened(event: Json, steps: Sequence[tuple[int, Json]]) -> list[Json]:
    """Returns a described event at the times of the run. What did not happen keeps its time."""
    if not steps:
        return [event]
    if "sequence" in event:
        return [
            {"id": f"{event['id']}-{number}", "at": _time(at_ns), word: action[key]}
            for number, (at_ns, action) in enumerate(steps, 1)
            for word, key in (_STEPS[action["kind"]],)
        ]
    first_ns = steps[0][0]
    changed = event | {"at": _time(first_ns)}
    ends_ns = [at_ns for at_ns, action in steps if action["kind"] == "link_up"]
    if "outage" in event and ends_ns:
        changed["for"] = _time(ends_ns[0] - first_ns)
    return [changed]


def _same_times(vary: object) -> Json:
    """Returns `vary` of a description without the variation of events."""
    if vary == "none":
        return {"start": "0s", "rtt": "0%", "events": "0%"}
    return {**(vary if isinstance(vary, Mapping) else {}), "events": "0%"}


def _time(at_ns: int) -> str:
    return str(Duration(f"{at_ns}ns"))
