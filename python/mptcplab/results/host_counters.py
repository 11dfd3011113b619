"""The kernel's counters of hosts as metrics, under the names of nstat(8):
``hosts.server.MPTcpExtMPJoinSynRx``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from mptcplab.results.entities import Entity, Json
from mptcplab.results.run_data import Absent, NotJudged, RunData, Value
from mptcplab.results.table import Metric, nearest

#: How the names of counters of Multipath TCP begin.
OF_MPTCP = "MPTcpExt"
NAMES = Path(__file__).with_name("kernel_counters.txt")
#: What messages say about the names.
ALLOWED = "a counter of the kernel as nstat names it: MPTcpExtMPJoinSynRx, TcpRetransSegs, UdpInDatagrams"
DEFINITION = "counter of the kernel since the start of the run"

_NAME = re.compile(r"(?:MPTcpExt|TcpExt|Tcp|Udp)[A-Z]\w*")


def host_at(path: str, resolved: Json) -> Entity | None:
    """Returns the host of ``hosts.ID``, or None if the experiment has none with this path."""
    return hosts_of(resolved).get(path) if path.startswith("hosts.") else None


def hosts_of(resolved: Json) -> dict[str, Entity]:
    """Returns the hosts of an experiment by path."""
    ids = [host["id"] for host in resolved["hosts"]]
    return {f"hosts.{host}": Entity(f"hosts.{host}", "host", (host,)) for host in ids}


def counter_named(name: str) -> Metric | None:
    """Returns the metric of a counter, or None if no counter can have this name. Kernels differ in
    the counters that they have, so only a run tells the rest.
    """
    return Metric(name, "host", "", "counter", DEFINITION) if _NAME.fullmatch(name) else None


def counted(run: RunData, host: str, name: str) -> Value:
    """Returns how far a counter rose during the run."""
    reported = next((one for one in run.result.get("hosts", []) if one["id"] == host), None)
    if reported is None or not reported.get("counters"):
        return NotJudged(f"back-end {run.backend} has no counters of a kernel")
    if reported["settings"].get("stack") == "userspace":
        return NotJudged(f"host {host} has the engine, which the kernel does not count")
    counters: dict[str, int] = reported["counters"]
    if name in counters:
        return float(counters[name])
    if name in known_counters():
        is_lacking = is_lacking_in(counters, name)
        return NotJudged(f"the kernel of {host} has no counter {name}") if is_lacking else 0.0
    close = nearest(name, [*counters, *known_counters()])
    return Absent(f"it did not change, and may not exist{f'; did you mean {close}?' if close else ''}")


def is_lacking_in(counters: Mapping[str, int], name: str) -> bool:
    """Returns whether the kernel with these counters lacks one. A counter that did not change is left
    out, but not one of Multipath TCP. Earlier versions left out those too, so their results do not
    tell.
    """
    return name.startswith(OF_MPTCP) and name not in counters and 0 in counters.values()


@cache
def known_counters() -> frozenset[str]:
    """Returns the counters of the kernels that mptcplab knows."""
    lines = NAMES.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))
