"""The messages that a page of a run gets, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from mptcplab.picture import as_svg
from mptcplab.plots.marks import in_words

Resolved = Mapping[str, Any]
Values = Mapping[str, Mapping[str, float]]

#: What the page draws of each kind of entity, by the start of its name.
SHOWN = {
    "flows.": ("bytes_received", "bytes_in_order", "reinjected_bytes"),
    "links.": ("wire_bytes", "queue_bytes", "air_time_s", "radio_state", "dropped_queue_full", "dropped_loss"),
    "interfaces.": ("up",),
}
OF_SUBFLOWS = ("bytes_received", "cwnd_bytes", "srtt_s", "alive", "backup", "stale", "retransmitted_bytes")


def run_message(experiment: Resolved, backend: str, seed: int, *, has_pace: bool) -> dict[str, Any]:
    """Describes the run: its network, flows and links. `has_pace` tells that virtual time can be
    paused.
    """
    media = {medium["id"]: medium for medium in experiment["media"]}
    return {
        "kind": "run",
        "name": experiment["name"],
        "title": experiment["title"] or experiment["name"],
        "backend": backend,
        "seed": seed,
        "duration_s": experiment["duration_ns"] / 1e9,
        "has_pace": has_pace,
        "topology": as_svg(experiment),
        "hosts": [host["id"] for host in experiment["hosts"]],
        "interfaces": [
            {"id": interface["id"], "node": interface["node"], "link": interface["link"]}
            for interface in experiment["interfaces"]
        ],
        "links": [_link(link, media.get(link["medium"] or "")) for link in experiment["links"]],
        "flows": [
            {"id": flow["id"], "transport": flow["transport"], "from": flow["from"], "to": flow["to"]}
            for flow in experiment["flows"]
        ],
    }


def _link(link: Mapping[str, Any], medium: Mapping[str, Any] | None) -> dict[str, Any]:
    rates = [(medium or {}).get("rate_bps") or link[side]["rate_bps"] for side in ("forward", "backward")]
    return {
        "id": link["id"],
        "ends": [link["a"], link["b"]],
        "medium": link["medium"],
        "rates_bps": rates,
        "delays_s": [link[side]["delay_ns"] / 1e9 for side in ("forward", "backward")],
    }


def sample_message(time_s: float, values: Values) -> dict[str, Any]:
    """What was measured at a time, of what the page draws, in the units of the table of metrics."""
    shown = {entity: _some(metrics, _shown(entity)) for entity, metrics in values.items()}
    return {"kind": "sample", "time_s": time_s, "values": {name: of for name, of in shown.items() if of}}


def _shown(entity: str) -> tuple[str, ...]:
    if ".subflows." in entity:
        return OF_SUBFLOWS
    return next((metrics for start, metrics in SHOWN.items() if entity.startswith(start)), ())


def _some(values: Mapping[str, float], names: tuple[str, ...]) -> dict[str, float]:
    return {name: values[name] for name in names if name in values}


class Events:
    """Describes events as they happen, those of the description and those that were injected."""

    def __init__(self, experiment: Resolved) -> None:
        self._actions = {event["id"]: event["action"] for event in experiment["events"]}
        self._number = count(1)

    def message(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Describes an event as the back-end recorded it."""
        action = event["action"] or self._actions.get(event["id"])
        return {
            "kind": "event",
            "number": next(self._number),
            "id": event["id"],
            "at_s": event["actual_ns"] / 1e9,
            "is_injected": event["injected"],
            "action": action,
            "text": in_words(action) if action else event["id"],
        }
