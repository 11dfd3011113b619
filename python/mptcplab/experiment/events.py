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
    gap: Duration = Duration(0)
    """From the one going down to the other coming up."""
    detect: Duration = Duration(0)
    """From coming up until the host notices."""
    address: Duration = Duration(0)
    """Time to get an address."""
    auth: Duration = Duration(0)
    """Time to authenticate."""


class Sequence(Model):
    """Interfaces or links fail one after the other, and come back in the same order."""

    down: Names = Field(
        description="what fails, in this order; ranges expand", examples=["eth[1-3]", ["client.wlan0", "client.wwan0"]]
    )
    on: list[str] | None = Field(
        None, description="hosts whose interfaces of these names fail together", examples=[["client", "server"]]
    )
    every: Duration
    """Time between two steps."""
    then: Literal["restore", "nothing"] = "nothing"
    """`restore`: the first comes back `every` after the last failed, the others follow."""


class Event(Model):
    """One thing that happens at one time. Events of one instant happen in the order of the file."""

    id: Name | None = None
    """Its name in metrics and results; default e1, e2 .."""
    at: Duration
    """When."""
    down: Names | None = Field(
        None, description="interfaces (one side only) or links (cut, seen by nobody)", examples=["client.wlan0"]
    )
    up: Names | None = Field(None, description="interfaces or links that come back")
    set: str | None = Field(
        None, description="the link whose settings change; the new values stand beside it", examples=["wifi"]
    )
    rate: RatePerDirection | None = None
    """set: new rate."""
    delay: DurationPerDirection | None = None
    """set: new one-way delay."""
    jitter: DurationPerDirection | None = None
    """set: new jitter."""
    reorder: BoolPerDirection | None = None
    """set: whether jitter may reorder."""
    loss: LossPerDirection | None = None
    """set: new loss."""
    queue: QueuePerDirection | None = None
    """set: new queue."""
    outage: str | None = Field(None, description="the link that is interrupted `for` a time", examples=["wifi"])
    for_: Duration | None = Field(None, alias="for", description="outage: how long")
    by: Literal["cut", "drop_rule", "port_down"] | None = None
    """outage: how the link is interrupted; default cut."""
    handover: Handover | None = None
    """Change from one interface to another."""
    sequence: Sequence | None = None
    """Failures one after the other."""
    add_address: str | None = Field(None, description="the interface that gets its address back")
    remove_address: str | None = Field(None, description="the interface that loses its address")
    backup: str | None = Field(
        None, description="the interface whose subflows become backup (or, `on: false`, regular)"
    )
    on: bool | None = None
    """backup: default true."""
    exec: str | None = Field(None, description="the host on which a program runs")
    argv: Annotated[list[str], Field(min_length=1)] | None = None
    """exec: its argument vector."""

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
