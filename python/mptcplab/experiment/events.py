"""Events: changes of interfaces, links and addresses during a run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from mptcplab.experiment.base import (
    ONE_OR_MORE,
    BoolPerDirection,
    Choice,
    DurationPerDirection,
    Model,
    Name,
    RatePerDirection,
    Shorthand,
    described,
    one_of,
)
from mptcplab.experiment.links import LossPerDirection, QueuePerDirection
from mptcplab.experiment.uses import Uses
from mptcplab.recovery import STRATEGIES
from mptcplab.units import Decibels, Duration

Names = Annotated[list[str], ONE_OR_MORE, Field(min_length=1)]


class Handover(Shorthand):
    """A break-before-make handover. Between interfaces: one goes down, then another comes up, and then
    the latter gets its address. For a cellular device: its link carries nothing for a while, and
    then has the capacity of another cell, without the host noticing."""

    model_config = ConfigDict(json_schema_extra={"dependentRequired": {"from": ["to"], "to": ["from"]}})
    shorthand = "link"

    link: str | None = Field(None, description="the link of the cellular device", examples=["lte"])
    queue: Literal["forwarded", "lost"] | None = None
    """With `link`: what happens to the queue of the old cell. The default is `forwarded`."""
    from_: str | None = Field(None, alias="from", description="the interface that goes down", examples=["client.wlan0"])
    to: str | None = Field(None, description="the interface that comes up", examples=["client.wwan0"])
    gap: Duration | None = Field(None, examples=["200ms"])
    """Time between `from` going down and `to` coming up (default 0s), or during which `link` carries
    nothing (default 60ms).
    """
    detect: Duration | None = Field(None, examples=["100ms"])
    """With `from`: time from `to` coming up until the host notices (default 0s)."""
    address: Duration | None = Field(None, examples=["1s"])
    """With `from`: time to get an address, after detection and authentication (default 0s)."""
    auth: Duration | None = Field(None, examples=["3.5s"])
    """With `from`: time to authenticate, after detection (default 0s)."""

    @model_validator(mode="after")
    def _of_one_kind(self) -> Handover:
        one_of(self, ["link", "from_"], "a handover")
        if (self.from_ is None) != (self.to is None):
            raise described("handover has one of from and to", "both, or link")
        others = ("detect", "address", "auth") if self.link is not None else ("queue",)
        for name in others:
            if getattr(self, name) is not None:
                kind = "the link of a cellular device" if self.link is not None else "two interfaces"
                raise described(f"'{name}' has no effect on a handover of {kind}")
        return self


class Roam(Shorthand):
    """Moves a Wi-Fi station to another access point. Packets queued for it at the old one are
    lost."""

    shorthand = "link"

    link: str = Field(description="the link of the station", examples=["wifi"])
    gap: Duration = Duration("50ms")
    """Time during which the station sends and receives nothing."""


class Sequence(Model):
    """Interfaces or links that fail one after another and then come back one after another."""

    down: Names = Field(
        description="the interfaces or links that fail, in this order; ranges are expanded",
        examples=["eth[1-3]", ["client.wlan0", "client.wwan0"]],
    )
    on: list[str] | None = Field(
        None,
        description="with interface names such as `eth1` in `down`: the hosts on which these interfaces fail",
        examples=[["client", "server"]],
    )
    every: Duration = Field(examples=["2s"])
    """Time between two steps."""
    then: Literal["restore", "restore_in_reverse", "nothing"] = "nothing"
    """`restore`: they come back in the order in which they failed, `pause` after the last failure;
    `restore_in_reverse`: in reverse order; `nothing`: they stay down."""
    pause: Duration | None = Field(None, examples=["10s"])
    """Time from the last failure to the first return; by default, the same as `every`."""


class RiskGroup(Model):
    """A group of links that fail together."""

    srlg: str
    """The name of the group under `srlg` of `control`."""


class NewStrategy(Choice):
    """The name of a recovery strategy. The strategy that `control.recovery` names keeps the parameters
    given there; any other strategy has its defaults.
    """

    kind = "strategy"
    choices = STRATEGIES


_OF_HANDOVER = (
    "action handover",
    "action interface_down",
    "action interface_up",
    "action address_remove",
    "action address_add",
)
_OF_SEQUENCE = ("action interface_down", "action interface_up", "action link_down", "action link_up")

LinkOrGroup = Annotated[
    Annotated[str, Tag("<link>")] | Annotated[RiskGroup, Tag("<group>")],
    Discriminator(lambda value: "<link>" if isinstance(value, str) else "<group>"),
]


class Event(Model):
    """One action at one time. Events at the same time happen in the order of the file."""

    id: Name | None = None
    """Name in metrics and results; by default, e1, e2 .."""
    at: Duration = Field(examples=["10s"])
    """Time of the event, from the start of the run."""
    down: Annotated[Names | None, Uses("action interface_down", "action link_down")] = Field(
        None,
        description="interfaces that go down (only their host notices) or links that are cut (no host notices)",
        examples=["client.wlan0"],
    )
    up: Annotated[Names | None, Uses("action interface_up", "action link_up")] = Field(
        None, description="interfaces or links that come back", examples=["client.wlan0"]
    )
    set: Annotated[str | None, Uses("action set_link", "action set_signal")] = Field(
        None, description="the link whose settings change; the new values are fields beside it", examples=["wifi"]
    )
    rate: RatePerDirection | None = None
    """With `set`: the new rate."""
    delay: DurationPerDirection | None = None
    """With `set`: the new one-way delay."""
    jitter: DurationPerDirection | None = None
    """With `set`: the new jitter."""
    reorder: BoolPerDirection | None = None
    """With `set`: whether jitter may change the order of packets."""
    loss: LossPerDirection | None = None
    """With `set`: the new loss."""
    queue: QueuePerDirection | None = None
    """With `set`: the new queue. A limit in `bdp` is computed with the new rate and delay."""
    snr: Decibels | None = Field(None, examples=["10db"])
    """With `set` on the link of a Wi-Fi station: the new mean signal-to-noise ratio."""
    outage: Annotated[LinkOrGroup | None, Uses("action link_down", "action link_up")] = Field(
        None, description="the link or group of links that is interrupted for the time `for`", examples=["wifi"]
    )
    for_: Duration | None = Field(None, alias="for", description="with `outage`: how long it lasts", examples=["300ms"])
    by: Literal["cut", "drop_rule", "port_down"] | None = None
    """With `outage`: how the link is interrupted. `cut` (default) also drops packets in the queue
    and on the link, `drop_rule` only packets offered to it, and `port_down` takes down the ports of
    routers, switches and access points on it.
    """
    reroute: Annotated[str | None, Uses("action reroute")] = Field(
        None, description="the flow that has one of its paths moved to other links", examples=["bulk"]
    )
    path: Annotated[int, Field(ge=1)] | None = None
    """With `reroute`: the number of the path among the paths of the flow; by default, 1."""
    over: Annotated[list[str], Field(min_length=1)] | None = Field(None, examples=[["uk", "hr", "de"]])
    """With `reroute`: the nodes between the two hosts, in order."""
    recovery: Annotated[NewStrategy | None, Uses("action set_recovery")] = Field(None, examples=["ip_reactive"])
    """The strategy by which the network recovers from this event on. All paths are moved to where
    the new strategy would have sent them."""
    handover: Annotated[Handover | None, Uses(*_OF_HANDOVER)] = None
    """Moves a host from one interface to another, or a cellular device to another cell; a handover
    takes time."""
    roam: Annotated[Roam | None, Uses("action roam")] = None
    """Moves a Wi-Fi station to another access point."""
    sequence: Annotated[Sequence | None, Uses(*_OF_SEQUENCE)] = None
    """Failures one after another."""
    add_address: Annotated[str | None, Uses("action address_add")] = Field(
        None, description="the interface that gets its address back", examples=["client.wlan0"]
    )
    remove_address: Annotated[str | None, Uses("action address_remove")] = Field(
        None, description="the interface that loses its address", examples=["client.wlan0"]
    )
    backup: Annotated[str | None, Uses("action set_backup")] = Field(
        None, description="the interface whose subflows become backup", examples=["client.wwan0"]
    )
    on: bool | None = None
    """With `backup`: false makes the subflows regular again; the default is true."""
    exec: Annotated[str | None, Uses("action exec")] = Field(
        None, description="the host on which a program runs", examples=["server"]
    )
    argv: Annotated[list[str], Field(min_length=1)] | None = Field(None, examples=[["sh", "-c", "true"]])
    """With `exec`: the program and its arguments."""

    @property
    def action(self) -> str:
        """The name of the action."""
        return next(name for name in ACTIONS if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _one_action(self) -> Event:
        action = one_of(self, list(ACTIONS), "an event")
        required, optional = ACTIONS[action]
        for name, field in type(self).model_fields.items():
            written = field.alias or name
            known = name in ("id", "at", action, *required, *optional)
            if getattr(self, name) is not None and not known:
                raise described(
                    f"'{written}' does not belong to {action}", ", ".join((*required, *optional)) or "nothing else"
                )
            if getattr(self, name) is None and name in required:
                raise described(f"{action} needs '{written}'")
        if action == "set" and not self.changes(SET_FIELDS):
            raise described("set changes nothing", f"at least one of {', '.join(SET_FIELDS)}")
        return self

    def changes(self, fields: tuple[str, ...]) -> bool:
        """Returns whether any of these fields is given."""
        return any(getattr(self, name) is not None for name in fields)


#: The fields of `set` that belong to the directions of a link, and all of them.
LINK_CHANGES = ("rate", "delay", "jitter", "reorder", "loss", "queue")
SET_FIELDS = (*LINK_CHANGES, "snr")

# The required and the optional fields of each action.
ACTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "down": ((), ()),
    "up": ((), ()),
    "set": ((), SET_FIELDS),
    "outage": (("for_",), ("by",)),
    "reroute": (("over",), ("path",)),
    "recovery": ((), ()),
    "handover": ((), ()),
    "roam": ((), ()),
    "sequence": ((), ()),
    "add_address": ((), ()),
    "remove_address": ((), ()),
    "backup": ((), ("on",)),
    "exec": (("argv",), ()),
}
