"""Access networks of single links: their part of the resolved form, and their defaults for the
link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mptcplab.experiment import cable, cellular, satellite
from mptcplab.experiment.base import Directions
from mptcplab.experiment.links import Link, Queue
from mptcplab.units import Duration, QueueLimit, Rate

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form

#: Behind the access: the part of a measured round trip that the radio does not take.
_CELLULAR_DELAY = Duration("20ms")
_LEO_DELAY = Duration("2.5ms")

#: Bytes in flight on LTE exceed 1200 kB (Huang, SIGCOMM 2013, section 4).
_CELLULAR_QUEUE = Queue.default(limit=QueueLimit("1500kB"))

#: The queue of a dish holds what the median rate carries in this many milliseconds. Assumed.
_LEO_QUEUE_MS = 60


def resolved(links: dict[str, Link]) -> list[form.Access]:
    """Returns the access networks of links, in the order of the links."""
    found: list[form.Access] = []
    for name, link in links.items():
        if link.cellular is not None:
            found.append(cellular.resolved(name, link.cellular))
        if link.leo is not None:
            found.append(satellite.resolved(name, link.leo))
        if link.cable is not None:
            found.append(cable.resolved(name, link.cable))
    return found


def with_defaults(link: Link) -> Link:
    """Returns a link with the values that its access network gives where the
    description has none.
    """
    if link.cellular is not None:
        rates = link.cellular.rates()
        defaults: dict[str, Any] = {"delay": _CELLULAR_DELAY, "queue": _CELLULAR_QUEUE}
    elif link.leo is not None:
        rates = link.leo.rates()
        queue = Directions[Queue](**{side: _holding(rate) for side, rate in rates.items()})
        defaults = {"delay": _LEO_DELAY, "queue": queue}
    else:
        return link
    defaults["overhead"] = "ip"
    given = link.model_fields_set | ({"delay"} if link.rtt is not None else set())
    changes = {name: value for name, value in defaults.items() if name not in given}
    if rates is not None:
        changes["rate"] = Directions[Rate](**rates)
    return link.model_copy(update=changes)


def _holding(rate: Rate) -> Queue:
    """Returns the queue of a dish, which holds at least ten packets."""
    return Queue(limit=QueueLimit(f"{max(int(rate) * _LEO_QUEUE_MS // 8000, 15_000)}B"))
