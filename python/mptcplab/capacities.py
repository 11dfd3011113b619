"""The rate, the sizes and the delay of a direction in the resolved form, of which a trace can be a
part.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from mptcplab.units import NANOS_PER_SECOND


def capacity_bps(rate_bps: int | None, trace: Mapping[str, Any] | None) -> Fraction | None:
    """Returns the mean rate of the trace in bit/s, the rate if the trace gives none, or None
    without either.
    """
    if trace is not None and trace["rates"]:
        ends = [step["from_ns"] for step in trace["rates"][1:]] + [trace["period_ns"]]
        spans = zip(trace["rates"], ends, strict=True)
        work = sum(step["rate_bps"] * (end - step["from_ns"]) for step, end in spans)
        return Fraction(work, trace["period_ns"])
    if trace is not None and trace["opportunities_ns"]:
        bits = len(trace["opportunities_ns"]) * trace["opportunity_bytes"] * 8
        return Fraction(bits * NANOS_PER_SECOND, trace["period_ns"])
    return None if rate_bps is None else Fraction(rate_bps)


def gives_rate(trace: Mapping[str, Any] | None) -> bool:
    """Returns whether a trace takes the place of a rate, and not only varies delay or loss."""
    return trace is not None and bool(trace["opportunities_ns"] or trace["rates"])


def wire_bytes(direction: Mapping[str, Any], ip_bytes: int) -> int:
    """Returns the bytes on the wire of an IP packet, as `Direction::wire_bytes` in Rust does."""
    whole: int = ip_bytes + direction["overhead_bytes"]
    match direction["framing"]:
        case "atm":
            return -(-whole // 48) * 53
        case "ptm":
            return whole + -(-whole // 64)
        case _:
            return whole


def least_delay_ns(direction: Mapping[str, Any]) -> int:
    """Returns the propagation delay, of a trace the least."""
    trace = direction["trace"]
    varied = [step["delay_ns"] for step in trace["delays"]] if trace is not None else []
    return int(direction["delay_ns"]) + min(varied, default=0)
