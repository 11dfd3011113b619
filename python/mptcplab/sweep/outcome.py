"""What came of a sweep: the runs of each combination, the spread of a metric, what was looked for."""

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
    """A sweep after its runs. ``runs`` has those of each combination; ``metric`` is what is drawn and listed."""

    sweep: Sweep
    runs: list[list[Bundle]]
    metric: str
    #: As ``evaluate`` gives them.
    found: list[Json]

    @classmethod
    def of(cls, sweep: Sweep, bundles: Sequence[Bundle], metric: str, finds: Sequence[Find], seed: int) -> Outcome:
        """From the bundles of all runs, in any order. Combinations that mean the same share theirs."""
        by_digest: dict[str, list[Bundle]] = {}
        for bundle in bundles:
            by_digest.setdefault(bundle.record["digest"], []).append(bundle)
        runs = [by_digest[digest(combination.experiment)] for combination in sweep.combinations]
        return cls(sweep, runs, metric, [entry for find in finds for entry in evaluate(find, sweep, runs, seed)])

    def unit(self, metric: str) -> str:
        """The unit of a metric in the metric table."""
        return check_metric(metric, self.sweep.combinations[0].experiment, "").unit

    def spreads(self, metric: str) -> list[Spread | None]:
        """The spread of a metric at each combination; None where no done run has it."""
        entity, _, name = metric.rpartition(".")
        return [spread(of_one, entity, name) for of_one in self.runs]

    @property
    def least_done(self) -> int:
        """The least number of done runs of a combination."""
        return min(sum(bundle.status == "done" for bundle in of_one) for of_one in self.runs)

    def document(self) -> Json:
        """The document ``mptcplab/sweep/1`` but for the files that were written."""
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
