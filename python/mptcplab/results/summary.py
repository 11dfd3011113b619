"""The summary document ``mptcplab/summary/1``: what ``--json`` prints for runs."""

from __future__ import annotations

from collections.abc import Iterable

from mptcplab.results.aggregates import aggregates
from mptcplab.results.bundle import Bundle
from mptcplab.results.entities import Json

SCHEMA = "mptcplab/summary/1"


def summary(bundles: Iterable[Bundle]) -> Json:
    """Returns the summary of runs, finished or not, with aggregates over the repetitions of each
    experiment.
    """
    given = list(bundles)
    runs = [run_summary(bundle) for bundle in given]
    return {"schema": SCHEMA, "runs": runs, "aggregates": aggregates([bundle.record for bundle in given])}


def run_summary(bundle: Bundle) -> Json:
    """Returns the summary of one run."""
    record = bundle.record
    copied = ("experiment", "backend", "seed", "repeat", "status", "why")
    return {
        **{key: record[key] for key in copied},
        "bundle": str(bundle.path),
        "wall_s": record["wall_s"],
        "trace_hash": record["trace_hash"],
        "substitutions": record["substitutions"],
        **({"user_code": record["user_code"]} if record.get("user_code") else {}),
        "events": [{key: event[key] for key in ("id", "asked_s", "actual_s")} for event in record["events"]],
        "expectations": [{key: verdict[key] for key in ("text", "held")} for verdict in record["expectations"]],
        "flows": record["flows"],
    }
