"""Results: the metric table, tables, bundles, expectations, aggregates and the summary document.

What only reports need is imported from its module: `agreement`, `equilibrium` and `fates`.
"""

from mptcplab.results.aggregates import Crossing, Spread, aggregates, argmax, crossover, difference, ratio, spread
from mptcplab.results.arrivals import arrived, capacity_steps, tells_only_order
from mptcplab.results.bundle import (
    RUN,
    Bundle,
    BundleError,
    BundleWriter,
    Packed,
    bundle_path,
    bundle_paths,
    digest,
    done_beside,
    done_bundles,
    find,
    held,
    read_data,
)
from mptcplab.results.entities import Entity, entities
from mptcplab.results.environment import environment
from mptcplab.results.evaluation import Evaluation
from mptcplab.results.expectations import Verdict, check, check_metric, evaluate
from mptcplab.results.machine_load import CpuTimes, why_busy
from mptcplab.results.record import evaluated
from mptcplab.results.recovery import Recovery, recoveries
from mptcplab.results.run_data import Absent, Happening, RunData, Value
from mptcplab.results.subflows import Subflow, carried, subflows_of
from mptcplab.results.summary import run_summary, summary
from mptcplab.results.table import METRICS, Metric, metric_reference, metrics_of, named_in_papers
from mptcplab.results.tables import Samples, Series, Table, TableError, Units, UnitTimes

__all__ = [
    "METRICS",
    "RUN",
    "Absent",
    "Bundle",
    "BundleError",
    "BundleWriter",
    "CpuTimes",
    "Crossing",
    "Entity",
    "Evaluation",
    "Happening",
    "Metric",
    "Packed",
    "Recovery",
    "RunData",
    "Samples",
    "Series",
    "Spread",
    "Subflow",
    "Table",
    "TableError",
    "UnitTimes",
    "Units",
    "Value",
    "Verdict",
    "aggregates",
    "argmax",
    "arrived",
    "bundle_path",
    "bundle_paths",
    "capacity_steps",
    "carried",
    "check",
    "check_metric",
    "crossover",
    "difference",
    "digest",
    "done_beside",
    "done_bundles",
    "entities",
    "environment",
    "evaluate",
    "evaluated",
    "find",
    "held",
    "metric_reference",
    "metrics_of",
    "named_in_papers",
    "ratio",
    "read_data",
    "recoveries",
    "run_summary",
    "spread",
    "subflows_of",
    "summary",
    "tells_only_order",
    "why_busy",
]
