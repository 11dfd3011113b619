"""Events: what happens to interfaces, links and addresses while the flows run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

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
from mptcplab.units import Duration

Names = Annotated[list[str], ONE_OR_MORE, Field(min_length=1)]


class Handover(Model):
    """Break before make: one interface goes down, another comes up later and gets its address later still."""

    from_: str = Field(alias="from", description="the interface that goes down", examples=["client.wlan0"])
    to: str = Field(description="the interface that comes up", examples=["client.wwan0"])
    gap: Duration = Field(Duration(0), examples=["200ms"])
    """From the one going down to the other coming up."""
    detect: Duration = Field(Duration(0), examples=["100ms"])
    """From coming up until the host notices."""
    address: Duration = Field(Duration(0), examples=["1s"])
    """From noticing, the time to get an address."""
    auth: Duration = Field(Duration(0), examples=["3.5s"])
    """And the time to authenticate."""


class Sequence(Model):
    """Interfaces or links fail one after the other, and come back one after the other."""

    down: Names = Field(
        description="what fails, in this order; ranges expand", examples=["eth[1-3]", ["client.wlan0", "client.wwan0"]]
    )
    on: list[str] | None = Field(
        None, description="hosts whose interfaces of these names fail together", examples=[["client", "server"]]
    )
    every: Duration = Field(examples=["2s"])
    """Time between two steps."""
    then: Literal["restore", "restore_in_reverse", "nothing"] = "nothing"
    """`restore`: one comes back `every` after the last failed, the others follow in the same order; or in reverse."""
    pause: Duration | None = Field(None, examples=["10s"])
    """Time from the last failure to the first return; default `every`."""


class Event(Model):
    """One thing that happens at one time. Events of one instant happen in the order of the file."""

    id: Name | None = None
    """Its name in metrics and results; default e1, e2 .."""
    at: Duration = Field(examples=["10s"])
    """When, from the start of the run."""
    down: Names | None = Field(
        None, description="interfaces (one side only) or links (cut, seen by nobody)", examples=["client.wlan0"]
    )
    up: Names | None = Field(None, description="interfaces or links that come back", examples=["client.wlan0"])
    set: str | None = Field(
        None, description="the link whose settings change; the new values stand beside it", examples=["wifi"]
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
    """With `set`: the new queue. In `bdp` it counts with the new rate and delay."""
    outage: str | None = Field(None, description="the link that is interrupted `for` a time", examples=["wifi"])
    for_: Duration | None = Field(None, alias="for", description="with `outage`: how long", examples=["300ms"])
    by: Literal["cut", "drop_rule", "port_down"] | None = None
    """With `outage`: how the link is interrupted. `cut` (default) also loses what is queued or on the wire, `drop_rule`
    only what is offered, `port_down` takes down the ports of routers, switches and access points on it."""
    handover: Handover | None = None
    """From one interface to another, with the time that takes."""
    sequence: Sequence | None = None
    """Failures one after the other."""
    add_address: str | None = Field(
        None, description="the interface that gets its address back", examples=["client.wlan0"]
    )
    remove_address: str | None = Field(
        None, description="the interface that loses its address", examples=["client.wlan0"]
    )
    backup: str | None = Field(
        None, description="the interface whose subflows become backup", examples=["client.wwan0"]
    )
    on: bool | None = None
    """With `backup`: false makes the subflows regular again; default true."""
    exec: str | None = Field(None, description="the host on which a program runs", examples=["server"])
    argv: Annotated[list[str], Field(min_length=1)] | None = Field(None, examples=[["sh", "-c", "true"]])
    """With `exec`: the program and its arguments."""

    @property
    def action(self) -> str:
        """Which action it is."""
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

# Each action with the fields it needs and those it may have.
ACTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "down": ((), ()),
    "up": ((), ()),
    "set": ((), LINK_CHANGES),
    "outage": (("for_",), ("by",)),
    "handover": ((), ()),
    "sequence": ((), ()),
    "add_address": ((), ()),
    "remove_address": ((), ()),
    "backup": ((), ("on",)),
    "exec": (("argv",), ()),
}
