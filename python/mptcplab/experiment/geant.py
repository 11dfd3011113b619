"""The OpenFlow facility of GEANT in the experiments of Sonkoly et al.: five switches in full mesh,
a host at each.
"""

from __future__ import annotations

from typing import NamedTuple

from mptcplab.topology import Blueprint, NotedValue, PlannedLink, attached

_PAPER = "Sonkoly et al., SDN based testbeds for MPTCP, section III-A"


class _Link(NamedTuple):
    """A link between two sites. The paper gives the round-trip time and the throughput of TCP over
    two of them.
    """

    ends: tuple[str, str]
    rate_mbps: float
    rate_note: str
    rtt_ms: float
    rtt_note: str


_MEASURED = f"{_PAPER}, table in Fig. 7: throughput of TCP, taken as capacity"
_ADDS_UP = "assumed: not published; chosen so that uk-hr-de takes 75.4 ms and hr-uk-nl 47.8 ms, as in Fig. 7"
_LINKS = (
    _Link(("uk", "de"), 320.8, _MEASURED, 18.6, f"{_PAPER}, table in Fig. 7, read as a round-trip time"),
    _Link(("hr", "nl"), 258.5, _MEASURED, 44.8, f"{_PAPER}, table in Fig. 7, read as a round-trip time"),
    _Link(("uk", "hr"), 257.9, "assumed: the throughput over hr-uk-nl", 37.8, _ADDS_UP),
    _Link(("hr", "de"), 255.8, "assumed: the throughput over uk-hr-de", 37.6, _ADDS_UP),
    _Link(("uk", "nl"), 320.8, "assumed: that of uk-de", 10.0, _ADDS_UP),
    _Link(("de", "nl"), 320.8, "assumed: that of uk-de", 10.0, "assumed: that of uk-nl"),
    *(
        _Link(("x5", site), 258.0, "assumed: the fifth site is not named", 25.0, "assumed: the fifth site is not named")
        for site in ("uk", "de", "nl", "hr")
    ),
)
_QUEUE = NotedValue("1000p", "assumed: not stated, the default of Linux")


def geant5(kind: str, interfaces: int, scale: int) -> Blueprint:
    """Returns the switches `uk`, `de`, `nl`, `hr` and `x5`, and the hosts `h-uk` .. with
    `interfaces` each.

    Rates are divided and delays multiplied by `scale`, which keeps the bandwidth-delay products.
    """
    sites = ("uk", "de", "nl", "hr", "x5")
    plan = Blueprint(nodes=dict.fromkeys(sites, kind))
    plan.links = [_planned(link, scale) for link in _LINKS]
    attached(plan, {f"h-{site}": site for site in sites}, interfaces)
    return plan


def _planned(link: _Link, scale: int) -> PlannedLink:
    scaled = "" if scale == 1 else f"; scaled by {scale}"
    values = {
        "rate": NotedValue(f"{link.rate_mbps / scale:.9g}mbit", link.rate_note + scaled),
        "rtt": NotedValue(f"{link.rtt_ms * scale:.9g}ms", link.rtt_note + scaled),
        "queue": _QUEUE,
    }
    return PlannedLink("-".join(link.ends), link.ends, values=values)
