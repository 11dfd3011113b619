"""The description of an overlay, and the plan that follows from it."""

from __future__ import annotations

import random
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from mptcplab.document import Node, read
from mptcplab.errors import UsageError
from mptcplab.experiment.base import Model, Name, described
from mptcplab.experiment.names import expanded
from mptcplab.experiment.validation import at, validated
from mptcplab.overlay.addresses import MOST_SITES
from mptcplab.overlay.plan import Forwarding, Plan, PlannedSite
from mptcplab.remote.place import machine_of
from mptcplab.units import Duration, Rate

#: A full mesh has a tunnel for each two sites, and each is measured all the time.
MOST_SITES_OF_FULL_MESH = 50
#: Beyond these, heartbeats and echoes come too late.
_LONGEST_DELAY_NS, _SMALLEST_RATE_BPS = 1_000_000_000, 10_000
#: What `--sites N` gives every site, and its mesh.
_DEFAULT_DELAY = ("2ms", "60ms")
_DEFAULT_NEIGHBOURS = 4


def _as_spread(given: Any) -> Any:
    return given if isinstance(given, list) else [given, given]


class SiteSettings(Model):
    """A site, or several that a range in the name stands for, as in `s[1-300]`."""

    delay: Annotated[list[Duration], BeforeValidator(_as_spread)] = Field(
        default_factory=lambda: [Duration("0s")] * 2, min_length=2, max_length=2
    )
    """One-way delay of the access link; of two, each site gets one in between, by `seed`."""
    rate: Rate | None = None
    """Rate of the access link in both directions."""
    exit: bool = False
    """Whether hosts of the overlay reach the network behind the site, through a NAT."""
    at: str | None = None
    """The machine, as in `ssh://root@lab2`; without it, the site is on this machine."""
    address: str | None = None
    """Where the other sites and hosts reach that machine; by default the address that SSH uses."""
    touch: bool = False
    """Whether the site may change that machine, as an exit has to."""
    forwarding: Forwarding = "linux"
    """What forwards packets of hosts: `linux`, the kernel's routing, or `openflow`, a switch."""

    @model_validator(mode="after")
    def _possible(self) -> SiteSettings:
        if max(map(int, self.delay)) > _LONGEST_DELAY_NS:
            raise described("sites with a longer delay seem lost", "at most 1s", field="delay")
        if self.rate is not None and int(self.rate) < _SMALLEST_RATE_BPS:
            raise described("sites with a smaller rate seem lost", "at least 10kbit", field="rate")
        if self.at is None:
            given = [field for field in ("address", "touch") if field in self.model_fields_set]
            for field in given + (["forwarding"] if self.forwarding == "openflow" else []):
                raise described(f"{field} without a machine", "with `at: ssh://HOST`", field=field)
            return self
        try:
            machine_of(self.at, self.at)
        except UsageError as error:
            raise described(f"found '{self.at}'", "ssh://[USER@]HOST[:PORT]", field="at") from error
        try:
            IPv4Address(self.address or "0.0.0.0")
        except ValueError as error:
            raise described(
                f"found '{self.address}'", "an IPv4 address, as in 198.51.100.4", field="address"
            ) from error
        for field in ("delay", "rate"):
            if field in self.model_fields_set:
                raise described(f"{field} of a machine that has a real link", "without `at`", field=field)
        if self.exit and not self.touch:
            raise described("an exit changes its machine", "`touch: true`, see `mptcplab overlay check`", field="exit")
        return self


class Nearest(Model):
    """Tunnels to near sites."""

    nearest: Annotated[int, Field(ge=1, le=MOST_SITES)] = _DEFAULT_NEIGHBOURS
    """Number of the nearest sites to which each site has a tunnel, by measured round-trip time."""


class OverlayDescription(Model):
    """An overlay."""

    name: Name = "overlay"
    """Its name."""
    sites: dict[str, SiteSettings] = Field(min_length=1)
    """Its sites by their names."""
    mesh: Literal["full"] | Nearest | list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Nearest()
    """Which sites have a tunnel: `full`, `{nearest: N}`, or pairs."""
    policy: Literal["shortest", "edge_disjoint", "node_disjoint"] = "edge_disjoint"
    """What the routes of one host have in common."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 1
    """Seed of the drawn delays."""

    @model_validator(mode="after")
    def _consistent(self) -> OverlayDescription:
        names = self._names()
        if self.mesh == "full" and len(names) > MOST_SITES_OF_FULL_MESH:
            raise described(
                f"found {len(names)} sites", f"at most {MOST_SITES_OF_FULL_MESH} with a full mesh", field="mesh"
            )
        if isinstance(self.mesh, list):
            for pair in self.mesh:
                for end in pair:
                    if end not in names:
                        raise described(f"unknown site '{end}'", "names of sites", field="mesh")
                if pair[0] == pair[1]:
                    raise described(f"both ends of a tunnel are {pair[0]}", "two sites", field="mesh")
            joined = {end for pair in self.mesh for end in pair}
            for name in names:
                if name not in joined:
                    raise described(f"site '{name}' has no tunnel", "one for each site", field="mesh")
        return self

    def _names(self) -> dict[str, SiteSettings]:
        """Returns the settings of each site by its name."""
        found: dict[str, SiteSettings] = {}
        for pattern, settings in self.sites.items():
            for name in expanded([pattern]):
                if name in found:
                    raise described(f"two sites have the name '{name}'", "names of their own", field="sites")
                if not name or len(name) > 40 or not all(one.isalnum() or one in "_-" for one in name):
                    raise described(f"'{name}' is not a valid name", "letters, digits, _ and -", field="sites")
                if settings.at is not None and any(settings.at == other.at for other in found.values()):
                    raise described(f"two sites are at {settings.at}", "one site on a machine", field="sites")
                found[name] = settings
        if len(found) > MOST_SITES:
            raise described(f"found {len(found)} sites", f"at most {MOST_SITES}", field="sites")
        return found

    def plan(self) -> Plan:
        """Returns the sites with their drawn delays, and the mesh by numbers."""
        draw = random.Random(self.seed)
        names = self._names()
        sites = [
            PlannedSite(
                name,
                round(draw.uniform(*map(int, settings.delay))),
                None if settings.rate is None else int(settings.rate),
                settings.exit,
                settings.at,
                settings.address,
                settings.forwarding,
            )
            for name, settings in names.items()
        ]
        numbers = {name: number for number, name in enumerate(names)}
        pairs = None
        if isinstance(self.mesh, list):
            pairs = sorted({(min(ends), max(ends)) for ends in ((numbers[a], numbers[b]) for a, b in self.mesh)})
        neighbours = self.mesh.nearest if isinstance(self.mesh, Nearest) else None
        return Plan(self.name, sites, pairs, neighbours, self.policy)


def load(path: Path) -> Plan:
    """Returns the plan of a description. Raises SpecError with the place of the first problem."""
    tree = read(path)
    return _planned(tree)


def _planned(tree: Node) -> Plan:
    with at(tree):
        return validated(OverlayDescription, tree).plan()


def of_sites(count: int, exits: list[str]) -> Plan:
    """Returns the plan of `--sites N`: sites s1 to sN with drawn delays, each with tunnels to its
    nearest ones. Raises UsageError.
    """
    if not 1 <= count <= MOST_SITES:
        raise UsageError(f"--sites {count}: allowed: 1 to {MOST_SITES}")
    names = [f"s{number}" for number in range(1, count + 1)]
    if unknown := [name for name in exits if name not in names]:
        raise UsageError(f"--exit {unknown[0]}: unknown site; allowed: s1 to s{count}")
    low, high = map(Duration, _DEFAULT_DELAY)
    sites = {name: SiteSettings(delay=[low, high], exit=name in exits) for name in names}
    return OverlayDescription(sites=sites).plan()
