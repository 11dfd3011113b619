"""Definitions of mptcplab's metrics: pure functions over numpy arrays.

A function returns ``None`` if the quantity does not exist for its input. Missing values are never
replaced by 0. Times are in seconds unless a name says otherwise; rates are in bit/s.
"""

from mptcplab.metrics.comparison import (
    difference_of_means,
    difference_of_pairs,
    difference_outside,
    holm,
    largest_unseen,
    paired_difference_outside,
    paired_ratio_outside,
    ratio_of_means,
    ratio_of_pairs,
    ratio_outside,
    standing_apart,
)
from mptcplab.metrics.delay import (
    delay_variance,
    interarrival_variance,
    late_ratio,
    lateness,
    packet_delay_variation,
    percentile,
    rfc3550_jitter,
    rfc3550_jitter_constant_gap,
)
from mptcplab.metrics.order import Reordered, reorder_density, reordered, reordering_ratio
from mptcplab.metrics.recovery import longest_silence, recovery_time, unaffected_fraction
from mptcplab.metrics.share import aggregation_benefit, jain_index, load_balance
from mptcplab.metrics.statistics import (
    SMALLEST_SAMPLE,
    crossover,
    median,
    median_interval,
    rank_correlation,
    share_interval,
)
from mptcplab.metrics.throughput import binned_rate, completion_time, counter_at, goodput, mean_rate, utilisation

__all__ = [
    "SMALLEST_SAMPLE",
    "Reordered",
    "aggregation_benefit",
    "binned_rate",
    "completion_time",
    "counter_at",
    "crossover",
    "delay_variance",
    "difference_of_means",
    "difference_of_pairs",
    "difference_outside",
    "goodput",
    "holm",
    "interarrival_variance",
    "jain_index",
    "largest_unseen",
    "late_ratio",
    "lateness",
    "load_balance",
    "longest_silence",
    "mean_rate",
    "median",
    "median_interval",
    "packet_delay_variation",
    "paired_difference_outside",
    "paired_ratio_outside",
    "percentile",
    "rank_correlation",
    "ratio_of_means",
    "ratio_of_pairs",
    "ratio_outside",
    "recovery_time",
    "reorder_density",
    "reordered",
    "reordering_ratio",
    "rfc3550_jitter",
    "rfc3550_jitter_constant_gap",
    "share_interval",
    "standing_apart",
    "unaffected_fraction",
    "utilisation",
]
