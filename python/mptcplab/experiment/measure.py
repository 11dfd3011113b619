"""What is measured, and what differs between repetitions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mptcplab.experiment.base import ONE_OR_MORE, Model
from mptcplab.units import Duration, Probability, Size


class ProbeSettings(Model):
    """Probes beside the flows."""

    rtt: Duration = Field(examples=["100ms"])
    """Time between two round-trip probes of each path."""


class Measure(Model):
    """What is measured."""

    every: Duration = Duration("100ms")
    """Interval of the table of samples: one row per entity and metric."""
    captures: Annotated[list[str], ONE_OR_MORE] = Field(
        [], description="interfaces whose packets are captured", examples=[["client.wlan0"]]
    )
    units: Size = Size("64kB")
    """Size of the data units whose delivery times are recorded."""
    probe: ProbeSettings | None = None
    """Probes beside the flows."""


class Vary(Model):
    """What differs between seeds, so that repetitions are samples and not copies."""

    start: Duration = Duration("10ms")
    """Starts of flows are drawn from 0 to this."""
    rtt: Probability = Probability(0.01)
    """The delays of each link are scaled by 1 +- this, both directions alike."""
    events: Probability = Probability(0.05)
    """The times between events, and that to the first, are scaled by 1 +- this, and changed by 1 s at most."""
