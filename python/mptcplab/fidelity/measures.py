"""The measures of a run that are compared with a kernel: goodput, shares of links, delays,
fairness, recovery.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mptcplab.results import Bundle
from mptcplab.results.agreement import share_of_links

Json = dict[str, Any]

DELAYS = ("delay_p50_s", "delay_p95_s", "delay_p99_s")


def measures_of(bundle: Bundle) -> dict[str, float]:
    """Returns the measures of a run by name: ``bulk goodput_bps``, ``bulk share wifi``, ``cut.2
    recovery_s``.
    """
    return {name: value for name, value in _measures(bundle) if value is not None}


def _measures(bundle: Bundle) -> Iterator[tuple[str, float | None]]:
    values: dict[str, Json] = bundle.record["metrics"]
    for group in _crowds(bundle):
        yield f"{group} goodput_bps", values[f"flows.{group}"].get("goodput_bps")
        yield f"{group} jain_index", values[f"flows.{group}"].get("jain_index")
    for flow in _single_flows(bundle):
        of_flow = values[f"flows.{flow['id']}"]
        yield f"{flow['id']} goodput_bps", of_flow.get("goodput_bps")
        yield from ((f"{flow['id']} {delay}", of_flow.get(delay)) for delay in DELAYS)
        shares = share_of_links(bundle, flow["id"])
        if len({link for path in flow["paths"] for link in [path["hops"][0]["link"]]}) > 1:
            yield from ((f"{flow['id']} share {link}", share) for link, share in sorted(shares.items()))
    for event in bundle.record["events"]:
        yield f"{event['id']} recovery_s", values.get(f"events.{event['id']}", {}).get("recovery_s")


def _crowds(bundle: Bundle) -> list[str]:
    """Returns groups of flows to one host. They are compared together, because chance decides which
    of them comes first.
    """
    flows = bundle.resolved["flows"]
    groups = dict.fromkeys(flow["group"] for flow in flows if flow["group"])
    members = {group: [flow for flow in flows if flow["group"] == group] for group in groups}
    return [group for group, of in members.items() if len(of) > 1 and len({flow["to"] for flow in of}) == 1]


def _single_flows(bundle: Bundle) -> list[Json]:
    crowds = _crowds(bundle)
    return [flow for flow in bundle.resolved["flows"] if flow["group"] not in crowds]
