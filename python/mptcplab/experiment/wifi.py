"""Wi-Fi: the air of a network under `media`, and its stations under `links`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field, model_validator

from mptcplab.experiment.base import Model, described
from mptcplab.units import Decibels, Duration, Rate, Size

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form
    from mptcplab.experiment.links import Link

Standard: TypeAlias = Literal["b", "g", "a", "n", "ac", "ax"]
Band: TypeAlias = Literal["2.4ghz", "5ghz"]
Width: TypeAlias = Literal["20mhz", "40mhz", "80mhz", "160mhz"]
Category: TypeAlias = Literal["best_effort", "background", "video", "voice"]
Streams: TypeAlias = Annotated[int, Field(ge=1, le=8)]

CATEGORIES: tuple[Category, ...] = get_args(Category)

_LEGACY_BPS: dict[str, list[int]] = {
    "b": [1_000_000, 2_000_000, 5_500_000, 11_000_000],
    "g": [number * 1_000_000 for number in (6, 9, 12, 18, 24, 36, 48, 54)],
}
_LEGACY_BPS["a"] = _LEGACY_BPS["g"]

# The standards in ascending order, with their bands, the usual one first. In each band a later
# standard includes the ones before it.
_BANDS: dict[Standard, tuple[Band, ...]] = {
    "b": ("2.4ghz",),
    "g": ("2.4ghz",),
    "a": ("5ghz",),
    "n": ("5ghz", "2.4ghz"),
    "ac": ("5ghz",),
    "ax": ("5ghz", "2.4ghz"),
}
# Of each standard: its widths, the usual one first; its guard intervals in the same order; the
# largest MCS; the most streams; the packets and bytes of an A-MPDU.
_WIDTHS: dict[str, tuple[Width, ...]] = {
    **dict.fromkeys(("b", "g", "a"), ("20mhz",)),
    "n": ("20mhz", "40mhz"),
    **dict.fromkeys(("ac", "ax"), ("80mhz", "20mhz", "40mhz", "160mhz")),
}
_WIDEST_AT_2_4_GHZ = 40
_GUARDS_NS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("b", "g", "a"), (800,)),
    **dict.fromkeys(("n", "ac"), (400, 800)),
    "ax": (800, 1600, 3200),
}
# What 802.11ac does not combine: a width and an MCS with these numbers of streams (IEEE Std
# 802.11-2020, section 21.5).
_MISSING_OF_AC: dict[tuple[Width, int], tuple[int, ...]] = {
    ("20mhz", 9): (1, 2, 4, 5, 7, 8),
    ("80mhz", 6): (3, 7),
    ("80mhz", 9): (6,),
    ("160mhz", 9): (3,),
}
_LARGEST_MCS = {"n": 7, "ac": 9, "ax": 11}
_MOST_STREAMS = {"n": 4, "ac": 8, "ax": 8}
_AGGREGATES = {"n": (64, 65_535), "ac": (64, 1_048_575), "ax": (256, 1_048_575)}
# IEEE Std 802.11-2020, table 9-155: AIFSN, smallest and largest window, TXOP.
_EDCA: dict[Category, tuple[int, int, int, int]] = {
    "best_effort": (3, 15, 1023, 0),
    "background": (7, 15, 1023, 0),
    "video": (2, 7, 15, 3_008_000),
    "voice": (2, 3, 7, 1_504_000),
}
#: The largest packet of a frame (the MSDU of IEEE Std 802.11-2020, table 9-25).
LARGEST_PACKET_BYTES = 2304
_LONGEST_TXOP = Duration("1s")
# Standard deviation in thousandths of a dB and correlation time of the signal. Assumed.
_MOBILITY = {"none": (0, 200_000_000), "static": (2000, 200_000_000), "walking": (4000, 50_000_000)}
# Linux: ieee80211_txq_setup_flows and cfg80211.h.
_FAIR_QUEUE: dict[str, Any] = {
    "kind": "fq_codel",
    "limit_packets": 8192,
    "limit_bytes": None,
    "target_ns": 20_000_000,
    "interval_ns": 100_000_000,
    "flows": 4096,
    "quantum_bytes": 300,
}
_FIFO_PACKETS = 1000


class Mcs(Model):
    """A fixed MCS."""

    mcs: Annotated[int, Field(ge=0, le=11)]
    """Number of the modulation and coding scheme: 0 to 7 with `n`, 0 to 9 with `ac`, 0 to 11 with
    `ax`."""


WifiRate: TypeAlias = Literal["auto", "ideal"] | Mcs | Rate
Mobility: TypeAlias = Literal["none", "static", "walking"]


class Neighbours(Model):
    """Stations of other networks on the same channel. They contend
    for the channel, but carry no packets of the experiment."""

    stations: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of stations."""
    load: Rate = Field(examples=["4mbit"])
    """Total rate at which the stations send, at random times."""
    rate: Rate = Rate("24mbit")
    """Rate at which their frames are sent."""
    size: Size = Size(1500)
    """Length of each IP packet. Each frame carries one packet."""

    @model_validator(mode="after")
    def _fits_into_a_frame(self) -> Neighbours:
        if not 1 <= int(self.size) <= LARGEST_PACKET_BYTES:
            raise described(
                f"a frame carries no packet of {self.size}", f"1 to {LARGEST_PACKET_BYTES} bytes", field="size"
            )
        return self


class Scan(Model):
    """Absences of a station from the channel, in search of other networks."""

    every: Duration = Field(examples=["30s"])
    """Time between two absences."""
    shortest: Duration = Duration("50ms")
    """Shortest absence."""
    longest: Duration = Duration("150ms")
    """Longest absence."""


class SnrPoint(Model):
    """A mean signal-to-noise ratio at one instant. Between two instants the ratio changes linearly."""

    at: Duration = Field(examples=["20s"])
    """Time since the start of the run."""
    snr: Decibels = Field(examples=["5db"])
    """Mean signal-to-noise ratio."""


Snr: TypeAlias = Decibels | Annotated[list[SnrPoint], Field(min_length=1)]


class WifiStation(Model):
    """Settings of one Wi-Fi station. Settings that are left out are those of the network."""

    snr: Snr | None = Field(None, examples=["10db", [{"at": "0s", "snr": "30db"}, {"at": "20s", "snr": "5db"}]])
    """Mean signal-to-noise ratio, or a list of instants with a ratio for each."""
    mobility: Mobility | None = None
    """How the signal varies: `none`, `static` (2 dB within 200 ms) or `walking` (4 dB within 50
    ms).
    """
    standard: Standard | None = Field(None, examples=["g"])
    """Letters of the station's standard, if it is older than the network's."""
    width: Width | None = Field(None, examples=["20mhz"])
    """Width of the frames, at most the network's. By default, the largest that both support."""
    streams: Streams | None = None
    """Spatial streams. By default, as many as the network has, but no more than the station's
    standard allows.
    """
    rate: WifiRate | None = Field(None, examples=["54mbit", {"mcs": 7}])
    """How the rate is chosen."""
    category: Category = "best_effort"
    """Access category of the station's packets in both directions. Needs `n`, `ac` or `ax`."""
    power_save: Duration | None = Field(None, examples=["100ms"])
    """Time without packets after which the station sleeps. Packets for it then wait for the next
    beacon; one is sent every 102.4 ms. By default, the station never sleeps."""
    scan: Scan | None = None
    """Absences of the station from the channel."""


class Wifi(Model):
    """The channel of one Wi-Fi network with one access point. Each link on the medium is a station.
    The access point is the end of the link at a node, or the second end if the link is between two
    hosts.
    """

    standard: Standard = "ac"
    """Letters of the standard: 802.11b, g, a, n, ac or ax."""
    band: Band | None = Field(None, examples=["2.4ghz"])
    """Band of the channel. Only `n` and `ax` can use either band; their default is 5ghz."""
    width: Width | None = Field(None, examples=["80mhz"])
    """Width of the channel. The default is 80mhz with `ac` and `ax` at 5ghz, and 20mhz otherwise.
    At 2.4ghz, it is at most 40mhz.
    """
    streams: Streams | None = None
    """Number of spatial streams. The default is 1, or 2 with `n`, `ac` and `ax`."""
    guard_interval: Duration | None = Field(None, examples=["800ns"])
    """Guard interval. The default is 400ns with `n` and `ac`, and 800ns otherwise."""
    snr: Snr = Field(Decibels("30db"), examples=["30db"])
    """Mean signal-to-noise ratio of the stations."""
    mobility: Mobility = "static"
    """How the signal varies: `none`, `static` (2 dB within 200 ms) or `walking` (4 dB within 50
    ms).
    """
    rate: WifiRate = Field("auto", examples=["auto", "54mbit", {"mcs": 7}])
    """How rates are chosen: `auto` as Minstrel does, `ideal` from the signal 100 ms earlier, a
    fixed rate of `b`, `g` or `a`, or a fixed MCS of `n`, `ac` or `ax`."""
    ap_queue: Literal["fq", "fifo"] = "fq"
    """How the access point queues packets: `fq` is FQ-CoDel per station with turns of equal air
    time; `fifo` is one queue for all stations."""
    aggregate: Annotated[int, Field(ge=1, le=256)] | None = None
    """Largest number of packets in one transmission. The default is 64 with `n` and `ac`, 256 with
    `ax`, and 1 with `b`, `g` and `a`.
    """
    rts: Size | None = None
    """Size at or above which a transmission is preceded by RTS and CTS. By default, none is."""
    txop: Duration | None = Field(None, examples=["3008us"])
    """How long a station may send once it has won the channel. The value applies to all categories.
    By default, the time depends on the category; best effort allows one exchange."""
    retries: Annotated[int, Field(ge=1, le=255)] = 10
    """Number of attempts after which a packet is dropped."""
    neighbours: list[Neighbours] = []
    """Stations of other networks on the channel."""

    @model_validator(mode="after")
    def _known_to_the_standard(self) -> Wifi:
        if self.band is not None and self.band not in _BANDS[self.standard]:
            allowed = ", ".join(_BANDS[self.standard])
            raise described(f"802.11{self.standard} has no band {self.band}", allowed, field="band")
        widths = _widths(self.standard, _band(self))
        if self.width is not None and self.width not in widths:
            ascending = sorted(widths, key=_mhz)
            problem = f"802.11{self.standard} has no width {self.width} at {_band(self)}"
            raise described(problem, ", ".join(ascending), field="width")
        guards = _GUARDS_NS[self.standard]
        if self.guard_interval is not None and int(self.guard_interval) not in guards:
            allowed = ", ".join(f"{guard}ns" for guard in guards)
            problem = f"802.11{self.standard} has no guard interval {self.guard_interval}"
            raise described(problem, allowed, field="guard_interval")
        if self.aggregate is not None and self.aggregate > 1 and self.standard not in _AGGREGATES:
            raise described(f"802.11{self.standard} has no aggregates", "n, ac or ax", field="aggregate")
        if self.txop is not None and int(self.txop) > int(_LONGEST_TXOP):
            raise described(f"{self.txop} is too long", f"at most {_LONGEST_TXOP}", field="txop")
        _check_streams(self.streams, self.standard)
        _check_rate(self.rate, self.standard)
        _check_combination(WifiStation(), self)
        _check_snr(self.snr)
        return self


def _check_streams(streams: int | None, standard: Standard) -> None:
    most = _MOST_STREAMS.get(standard, 1)
    if streams is not None and streams > most:
        raise described(f"802.11{standard} has no {streams} streams", f"1 to {most}", field="streams")


def _check_snr(snr: Snr | None) -> None:
    if isinstance(snr, list) and any(later.at < point.at for point, later in itertools.pairwise(snr)):
        raise described("the instants go back in time", "ascending instants", field="snr")


def _check_rate(rate: WifiRate, standard: Standard) -> None:
    if isinstance(rate, Mcs):
        largest = _LARGEST_MCS.get(standard)
        if largest is None:
            raise described(f"802.11{standard} has no MCS", _rates_of(standard), field="rate")
        if rate.mcs > largest:
            raise described(f"802.11{standard} has no MCS {rate.mcs}", f"0 to {largest}", field="rate")
    elif isinstance(rate, Rate):
        if standard not in _LEGACY_BPS:
            problem = f"802.11{standard} has no rate without an MCS"
            raise described(problem, f"mcs: 0 to {_LARGEST_MCS[standard]}, as in {{mcs: 7}}", field="rate")
        if int(rate) not in _LEGACY_BPS[standard]:
            raise described(f"802.11{standard} has no rate {rate}", _rates_of(standard), field="rate")


def _rates_of(standard: Standard) -> str:
    return ", ".join(str(Rate(bps)) for bps in _LEGACY_BPS[standard])


def check_station(station: WifiStation, wifi: Wifi) -> None:
    """Refuses values of a station that its network or its standard does not have."""
    standard = station.standard or wifi.standard
    served = _served(wifi)
    if standard not in served:
        problem = f"a network of 802.11{wifi.standard} at {_band(wifi)} has no stations of 802.11{standard}"
        raise described(problem, ", ".join(served), field="standard")
    widths = _common_widths(standard, wifi)
    if station.width is not None and station.width not in widths:
        problem = f"a station of 802.11{standard} has no width {station.width} on a channel of {_width(wifi)}"
        raise described(problem, ", ".join(widths), field="width")
    _check_streams(station.streams, standard)
    _check_combination(station, wifi)
    if station.rate is not None:
        _check_rate(station.rate, standard)
    elif not _has_rate(wifi.rate, standard):
        problem = f"802.11{standard} does not have the network's fixed rate"
        raise described(problem, "a rate of the station", field="standard")
    if station.category != "best_effort" and standard not in _AGGREGATES:
        raise described(f"802.11{standard} has no access categories", "n, ac or ax", field="category")
    _check_snr(station.snr)
    if station.scan is not None and not station.scan.shortest <= station.scan.longest < station.scan.every:
        raise described("the absences do not fit between each other", "shortest <= longest < every", field="scan")


def _check_combination(station: WifiStation, wifi: Wifi) -> None:
    """Refuses a fixed MCS that the station's standard does not have at its width and with its
    streams.
    """
    rate = wifi.rate if station.rate is None else station.rate
    if not isinstance(rate, Mcs) or (station.standard or wifi.standard) != "ac":
        return
    width, streams = _station_width(station, wifi), _station_streams(station, wifi)
    allowed = [mcs for mcs in range(_LARGEST_MCS["ac"] + 1) if streams not in _MISSING_OF_AC.get((width, mcs), ())]
    if rate.mcs not in allowed:
        problem = f"802.11ac has no MCS {rate.mcs} at {width} with streams: {streams}"
        raise described(problem, ", ".join(map(str, allowed)), field="rate")


def _has_rate(rate: WifiRate, standard: Standard) -> bool:
    if isinstance(rate, Mcs):
        return rate.mcs <= _LARGEST_MCS.get(standard, -1)
    return not isinstance(rate, Rate) or int(rate) in _LEGACY_BPS.get(standard, [])


def _band(wifi: Wifi) -> Band:
    return wifi.band or _BANDS[wifi.standard][0]


def _width(wifi: Wifi) -> Width:
    return wifi.width or _widths(wifi.standard, _band(wifi))[0]


def _widths(standard: Standard, band: Band) -> tuple[Width, ...]:
    """Returns the widths of a standard in a band, the usual one first."""
    widths = _WIDTHS[standard]
    if band == "2.4ghz":
        return tuple(width for width in widths if _mhz(width) <= _WIDEST_AT_2_4_GHZ)
    return widths


def _served(wifi: Wifi) -> list[Standard]:
    """Returns the standards of stations that a network has, in ascending order."""
    standards = list(_BANDS)
    until = standards[: standards.index(wifi.standard) + 1]
    return [standard for standard in until if _band(wifi) in _BANDS[standard]]


def _common_widths(standard: Standard, wifi: Wifi) -> list[Width]:
    """Returns the widths that a standard and the channel of a network have, in ascending order."""
    widths = sorted(_widths(standard, _band(wifi)), key=_mhz)
    return [width for width in widths if _mhz(width) <= _mhz(_width(wifi))]


def _mhz(width: Width) -> int:
    return int(width.removesuffix("mhz"))


def uplink(first: str, second: str) -> form.HopDirection:
    """Returns the direction of a link to the access point, by the kinds of its ends: an access
    point, else what is no host, else the second end.
    """
    rank = {"ap": 2, "host": 0}
    return "backward" if rank.get(first, 1) > rank.get(second, 1) else "forward"


def ap_queue(wifi: Wifi) -> form.Queue:
    """Returns the queue of one station at the access point."""
    if wifi.ap_queue == "fq":
        return {**_FAIR_QUEUE}  # type: ignore[return-value]
    return {"kind": "drop_tail", "limit_packets": _FIFO_PACKETS, "limit_bytes": None}


def resolved(
    medium: str, wifi: Wifi, links: Mapping[str, Link], uplinks: Mapping[str, form.HopDirection]
) -> form.AccessWifi:
    """Returns the resolved form of the network of a medium, whose links have these directions to
    the access point.
    """
    return {
        "kind": "wifi",
        "medium": medium,
        "standard": wifi.standard,
        "band": _band(wifi),
        "rts_bytes": None if wifi.rts is None else int(wifi.rts),
        "retry_limit": wifi.retries,
        "edca": [_edca(wifi, wifi.standard, category) for category in CATEGORIES],
        "ap_queue": _resolved_ap_queue(wifi),
        "stations": [
            _station(link, uplinks[link], wifi, settings.wifi or WifiStation())
            for link, settings in links.items()
            if settings.medium == medium
        ],
        "neighbours": [_neighbours(group) for group in wifi.neighbours],
    }


def _edca(wifi: Wifi, standard: Standard, category: Category) -> form.Edca:
    aifsn, cw_min, cw_max, txop_ns = _EDCA[category]
    if standard not in _AGGREGATES:
        aifsn, cw_min, cw_max, txop_ns = 2, 31 if standard == "b" else 15, 1023, 0
    # A station without access categories has no TXOP in a network with them.
    if wifi.txop is not None and (standard in _AGGREGATES or wifi.standard not in _AGGREGATES):
        txop_ns = int(wifi.txop)
    return {"aifsn": aifsn, "cw_min": cw_min, "cw_max": cw_max, "txop_limit_ns": txop_ns}


def _resolved_ap_queue(wifi: Wifi) -> form.ApQueue:
    if wifi.ap_queue == "fifo":
        return {"kind": "fifo", "limit_packets": _FIFO_PACKETS, "driver_packets": 123}
    return {
        "kind": "fq",
        "quantum_ns": 300_000,
        "aql_low_ns": 5_000_000,
        "aql_high_ns": 12_000_000,
        "aql_threshold_ns": 24_000_000,
    }


def _station(link: str, uplink: form.HopDirection, wifi: Wifi, station: WifiStation) -> form.WifiStation:
    standard = station.standard or wifi.standard
    sd_mdb, correlation_ns = _MOBILITY[station.mobility or wifi.mobility]
    return {
        "link": link,
        "uplink": uplink,
        "standard": standard,
        "width_mhz": _mhz(_station_width(station, wifi)),
        "guard_interval_ns": _guard_interval_ns(standard, wifi),
        "streams": _station_streams(station, wifi),
        "aggregation": _aggregation(standard, wifi),
        "access_category": station.category,
        "edca": _edca(wifi, standard, station.category),
        "rate": _rate(wifi.rate if station.rate is None else station.rate, standard),
        "snr": {
            "means": _means(wifi.snr if station.snr is None else station.snr),
            "sd_mdb": sd_mdb,
            "correlation_ns": correlation_ns,
        },
        "power_save_after_ns": None if station.power_save is None else int(station.power_save),
        "scan": _scan(station.scan),
    }


def _station_width(station: WifiStation, wifi: Wifi) -> Width:
    return station.width or _common_widths(station.standard or wifi.standard, wifi)[-1]


def _station_streams(station: WifiStation, wifi: Wifi) -> int:
    return station.streams or min(_streams(wifi), _MOST_STREAMS.get(station.standard or wifi.standard, 1))


def _streams(wifi: Wifi) -> int:
    return wifi.streams or (2 if wifi.standard in _AGGREGATES else 1)


def _guard_interval_ns(standard: Standard, wifi: Wifi) -> int:
    guards = _GUARDS_NS[standard]
    if wifi.guard_interval is not None and int(wifi.guard_interval) in guards:
        return int(wifi.guard_interval)
    return guards[0]


def _aggregation(standard: Standard, wifi: Wifi) -> form.Aggregation:
    mpdus, length = _AGGREGATES.get(standard, (1, 65_535))
    if wifi.aggregate is not None and standard in _AGGREGATES:
        mpdus = wifi.aggregate
    # Linux limits a frame to 4 ms of air.
    return {"max_mpdus": mpdus, "max_bytes": length, "max_ppdu_ns": 4_000_000}


def _means(snr: Snr) -> list[form.SnrPoint]:
    if isinstance(snr, Decibels):
        return [{"at_ns": 0, "mean_mdb": round(1000 * snr)}]
    return [{"at_ns": int(point.at), "mean_mdb": round(1000 * point.snr)} for point in snr]


def _rate(rate: WifiRate, standard: Standard) -> form.WifiRate:
    if isinstance(rate, Mcs):
        return {"kind": "fixed", "mcs": rate.mcs}
    if isinstance(rate, Rate):
        return {"kind": "fixed", "mcs": _LEGACY_BPS[standard].index(int(rate))}
    return {"kind": rate}  # type: ignore[return-value,misc]


def _scan(scan: Scan | None) -> form.Scan | None:
    if scan is None:
        return None
    return {"every_ns": int(scan.every), "shortest_ns": int(scan.shortest), "longest_ns": int(scan.longest)}


def _neighbours(group: Neighbours) -> form.WifiNeighbours:
    return {
        "stations": group.stations,
        "load_bps": int(group.load),
        "rate_bps": int(group.rate),
        "packet_bytes": int(group.size),
    }
