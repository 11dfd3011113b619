"""The entities of a resolved experiment, by the paths that expectations and samples use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mptcplab.results.table import Kind

Json = dict[str, Any]

DOWN = {"interface_down", "link_down", "address_remove"}
UP = {"interface_up", "link_up", "address_add"}


@dataclass(frozen=True)
class Entity:
    """One thing that has metrics. ``members``: ids of the flows or events it stands for;
    ``flow`` narrows an event to one flow."""

    path: str
    kind: Kind
    members: tuple[str, ...] = ()
    flow: str | None = None


def entities(resolved: Json, injected: Sequence[str] = ()) -> dict[str, Entity]:
    """Every entity of the experiment by path, but for subflows: only the run tells which there
    were.

    A group of flows and a compound event stand for their members.

    ``injected``: ids of events that came up while it ran.
    """
    found = [Entity("run", "run"), *_flows(resolved), *_links(resolved)]
    found += [Entity(f"interfaces.{interface['id']}", "interface") for interface in resolved["interfaces"]]
    found += [Entity(f"switches.{node['id']}", "switch") for node in resolved["nodes"] if node["kind"] == "openflow"]
    found += [Entity(path, "probe") for path in _probe_paths(resolved)]
    found += _events(resolved, injected)
    return {entity.path: entity for entity in found}


def flow_members(resolved: Json) -> dict[str, tuple[str, ...]]:
    """Returns the flows of each flow id and group. A flow with the name of its group stands only
    for itself.
    """
    members: dict[str, tuple[str, ...]] = {flow["id"]: (flow["id"],) for flow in resolved["flows"]}
    groups: dict[str, list[str]] = {}
    for flow in resolved["flows"]:
        groups.setdefault(flow["group"], []).append(flow["id"])
    return {group: tuple(flows) for group, flows in groups.items() if group} | members


def event_members(resolved: Json) -> dict[str, tuple[str, ...]]:
    """Returns the primitive events of each event and compound event."""
    members: dict[str, tuple[str, ...]] = {}
    for event in resolved["events"]:
        parent = event["parent"]
        if parent is not None and parent != event["id"]:
            members[parent] = (*members.get(parent, ()), event["id"])
        members[event["id"]] = (*members.get(event["id"], ()), event["id"])
    return members


def _flows(resolved: Json) -> list[Entity]:
    return [Entity(f"flows.{name}", "flow", flows) for name, flows in flow_members(resolved).items()]


def _links(resolved: Json) -> list[Entity]:
    return [
        Entity(f"links.{link['id']}.{direction}", "link")
        for link in resolved["links"]
        for direction in ("forward", "backward")
    ]


def _probe_paths(resolved: Json) -> list[str]:
    """Returns the paths of probe flows by their names, and of the probes of `measure` by their
    paths.
    """
    found = [f"probes.{flow['id']}" for flow in resolved["flows"] if flow["app"]["kind"] == "probe"]
    if resolved["measure"]["probe_rtt_ns"] is not None:
        paths = [path for flow in resolved["flows"] for path in flow["paths"]]
        found += dict.fromkeys(f"probes.{path['local']}-{path['remote']}" for path in paths)
    return found


def _events(resolved: Json, injected: Sequence[str]) -> list[Entity]:
    found = []
    for name, events in (event_members(resolved) | {event: (event,) for event in injected}).items():
        found.append(Entity(f"events.{name}", "event", events))
        found += [
            Entity(f"events.{name}.flows.{flow['id']}", "event", events, flow["id"]) for flow in resolved["flows"]
        ]
    return found
