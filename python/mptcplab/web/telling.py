"""The messages that a page of a run gets, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from mptcplab.plots.colours import numbers_of_flows, numbers_of_links
from mptcplab.plots.marks import in_words
from mptcplab.results import metrics_of
from mptcplab.web.rerouting import possible_reroutes, possible_strategies

Resolved = Mapping[str, Any]
Values = Mapping[str, Mapping[str, float]]

#: The counters of packets that a link did not deliver.
DROPS = tuple(one.name for one in metrics_of("link") if one.form == "counter" and one.name.startswith("dropped_"))
#: What the page draws of each kind of entity, by the start of its name.
SHOWN = {
    "flows.": ("bytes_received", "reinjected_bytes"),
    "links.": ("wire_bytes", "queue_bytes", "air_time_s", *DROPS),
}
OF_SUBFLOWS = (
    *("bytes_received", "bytes_sent", "retransmitted_bytes", "cwnd_bytes", "srtt_s"),
    *("alive", "backup", "stale"),
)


def run_message(experiment: Resolved, backend: str, seed: int, *, has_pace: bool) -> dict[str, Any]:
    """Describes the run: its network, flows and links. `has_pace` tells that virtual time can be
    paused.
    """
    links, flows = experiment["links"], experiment["flows"]
    of_links = numbers_of_links(link["id"] for link in links)
    of_flows = numbers_of_flows([flow["id"] for flow in flows], links=len(links))
    return {
        "kind": "run",
        "name": experiment["name"],
        "title": experiment["title"] or experiment["name"],
        "backend": backend,
        "seed": seed,
        "duration_s": experiment["duration_ns"] / 1e9,
        "has_pace": has_pace,
        "nodes": [
            *({"id": host["id"], "kind": "host"} for host in experiment["hosts"]),
            *({"id": node["id"], "kind": node["kind"]} for node in experiment["nodes"]),
        ],
        "interfaces": [
            {"id": interface["id"], "node": interface["node"], "link": interface["link"], "up": interface["up"]}
            for interface in experiment["interfaces"]
        ],
        "drops": DROPS,
        "links": [{**link, "colour": of_links[link["id"]]} for link in _links(experiment)],
        "flows": [
            {
                "id": flow["id"],
                "transport": flow["transport"],
                "from": flow["from"],
                "to": flow["to"],
                "colour": of_flows[flow["id"]],
            }
            for flow in flows
        ],
        "reroutes": list(possible_reroutes(experiment)),
        "recovery": _recovery(experiment),
    }


def _recovery(experiment: Resolved) -> dict[str, Any] | None:
    """Describes how the network recovers from failures, None without controlled switches."""
    control = experiment["control"]
    if control is None:
        return None
    detect_ns = control["recovery"]["detect_ns"]
    return {
        "strategy": control["recovery"]["strategy"],
        "detect_s": None if detect_ns is None else detect_ns / 1e9,
        "strategies": possible_strategies(experiment),
    }


def _links(experiment: Resolved) -> list[dict[str, Any]]:
    """Describes the links. A slider shows the values of their forward direction."""
    media = {medium["id"]: medium for medium in experiment["media"]}
    signals = {
        station["link"]: [
            {"at_s": mean["at_ns"] / 1e9, "db": mean["mean_mdb"] / 1000} for mean in station["snr"]["means"]
        ]
        for access in experiment["access"]
        if access["kind"] == "wifi"
        for station in access["stations"]
    }
    accessed = {*signals, *(access["link"] for access in experiment["access"] if access["kind"] != "wifi")}
    return [
        {
            **_link(link, media.get(link["medium"] or "")),
            "signal": signals.get(link["id"], []),
            "has_channel": link["id"] in accessed,
        }
        for link in experiment["links"]
    ]


def _link(link: Resolved, medium: Resolved | None) -> dict[str, Any]:
    ways = [link[side] for side in ("forward", "backward")]
    return {
        "id": link["id"],
        "ends": [link["a"], link["b"]],
        "medium": link["medium"],
        "rates_bps": [(medium or {}).get("rate_bps") or way["rate_bps"] for way in ways],
        "delays_s": [way["delay_ns"] / 1e9 for way in ways],
        "loss_percent": loss_percent(ways[0]["loss"]),
        "is_real": link["real"],
    }


def loss_percent(loss: Resolved) -> float:
    """Returns the probability of independent losses in percent; 0 for another kind of loss."""
    return float(loss["probability"]) * 100 if loss["kind"] == "bernoulli" else 0.0


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
            # What the network does by itself is injected, too.
            "is_by_hand": event["injected"] and (action or {}).get("by") != "recovery",
            "action": action,
            "text": in_words(action) if action else event["id"],
        }
