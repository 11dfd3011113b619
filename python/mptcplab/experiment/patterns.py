"""Expands patterns, parallel flows and flows in both directions to single flows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mptcplab.experiment.base import described, nearest_hint
from mptcplab.experiment.flows import Flow
from mptcplab.experiment.names import expanded


@dataclass(frozen=True)
class SingleFlow:
    """One flow between two hosts; `group` is its name in the description."""

    id: str
    group: str
    sender: str
    receiver: str
    settings: Flow


def single_flows(name: str, flow: Flow, hosts: Sequence[str]) -> Iterator[SingleFlow]:
    """Yields the flows that one entry of `flows` stands for."""
    for pair_id, sender, receiver in _pairs(name, flow, hosts):
        ways = [(pair_id, sender, receiver)]
        if flow.direction == "both":
            ways = [(f"{pair_id}.up", sender, receiver), (f"{pair_id}.down", receiver, sender)]
        for way_id, start, end in ways:
            if flow.parallel == 1:
                yield SingleFlow(way_id, name, start, end, flow)
            else:
                yield from (
                    SingleFlow(f"{way_id}.{copy}", name, start, end, flow) for copy in range(1, flow.parallel + 1)
                )


def _pairs(name: str, flow: Flow, hosts: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    if flow.pattern is None:
        yield name, _known(flow.from_ or "", hosts, "from"), _known(flow.to or "", hosts, "to")
        return
    members = [_known(host, hosts, "hosts") for host in expanded(flow.hosts or [])]
    if len(members) < 2 or len(set(members)) < len(members):
        raise described(f"pattern {flow.pattern} has {len(set(members))} different hosts", "two or more, each once")
    for sender, receiver in _pattern(name, flow, members, hosts):
        yield f"{name}.{sender}-{receiver}", sender, receiver


def _pattern(name: str, flow: Flow, members: list[str], hosts: Sequence[str]) -> Iterator[tuple[str, str]]:
    if flow.pattern == "all_to_all":
        yield from ((a, b) for a in members for b in members if a != b)
    elif flow.pattern == "permutation":
        yield from zip(members, _derangement(name, members), strict=True)
    elif flow.pattern == "incast":
        receiver = _known(flow.to or "", hosts, "to")
        yield from ((host, receiver) for host in members if host != receiver)
    else:
        step = (flow.stride or 1) % len(members)
        if step == 0:
            raise described(
                f"stride {flow.stride} leads each of {len(members)} hosts to itself",
                "a stride that is not a multiple of their number",
            )
        yield from ((host, members[(place + step) % len(members)]) for place, host in enumerate(members))


def _derangement(name: str, members: list[str]) -> list[str]:
    """Returns the receiver of each host: a single cycle through all hosts, in an order derived from
    the name of the flow.
    """
    cycle = sorted(members, key=lambda host: hashlib.sha256(f"{name}/{host}".encode()).digest())
    following = dict(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    return [following[host] for host in members]


def _known(host: str, hosts: Sequence[str], field: str) -> str:
    if host not in hosts:
        raise described(f"unknown host '{host}'{nearest_hint(host, list(hosts))}", ", ".join(hosts[:20]), field=field)
    return host
