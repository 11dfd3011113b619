"""Which sites are near: a host measures the round-trip time to all of them at once."""

from __future__ import annotations

import random
import secrets
import select
from collections.abc import Mapping
from time import monotonic, monotonic_ns, sleep

from mptcplab.overlay.messages import Address, Kind, packed, received, send, udp_socket

#: Echoes to each site, and further ones to each of the nearest sites.
ROUNDS, MORE_ROUNDS = 2, 3
#: How many sites get further echoes, at least.
_NEAR = 16
#: Echoes that leave at once, and the time between these groups: echoes that wait for each other
#: would measure that.
_GROUP, _PAUSE_S = 10, 0.003
#: How long the host waits for the last answers.
_PATIENCE_S = 0.4


def nearest(sites: Mapping[str, Address], count: int) -> dict[str, float]:
    """Returns the smallest measured round-trip times of the `count` nearest sites, or of all that
    answer, in seconds and in order.
    """
    found = _smallest_times(sites, ROUNDS)
    near = sorted(found, key=lambda site: found[site])[: max(_NEAR, count)]
    again = _smallest_times({site: sites[site] for site in near}, MORE_ROUNDS)
    smallest = {site: min(found[site], again.get(site, found[site])) for site in near}
    return dict(sorted(smallest.items(), key=lambda one: (one[1], one[0]))[:count])


def _smallest_times(sites: Mapping[str, Address], rounds: int) -> dict[str, float]:
    """Returns the smallest of some round-trip times to each site that answers, in seconds."""
    socket = udp_socket("0.0.0.0", 0)
    asked: dict[int, tuple[str, int]] = {}
    found: dict[str, float] = {}

    def take() -> None:
        for answer in received(socket):
            site, sent_ns = asked.pop(answer.key, ("", 0))
            if site and answer.kind == Kind.ECHOED:
                rtt_s = max(answer.arrived_ns - sent_ns - answer.number, 0) / 1e9
                found[site] = min(found.get(site, rtt_s), rtt_s)

    names = list(sites)
    for number in range(rounds):
        # In another order each time, so that no site is always the last of its group.
        random.Random(number).shuffle(names)
        for index, name in enumerate(names):
            key = secrets.randbits(64)
            asked[key] = name, monotonic_ns()
            send(socket, packed(Kind.ECHO, 0, key), sites[name])
            if index % _GROUP == _GROUP - 1:
                sleep(_PAUSE_S)
                take()
    deadline = monotonic() + _PATIENCE_S
    while asked and (left_s := deadline - monotonic()) > 0:
        select.select([socket], [], [], left_s)
        take()
    socket.close()
    return found
