"""Sweeps: run all combinations of factors on processes or a cluster, write a table, and find the best combination."""

from mptcplab.sweep.combinations import Combination, Sweep, combinations_of, in_words
from mptcplab.sweep.factors import Factor
from mptcplab.sweep.finds import Find, crossing_axis
from mptcplab.sweep.outcome import Outcome
from mptcplab.sweep.table import write_table
from mptcplab.sweep.workers import carry_out, carry_out_and_look, cluster, processes

__all__ = [
    "Combination",
    "Factor",
    "Find",
    "Outcome",
    "Sweep",
    "carry_out",
    "carry_out_and_look",
    "cluster",
    "combinations_of",
    "crossing_axis",
    "in_words",
    "processes",
    "write_table",
]
