"""Bounds on differences between back-ends, and the exemptions from them with their mechanisms."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from mptcplab.errors import UsageError

Interval = tuple[float, float]

#: The kind of each metric. The table has one bound per kind.
KINDS = {
    "goodput_bps": "goodput",
    "share": "share",
    "recovery_s": "recovery",
    "delay_p50_s": "delay",
    "delay_p95_s": "delay",
    "delay_p99_s": "delay",
    "jain_index": "fairness",
}
#: Kinds with a bound on the difference. The others have a bound on the ratio.
DIFFERENCES = ("share", "fairness")


@dataclass(frozen=True)
class Exemption:
    """An exemption: measures of cases that are known to differ, with the expected range and the
    mechanism.
    """

    cases: str
    measures: str
    holds: Interval
    mechanism: str

    def concerns(self, case: str, measure: str) -> bool:
        return fnmatchcase(case, self.cases) and any(fnmatchcase(measure, one) for one in self.measures.split(", "))


@dataclass(frozen=True)
class Bounds:
    """The bound of each kind of measure, and the exemptions."""

    bounds: Mapping[str, float]
    exemptions: Sequence[Exemption]

    @classmethod
    def read(cls, path: Path) -> Bounds:
        """Reads a table. Raises UsageError if it is incomplete."""
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
        """Returns the kind of a measure: that of ``bulk share wifi`` is share."""
        return KINDS[measure.split()[1]]

    def allowed(self, measure: str) -> Interval:
        """Returns the allowed range of the ratio, or of the difference, of a measure."""
        kind = self.kind(measure)
        bound = self.bounds[kind]
        return (-bound, bound) if kind in DIFFERENCES else (1 - bound, 1 + bound)

    def exemption(self, case: str, measure: str) -> Exemption | None:
        """Returns the first exemption that concerns a measure."""
        return next((one for one in self.exemptions if one.concerns(case, measure)), None)
