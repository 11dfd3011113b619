"""How far measures may be apart, and where they are known to be further, with the mechanism."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from mptcplab.errors import UsageError

Interval = tuple[float, float]

#: By the metric of a measure: its kind, of which the table has a bound.
KINDS = {
    "goodput_bps": "goodput",
    "share": "share",
    "recovery_s": "recovery",
    "delay_p50_s": "delay",
    "delay_p95_s": "delay",
    "delay_p99_s": "delay",
    "jain_index": "fairness",
}
#: Kinds whose differences are bounded; of the others ratios are.
DIFFERENCES = ("share", "fairness")


@dataclass(frozen=True)
class Exemption:
    """Measures of cases that are known to be apart: what is expected instead, and why."""

    cases: str
    measures: str
    holds: Interval
    mechanism: str

    def concerns(self, case: str, measure: str) -> bool:
        return fnmatchcase(case, self.cases) and any(fnmatchcase(measure, one) for one in self.measures.split(", "))


@dataclass(frozen=True)
class Bounds:
    """By kind how far a measure may be off, and what is exempt."""

    bounds: Mapping[str, float]
    exemptions: Sequence[Exemption]

    @classmethod
    def read(cls, path: Path) -> Bounds:
        """Raises UsageError for a table that is not complete."""
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        missing = sorted(set(KINDS.values()) ^ set(document.get("bounds", {})))
        if missing:
            raise UsageError(f"{path}: [bounds] differs in {', '.join(missing)}; allowed: {', '.join(KINDS.values())}")
        exemptions = [
            Exemption(one["cases"], one["measures"], (one["holds"][0], one["holds"][1]), one["mechanism"])
            for one in document.get("exemption", [])
        ]
        return cls(document["bounds"], exemptions)

    def kind(self, measure: str) -> str:
        """``bulk share wifi`` is a share."""
        return KINDS[measure.split()[1]]

    def allowed(self, measure: str) -> Interval:
        """The range of a ratio, or of a difference, of a measure."""
        kind = self.kind(measure)
        bound = self.bounds[kind]
        return (-bound, bound) if kind in DIFFERENCES else (1 - bound, 1 + bound)

    def exemption(self, case: str, measure: str) -> Exemption | None:
        """The first that concerns a measure."""
        return next((one for one in self.exemptions if one.concerns(case, measure)), None)
