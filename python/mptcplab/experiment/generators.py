"""`topology` in a description: the settings of the generators, and the nodes and links that they
make.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from mptcplab import topology
from mptcplab.document import Node
from mptcplab.experiment import graph_files
from mptcplab.experiment.base import Model, Name, described, one_of
from mptcplab.experiment.geant import geant5
from mptcplab.experiment.hosts import HeaderHash, NextHop, check_hash
from mptcplab.experiment.links import RIVALS, LinkSettings
from mptcplab.experiment.validation import at


class FatTree(LinkSettings):
    """A fat tree of hosts h1 .. and routers edgeP-I, aggP-I and core1 .., with links named by their
    ends."""

    k: Annotated[int, Field(ge=2, le=32, multiple_of=2)]
    """Number of ports per router; makes k^3/4 hosts."""
    homes: Literal[1, 2] = 1
    """Interfaces per host. With 2, eth1 of a host is connected to the next edge router of its pod,
    so each edge router has twice as many links to hosts. The number of hosts does not change.
    """
    next_hop: NextHop | None = None
    """How routers choose one of several equal next hops. By default, packets follow the path of
    their flow.
    """
    hash: HeaderHash | None = None
    """With `next_hop: ecmp`, the hashed fields: `l4` addresses and ports (the default), `l3`
    addresses only.
    """

    @model_validator(mode="after")
    def _settings_fit(self) -> FatTree:
        if self.homes == 2 and self.k == 2:
            raise described("with k 2 a pod has one edge router", "k of 4 or more with homes: 2", field="homes")
        check_hash(self.next_hop, self.hash)
        return self


class ParallelLinks(LinkSettings):
    """Two hosts joined by link1 .. linkN, each between the interfaces eth1 .. ethN."""

    n: Annotated[int, Field(ge=1, le=200)]
    """Number of links."""
    between: list[Name] = Field(["client", "server"], min_length=2, max_length=2, description="the two hosts")


class Dumbbell(Model):
    """Hosts left1 .. and right1 .. on routers west and east, joined by the link `bottleneck`."""

    left: Annotated[int, Field(ge=1, le=200)]
    """Number of hosts on the left."""
    right: Annotated[int, Field(ge=1, le=200)]
    """Number of hosts on the right."""
    bottleneck: LinkSettings
    """The link in the middle."""
    access: LinkSettings = LinkSettings.default()
    """The links that connect the hosts to the routers. Each has the name of its host."""


class Star(LinkSettings):
    """Hosts h1 .. hN at the switch `hub`, joined by link1 .. linkN."""

    n: Annotated[int, Field(ge=2, le=250)]
    """Number of hosts."""


class FullMesh(LinkSettings):
    """Hosts h1 .. hN, each pair joined by a link hA-hB; ethB of host A leads to host B."""

    n: Annotated[int, Field(ge=2, le=50)]
    """Number of hosts."""


class Attachment(LinkSettings):
    """Nodes with hosts, whose links have these settings where nothing else gives them."""

    kind: Literal["router", "switch", "openflow"] = "openflow"
    """Kind of the nodes."""
    attach: Annotated[int, Field(ge=1, le=8)] = 1
    """Number of interfaces that connect each host to its node: eth0, eth1 .."""
    access: LinkSettings = LinkSettings.default()
    """The links HOST-eth0 .. of the hosts."""


class Geant5(Attachment):
    """The switches uk, de, nl, hr and x5 of GEANT in a full mesh, with links such as uk-de, and
    hosts h-uk ..
    """

    scale: Annotated[int, Field(ge=1, le=1000)] = 1
    """Divides the rates and multiplies the delays of the links between switches."""


class GraphFile(Attachment):
    """Nodes and links of a GML or GraphML file, as in the Internet Topology Zoo. `LinkSpeedRaw` is
    the rate of a link; the coordinates of its ends give its delay.
    """

    file: str = Field(examples=["./Geant2012.gml"])
    """The file, relative to the description."""
    hosts: Literal["all"] | list[str] = "all"
    """The nodes to which a host is attached. The host is named h-NODE."""


class Topology(Model):
    """Generates hosts, nodes and links with exactly one of these generators. The description may
    add further hosts, nodes and links.
    """

    fattree: FatTree | None = None
    """A k-ary fat tree."""
    parallel_links: ParallelLinks | None = None
    """Two hosts joined by several links."""
    dumbbell: Dumbbell | None = None
    """Two groups of hosts and a bottleneck."""
    star: Star | None = None
    """Several hosts at one switch."""
    full_mesh: FullMesh | None = None
    """A link between each pair of hosts."""
    geant5: Geant5 | None = None
    """Five switches of the GEANT network, each with a host."""
    graph: GraphFile | None = None
    """The nodes and links of a file, with hosts."""

    @model_validator(mode="after")
    def _one_kind(self) -> Topology:
        one_of(self, list(type(self).model_fields), "topology")
        return self

    def blueprint(self, folder: Path) -> topology.Blueprint:
        """Returns the hosts, nodes and links that the generator makes. Files are relative to
        `folder`.
        """
        if self.fattree:
            return topology.fattree(self.fattree.k, self.fattree.homes)
        if self.parallel_links:
            return topology.parallel_links(self.parallel_links.n, self.parallel_links.between)
        if self.dumbbell:
            return topology.dumbbell(self.dumbbell.left, self.dumbbell.right)
        if self.star:
            return topology.star(self.star.n)
        if self.full_mesh:
            return topology.full_mesh(self.full_mesh.n)
        if self.geant5:
            return geant5(self.geant5.kind, self.geant5.attach, self.geant5.scale)
        if self.graph:
            hosts = None if self.graph.hosts == "all" else self.graph.hosts
            return graph_files.graph(folder / self.graph.file, self.graph.kind, hosts, self.graph.attach)
        raise described("topology is empty")


def _fields_of(annotation: Any) -> list[str]:
    """Returns the fields of the model in an annotation `Model | None`."""
    return [
        name
        for one in get_args(annotation)
        if isinstance(one, type) and issubclass(one, Model)
        for name in one.model_fields
    ]


_NODE_FIELDS = ("next_hop", "hash")
_OWN_FIELDS = {
    *(name for kind in Topology.model_fields.values() for name in _fields_of(kind.annotation)),
} - set(LinkSettings.model_fields)


def expanded(tree: Node, settings: Topology, section: Node) -> Node:
    """Returns the tree with the hosts, nodes and links of the generator. Fields that the
    description gives for one of them by its name come first.
    """
    generator = next(iter(section.mapping.values()))
    folder = Path(section.source.file).parent if section.source.file else Path()
    with at(tree, "topology", *section.mapping):
        plan = settings.blueprint(folder)
    empty = Node({}, section.source)
    made: dict[str, dict[str, Node]] = {
        "hosts": dict.fromkeys(plan.hosts, empty),
        "nodes": {name: _node(generator, kind) for name, kind in plan.nodes.items()},
        "links": {link.id: _link(generator, link) for link in plan.links},
    }
    result = tree
    for group, entities in made.items():
        beside = tree.child(group) or empty
        result = result.replaced((group,), Node(_over(entities, beside), beside.source))
    return result


def _over(made: dict[str, Node], written: Node) -> dict[str, Node]:
    together = dict(made)
    for name, node in written.mapping.items():
        entity = made.get(name)
        if entity is None or not isinstance(node.value, dict):
            together[name] = node
            continue
        rivals = {rival for key in node.value for rival in RIVALS.get(key, ())}
        kept = {key: field for key, field in entity.mapping.items() if key not in rivals}
        together[name] = Node({**kept, **node.value}, node.source)
    return together


def _node(generator: Node, kind: str) -> Node:
    fields = {key: node for key in _NODE_FIELDS if (node := generator.child(key)) is not None}
    return Node({"kind": Node(kind, generator.source), **fields}, generator.source)


def _link(generator: Node, link: topology.PlannedLink) -> Node:
    """Returns a link with the settings of its role, which keep their places in the file."""
    settings = generator.child(link.role) or generator
    if link.role == "access" and settings is generator:
        settings = Node({}, generator.source)
    fields = {key: node for key, node in settings.mapping.items() if key not in _OWN_FIELDS}
    rivals = {rival for key in fields for rival in (key, *RIVALS.get(key, ()))}
    fields |= {
        key: Node(given.value, replace(generator.source, note=given.note))
        for key, given in link.values.items()
        if key not in rivals
    }
    ends = Node([Node(end, generator.source) for end in link.ends], generator.source)
    return Node({"between": ends, **fields}, generator.source)
