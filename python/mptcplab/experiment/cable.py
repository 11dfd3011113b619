"""Cable access of a link: a modem whose uplink waits for grants (DOCSIS)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from mptcplab.experiment.base import Model, described
from mptcplab.units import Duration

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form


class Cable(Model):
    """The link of a cable modem, which is the first end of `between`. A packet that arrives at an
    empty queue of the modem waits for the next map of grants and then for its grant. While packets
    wait, further requests are sent with the data.
    """

    map: Duration = Field(Duration("2ms"), examples=["2ms"])
    """Time between two maps of grants."""
    grant: Duration = Field(Duration("4ms"), examples=["4ms"])
    """Time from the map to the grant. By default, the wait for the map and the grant together is
    4 to 6 ms (assumed)."""

    @model_validator(mode="after")
    def _has_maps(self) -> Cable:
        if not self.map:
            raise described("map is 0", "more than 0s")
        return self


def resolved(name: str, cable: Cable) -> form.AccessCable:
    """Returns the resolved form of the cable access of a link."""
    return {
        "kind": "cable",
        "link": name,
        "uplink": "forward",
        "requests": {"period_ns": int(cable.map), "grant_ns": int(cable.grant)},
    }
