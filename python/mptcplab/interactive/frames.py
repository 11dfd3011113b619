"""Metrics, samples and data units of runs as frames of polars or pandas. Names of columns end in
the unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np

from mptcplab.errors import MptcplabError, UsageError, first_few
from mptcplab.experiment.base import nearest_hint
from mptcplab.results import METRICS, Bundle, Table, ratio, spread
from mptcplab.results.bundle import SAMPLES, UNITS, changes_of
from mptcplab.results.entities import Json
from mptcplab.sweep import Column, Factor, factor_columns

Library = Literal["polars", "pandas"]
#: Columns that are no factors.
OTHERS = ("experiment", "backend", "seed", "status", "kind", "entity", "time_s", "metric", "value", "flow", "unit")
KINDS = {
    "run": "run",
    "flows": "flow",
    "links": "link",
    "interfaces": "interface",
    "switches": "switch",
    "probes": "probe",
    "events": "event",
}
SUBFLOW = re.compile(r"flows\..+\.subflows\.\d+")
NANOS_PER_SECOND = 1e9
#: Number of names in a message.
MOST_NAMES = 12


def metrics_frame(bundles: Sequence[Bundle], kind: str | None, library: Library) -> Any:
    """Returns a row for each run and entity of this kind, and a column for each metric that some
    row has.
    """
    if kind is not None:
        _check_pattern("kind", kind, [*KINDS.values(), "subflow"])
    rows = [
        (bundle, entity, values)
        for bundle in bundles
        for entity, values in bundle.record["metrics"].items()
        if kind in (None, _kind(entity))
    ]
    found = dict.fromkeys(name for _, _, values in rows for name, value in values.items() if value is not None)
    ordered = dict.fromkeys([*(name for _, name in METRICS if name in found), *found])
    columns = [
        *_of_runs([bundle for bundle, _, _ in rows]),
        ("status", "text", [bundle.status for bundle, _, _ in rows]),
        ("kind", "text", [_kind(entity) for _, entity, _ in rows]),
        ("entity", "text", [entity for _, entity, _ in rows]),
        *((name, "float64", [_float(values.get(name)) for _, _, values in rows]) for name in ordered),
    ]
    return _frame(columns, library)


def samples_frame(bundles: Sequence[Bundle], entity: str, metric: str, library: Library) -> Any:
    """Returns a row for each sample of the entities and metrics that match the patterns."""
    tables = [_table(bundle, SAMPLES) for bundle in bundles]
    for column, pattern in (("entity", entity), ("metric", metric)):
        _check_pattern(column, pattern, _names(tables, column))
    parts = []
    for table in tables:
        rows = _matching(table, "entity", entity) & _matching(table, "metric", metric)
        time_s, value = table.numbers("time_ns")[rows] / NANOS_PER_SECOND, table.numbers("value")[rows]
        parts.append((time_s, _texts(table, "entity")[rows], _texts(table, "metric")[rows], value))
    time_s, entities, metrics, values = (_joined(column) for column in zip(*parts, strict=True))
    columns: list[Column] = [
        *_repeated(_of_runs(bundles), [len(part[0]) for part in parts]),
        ("time_s", "float64", time_s),
        ("entity", "text", entities),
        ("metric", "text", metrics),
        ("value", "float64", values),
    ]
    return _frame(columns, library)


def units_frame(bundles: Sequence[Bundle], flow: str, library: Library) -> Any:
    """Returns a row for each delivered data unit of the flows that match the pattern."""
    tables = [_table(bundle, UNITS) for bundle in bundles]
    _check_pattern("flow", flow, [one["id"] for bundle in bundles for one in bundle.record["flows"]])
    parts = []
    for table in tables:
        rows = _matching(table, "flow", flow)
        sent_s, received_s, delivered_s = (
            table.numbers(f"{name}_ns")[rows] / NANOS_PER_SECOND for name in ("sent", "received", "delivered")
        )
        numbers = (table.numbers("unit")[rows], table.numbers("bytes")[rows])
        parts.append((_texts(table, "flow")[rows], *numbers, sent_s, received_s, delivered_s, delivered_s - sent_s))
    heads = (("flow", "text"), ("unit", "int64"), ("bytes", "int64"))
    times = (("sent_s", "float64"), ("received_s", "float64"), ("delivered_s", "float64"), ("delay_s", "float64"))
    found = zip((*heads, *times), zip(*parts, strict=True), strict=True)
    columns: list[Column] = [
        *_repeated(_of_runs(bundles), [len(part[0]) for part in parts]),
        *((name, kind, _joined(column)) for (name, kind), column in found),
    ]
    return _frame(columns, library)


def families_frame(entries: Sequence[Json], library: Library) -> Any:
    """Returns a row for each entry of ``families.evaluate``."""
    columns: list[Column] = [
        (name, "text", [None if entry[name] is None else str(entry[name]) for entry in entries])
        for name in ("family", "id", "kind", "metric", "over", "experiment", "value")
    ]
    columns.append(("median", "float64", [_float(entry["median"]) for entry in entries]))
    intervals = [entry["ci95"] or (None, None) for entry in entries]
    columns += [(name, "float64", [_float(one[end]) for one in intervals]) for end, name in enumerate(("low", "high"))]
    return _frame([*columns, ("why", "text", [entry["why"] for entry in entries])], library)


def spreads_frame(arms: Mapping[str, Sequence[Bundle]], metrics: Sequence[str], library: Library) -> Any:
    """Returns a row for each flow, metric and arm: median, interval, and ratio to the first arm
    with its interval.
    """
    reference, *_ = arms.values()
    flows = dict.fromkeys(flow["id"] for bundles in arms.values() for one in bundles for flow in one.record["flows"])
    rows = [
        (flow, metric, arm, found, ratio(bundles, reference, f"flows.{flow}", metric))
        for flow in flows
        for metric in metrics
        for arm, bundles in arms.items()
        if (found := spread(bundles, f"flows.{flow}", metric)) is not None
    ]
    columns: list[Column] = [
        (name, "text", [row[place] for row in rows]) for place, name in enumerate(("flow", "metric", "arm"))
    ]
    columns.append(("n", "int64", [found.n for *_, found, _ in rows]))
    columns += [
        (name, "float64", [getattr(found, name) for *_, found, _ in rows]) for name in ("median", "low", "high")
    ]
    for column, name in (("ratio", "median"), ("ratio_low", "low"), ("ratio_high", "high")):
        columns.append((column, "float64", [getattr(compared, name, None) for *_, compared in rows]))
    return _frame(columns, library)


def _of_runs(bundles: Sequence[Bundle]) -> list[Column]:
    """Returns the columns that tell runs apart: experiment, parameters, changes,
    back-end and seed.
    """
    different = {id(bundle): bundle for bundle in bundles}
    values = {key: _factors(bundle) for key, bundle in different.items()}
    factors: list[Column] = []
    for name in dict.fromkeys(chain(*values.values())):
        written = [values[id(bundle)].get(name) for bundle in bundles]
        factor = Factor(name, tuple(dict.fromkeys(value for value in written if value is not None)))
        factors += factor_columns(factor, written, OTHERS)
    return [
        ("experiment", "text", [bundle.record["experiment"] for bundle in bundles]),
        *factors,
        ("backend", "text", [bundle.record["backend"] for bundle in bundles]),
        ("seed", "int64", [bundle.record["seed"] for bundle in bundles]),
    ]


def _factors(bundle: Bundle) -> dict[str, str]:
    """Returns the values of a run's parameters, and of the changes that were made to its
    description.
    """
    parameters = {name: str(value) for name, value in bundle.resolved["parameters"].items()}
    changes = dict(change.split("=", 1) for change in changes_of(bundle) if "=" in change)
    return parameters | {
        key: value for key, value in changes.items() if key.removeprefix("parameters.") not in parameters
    }


def _kind(entity: str) -> str:
    return "subflow" if SUBFLOW.fullmatch(entity) else KINDS[entity.partition(".")[0]]


def _table(bundle: Bundle, name: str) -> Table:
    bundle.verify()
    return Table.read(bundle.path / f"{name}.parquet")


def _texts(table: Table, column: str) -> Any:
    codes, names = table.labels(column)
    return np.array(names, dtype=object)[codes] if names else np.zeros(0, dtype=object)


def _names(tables: Sequence[Table], column: str) -> list[str]:
    return [name for table in tables for name in table.labels(column)[1]]


def _check_pattern(name: str, pattern: str, known: Sequence[str]) -> None:
    """Raises UsageError if a pattern matches no name."""
    known = list(dict.fromkeys(known))
    if pattern != "*" and not any(fnmatchcase(one, pattern) for one in known):
        allowed = first_few(known, most=MOST_NAMES) or "nothing: there is none"
        raise UsageError(f"{name}={pattern!r}{nearest_hint(pattern, known)}; allowed: {allowed}")


def _matching(table: Table, column: str, pattern: str) -> Any:
    codes, names = table.labels(column)
    return np.array([fnmatchcase(name, pattern) for name in names], dtype=bool)[codes] if names else codes == 0


def _repeated(columns: Sequence[Column], counts: Sequence[int]) -> list[Column]:
    """Returns columns of runs as columns of tables, of which each run has some rows."""
    types = {"text": object, "int64": np.int64, "float64": np.float64}
    return [(name, kind, np.repeat(np.array(values, dtype=types[kind]), counts)) for name, kind, values in columns]


def _joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts)


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _frame(columns: Sequence[Column], library: Library) -> Any:
    if library not in get_args(Library):
        raise UsageError(f"frame={library!r}; allowed: {', '.join(get_args(Library))}")
    try:
        module = import_module(library)
    except ImportError as error:
        raise MptcplabError(f"a frame of {library} needs {library}: pip install 'mptcplab[frames]'") from error
    if library == "pandas":
        types = {"text": "object", "int64": "int64", "float64": "float64"}
        return module.DataFrame({name: module.Series(values, dtype=types[kind]) for name, kind, values in columns})
    types = {"text": module.String, "int64": module.Int64, "float64": module.Float64}
    series = [
        # Texts of an array are objects, which polars does not take for text.
        module.Series(name, list(values) if kind == "text" else values, dtype=types[kind], nan_to_null=True)
        for name, kind, values in columns
    ]
    return module.DataFrame(series)
