"""Recorded results of a kernel: the measures of each case and seed, for comparisons without that
kernel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mptcplab.errors import UsageError
from mptcplab.fidelity.cases import Case

SCHEMA = "mptcplab/fidelity/1"

Measures = Mapping[str, float]


@dataclass(frozen=True)
class Recorded:
    """Measures by case and seed, with their kernel and date."""

    kernel: str
    day: str
    cases: Mapping[str, Mapping[int, Measures]]
    descriptions: Mapping[str, str]

    @property
    def release(self) -> str:
        """The version of the kernel without its build."""
        return self.kernel.partition(" #")[0]

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """Reads a file. Raises UsageError for other content."""
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document.get("schema") != SCHEMA:
            raise UsageError(f"{path}: found schema {document.get('schema')!r}; allowed: {SCHEMA!r}")
        cases = {
            name: {int(seed): values for seed, values in case["seeds"].items()}
            for name, case in document["cases"].items()
        }
        descriptions = {name: case["description_sha256"] for name, case in document["cases"].items()}
        return cls(document["kernel"], document["day"], cases, descriptions)

    def write(self, path: Path) -> None:
        """Writes the file with six digits, more than two runs of a kernel agree in."""
        cases = {
            name: {
                "description_sha256": self.descriptions[name],
                "seeds": {
                    str(seed): {key: float(f"{value:.6g}") for key, value in of.items()} for seed, of in seeds.items()
                },
            }
            for name, seeds in sorted(self.cases.items())
        }
        document = {"schema": SCHEMA, "kernel": self.kernel, "day": self.day, "cases": cases}
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def check(self, cases: Sequence[Case]) -> None:
        """Raises UsageError if a case is missing, or was recorded with another description."""
        others = [case.name for case in cases if self.descriptions.get(case.name) != case.description_sha256]
        if others:
            raise UsageError(
                f"{', '.join(others)}: nothing is on record of these descriptions; record them on a kernel, as root: "
                "make fidelity RECORD=1"
            )

    def joined(self, other: Recorded) -> Recorded:
        """Returns these results with the cases of newer ones replaced."""
        return Recorded(
            other.kernel, other.day, {**self.cases, **other.cases}, {**self.descriptions, **other.descriptions}
        )
