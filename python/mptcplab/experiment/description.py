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
from mptcplab.experiment.control import Control
from mptcplab.experiment.events import Event
from mptcplab.experiment.failures import Errors
from mptcplab.experiment.family import Combination, chosen, combinations, member_name
from mptcplab.experiment.family_metrics import FamilyMetric, family_metrics
from mptcplab.experiment.flows import Flow
from mptcplab.experiment.generators import Topology, expanded
from mptcplab.experiment.hosts import Host, NetworkNode
from mptcplab.experiment.links import Link, Medium
from mptcplab.experiment.machines import Machine
from mptcplab.experiment.measure import Measure, Vary
from mptcplab.experiment.middleboxes import Middlebox
from mptcplab.experiment.references import substituted
from mptcplab.experiment.uses import Uses
from mptcplab.experiment.validation import first_problem, validated
from mptcplab.units import Duration

# These fields describe the family, not a member, so references in them are not replaced.
_OF_THE_FAMILY = ("parameters", "exclude", "reference", "family")


class Published(Model):
    """A number or statement that a paper published about the experiment."""

    metric: str
    """The published quantity."""
    value: float | str | list[float] | None = None
    """The number, a list of numbers for several similar quantities, or the statement in words."""
    unit: str | None = None
    """The unit of the value."""
    op: str | None = None
    """The relation that the paper states: =, ~, <, >."""
    source: str | None = None
    """The figure, table or section."""
    quote: str | None = None
    """The paper's own words."""
    note: str | None = None
    """A remark on the value."""


@dataclass(frozen=True)
class MemberOf:
    """A member of a family before validation: the family, the values of its parameters, and changes
    to this member.
    """

    template: Node
    combination: Combination
    changes: tuple[overrides.Change, ...] = ()

    @classmethod
    def first(cls, data: object) -> MemberOf:
        """Returns the first member of the family that `data`, a tree or Python
        values, describes.
        """
        template = data if isinstance(data, Node) else document.given(plain(data))
        return cls(template, combinations(template)[0])

    def alone(self) -> Node:
        """Returns the description of this member without its family: with references replaced."""
        of_the_member = {key: node for key, node in self.template.mapping.items() if key not in _OF_THE_FAMILY}
        tree = substituted(Node(of_the_member, self.template.source), self.combination.bindings)
        if isinstance(name := tree.child("name"), Node) and isinstance(name.value, str):
            tree = tree.replaced(("name",), Node(member_name(self.template, self.combination), name.source))
        return tree

    def tree(self) -> Node:
        """Returns the filled-in description: with references replaced, changes made, the topology
        generated and profiles applied.
        """
        of_the_family = {key: node for key, node in self.template.mapping.items() if key in _OF_THE_FAMILY}
        tree = self.alone()
        tree = Node({**tree.mapping, **of_the_family}, tree.source)
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
    """An experiment: hosts, links, flows, events and measurements; with `parameters`, a family of
    experiments.

    The fields hold the filled-in description of the first member, profiles and generated topology
    included. Comparison and `to_yaml` use the description itself, with its references. To change an
    experiment, call `override`, which returns a new one.
    """

    name: str
    """Name of the experiment, as a path: `alenazi2019/fig9/n3`."""
    title: str = ""
    """One line that says what the experiment is about."""
    description: str = ""
    """What the experiment shows, and how."""
    notes: str | list[str] = ""
    """Remarks, which have no effect."""
    profile: str | list[str] | None = Field(
        None, description="named sets of defaults; in a list, later ones take precedence", examples=["alenazi2019"]
    )
    parameters: dict[str, Any] = Field(
        {},
        description="the parameters of a family and their values: lists, or named values",
        examples=[{"n": [1, 2, 3]}],
    )
    exclude: list[dict[str, Any]] = Field(
        [], description="combinations of values to leave out", examples=[[{"n": 3, "cc": "bbr"}]]
    )
    reference: dict[str, Any] | None = Field(
        None,
        description="the member with which `ratio` and `difference` compare the others",
        examples=[{"transport": "tcp"}],
    )
    family: list[FamilyMetric] = []
    """Metrics over the members of the family, computed after its runs."""
    topology: Topology | None = None
    """Hosts, nodes and links from a generator."""
    machines: dict[Name, Machine] = {}
    """Machines of hosts, other than the one that runs the experiment, by name."""
    hosts: dict[Name, Host] = {}
    """The hosts at which flows begin and end, by name."""
    nodes: dict[Name, NetworkNode] = {}
    """Routers, switches, access points and OpenFlow switches, by name."""
    media: Annotated[dict[Name, Medium], Uses("medium")] = {}
    """Media (channels that links share), by name."""
    links: dict[Name, Link] = {}
    """Links, by name. Their ends declare the interfaces."""
    middleboxes: list[Middlebox] = []
    """Elements at interfaces that modify TCP segments. Packets that leave an interface pass its
    middleboxes in this order, and packets that arrive pass them in the opposite order.
    """
    control: Control | None = None
    """How the nodes of kind `openflow` are controlled. The default is the same as `control: {}`."""
    reachability: Literal["declared", "all_pairs"] = "declared"
    """`declared`: a route exists only where the description has a path. `all_pairs`: each interface
    of a host can be reached over each of its links, so eight parallel links make 64 address pairs
    instead of 8.
    """
    flows: dict[Name, Flow] = {}
    """Flows between hosts, by name."""
    errors: Errors | None = None
    """A model of failures, which generates further events."""
    events: list[Event] = []
    """Changes during the run."""
    measure: Measure = Measure.default()
    """What is recorded during the run."""
    vary: Vary | Literal["none"] = Vary.default()
    """What differs between seeds. With `none`, repetitions are identical unless something else is
    random.
    """
    expect: list[str] = Field(
        [], description="conditions on metrics that a run must satisfy", examples=[["flows.bulk.goodput_bps > 6.8e6"]]
    )
    duration: Duration = Duration("60s")
    """Length of the run. It ends earlier once all finite flows have ended, provided that all other
    flows have begun by then.
    """
    repetitions: Annotated[int, Field(ge=1)] | None = None
    """Number of repetitions in the paper."""
    published: list[Published] = []
    """Findings of a paper, recorded as published."""
    contradictions: list[str] = Field([], description="known contradictions in the paper", examples=[["C01"]])

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

    def _repr_html_(self) -> str:
        """Returns what a notebook shows. Raises SpecError if the description cannot be resolved."""
        from mptcplab.card import as_html
        from mptcplab.experiment.resolve import resolve  # resolving needs this module

        return as_html(resolve(self).data)

    @classmethod
    def from_yaml(cls, source: str | Path) -> Experiment:
        """Reads the text of a description, or the file at a `Path`. Raises SpecError with the place
        of the first error.
        """
        tree = document.read(source) if isinstance(source, Path) else document.parse(source)
        return cls.model_validate(tree)

    def to_yaml(self) -> str:
        """Returns the description as YAML, as given, with its references."""
        return document.write(self._template.plain())

    def override(self, changes: Mapping[str, object]) -> Experiment:
        """Returns a new experiment with other values at these description paths:
        `{"links.wifi.delay": "20ms"}`.
        """
        template = self._template
        for key, value in changes.items():
            change = overrides.Change(key, document.given(plain(value)))
            template = (
                change.on_family(template) if change.is_parameter(template) else change.on_member(template, self._tree)
            )
        return type(self).model_validate(template)

    def member(self, assignment: Mapping[str, object]) -> Experiment:
        """Returns the member of the family with these parameters. Others take their first value."""
        return type(self).model_validate(MemberOf(self._template, chosen(self._template, assignment)))

    @property
    def tree(self) -> Node:
        """The filled-in description, with the place or profile of each value."""
        return self._tree

    @property
    def assignment(self) -> dict[str, object]:
        """The parameter values of the member that the fields hold."""
        return self._assignment
