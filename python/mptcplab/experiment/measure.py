"""What is measured, and what differs between repetitions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mptcplab.experiment.base import ONE_OR_MORE, Model
from mptcplab.experiment.uses import Uses
from mptcplab.units import Duration, Probability, Size


class ProbeSettings(Model):
    """Probes in addition to the flows."""

    rtt: Duration = Field(examples=["100ms"])
    """Time between two round-trip probes of each path."""


class Measure(Model):
    """What is measured."""

    every: Duration = Duration("100ms")
    """Interval at which the table of samples records each metric of each entity, one to a row."""
    captures: Annotated[list[str], ONE_OR_MORE, Uses("captures")] = Field(
        [], description="interfaces whose packets are captured", examples=[["client.wlan0"]]
    )
    units: Size = Size("64kB")
    """Size of the data units of a stream, whose delivery times are recorded."""
    probe: ProbeSettings | None = None
    """Probes on every path of every flow."""
    control: Duration = Duration("500ms")
    """Interval at which the counters of OpenFlow switches are read."""


class Vary(Model):
    """What differs between seeds, so that repetitions are independent samples."""

    start: Duration = Duration("10ms")
    """The start of each flow is delayed by a random time from 0 to this value."""
    rtt: Probability = Probability(0.01)
    """The delays of each link are multiplied by a random factor of 1 ± this value, the same in both
    directions."""
    events: Probability = Probability(0.05)
    """The times between events, and the time to the first event, are multiplied by a random factor
    of 1 ± this value, but change by at most 1 s."""
