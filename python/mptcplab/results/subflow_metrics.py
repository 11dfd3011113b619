"""Derived metrics of subflows: each a function of one subflow of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mptcplab.results.run_data import Absent, RunData, Value
from mptcplab.results.subflows import Subflow, subflows_of


@dataclass(frozen=True)
class SubflowView:
    """One subflow of one run."""

    run: RunData
    subflow: Subflow


def share(view: SubflowView) -> Value:
    """Part of the payload bytes of all its flow's subflows."""
    carried = sum(subflow.bytes for subflow in subflows_of(view.run, view.subflow.flow))
    return view.subflow.bytes / carried if carried else Absent("no subflow carried anything")


def opened_s(view: SubflowView) -> Value:
    """When it was established."""
    found = view.subflow.opened_s
    return Absent("the back-end does not tell when it was opened") if found is None else found


def closed_s(view: SubflowView) -> Value:
    """When it was closed."""
    found = view.subflow.closed_s
    return Absent("it was open when the run ended") if found is None else found


SUBFLOW_METRICS: dict[str, Callable[[SubflowView], Value]] = {
    "share": share,
    "opened_s": opened_s,
    "closed_s": closed_s,
}
"""Functions of the derived metrics of one subflow."""
