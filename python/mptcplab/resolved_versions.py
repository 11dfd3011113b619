"""Versions of the resolved form. In version 1, keys with a usual value were absent and behaviours had fewer values.

Bundles of version 1 are read, and count as done for the same experiment in version 2, because digests are those of
version 1 wherever it can express an experiment.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

SCHEMA = "mptcplab/experiment/2"
VERSION_1 = "mptcplab/experiment/1"

#: The values of behaviours that version 1 did not have, which followed from the name.
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

#: The values that an absent key stood for in behaviours. Such experiments are older than the keys.
_OLD_BEHAVIOUR = {
    "recreation": "backoff",
    "recreation_first_ns": 100_000_000,
    "recreation_longest_ns": 30_000_000_000,
    "timers": "exact",
}


def upgraded(resolved: Json) -> Json:
    """Returns an experiment of version 1 in version 2, and one of version 2 as it is."""
    if resolved["schema"] != VERSION_1:
        return resolved
    return {
        **resolved,
        "schema": SCHEMA,
        "vary": {"events_ppm": 0, **resolved["vary"]},
        "hosts": [_upgraded_host(host) for host in resolved["hosts"]],
        "nodes": [{"next_hop": None, **node} for node in resolved["nodes"]],
        "middleboxes": resolved.get("middleboxes", []),
        "flows": [_upgraded_flow(flow) for flow in resolved["flows"]],
        "user_code": resolved.get("user_code", []),
        "origins": resolved.get("origins", {}),
    }


def _upgraded_host(host: Json) -> Json:
    behaviours = [{**_IMPLIED[one["name"]], **_OLD_BEHAVIOUR, **one} for one in host["behaviour"]]
    return {"fallback": "rfc", "host_jitter": {"kind": "unstated"}, **host, "behaviour": behaviours}


def _upgraded_flow(flow: Json) -> Json:
    paths = [{"routed": False, **path} for path in flow["paths"]]
    return {"handshake": "primary", **flow, "paths": paths}


def downgraded(resolved: Json) -> Json | None:
    """Returns an experiment of version 2 in version 1, and one of version 1 as it is.

    Returns None if version 1 cannot express it.
    """
    if resolved["schema"] == VERSION_1:
        return resolved
    hosts = [_downgraded_host(host) for host in resolved["hosts"]]
    if None in hosts:
        return None
    usual: dict[str, list[Json]] = {key: [] for key in ("middleboxes", "user_code") if not resolved[key]}
    return {
        **{key: value for key, value in resolved.items() if key not in usual},
        "schema": VERSION_1,
        "hosts": hosts,
        "nodes": [_without(node, next_hop=None) for node in resolved["nodes"]],
        "flows": [_downgraded_flow(flow) for flow in resolved["flows"]],
    }


def _downgraded_host(host: Json) -> Json | None:
    behaviours = []
    for one in host["behaviour"]:
        implied = _IMPLIED[one["name"]]
        if any(one[key] != value for key, value in implied.items()):
            return None
        behaviours.append({key: value for key, value in one.items() if key not in implied})
    return _without({**host, "behaviour": behaviours}, fallback="rfc", host_jitter={"kind": "unstated"})


def _downgraded_flow(flow: Json) -> Json:
    paths = [_without(path, routed=False) for path in flow["paths"]]
    return _without({**flow, "paths": paths}, handshake="primary")


def _without(item: Json, **usual: Any) -> Json:
    """Returns an item without the keys that have their usual value."""
    return {key: value for key, value in item.items() if key not in usual or value != usual[key]}
