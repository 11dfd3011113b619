"""What an overlay consists of, as the process that holds it gets it: numbers only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

#: The kernel's routing, or a switch under the coordinator's control.
Forwarding = Literal["linux", "openflow"]


@dataclass(frozen=True)
class PlannedSite:
    """A site and its access link."""

    name: str
    delay_ns: int
    rate_bps: int | None
    is_exit: bool
    at: str | None = None
    """The machine, as in `ssh://lab2`; None for this one."""
    address: str | None = None
    """Where others reach the machine; None for the address that SSH uses."""
    forwarding: Forwarding = "linux"
    """What forwards packets of hosts."""


@dataclass(frozen=True)
class Plan:
    """An overlay. Without `pairs` and `neighbours` its mesh is full."""

    name: str
    sites: list[PlannedSite]
    pairs: list[tuple[int, int]] | None
    neighbours: int | None
    policy: str

    @property
    def has_switches(self) -> bool:
        """Whether a site has a switch."""
        return any(site.forwarding == "openflow" for site in self.sites)

    @property
    def needs_distances(self) -> bool:
        """Whether the mesh depends on the round-trip times between all sites."""
        return self.pairs is None and self.neighbours is not None and self.neighbours < len(self.sites) - 1

    def to_json(self) -> str:
        """Returns the plan as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Returns the plan of `to_json`."""
        given = json.loads(text)
        sites = [PlannedSite(**one) for one in given["sites"]]
        pairs = None if given["pairs"] is None else [(a, b) for a, b in given["pairs"]]
        return cls(given["name"], sites, pairs, given["neighbours"], given["policy"])
