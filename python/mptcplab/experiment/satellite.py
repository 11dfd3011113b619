"""Satellite access of a link: dishes under satellites in low Earth orbit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from mptcplab.experiment.base import Model, described
from mptcplab.units import Duration, Probability, Rate

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form
    from mptcplab.experiment.directions import Side

_MS = 1_000_000
_SECOND = 1000 * _MS

_SLOT = 15 * _SECOND


class Leo(Model):
    """The link of a dish to satellites in low Earth orbit. Every 15 s, at the
    same instants on all such links of a run, a new slot begins with another delay and rate. The
    dish is the first end of `between`.
    """

    rate: Rate = Rate("178mbit")
    """Median rate to the dish."""
    uplink_rate: Rate = Rate("17mbit")
    """Median rate from the dish."""
    phase: Duration | None = Field(None, examples=["12s"])
    """Time of the first change of slot, less than 15s. By default, the seed draws it."""
    stalls: Probability = Probability("50%")
    """Fraction of the slots that begin with a stall, in which packets wait for 20 to 150 ms."""
    losses: Duration = Duration("560ms")
    """Mean time between losses, most of which last less than 0.1 ms."""

    @model_validator(mode="after")
    def _in_range(self) -> Leo:
        if self.phase is not None and self.phase >= _SLOT:
            raise described(f"phase {self.phase} is not within a slot", "less than 15s")
        if self.losses < _MS:
            raise described(f"losses {self.losses} is too short", "at least 1ms")
        return self

    def rates(self) -> dict[Side, Rate]:
        """Returns the median rates of the directions."""
        return {"forward": self.uplink_rate, "backward": self.rate}


#: Quantiles of the duration of a loss, in millionths and ns: Michel (IMC 2022), bulk download. The
#: ends are assumed.
_DURATIONS = (
    (0, 10_000),
    (500_000, 49_000),
    (900_000, 113_000),
    (950_000, 1_500_000),
    (990_000, 7_500_000),
    (1_000_000, _SECOND),
)


def resolved(name: str, leo: Leo) -> form.AccessLeo:
    """Returns the resolved form of the access of a dish. docs/internals/media/satellite.md has the
    sources of the values.
    """
    return {
        "kind": "leo",
        "link": name,
        "uplink": "forward",
        "slot_ns": _SLOT,
        "phase_ns": None if leo.phase is None else int(leo.phase),
        "bent_pipe": {"mean_ns": 20 * _MS, "sd_ns": 3 * _MS, "min_ns": 10_200_000, "max_ns": 35 * _MS},
        "step": {"sd_ppm": 270_000, "correlation_ppm": 500_000},
        "fade": {"sd_ppm": 145_000, "correlation_ns": _SECOND},
        "uplink_frame_ns": 4 * _MS,
        "stall": {"probability_ppm": round(float(leo.stalls) * 1_000_000), "min_ns": 20 * _MS, "max_ns": 150 * _MS},
        "loss": {
            "interval_ns": int(leo.losses),
            "durations": [{"below_ppm": below, "duration_ns": duration} for below, duration in _DURATIONS],
        },
    }
