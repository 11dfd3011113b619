"""Completes resolved experiments that tests write, so that a new key of the resolved form needs no
change in them.

The same for tests in Rust is in crates/experiment/tests/complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mptcplab import _core
from mptcplab.behaviours import presets

Json = dict[str, Any]

SCHEMA = json.loads(_core.resolved_schema())["properties"]["schema"]["const"]


def completed(stated: Mapping[str, Any]) -> Json:
    """Returns an experiment with these keys, and otherwise without anything in it. What it has is
    completed, too.
    """
    usual: Json = {
        **{"schema": SCHEMA, "name": "test", "title": None, "description": None, "profiles": [], "parameters": {}},
        **{"duration_ns": 1_000_000_000, "vary": {}, "hosts": [], "nodes": [], "interfaces": [], "subnets": []},
        **{"media": [], "links": [], "access": [], "middleboxes": [], "control": None, "flows": []},
        **{"events": [], "measure": {}, "expect": [], "user_code": [], "origins": {}},
    }
    whole = usual | stated
    vary = {"start_ns": 0, "rtt_ppm": 0, "events_ppm": 0}
    measure = {"every_ns": 100_000_000, "captures": [], "unit_bytes": 64_000, "probe_rtt_ns": None}
    whole |= {"vary": vary | whole["vary"], "measure": measure | whole["measure"]}
    return whole | {key: [complete(one) for one in whole[key]] for key, complete in _PARTS.items()}


def host(stated: Mapping[str, Any]) -> Json:
    """Returns a host like the usual one. Its behaviours are completed by the presets of their
    names.
    """
    behaviours = {"behaviour": [presets()[one["name"]] | one for one in stated.get("behaviour", [])]}
    usual: Json = json.loads(_core.usual_host(stated["id"]))
    return usual | stated | {key: given for key, given in behaviours.items() if given}


def interface(stated: Mapping[str, Any]) -> Json:
    """Returns an interface that is up, of the node before the dot in its id."""
    usual = {"node": stated["id"].partition(".")[0], "subnet": 0, "ipv4": None, "ipv6": None, "mtu_bytes": 1500}
    return {**usual, "up": True, "device": None, **stated}


def link(stated: Mapping[str, Any]) -> Json:
    """Returns a link of IP without a medium."""
    whole = {"medium": None, "layer": 3, "real": False, "forward": {}, "backward": {}, **stated}
    return whole | {way: direction(whole[way]) for way in ("forward", "backward")}


def direction(stated: Mapping[str, Any]) -> Json:
    """Returns a direction that is infinitely fast, without delay and loss, with room for 100
    packets.
    """
    queue = {"kind": "drop_tail", "limit_packets": 100, "limit_bytes": None}
    plain = {
        "rate_bps": None,
        "overhead_bytes": 14,
        "framing": "plain",
        "delay_ns": 0,
        "jitter_ns": 0,
        "reorder": False,
    }
    return {**plain, "loss": {"kind": "none"}, "loss_at": "ingress", "queue": queue, "trace": None, **stated}


def flow(stated: Mapping[str, Any]) -> Json:
    """Returns a flow of UDP that its sender opens at the start."""
    algorithms: Json = {"cc": [], "scheduler": [], "path_manager": [], "handshake": "primary"}
    usual = {"group": stated["id"], "opened_by": "from", "transport": "udp", **algorithms, "start_ns": 0}
    whole = {**usual, "via": None, "policy": None, "ceiling_bps": None, **stated}
    return whole | {"paths": [path(one) for one in whole["paths"]]}


def path(stated: Mapping[str, Any]) -> Json:
    """Returns a path without routers that choose, rate, capacity and delay."""
    return {"routed": False, "rate_bps": None, "ceiling_bps": None, "rtt_ns": 0, **stated}


_PARTS: dict[str, Callable[[Mapping[str, Any]], Json]] = {
    "hosts": host,
    "nodes": lambda stated: {"next_hop": None, **stated},
    "interfaces": interface,
    "links": link,
    "flows": flow,
    "events": lambda stated: {"parent": None, **stated},
}
