"""A run beside the same run in the simulator: a section of the page of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mptcplab.plots import Drawing, overlay
from mptcplab.report.agreement import links_side_by_side, metrics_side_by_side
from mptcplab.report.comparison import MOST_FLOWS, outages_of
from mptcplab.report.grid import Grid
from mptcplab.results import Bundle
from mptcplab.results.agreement import agreement
from mptcplab.results.entities import Json

IN_SIMULATOR = "simulator"


@dataclass(frozen=True)
class Beside:
    """The section: what was simulated, or why it cannot be simulated, with figures and tables of
    both.
    """

    says: str
    drawings: Sequence[Drawing] = ()
    metrics: Grid | None = None
    links: Grid | None = None
    outages: Grid | None = None

    @classmethod
    def of(cls, bundle: Bundle, twin: Bundle) -> Beside:
        """Makes the section of both runs. Raises BundleError if one of them is unfinished or
        damaged.
        """
        arms = {bundle.record["backend"]: [bundle], IN_SIMULATOR: [twin]}
        runs = {name: [one.load()] for name, (one,) in arms.items()}
        flows = [flow["id"] for flow in bundle.record["flows"]][:MOST_FLOWS]
        drawn = [overlay(f"beside-{number}", runs, flow) for number, flow in enumerate(flows)]
        titled = [
            replace(drawing, title=f"Throughput of {flow}: {' and '.join(arms)}")
            for flow, drawing in zip(flows, drawn, strict=True)
            if drawing is not None
        ]
        agreed = agreement([bundle, twin])
        return cls(
            _says(bundle.record),
            titled,
            metrics_side_by_side(agreed, IN_SIMULATOR) if agreed else None,
            links_side_by_side(agreed, IN_SIMULATOR) if agreed else None,
            outages_of(arms),
        )

    @classmethod
    def missing(cls, why: str) -> Beside:
        """Makes the section of a run that was not simulated."""
        return cls(f"There is nothing to compare with: {why}.")


def _says(record: Json) -> str:
    said = f"The same description with the same seed, {record['seed']}, simulated when this page was made."
    chosen = second_choices(record)
    return f"{said} It has what this run had in place of first choices: {chosen}." if chosen else said


def second_choices(record: Json) -> str:
    """Returns ``olia instead of olia-oot`` for each substitution, or an empty text."""
    return ", ".join(dict.fromkeys(f"{one['used']} instead of {one['asked']}" for one in record["substitutions"]))
