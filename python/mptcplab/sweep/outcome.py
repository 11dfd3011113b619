"""The outcome of a sweep: the runs of each combination, the spread of a
metric, and the findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mptcplab.results import Spread, check_metric, digest, spread
from mptcplab.sweep.combinations import Sweep
from mptcplab.sweep.finds import Find, evaluate

if TYPE_CHECKING:
    from mptcplab.results import Bundle

Json = dict[str, Any]

SCHEMA = "mptcplab/sweep/1"


@dataclass(frozen=True)
class Outcome:
    """A sweep after its runs. `runs` holds the runs of each combination. `metric` is drawn and
    listed.
    """

    sweep: Sweep
    runs: list[list[Bundle]]
    metric: str
    #: As returned by ``evaluate``.
    found: list[Json]

    @classmethod
    def of(cls, sweep: Sweep, bundles: Sequence[Bundle], metric: str, finds: Sequence[Find], seed: int) -> Outcome:
        """Makes the outcome from the bundles of all runs, in any order. Equal combinations share
        bundles.
        """
        by_digest: dict[str, list[Bundle]] = {}
        for bundle in bundles:
            by_digest.setdefault(bundle.record["digest"], []).append(bundle)
        runs = [by_digest[digest(combination.experiment)] for combination in sweep.combinations]
        return cls(sweep, runs, metric, [entry for find in finds for entry in evaluate(find, sweep, runs, seed)])

    def unit(self, metric: str) -> str:
        """Returns the unit of a metric by the table of metrics."""
        return check_metric(metric, self.sweep.combinations[0].experiment, "").unit

    def spreads(self, metric: str) -> list[Spread | None]:
        """Returns the spread of a metric for each combination, or None if no done run has it."""
        entity, _, name = metric.rpartition(".")
        return [spread(of_one, entity, name) for of_one in self.runs]

    @property
    def least_done(self) -> int:
        """Returns the smallest number of done runs of a combination."""
        return min(sum(bundle.status == "done" for bundle in of_one) for of_one in self.runs)

    def document(self) -> Json:
        """Returns the document ``mptcplab/sweep/1`` without the written files."""
        return {
            "schema": SCHEMA,
            "name": self.sweep.name,
            "factors": [
                {"name": f.name, "values": list(f.values), "numbers": f.numbers and list(f.numbers), "unit": f.unit}
                for f in self.sweep.factors
            ],
            "metric": self.metric,
            "unit": self.unit(self.metric),
            "combinations": [
                {
                    "values": combination.values,
                    "experiment": combination.experiment["name"],
                    "runs": [_run(bundle) for bundle in of_one],
                    "n": found.n if found else 0,
                    "median": found.median if found else None,
                    "ci95": [found.low, found.high] if found else None,
                }
                for combination, of_one, found in zip(
                    self.sweep.combinations, self.runs, self.spreads(self.metric), strict=True
                )
            ],
            "find": self.found,
        }


def _run(bundle: Bundle) -> Json:
    copied = {key: bundle.record[key] for key in ("seed", "status", "why")}
    return {**copied, "bundle": str(bundle.path)}
