"""What sites forward: the part that each site of a route has in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address


@dataclass(frozen=True)
class Passage:
    """A site's part of the route of a host's tunnel."""

    tunnel: int
    address: IPv4Address
    """The host's address in the tunnel."""
    before: int | None
    """The neighboring site towards the host; None at the site of the tunnel."""
    after: int | None
    """The neighboring site towards the exit; None at the exit."""


def passages(tunnel: int, address: IPv4Address, route: Sequence[int]) -> dict[int, Passage]:
    """Returns the part of each site in the route of a host's tunnel."""
    before, after = [None, *route[:-1]], [*route[1:], None]
    return {site: Passage(tunnel, address, near, far) for near, site, far in zip(before, route, after, strict=True)}
