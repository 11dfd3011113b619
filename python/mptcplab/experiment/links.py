"""Links and media: rate, delay, loss and queue."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mptcplab.experiment.base import (
    BY_DIRECTION,
    EACH,
    SAME,
    BoolPerDirection,
    Directions,
    DurationPerDirection,
    Model,
    RatePerDirection,
    Shorthand,
    described,
    one_of,
)
from mptcplab.experiment.cable import Cable
from mptcplab.experiment.cellular import Cellular
from mptcplab.experiment.link_traces import TracePerDirection
from mptcplab.experiment.satellite import Leo
from mptcplab.experiment.uses import Uses, UsesByValue
from mptcplab.experiment.wifi import Wifi, WifiStation
from mptcplab.units import Duration, Probability, QueueLimit, Rate, Size

Discipline = Literal["drop_tail", "codel", "fq_codel", "red", "pie"]

# The settings of each discipline with their defaults. Others are refused, because they would have
# no effect.
DISCIPLINE_SETTINGS: dict[str, dict[str, object]] = {
    "drop_tail": {},
    "codel": {"target": Duration("5ms"), "interval": Duration("100ms")},
    "fq_codel": {"target": Duration("5ms"), "interval": Duration("100ms"), "flows": 1024, "quantum": Size(1514)},
    "red": {"min": None, "max": None, "max_probability": Probability(0.1), "weight": Probability(0.002)},
    "pie": {"target": Duration("15ms"), "update": Duration("15ms"), "max_burst": Duration("150ms")},
}
_SETTINGS = dict.fromkeys(name for settings in DISCIPLINE_SETTINGS.values() for name in settings)


class Queue(Shorthand):
    """The queue before the serializer of a link. It excludes the packet in service and the packets
    in the delay line.
    """

    shorthand = "limit"

    limit: QueueLimit = QueueLimit("100p")
    """Capacity in packets, in bytes, or as a multiple of rate x 2 x delay (at least 10 packets)."""
    discipline: Annotated[Discipline, UsesByValue("queue")] = "drop_tail"
    """Queue discipline: which packets are dropped, and when."""
    target: Duration | None = None
    """CoDel, FQ-CoDel (5ms), PIE (15ms): acceptable standing delay."""
    interval: Duration | None = None
    """CoDel, FQ-CoDel: time within which the delay must fall below the target (100ms)."""
    flows: Annotated[int, Field(ge=1, le=65536)] | None = None
    """FQ-CoDel: number of hash buckets (1024)."""
    quantum: Size | None = None
    """FQ-CoDel: bytes a flow may send per round (1514)."""
    min: Size | None = None
    """RED: average queue length at which dropping begins (a quarter of the limit)."""
    max: Size | None = None
    """RED: average queue length at which the probability reaches `max_probability` (three quarters
    of the limit).
    """
    max_probability: Probability | None = None
    """RED: drop probability at `max` (0.1)."""
    weight: Probability | None = None
    """RED: weight of a new sample in the average (0.002)."""
    update: Duration | None = None
    """PIE: how often the drop probability is computed (15ms)."""
    max_burst: Duration | None = None
    """PIE: length of a burst that passes without drops (150ms)."""

    @model_validator(mode="after")
    def _settings_have_effect(self) -> Queue:
        known = DISCIPLINE_SETTINGS[self.discipline]
        for name in _SETTINGS:
            if getattr(self, name) is not None and name not in known:
                having = " or ".join(kind for kind, settings in DISCIPLINE_SETTINGS.items() if name in settings)
                raise described(f"'{name}' has no effect on discipline {self.discipline}", f"discipline {having}")
        return self


class GilbertElliott(Model):
    """Loss in bursts: a Markov chain of a good and a bad state, with one step per packet."""

    good_to_bad: Probability = Field(examples=["1%"])
    """Probability, at each packet, of entering the bad state."""
    bad_to_good: Probability = Field(examples=["30%"])
    """Probability, at each packet, of leaving the bad state."""
    loss_good: Probability = Probability(0)
    """Probability of loss in the good state."""
    loss_bad: Probability = Probability(1)
    """Probability of loss in the bad state."""


class Loss(Shorthand):
    """Packets that are lost: independently of each other, in bursts, or by their numbers."""

    shorthand = "probability"

    probability: Annotated[Probability | None, Uses("loss bernoulli")] = Field(None, examples=["0.1%"])
    """Probability with which each packet is lost, independently of the others."""
    gilbert_elliott: Annotated[GilbertElliott | None, Uses("loss gilbert_elliott")] = None
    """Loss in bursts."""
    packets: Annotated[
        Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=100_000)] | None, Uses("loss list")
    ] = Field(None, examples=[[3, 7]])
    """The packets that are lost, numbered from 0 in the order in which they reach the point of
    loss.
    """

    @model_validator(mode="after")
    def _one_kind(self) -> Loss:
        one_of(self, ["probability", "gilbert_elliott", "packets"], "loss")
        return self


Overhead = Literal["frame", "ethernet", "ip"] | Annotated[int, Field(ge=0, le=1000)]
LineOverhead = Literal["frame", "ethernet", "ip", "atm", "ptm"] | Annotated[int, Field(ge=0, le=1000)]
Place = Literal["ingress", "egress"]

QueuePerDirection = Annotated[Annotated[Queue, SAME] | Annotated[Directions[Queue], EACH], BY_DIRECTION]
LossPerDirection = Annotated[Annotated[Loss, SAME] | Annotated[Directions[Loss], EACH], BY_DIRECTION]
OverheadPerDirection = Annotated[
    Annotated[LineOverhead, SAME] | Annotated[Directions[LineOverhead], EACH], BY_DIRECTION
]
PlacePerDirection = Annotated[Annotated[Place, SAME] | Annotated[Directions[Place], EACH], BY_DIRECTION]


class Medium(Model):
    """A channel that several links share. Packets of all links and both directions take turns."""

    profile: str | list[str] | None = Field(None, description="defaults for this medium", examples=["wifi_n"])
    rate: Rate | None = Field(None, examples=["47mbit"])
    """Rate of the shared serializer. By default, each packet is sent at the rate of its link."""
    overhead: Overhead = "frame"
    """The bytes that `rate` covers in addition to each IP packet: `frame` 14, `ethernet` 38, `ip`
    0, or a number.
    """
    wifi: Annotated[Wifi | None, Uses("access wifi")] = Field(
        None, examples=[{"standard": "ac", "width": "80mhz", "snr": "30db"}]
    )
    """In place of `rate`: the medium is the channel of a Wi-Fi network, and its links are the
    stations.
    """

    @model_validator(mode="after")
    def _one_kind(self) -> Medium:
        if self.wifi is not None and self.rate is not None:
            raise described("has both rate and wifi", "one of them")
        return self


class LinkSettings(Model):
    """What a link does to packets. Fields marked *per direction* also take
    `{forward: .., backward: ..}`."""

    profile: str | list[str] | None = Field(None, description="defaults for this link", examples=["lte"])
    rate: RatePerDirection | None = Field(None, examples=["12mbit", {"forward": "12mbit", "backward": "40mbit"}])
    """Rate of the serializer, in bits per second. Without rate, trace and medium, packets take no
    time to serialize."""
    delay: DurationPerDirection = Field(Duration(0), examples=["30ms"])
    """One-way propagation delay."""
    rtt: Duration | None = Field(None, examples=["60ms"])
    """In place of `delay`: round-trip propagation delay, half of it in each direction."""
    jitter: DurationPerDirection = Field(Duration(0), examples=["2ms"])
    """Random delay added to each packet, uniform from 0 to this value. Packets stay in order unless
    `reorder` is true."""
    reorder: BoolPerDirection = False
    """Whether jitter may change the order of packets."""
    loss: LossPerDirection = Field(Loss.default(probability=Probability(0)), examples=["0.1%"])
    """Random loss, in addition to drops by the queue."""
    loss_at: PlacePerDirection | None = None
    """Where packets are lost: `ingress` is before the queue; `egress` is after the serializer, so a
    lost packet has used the link. The default is `egress` on a medium and in a direction that
    begins at a host with `first_hop: host`, and `ingress` otherwise.
    """
    queue: QueuePerDirection = Field(Queue.default(), examples=["1bdp", {"limit": "100p", "discipline": "codel"}])
    """The queue before the serializer. It has no effect in a direction that begins at a host with
    `first_hop: host`, because packets wait in that host."""
    bdp_rtt: Duration | None = None
    """Round-trip time used to compute `1bdp` in `queue`; by default, twice the link's delay."""
    overhead: OverheadPerDirection = "frame"
    """The bytes that `rate` covers in addition to each IP packet: `frame` 14, `ethernet` 38, `ip`
    0, or a number. For DSL, `atm` adds 32 bytes to the IP packet and puts the sum into cells of 53
    bytes that carry 48 bytes each, and `ptm` adds 22 bytes to the IP packet and then one byte per
    64.
    """
    trace: Annotated[TracePerDirection | None, Uses("trace")] = Field(
        None, examples=["lte.trace", {"synthetic": "lte-driving-down"}]
    )
    """Capacity, delay and loss over time: a file, or a mapping."""
    medium: Annotated[str | None, Uses("medium")] = Field(None, examples=["air"])
    """Name, under `media`, of the medium whose serializer this link uses."""
    wifi: WifiStation | None = Field(None, examples=[{"snr": "10db"}])
    """Settings of this link as a Wi-Fi station, if its medium has `wifi`."""
    mtu: Size = Size(1500)
    """Largest IP packet, in bytes."""

    @model_validator(mode="after")
    def _one_way_or_both(self) -> LinkSettings:
        if self.rtt is not None and "delay" in self.model_fields_set:
            raise described("has both delay and rtt", "one of them")
        if self.trace is not None and self.medium is not None:
            raise described("has both trace and medium", "one of them")
        if not 576 <= self.mtu <= 65535:
            raise described(f"mtu {self.mtu} is out of range", "576 to 65535 bytes")
        return self


class Link(LinkSettings):
    """A full-duplex link between two interfaces."""

    between: list[str] = Field(
        min_length=2,
        max_length=2,
        description="the two ends: HOST.INTERFACE, or the name of a node, whose ports are named p1, p2 ..",
        examples=[["client.wlan0", "server.eth0"]],
    )
    real: Annotated[bool, Uses("real")] = False
    """Whether the link is the network between the devices of its two interfaces, instead of an emulated
    one. It has whatever rate, delay and loss that network has."""
    cellular: Annotated[Cellular | None, Uses("access cellular")] = None
    """In place of a rate: the radio link of a cellular device, the first end of `between`."""
    leo: Annotated[Leo | None, Uses("access leo")] = None
    """In place of a rate: satellites in low Earth orbit. The first end of `between` is the dish."""
    cable: Annotated[Cable | None, Uses("access cable")] = None
    """In addition to a rate: the line of a cable modem, which is the first end of `between`."""

    @model_validator(mode="after")
    def _real_is_not_emulated(self) -> Link:
        given = [name for name in EMULATED if name in self.model_fields_set]
        if self.real and given:
            problem = f"'{given[0]}' has no effect on a real link, which is not emulated"
            raise described(problem, ", ".join(BESIDE_REAL), field=given[0])
        return self

    @model_validator(mode="after")
    def _one_access(self) -> Link:
        present = [name for name in ("cellular", "leo", "cable") if getattr(self, name) is not None]
        if not present:
            return self
        rivals = [name for name in RIVALS[present[0]] if name not in present]
        both = present + [name for name in rivals if getattr(self, name) is not None]
        if len(both) > 1:
            why = "" if self.cable is not None else f"; {present[0]} has a rate of its own"
            raise described(f"has both {both[0]} and {both[1]}", f"one of them{why}")
        if self.cellular is not None and (self.cellular.rate is None) == (self.trace is None):
            found = "no rate" if self.trace is None else "both a rate and a trace"
            raise described(f"the cellular link has {found}", "cellular: {rate: 40mbit}, or a trace")
        if self.cellular is not None and isinstance(self.trace, Directions):
            for side in ("forward", "backward"):
                if getattr(self.trace, side) is None:
                    raise described(
                        f"the cellular link has no trace {side}", "a trace for each direction", field="trace"
                    )
        return self


#: The fields of a real link, and those that only an emulated link can have.
BESIDE_REAL = ("between", "real", "mtu")
EMULATED = [name for name in Link.model_fields if name not in BESIDE_REAL]

# If a field is given, profiles and generators do not fill in its rivals.
RIVALS: dict[str, tuple[str, ...]] = {
    "delay": ("rtt",),
    "rtt": ("delay",),
    "rate": ("trace", "medium", "cellular", "leo"),
    "trace": ("rate", "medium", "leo"),
    "cellular": ("rate", "medium", "leo", "cable"),
    "leo": ("rate", "trace", "medium", "cellular", "cable"),
    "cable": ("medium", "cellular", "leo"),
}
