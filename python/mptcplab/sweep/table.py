"""The table of a sweep as Parquet: one row for each combination, seed and flow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mptcplab import _core
from mptcplab.results import METRICS, Bundle, BundleError, metrics_of
from mptcplab.sweep.combinations import EXPERIMENT
from mptcplab.sweep.factors import Factor
from mptcplab.sweep.outcome import Outcome

#: The name of a column, its type, and its values.
Column = tuple[str, str, Any]
#: Entities whose metrics are copied to every row of a run, with the entity before the name of the
#: metric.
WHOLE_RUN = ("run", "events.")
OTHER_COLUMNS = ("backend", "seed", "status", "bundle", "expectations_held", "flow")


def write_table(path: Path, outcome: Outcome, relative_to: Path) -> None:
    """Writes the rows of all runs, done or not, in the order of combinations, seeds and flows.
    Raises BundleError.

    Columns: the factors as text, and as ``NAME:number`` if their values are numbers; ``experiment
    backend seed status bundle expectations_held flow``; the metrics of the flow; those of the run
    and its events with their entity.
    """
    rows = [
        (combination.values, bundle, flow)
        for combination, bundles in zip(outcome.sweep.combinations, outcome.runs, strict=True)
        for bundle in bundles
        for flow in (flow["id"] for flow in combination.experiment["flows"])
    ]
    columns: list[Column] = []
    for factor in outcome.sweep.factors:
        written = [values[factor.name] for values, _, _ in rows]
        columns += [column for column in factor_columns(factor, written) if column[0] != EXPERIMENT]
    columns += [(key, "text", [bundle.record[key] for _, bundle, _ in rows]) for key in ("experiment", "backend")]
    columns.append(("seed", "int64", [bundle.record["seed"] for _, bundle, _ in rows]))
    columns.append(("status", "text", [bundle.status for _, bundle, _ in rows]))
    columns.append(("bundle", "text", [os.path.relpath(bundle.path, relative_to) for _, bundle, _ in rows]))
    columns.append(("expectations_held", "int64", [_held(bundle) for _, bundle, _ in rows]))
    columns.append(("flow", "text", [flow for _, _, flow in rows]))
    values_of_rows = [_metrics(bundle, flow) for _, bundle, flow in rows]
    for name in _names(values_of_rows):
        columns.append((name, "float64", [_float(values.get(name)) for values in values_of_rows]))
    try:
        _core.write_columns(path, columns)
    except OSError as error:
        raise BundleError(str(error)) from error


def factor_columns(factor: Factor, written: Sequence[str | None], taken: Sequence[str] = OTHER_COLUMNS) -> list[Column]:
    """Returns the columns of a factor: its values as written, and as numbers if all of them are
    numbers.

    A parameter whose name is taken, by another column or a metric, has its long name, as in
    ``--set``.
    """
    is_taken = factor.name in taken or any(metric == factor.name for _, metric in METRICS)
    name = f"parameters.{factor.name}" if is_taken else factor.name
    columns: list[Column] = [(name, "text", list(written))]
    if factor.numbers is not None:
        number: dict[str | None, float] = dict(zip(factor.values, factor.numbers, strict=True))
        columns.append((f"{name}:number", "float64", [number.get(value) for value in written]))
    return columns


def _held(bundle: Bundle) -> int | None:
    """Returns the number of expectations that held, or None without a result."""
    return None if bundle.record["result"] is None else sum(v["held"] is True for v in bundle.record["expectations"])


def _metrics(bundle: Bundle, flow: str) -> dict[str, float | None]:
    measured: Mapping[str, Mapping[str, float | None]] = bundle.record["metrics"]
    of_run = {
        f"{entity}.{name}": value
        for entity, values in measured.items()
        if entity.startswith(WHOLE_RUN)
        for name, value in values.items()
    }
    return {**measured.get(f"flows.{flow}", {}), **of_run}


def _names(rows: Sequence[Mapping[str, float | None]]) -> list[str]:
    """Returns the metrics that some row has: those of flows in the order of the table, then the
    others.
    """
    found = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
    ordered = [metric.name for metric in metrics_of("flow") if metric.name in found]
    return list(dict.fromkeys([*ordered, *found]))


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)
