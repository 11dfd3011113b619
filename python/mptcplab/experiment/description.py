"""The description of an experiment: the root of the human form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ModelWrapValidatorHandler, PrivateAttr, ValidationError, model_validator

from mptcplab import document
from mptcplab.document import Node
from mptcplab.experiment import overrides, profiles
from mptcplab.experiment.base import Model, Name, plain
from mptcplab.experiment.events import Event
from mptcplab.experiment.family import Combination, chosen, combinations, member_name
from mptcplab.experiment.family_metrics import FamilyMetric, family_metrics
from mptcplab.experiment.flows import Flow
from mptcplab.experiment.generators import Topology, expanded
from mptcplab.experiment.hosts import Host, NetworkNode
from mptcplab.experiment.links import Link, Medium
from mptcplab.experiment.measure import Measure, Vary
from mptcplab.experiment.middleboxes import Middlebox
from mptcplab.experiment.references import substituted
from mptcplab.experiment.validation import first_problem, validated
from mptcplab.units import Duration

# These describe the family, not a member: references in them stay as they are.
_OF_THE_FAMILY = ("parameters", "exclude", "reference", "family")


class Published(Model):
    """A number or statement that a paper published about this experiment."""

    metric: str
    """What is published."""
    value: float | str | list[float] | None = None
    """The number, the numbers of several like things, or the statement in words."""
    unit: str | None = None
    """Its unit."""
    op: str | None = None
    """How the paper states it: =, ~, <, >."""
    source: str | None = None
    """Where: the figure, table or section."""
    quote: str | None = None
    """The paper's words."""
    note: str | None = None
    """What to know about it."""


@dataclass(frozen=True)
class MemberOf:
    """One member of a family before it is validated: the family, its parameters' values, and changes to this member."""

    template: Node
    combination: Combination
    changes: tuple[overrides.Change, ...] = ()

    @classmethod
    def first(cls, data: object) -> MemberOf:
        """The first member of the family that `data` describes: a tree, or Python values."""
        template = data if isinstance(data, Node) else document.given(plain(data))
        return cls(template, combinations(template)[0])

    def tree(self) -> Node:
        """The filled-in description: references replaced, changes made, topology generated, profiles applied."""
        of_the_family = {key: node for key, node in self.template.mapping.items() if key in _OF_THE_FAMILY}
        of_the_member = {key: node for key, node in self.template.mapping.items() if key not in _OF_THE_FAMILY}
        tree = substituted(Node(of_the_member, self.template.source), self.combination.bindings)
        tree = Node({**tree.mapping, **of_the_family}, tree.source)
        if isinstance(name := tree.child("name"), Node) and isinstance(name.value, str):
            tree = tree.replaced(("name",), Node(member_name(self.template, self.combination), name.source))
        for change in self.changes:
            if change.is_of_topology:
                tree = change.on_member(tree, tree)
        tree = _generated(tree)
        for change in self.changes:
            if not change.is_of_topology:
                tree = change.on_member(tree, tree)
        return profiles.applied(tree)


def _generated(tree: Node) -> Node:
    section = tree.child("topology")
    return expanded(tree, validated(Topology, section, ("topology",)), section) if section else tree


class Experiment(Model):
    """An experiment: hosts, links, flows, events and what to measure; with `parameters`, a family of them.

    The fields hold the filled-in description (profiles and generated topology included) of the first member. The
    description itself, with its references, is what is compared and written to YAML. Change it with `override`, which
    gives a new experiment.
    """

    name: str
    """Its name, as a path: `alenazi2019/fig9/n3`."""
    title: str = ""
    """One line for people."""
    description: str = ""
    """What the experiment shows, and how."""
    notes: str | list[str] = ""
    """Remarks; they have no effect."""
    profile: str | list[str] | None = Field(
        None, description="named defaults; of a list the later ones win", examples=["alenazi2019"]
    )
    parameters: dict[str, Any] = Field(
        {}, description="values that make a family: lists, or named values", examples=[{"n": [1, 2, 3]}]
    )
    exclude: list[dict[str, Any]] = Field([], description="combinations left out", examples=[[{"n": 3, "cc": "bbr"}]])
    reference: dict[str, Any] | None = Field(
        None, description="the member that ratios are taken to", examples=[{"transport": "tcp"}]
    )
    family: list[FamilyMetric] = []
    """Metrics over the family, worked out after its runs."""
    topology: Topology | None = None
    """Hosts, nodes and links from a generator."""
    hosts: dict[Name, Host] = {}
    """The ends of flows, by name."""
    nodes: dict[Name, NetworkNode] = {}
    """Routers, switches and access points, by name."""
    media: dict[Name, Medium] = {}
    """Channels that links share, by name."""
    links: dict[Name, Link] = {}
    """Links, by name; their ends declare the interfaces."""
    middleboxes: list[Middlebox] = []
    """What stands at the ends of links; what leaves an interface passes those before it in this order."""
    reachability: Literal["declared", "all_pairs"] = "declared"
    """`declared`: a route exists only where the description has a path. `all_pairs`: any interface of a host is reached
    over each of its links; eight parallel links then make 64 pairs and not 8."""
    flows: dict[Name, Flow] = {}
    """What is sent, by name."""
    events: list[Event] = []
    """What happens while it is sent."""
    measure: Measure = Measure()
    """What is measured."""
    vary: Vary | Literal["none"] = Vary()
    """What differs between seeds; `none` makes repetitions copies."""
    expect: list[str] = Field([], description="conditions on metrics", examples=[["flows.bulk.goodput_bps > 6.8e6"]])
    duration: Duration = Duration("60s")
    """When the run ends, if its flows are not done before."""
    repetitions: Annotated[int, Field(ge=1)] | None = None
    """How often the paper repeated it."""
    published: list[Published] = []
    """What a paper found; kept as given."""
    contradictions: list[str] = Field([], description="known contradictions of the paper", examples=[["C01"]])

    _template: Node = PrivateAttr()
    _tree: Node = PrivateAttr()
    _assignment: dict[str, object] = PrivateAttr()

    @model_validator(mode="wrap")
    @classmethod
    def _from_template(cls, data: Any, handler: ModelWrapValidatorHandler[Experiment]) -> Experiment:
        if isinstance(data, Experiment):
            return data
        wanted = data if isinstance(data, MemberOf) else MemberOf.first(data)
        tree = wanted.tree()
        try:
            experiment = handler(tree.plain())
        except ValidationError as error:
            raise first_problem(error, tree) from None
        family_metrics(wanted.template)
        experiment._template, experiment._tree = wanted.template, tree
        experiment._assignment = wanted.combination.values
        return experiment

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self._template.plain() == other._template.plain()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def from_yaml(cls, source: str | Path) -> Experiment:
        """From the text of a description, or from the file at a Path. SpecError with the place of what is wrong."""
        tree = document.read(source) if isinstance(source, Path) else document.parse(source)
        return cls.model_validate(tree)

    def to_yaml(self) -> str:
        """The description as YAML: what was given, with its references."""
        return document.write(self._template.plain())

    def override(self, changes: Mapping[str, object]) -> Experiment:
        """A new experiment with other values at the given description paths: `{"links.wifi.delay": "20ms"}`."""
        template = self._template
        for key, value in changes.items():
            change = overrides.Change(key, document.given(plain(value)))
            template = (
                change.on_family(template) if change.is_parameter(template) else change.on_member(template, self._tree)
            )
        return type(self).model_validate(template)

    def member(self, assignment: Mapping[str, object]) -> Experiment:
        """The member of the family with these parameters; those not given take their first value."""
        return type(self).model_validate(MemberOf(self._template, chosen(self._template, assignment)))

    @property
    def tree(self) -> Node:
        """The filled-in description with the place or profile each value came from."""
        return self._tree

    @property
    def assignment(self) -> dict[str, object]:
        """The parameters' values of the member that the fields hold."""
        return self._assignment
