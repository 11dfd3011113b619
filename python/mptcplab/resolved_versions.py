"""Versions of the resolved form.

Version 3 has access networks, the control of switches, framing, the version of MPTCP, and traces
with rates, delays and losses, which version 2 has not. In version 1, keys with a usual value were absent and behaviours
had fewer values.

Bundles of earlier versions are read, and count as done for the same experiment today, because
digests are those of the earliest version that can express an experiment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from mptcplab import _core

Json = dict[str, Any]

SCHEMA = _core.SCHEMA
VERSION_1 = "mptcplab/experiment/1"
VERSION_2 = "mptcplab/experiment/2"
#: The versions that `upgraded` reads, the current one first.
VERSIONS = (SCHEMA, VERSION_2, VERSION_1)

#: The values of behaviours that version 1 did not have, which followed from the name. Versions 1 and
#: 2 have no other names.
_IMPLIED: dict[str, Json] = {
    "mainline": {
        "add_address": "adaptive",
        "shares_receive_threshold": False,
        "counts_out_of_order": True,
        "tells_doubled_window": True,
        "acks_wait_for_reader": True,
        "offered_window": "share_of_payload",
        "segmentation_offload": True,
    },
    "oot": {
        "add_address": "once",
        "shares_receive_threshold": True,
        "counts_out_of_order": False,
        "tells_doubled_window": False,
        "acks_wait_for_reader": False,
        "offered_window": "half",
        "segmentation_offload": False,
    },
}

#: The keys of hosts that version 1 always had.
_WRITTEN = {
    *("id", "stack", "mptcp", "one_at_a_time", "syn_retries", "syn_linear_timeouts", "checksum", "rcvbuf_bytes"),
    *("sndbuf_bytes", "initial_window_segments", "first_hop", "behaviour"),
}

#: What version 1 left out where it had the usual value, by place. All later fields of hosts are
#: among it.
_LEFT_OUT: dict[str, Json] = {
    "": {"middleboxes": [], "user_code": []},
    "hosts": {key: value for key, value in json.loads(_core.usual_host("")).items() if key not in _WRITTEN},
    "nodes": {"next_hop": None},
    "flows": {"handshake": "primary"},
    "flows.paths": {"routed": False},
}

#: What experiments lack that are older than these keys of version 1, and what they meant, by place.
_ADDED: dict[str, Json] = {
    "": {"origins": {}},
    "vary": {"events_ppm": 0},
    "hosts.behaviour": {
        "recreation": "backoff",
        "recreation_first_ns": 100_000_000,
        "recreation_longest_ns": 30_000_000_000,
        "timers": "exact",
    },
}


_SIDES = ("forward", "backward")

#: The strategy of recovery that stood for several.
_IN_TURN = "in_turn"

#: What version 2 had no keys for, and what it meant, of behaviours, directions and their traces. The first
#: experiments of version 3 lack some of these keys of behaviours, too.
_USUAL_BEHAVIOUR: Json = {
    "mptcp_version": 1,
    "narrows_subflow_window": True,
    "prunes_out_of_order": False,
    "repeats_several_pieces": False,
}
_USUAL_DIRECTION: Json = {"framing": "plain"}
_USUAL_TRACE: Json = {"rates": [], "delays": [], "losses": [], "start": {"kind": "at", "at_ns": 0}}


#: Keys that version 3 had not at first, nor any earlier version, and what their absence meant, by
#: place. Digests leave out these usual values.
_LATER_KEYS: dict[str, Json] = {
    "hosts": {"machine": None},
    "interfaces": {"device": None},
    "links": {"real": False},
}


def upgraded(resolved: Json) -> Json:
    """Returns an experiment of an earlier version in the current one.

    Raises KeyError, TypeError or AttributeError for what is of no version.
    """
    return _with_later_keys(_upgraded(resolved), lambda usual, item: {**usual, **item})


def _upgraded(resolved: Json) -> Json:
    if resolved["schema"] == VERSION_1:
        resolved = _from_version_1(resolved)
    if resolved["schema"] == VERSION_2:
        flows = [{**flow, "policy": None} for flow in resolved["flows"]]
        resolved = _with_directions(resolved, _upgraded_direction)
        resolved = {**resolved, "schema": SCHEMA, "access": [], "control": None, "flows": flows}
    resolved = _with_behaviours(resolved, lambda one: {**_USUAL_BEHAVIOUR, **one})
    return _with_changes_of_strategy(resolved)


def _with_changes_of_strategy(resolved: Json) -> Json:
    """Returns an experiment whose strategies follow one another in `control.recovery`, as version 3 had
    them at first, with an action for each change.
    """
    control = resolved["control"]
    if control is None or control["recovery"]["strategy"] != _IN_TURN:
        return resolved
    first, *others = control["recovery"]["parameters"]["strategies"]
    chosen = {one["event"]: one["strategy"] for one in others}
    events = []
    for event in resolved["events"]:
        name = event["parent"] or event["id"]
        if name in chosen:
            action = {"kind": "set_recovery", "strategy": chosen.pop(name)}
            events.append({"id": f"{name}.0", "parent": name, "at_ns": event["at_ns"], "action": action})
        is_part = any(one["event"] == name for one in others)
        events.append(event | {"action": event["action"] | {"by": "recovery"}} if is_part else event)
    recovery = control["recovery"] | {"strategy": first["strategy"], "parameters": first["parameters"]}
    return {**resolved, "control": control | {"recovery": recovery}, "events": events}


def _from_version_1(resolved: Json) -> Json:
    return {
        **_filled("", resolved),
        "schema": VERSION_2,
        "vary": _filled("vary", resolved["vary"]),
        "hosts": [_upgraded_host(host) for host in resolved["hosts"]],
        "nodes": [_filled("nodes", node) for node in resolved["nodes"]],
        "flows": [_upgraded_flow(flow) for flow in resolved["flows"]],
    }


def _upgraded_host(host: Json) -> Json:
    behaviours = [_IMPLIED[one["name"]] | _filled("hosts.behaviour", one) for one in host["behaviour"]]
    return _filled("hosts", host) | {"behaviour": behaviours}


def _upgraded_flow(flow: Json) -> Json:
    return _filled("flows", flow) | {"paths": [_filled("flows.paths", path) for path in flow["paths"]]}


def _filled(place: str, item: Json) -> Json:
    """Returns an item with what it lacks."""
    return {**_LEFT_OUT.get(place, {}), **_ADDED.get(place, {}), **item}


def in_earliest_version(resolved: Json) -> Json:
    """Returns an experiment in the earliest version that can express it."""
    if resolved["schema"] == SCHEMA:
        resolved = _to_version_2(_with_later_keys(resolved, _without_usual))
    if resolved["schema"] == VERSION_2:
        resolved = _to_version_1(resolved)
    return resolved


def _to_version_2(resolved: Json) -> Json:
    """Returns an experiment of version 3 in version 2, or as it is if version 2
    lacks a part of it.
    """
    policies = [flow["policy"] for flow in resolved["flows"]]
    if resolved["control"] is not None or resolved["access"] or any(policy is not None for policy in policies):
        return resolved
    if any(_upgraded_direction(_downgraded_direction(one)) != one for one in _directions(resolved)):
        return resolved
    behaviours = [one for host in resolved["hosts"] for one in host["behaviour"]]
    if any(one["name"] not in _IMPLIED or one | _USUAL_BEHAVIOUR != _USUAL_BEHAVIOUR | one for one in behaviours):
        return resolved
    if any(key in item for place, usual in _LATER_KEYS.items() for item in resolved[place] for key in usual):
        return resolved
    resolved = _with_behaviours(resolved, _downgraded_behaviour)
    flows = [{key: value for key, value in flow.items() if key != "policy"} for flow in resolved["flows"]]
    kept = {key: value for key, value in resolved.items() if key not in ("control", "access")}
    return _with_directions({**kept, "schema": VERSION_2, "flows": flows}, _downgraded_direction)


def _with_behaviours(resolved: Json, change: Callable[[Json], Json]) -> Json:
    """Returns an experiment with every behaviour of a host changed."""
    return _with_hosts(resolved, lambda host: host | {"behaviour": [change(one) for one in host["behaviour"]]})


def _with_hosts(resolved: Json, change: Callable[[Json], Json]) -> Json:
    """Returns an experiment with every host changed."""
    return {**resolved, "hosts": [change(host) for host in resolved["hosts"]]}


def _with_later_keys(resolved: Json, change: Callable[[Json, Json], Json]) -> Json:
    """Returns an experiment with each item of `_LATER_KEYS` changed, given the usual values of its
    keys.
    """
    changed = {place: [change(usual, item) for item in resolved[place]] for place, usual in _LATER_KEYS.items()}
    return {**resolved, **changed}


def _without_usual(usual: Json, item: Json) -> Json:
    return {key: value for key, value in item.items() if key not in usual or value != usual[key]}


def _downgraded_behaviour(behaviour: Json) -> Json:
    return {key: value for key, value in behaviour.items() if key not in _USUAL_BEHAVIOUR}


def _directions(resolved: Json) -> Iterator[Json]:
    """Yields the directions of all links, also those that events set."""
    for link in (*resolved["links"], *(event["action"] for event in resolved["events"])):
        yield from (link[side] for side in _SIDES if side in link)


def _with_directions(resolved: Json, change: Callable[[Json], Json]) -> Json:
    """Returns an experiment with every direction of a link changed."""

    def changed(link: Json) -> Json:
        return link | {side: change(link[side]) for side in _SIDES if side in link}

    events = [event | {"action": changed(event["action"])} for event in resolved["events"]]
    return {**resolved, "links": [changed(link) for link in resolved["links"]], "events": events}


def _upgraded_direction(direction: Json) -> Json:
    """Returns a direction of version 2 in version 3, which has framing, and traces with more."""
    trace = direction["trace"]
    return {**_USUAL_DIRECTION, **direction, "trace": None if trace is None else {**_USUAL_TRACE, **trace}}


def _downgraded_direction(direction: Json) -> Json:
    trace = direction["trace"]
    kept = {key: value for key, value in direction.items() if key not in _USUAL_DIRECTION}
    of_trace = {key: value for key, value in (trace or {}).items() if key not in _USUAL_TRACE}
    return {**kept, "trace": None if trace is None else of_trace}


def _to_version_1(resolved: Json) -> Json:
    """Returns an experiment of version 2 in version 1, or as it is if version 1 lacks its
    behaviours.
    """
    behaviours = [one for host in resolved["hosts"] for one in host["behaviour"]]
    if any(one | _IMPLIED[one["name"]] != one for one in behaviours):
        return resolved
    return {
        **_thinned("", resolved),
        "schema": VERSION_1,
        "hosts": [_downgraded_host(host) for host in resolved["hosts"]],
        "nodes": [_thinned("nodes", node) for node in resolved["nodes"]],
        "flows": [_downgraded_flow(flow) for flow in resolved["flows"]],
    }


def _downgraded_host(host: Json) -> Json:
    behaviours = [
        {key: value for key, value in one.items() if key not in _IMPLIED[one["name"]]} for one in host["behaviour"]
    ]
    return _thinned("hosts", host) | {"behaviour": behaviours}


def _downgraded_flow(flow: Json) -> Json:
    return _thinned("flows", flow) | {"paths": [_thinned("flows.paths", path) for path in flow["paths"]]}


def _thinned(place: str, item: Json) -> Json:
    """Returns an item without what version 1 left out."""
    usual = _LEFT_OUT[place]
    return {key: value for key, value in item.items() if key not in usual or value != usual[key]}
