"""The control of OpenFlow switches: costs of links, policies of flows, recovery, and when entries
are installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from mptcplab.experiment.base import Choice, Model, Name, described
from mptcplab.experiment.uses import Uses, UsesByValue
from mptcplab.paths import POLICIES
from mptcplab.recovery import STRATEGIES
from mptcplab.units import Duration


class Policy(Choice):
    """The policy that chooses a flow's routes through OpenFlow switches: its name, or `NAME: {..}`
    with settings."""

    kind = "policy"
    choices = POLICIES
    takes_classes = False

    at_least: Annotated[int, Field(ge=1)] | None = None
    """Number of routes that suffice if the network does not have one for every path of the flow; by
    default, all are needed.
    """
    weights: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)] | None = None
    """With `weighted`: the weights of the cheapest routes, in their order; by default, the inverse
    of their costs.
    """

    @model_validator(mode="after")
    def _settings_have_effect(self) -> Policy:
        if self.weights is not None and self.name != "weighted":
            raise described(f"'weights' has no effect on policy {self.name}", "policy weighted", field="weights")
        return self


class Recovery(Choice):
    """What happens below the transport when a link fails: the name of a strategy,
    `./FILE.py:CLASS`, or one of them with its settings.
    """

    kind = "strategy"
    choices = STRATEGIES

    detect: Annotated[
        Annotated[Literal["port"], Tag("<word>")] | Annotated[Duration, Tag("<time>")],
        Discriminator(lambda value: "<word>" if value == "port" else "<time>"),
    ] = "port"
    """How a failure is detected: with `port`, by the port status of a switch; with a duration, after
    that time."""
    parameters: dict[str, Any] = {}
    """Parameters of the strategy, by name."""

    @classmethod
    def settings(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        parameters = {key: value for key, value in given.items() if key != "detect"}
        return {"parameters": parameters} | ({"detect": given["detect"]} if "detect" in given else {})


class Control(Model):
    """Control of the nodes of kind `openflow`."""

    cost: Annotated[
        Annotated[Literal["delay", "hops"], Tag("<word>")]
        | Annotated[dict[Name, Annotated[int, Field(ge=1)]], Tag("<weights>")],
        Discriminator(lambda value: "<word>" if isinstance(value, str) else "<weights>"),
    ] = "delay"
    """The cost of a link, the same in both directions: its delay, 1 for every link, or the given
    weight (1 for links without one)."""
    policy: Policy = Policy.default(name="shortest")
    """The policy for flows that do not name one."""
    srlg: dict[Name, Annotated[list[str], Field(min_length=1)]] = Field(
        {}, description="groups of links that fail together, by name", examples=[{"tunnel": ["uk-de", "uk-nl"]}]
    )
    recovery: Recovery = Recovery.default(name="none")
    """What happens below the transport when a link fails."""
    install: Annotated[Literal["proactive", "reactive"], UsesByValue("install")] = "proactive"
    """When switches get the entries of a flow: before the run, or when its first packet arrives."""
    command: Annotated[Annotated[list[str], Field(min_length=1)] | None, Uses("control command")] = Field(
        None, description="your own controller: its program and arguments", examples=[["./controller.py"]]
    )
    discover: Annotated[bool, Uses("control discover")] = False
    """Whether the controller discovers the links by LLDP, and refuses a network that differs from
    the description.
    """
