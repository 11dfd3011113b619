"""Cellular access of a link: LTE and NR (5G)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from mptcplab.experiment.base import Model, described
from mptcplab.units import Duration, Probability, Rate

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form
    from mptcplab.experiment.directions import Side

Generation = Literal["lte", "nsa", "sa"]
Mobility = Literal["static", "walking", "driving"]

_MS = 1_000_000
_SECOND = 1000 * _MS


class Cells(Model):
    """Handovers of a device between cells, at random times."""

    every: Duration = Field(examples=["17s"])
    """Mean time from one handover to the next."""
    gap: Duration = Duration("60ms")
    """Median time for which the link carries nothing."""
    spread: Annotated[float, Field(ge=0, le=3)] = 0.7
    """Standard deviation of the logarithm of that time."""
    queue: Literal["forwarded", "lost"] = "forwarded"
    """What happens to the queue of the old cell."""


class NrLeg(Model):
    """The 5G leg that an `nsa` device alternately releases and adds. At the start of a run,
    the device has the leg."""

    every: Duration = Field(examples=["7.5s"])
    """Mean time from one change to the next."""
    gap: Duration = Duration("60ms")
    """Median time for which the link carries nothing at a change."""
    spread: Annotated[float, Field(ge=0, le=3)] = 0.7
    """Standard deviation of the logarithm of that time."""
    rate_without: Probability = Probability("33%")
    """The rate on 4G alone, as a fraction of `rate`."""


class Cellular(Model):
    """The radio link of one device, with its own queues, grants, retransmissions below IP and idle
    states. The device is the first end of `between`.
    """

    generation: Generation = "lte"
    """`lte`: 4G; `nsa`: 5G with a 4G core; `sa`: 5G alone."""
    rate: Rate | None = Field(None, examples=["40mbit"])
    """Mean rate to the device while no neighbour is busy. Required unless the link has a trace."""
    uplink_rate: Rate | None = Field(None, examples=["10mbit"])
    """Mean rate from the device. The default is a quarter of `rate`."""
    mobility: Mobility = "static"
    """How much the rate varies. With `driving`, the device also changes cells."""
    neighbours: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Mean number of other busy devices in the cell, each of which takes an equal share."""
    block_errors: Probability = Probability("10%")
    """Fraction of the blocks that are retransmitted. A retransmission also delays the blocks behind it."""
    drx: Duration | None = Field(None, examples=["320ms"])
    """Interval at which a connected device listens once 100 ms have passed without packets. The
    default is 320ms, or 80ms with `sa`.
    """
    inactivity: Duration = Duration("10.5s")
    """Time without packets after which the device becomes idle."""
    promotion: Duration | None = Field(None, examples=["260ms"])
    """Time to get from idle to connected. The default is 260ms, or 341ms with `sa`."""
    cells: Cells | None = None
    """Handovers at random times. By default, there are none, or one every 17s with `driving`."""
    nr_leg: NrLeg | None = None
    """With `nsa`: changes between 4G and 5G. By default, there are none, or one every 7.5s with
    `driving`."""

    @model_validator(mode="after")
    def _in_order(self) -> Cellular:
        if self.inactivity < _DRX_AFTER:
            raise described(f"inactivity {self.inactivity} is too short", "at least 100ms")
        if self.drx is not None and not self.drx:
            raise described("drx is 0", "more than 0s")
        for name, gaps in (("cells", self.cells), ("nr_leg", self.nr_leg)):
            if gaps is not None and gaps.every < _MS:
                raise described(f"{name}.every {gaps.every} is too short", "at least 1ms")
        if self.nr_leg is not None and self.generation != "nsa":
            raise described(f"'nr_leg' has no effect with {self.generation}", "generation: nsa")
        if self.nr_leg is not None and not _ppm(self.nr_leg.rate_without):
            raise described(f"nr_leg.rate_without {self.nr_leg.rate_without} is too small", "at least 0.0001%")
        return self

    def rates(self) -> dict[Side, Rate] | None:
        """Returns the rates of the directions, or None without `rate`."""
        if self.rate is None:
            return None
        uplink = self.uplink_rate if self.uplink_rate is not None else Rate(max(int(self.rate) // 4, 1))
        return {"forward": uplink, "backward": self.rate}


_DRX_AFTER = 100 * _MS

#: Length of a TTI, HARQ round trip, period of requests, request to grant, DRX cycle, promotion.
#: LTE: 3GPP TS 36.213 and 36.321, RRC-Probe data of 2020 and 2021, Huang (MobiSys 2012). NR: slots
#: of 30 kHz; RRC-Probe; Narayanan (SIGCOMM 2021) for the promotion of SA. The requests of NR are
#: assumed.
_TIMES: dict[Generation, tuple[int, int, int, int, int, int]] = {
    "lte": (_MS, 8 * _MS, 10 * _MS, 8 * _MS, 320 * _MS, 260 * _MS),
    "nsa": (_MS // 2, 4 * _MS, 5 * _MS, 4 * _MS, 320 * _MS, 260 * _MS),
    "sa": (_MS // 2, 4 * _MS, 5 * _MS, 4 * _MS, 80 * _MS, 341 * _MS),
}

#: Standard deviations of the signal in thousandths of a dB, fast and slow. Driving: shadowing of 8
#: dB (3GPP TR 36.814, table A.2.1.1-2). The others are assumed.
_SIGNAL_SD_MDB: dict[Mobility, tuple[int, int]] = {
    "static": (2000, 2000),
    "walking": (3000, 5000),
    "driving": (3000, 8000),
}

#: The median of the signal-to-noise ratio in thousandths of a dB. Assumed: the middle of a macro
#: cell.
_SIGNAL_MDB = 5000

#: Handovers of a device that drives. Times between them: runs of the SIGCOMM 2021 set (15 to 19 s
#: on 4G). Gaps: LTE, from the request to success 19 to 72 ms (M2HO); NSA, MSSN (INFOCOM 2023),
#: median 0.6 s and p90 5 s.
_DRIVING: dict[Generation, Cells] = {
    "lte": Cells.default(every=Duration("17s")),
    "nsa": Cells.default(every=Duration("17s"), gap=Duration("600ms"), spread=1.65),
    "sa": Cells.default(every=Duration("17s")),
}

#: Changes between 4G and 5G of an NSA device that drives: 6 to 9 s apart in the runs of the SIGCOMM
#: 2021 set. Gap and rate are assumed.
_DRIVING_LEG = NrLeg.default(every=Duration("7.5s"))


def resolved(name: str, cellular: Cellular) -> form.AccessCellular:
    """Returns the resolved form of the cellular access of a link."""
    tti, harq, period, grant, drx, promotion = _TIMES[cellular.generation]
    fast, slow = _SIGNAL_SD_MDB[cellular.mobility]
    cells, nr_leg = cellular.cells, cellular.nr_leg
    if cellular.mobility == "driving":
        cells = cells or _DRIVING[cellular.generation]
        nr_leg = nr_leg or (_DRIVING_LEG if cellular.generation == "nsa" else None)
    return {
        "kind": "cellular",
        "link": name,
        "uplink": "forward",
        "tti_ns": tti,
        "harq": {
            "first_error_ppm": _ppm(cellular.block_errors),
            "repeat_error_ppm": 20_000,
            "round_trip_ns": harq,
            "tries": 4,
            "rlc_ns": 50 * _MS,
        },
        "requests": {"period_ns": period, "grant_ns": grant},
        "rrc": {
            "drx_after_ns": _DRX_AFTER,
            "drx_cycle_ns": drx if cellular.drx is None else int(cellular.drx),
            "inactivity_ns": int(cellular.inactivity),
            "paging_cycle_ns": 1280 * _MS,
            "promotion_ns": promotion if cellular.promotion is None else int(cellular.promotion),
        },
        "signal": {
            "median_mdb": _SIGNAL_MDB,
            "fast_sd_mdb": fast,
            "fast_ns": 100 * _MS,
            "slow_sd_mdb": slow,
            "slow_ns": 10 * _SECOND,
        },
        "neighbours": {"mean_ppm": _ppm(cellular.neighbours), "busy_ns": _SECOND},
        "handovers": None if cells is None else {"gaps": _gaps(cells), "forward_queue": cells.queue == "forwarded"},
        "nr_leg": None if nr_leg is None else {"gaps": _gaps(nr_leg), "rate_without_ppm": _ppm(nr_leg.rate_without)},
    }


def _gaps(gaps: Cells | NrLeg) -> form.Gaps:
    return {"interval_ns": int(gaps.every), "gap_median_ns": int(gaps.gap), "gap_sd_ppm": _ppm(gaps.spread)}


def _ppm(part: float) -> int:
    return round(float(part) * 1_000_000)
