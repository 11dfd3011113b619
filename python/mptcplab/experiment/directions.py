"""One direction of a link in the resolved form (`Direction` there)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from mptcplab import capacities
from mptcplab.experiment import link_traces
from mptcplab.experiment.base import Directions, described
from mptcplab.experiment.links import DISCIPLINE_SETTINGS, Link, LinkSettings, Loss, Queue
from mptcplab.units import NANOS_PER_SECOND, Duration, Probability, Rate

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form

Side: TypeAlias = Literal["forward", "backward"]
SIDES: tuple[Side, Side] = ("forward", "backward")

# The queue for the first link of a host with first_hop: host. It has no limit, because the host
# stops its senders.
HOST_QUEUE: form.QueueDropTail = {"kind": "drop_tail", "limit_packets": None, "limit_bytes": None}

#: Both directions of a real link, which nothing is emulated in.
UNSHAPED: form.Direction = {
    "rate_bps": None,
    "overhead_bytes": 0,
    "framing": "plain",
    "delay_ns": 0,
    "jitter_ns": 0,
    "reorder": False,
    "loss": {"kind": "none"},
    "loss_at": "egress",
    "queue": HOST_QUEUE,
    "trace": None,
}

# atm: Ethernet without check sequence, bridged with LLC (RFC 2684, 10 bytes), trailer of AAL5 (8).
# ptm: Ethernet with check sequence (4), that of PTM (2), and the bytes at the begin and end of a
# frame (2).
_OVERHEADS = {"frame": 14, "ethernet": 38, "ip": 0, "atm": 14 + 10 + 8, "ptm": 14 + 4 + 2 + 2}
_FRAMINGS: dict[str | int, form.Framing] = {"atm": "atm", "ptm": "ptm"}
_LEAST_PACKETS = 10


def pick(value: Any, side: Side, default: Any = None) -> Any:
    """Returns the value of one direction, or the default if it was left out."""
    if not isinstance(value, Directions):
        return value
    chosen = getattr(value, side)
    return default if chosen is None else chosen


def resolved(
    link: Link, side: Side, medium: tuple[Rate | None, int] | None, base: Path, host: str | None = None
) -> form.Direction:
    """Returns the resolved form of one direction of a link.

    `medium` is the shared rate and overhead, if the link is on a medium. Trace files are relative
    to `base`. `host` is the host in which packets wait, if it has `first_hop: host`.
    """
    rate = pick(link.rate, side)
    trace = pick(link.trace, side)
    framed = pick(link.overhead, side, "frame")
    overhead, framing = overhead_bytes(framed), _FRAMINGS.get(framed, "plain")
    if medium is not None:
        rate, overhead, framing = medium[0] or rate, medium[1], "plain"
    loss_at: form.LossPlace = pick(link.loss_at, side) or ("ingress" if medium is None and host is None else "egress")
    rate_bps = None if rate is None else int(rate)
    over_time = None if trace is None else link_traces.read(trace, base)
    if rate_bps is not None and capacities.gives_rate(over_time):
        raise described("has both trace and rate", "one of them, or a trace with delay or loss alone")
    if link.cellular is not None and over_time is not None and over_time["trains"] is not None:
        raise described("a pair of CellReplay has the states of the radio in it", "a link without cellular")
    direction: form.Direction = {
        "rate_bps": rate_bps,
        "overhead_bytes": overhead,
        "framing": framing,
        "delay_ns": _delay(link, side),
        "jitter_ns": int(pick(link.jitter, side, Duration(0))),
        "reorder": pick(link.reorder, side, False),
        "loss": loss(pick(link.loss, side, Loss.default(probability=Probability(0)))),
        "loss_at": loss_at,
        "queue": HOST_QUEUE.copy(),
        "trace": over_time,
    }
    if host is None:
        direction["queue"] = _queue(link, side, direction)
    return direction


def _queue(link: Link, side: Side, direction: form.Direction) -> form.Queue:
    round_trip = int(link.bdp_rtt) if link.bdp_rtt is not None else 2 * capacities.least_delay_ns(direction)
    packet_bytes = capacities.wire_bytes(direction, int(link.mtu))
    return queue(pick(link.queue, side, Queue()), capacity_bps(direction), round_trip, packet_bytes)


def is_for_side(value: Any, side: Side) -> bool:
    """Returns whether a value was given for this direction by its name."""
    return isinstance(value, Directions) and getattr(value, side) is not None


def in_host(host: str) -> str:
    """Returns the reason that a direction has no queue of its own."""
    return f"packets wait in {host} (first_hop: host)"


def overhead_bytes(overhead: str | int) -> int:
    """Returns the bytes that `rate` counts per packet beyond the IP packet."""
    return overhead if isinstance(overhead, int) else _OVERHEADS[overhead]


def _delay(link: LinkSettings, side: Side) -> int:
    if link.rtt is not None:
        # The two halves of an odd number of nanoseconds add up to it.
        return int(link.rtt) // 2 if side == "forward" else int(link.rtt) - int(link.rtt) // 2
    return int(pick(link.delay, side, Duration(0)))


def loss(loss: Loss) -> form.Loss:
    """Returns the loss model of one direction."""
    if loss.gilbert_elliott is not None:
        chain = loss.gilbert_elliott
        return {
            "kind": "gilbert_elliott",
            "good_to_bad": float(chain.good_to_bad),
            "bad_to_good": float(chain.bad_to_good),
            "loss_good": float(chain.loss_good),
            "loss_bad": float(chain.loss_bad),
        }
    if loss.packets is not None:
        return {"kind": "list", "packets": sorted(set(loss.packets))}
    if not loss.probability:
        return {"kind": "none"}
    return {"kind": "bernoulli", "probability": float(loss.probability)}


def queue(queue: Queue, rate_bps: int | None, round_trip_ns: int, packet_bytes: int) -> form.Queue:
    """Returns the queue of one direction. A limit in `bdp` becomes bytes, at
    least 10 full packets.
    """
    limit = queue.limit
    limit_bytes = None if limit.bytes is None else int(limit.bytes)
    if limit.products is not None:
        if rate_bps is None:
            raise described(f"queue {limit} needs a rate", "packets or bytes where a link has no rate")
        product = limit.products * rate_bps * round_trip_ns / (8 * NANOS_PER_SECOND)
        limit_bytes = max(int(product), _LEAST_PACKETS * packet_bytes)
    if limit_bytes is not None and limit_bytes < packet_bytes:
        raise described(
            f"queue {limit} holds less than one packet, which has up to {packet_bytes} bytes with the link's overhead",
            f"at least {packet_bytes}B, or packets as in 100p",
        )
    limits = {"limit_packets": limit.packets, "limit_bytes": limit_bytes}
    settings = _discipline(queue, limits, packet_bytes)
    return cast("form.Queue", {"kind": queue.discipline, **limits, **settings})


def _discipline(queue: Queue, limits: dict[str, int | None], packet_bytes: int) -> dict[str, Any]:
    known = DISCIPLINE_SETTINGS[queue.discipline]
    values: dict[str, Any] = {
        name: default if getattr(queue, name) is None else getattr(queue, name) for name, default in known.items()
    }
    if queue.discipline == "red":
        held = limits["limit_bytes"] or (limits["limit_packets"] or 0) * packet_bytes
        values["min"] = held // 4 if values["min"] is None else values["min"]
        values["max"] = held * 3 // 4 if values["max"] is None else values["max"]
        if int(values["min"]) >= int(values["max"]):
            raise described(f"red: min {values['min']} is not below max {values['max']}")
    return dict(_with_unit(name, value) for name, value in values.items())


def _with_unit(name: str, value: Any) -> tuple[str, int | float]:
    if isinstance(value, Duration):
        return f"{name}_ns", int(value)
    if isinstance(value, Probability):
        return name, float(value)
    return (name if name == "flows" else f"{name}_bytes"), int(value)


def capacity_bps(direction: form.Direction) -> int | None:
    """Returns the rate in whole bit/s, of a trace its mean rate, or None without either."""
    capacity = capacities.capacity_bps(direction["rate_bps"], direction["trace"])
    return None if capacity is None else int(capacity)
