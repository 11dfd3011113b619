"""Sweeps: run all combinations of factors on processes or a cluster, write a table, and find the
best combination.
"""

from mptcplab.sweep.combinations import Combination, Sweep, arms_by_value, combinations_of, in_words
from mptcplab.sweep.factors import Factor, split_settings
from mptcplab.sweep.finds import Find, crossing_axis
from mptcplab.sweep.outcome import Outcome
from mptcplab.sweep.table import Column, factor_columns, write_table
from mptcplab.sweep.workers import carry_out, carry_out_and_look, cluster, processes

__all__ = [
    "Column",
    "Combination",
    "Factor",
    "Find",
    "Outcome",
    "Sweep",
    "arms_by_value",
    "carry_out",
    "carry_out_and_look",
    "cluster",
    "combinations_of",
    "crossing_axis",
    "factor_columns",
    "in_words",
    "processes",
    "split_settings",
    "write_table",
]
