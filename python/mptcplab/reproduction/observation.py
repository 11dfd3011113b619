"""What claims and figures need of a run: its metrics, and of its samples the few series that are looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mptcplab.results import Bundle, RunData, read_data

Json = dict[str, Any]
OF_FLOWS = ("bytes_in_order", "out_of_order_bytes")
OF_SUBFLOWS = ("bytes_sent", "bytes_received", "stale", "backup", "alive", "rto_count")


@dataclass(frozen=True)
class Observation:
    """One done run. ``run`` has no samples but ``OF_FLOWS`` and ``OF_SUBFLOWS``."""

    seed: int
    bundle: str
    metrics: dict[str, dict[str, float | None]]
    absent: dict[str, dict[str, str]]
    run: RunData

    @property
    def parameters(self) -> Json:
        """The values of its family's parameters."""
        parameters: Json = self.run.resolved["parameters"]
        return parameters

    def of(self, experiment: Json) -> Observation:
        """The same with the resolved experiment, which all runs of it share."""
        return replace(self, run=replace(self.run, resolved=experiment))


def observe(path: Path) -> Observation:
    """Read a done bundle, without its experiment: small enough for another process. Raises BundleError if damaged."""
    bundle = Bundle.open(path)
    bundle.verify()
    record = bundle.record
    run = read_data(path, {}, record["result"], record["backend"], _is_kept)
    return Observation(record["seed"], str(path), record["metrics"], record["absent"], run)


def _is_kept(entity: str, metric: str) -> bool:
    if not entity.startswith("flows."):
        return False
    return metric in (OF_SUBFLOWS if ".subflows." in entity else OF_FLOWS)
