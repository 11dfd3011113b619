"""Events: changes of interfaces, links and addresses during a run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from mptcplab.experiment.base import (
    ONE_OR_MORE,
    BoolPerDirection,
    DurationPerDirection,
    Model,
    Name,
    RatePerDirection,
    described,
    one_of,
)
from mptcplab.experiment.links import LossPerDirection, QueuePerDirection
from mptcplab.experiment.uses import Uses
from mptcplab.units import Duration

Names = Annotated[list[str], ONE_OR_MORE, Field(min_length=1)]


class Handover(Model):
    """A handover, break before make: one interface goes down, then another comes up, then it gets its
    address."""

    from_: str = Field(alias="from", description="the interface that goes down", examples=["client.wlan0"])
    to: str = Field(description="the interface that comes up", examples=["client.wwan0"])
    gap: Duration = Field(Duration(0), examples=["200ms"])
    """Time from `from` going down to `to` coming up."""
    detect: Duration = Field(Duration(0), examples=["100ms"])
    """Time from coming up until the host notices."""
    address: Duration = Field(Duration(0), examples=["1s"])
    """Time to get an address, after detection and authentication."""
    auth: Duration = Field(Duration(0), examples=["3.5s"])
    """Time to authenticate, after detection."""


class Sequence(Model):
    """Interfaces or links that fail one after another, and come back one after another."""

    down: Names = Field(
        description="the interfaces or links that fail, in this order; ranges expand",
        examples=["eth[1-3]", ["client.wlan0", "client.wwan0"]],
    )
    on: list[str] | None = Field(
        None, description="hosts whose interfaces of these names fail together", examples=[["client", "server"]]
    )
    every: Duration = Field(examples=["2s"])
    """Time between two steps."""
    then: Literal["restore", "restore_in_reverse", "nothing"] = "nothing"
    """`restore`: they come back in the order in which they failed, `pause` after the last failure;
    `restore_in_reverse`: in reverse order; `nothing`: they stay down."""
    pause: Duration | None = Field(None, examples=["10s"])
    """Time from the last failure to the first return; default `every`."""


class RiskGroup(Model):
    """A group of links that fail together."""

    srlg: str
    """Its name under `control`."""


_OF_HANDOVER = ("action interface_down", "action interface_up", "action address_remove", "action address_add")
_OF_SEQUENCE = ("action interface_down", "action interface_up", "action link_down", "action link_up")

LinkOrGroup = Annotated[
    Annotated[str, Tag("<link>")] | Annotated[RiskGroup, Tag("<group>")],
    Discriminator(lambda value: "<link>" if isinstance(value, str) else "<group>"),
]


class Event(Model):
    """One action at one time. Events of one instant happen in the order of the file."""

    id: Name | None = None
    """Name in metrics and results; default e1, e2 .."""
    at: Duration = Field(examples=["10s"])
    """Time of the event, from the start of the run."""
    down: Annotated[Names | None, Uses("action interface_down", "action link_down")] = Field(
        None,
        description="interfaces (only their host notices) or links (a cut, which no host notices)",
        examples=["client.wlan0"],
    )
    up: Annotated[Names | None, Uses("action interface_up", "action link_up")] = Field(
        None, description="interfaces or links that come back", examples=["client.wlan0"]
    )
    set: Annotated[str | None, Uses("action set_link")] = Field(
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
    outage: Annotated[LinkOrGroup | None, Uses("action link_down", "action link_up")] = Field(
        None, description="the link, or the group of links, that is interrupted `for` a time", examples=["wifi"]
    )
    for_: Duration | None = Field(None, alias="for", description="with `outage`: how long", examples=["300ms"])
    by: Literal["cut", "drop_rule", "port_down"] | None = None
    """With `outage`: how the link is interrupted. `cut` (default) also drops packets in the queue and
    on the link, `drop_rule` only packets offered to it, and `port_down` takes down the ports of
    routers, switches and access points on it."""
    reroute: Annotated[str | None, Uses("action reroute")] = Field(
        None, description="the flow of which a path takes another way", examples=["bulk"]
    )
    path: Annotated[int, Field(ge=1)] | None = None
    """With `reroute`: the number of the path among those of the flow; default 1."""
    over: Annotated[list[str], Field(min_length=1)] | None = Field(None, examples=[["uk", "hr", "de"]])
    """With `reroute`: the nodes between the two hosts, in order."""
    handover: Annotated[Handover | None, Uses(*_OF_HANDOVER)] = None
    """Moves from one interface to another, with the time that takes."""
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
    """With `backup`: false makes the subflows regular again; default true."""
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
        if action == "set" and not any(getattr(self, name) is not None for name in LINK_CHANGES):
            raise described("set changes nothing", f"at least one of {', '.join(LINK_CHANGES)}")
        return self


LINK_CHANGES = ("rate", "delay", "jitter", "reorder", "loss", "queue")

# The required and the optional fields of each action.
ACTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "down": ((), ()),
    "up": ((), ()),
    "set": ((), LINK_CHANGES),
    "outage": (("for_",), ("by",)),
    "reroute": (("over",), ("path",)),
    "handover": ((), ()),
    "sequence": ((), ()),
    "add_address": ((), ()),
    "remove_address": ((), ()),
    "backup": ((), ("on",)),
    "exec": (("argv",), ()),
}
