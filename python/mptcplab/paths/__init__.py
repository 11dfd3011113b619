"""Ways through a network: the graph, and the policies by which a flow gets its ways.

All ties between ways of equal cost are resolved by the names of nodes, then by the ids of edges.
"""

from mptcplab.paths.graph import Edge, Graph, Way
from mptcplab.paths.policies import (
    POLICIES,
    NoWaysError,
    Policy,
    ecmp,
    edge_disjoint,
    explicit,
    k_shortest,
    maximally_disjoint,
    node_disjoint,
    shortest,
    srlg_disjoint,
    weighted,
)
from mptcplab.paths.search import ways_in_order

__all__ = [
    "POLICIES",
    "Edge",
    "Graph",
    "NoWaysError",
    "Policy",
    "Way",
    "ecmp",
    "edge_disjoint",
    "explicit",
    "k_shortest",
    "maximally_disjoint",
    "node_disjoint",
    "shortest",
    "srlg_disjoint",
    "ways_in_order",
    "weighted",
]
