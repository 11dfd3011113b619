"""What claims and figures need of a run: its metrics, and of its samples the few series that are looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mptcplab.backends import SIMULATOR
from mptcplab.results import Bundle, RunData, read_data, why_busy

Json = dict[str, Any]
#: What quantities are taken from, and what figures and the fates of subflows need beside it.
OF_FLOWS = ("bytes_in_order", "out_of_order_bytes")
OF_SUBFLOWS = ("bytes_received",)
TOLD_OF_SUBFLOWS = ("bytes_sent", "stale", "backup", "alive", "rto_count")


@dataclass(frozen=True)
class Observation:
    """One done run, of whose samples ``run`` has only what is looked at."""

    seed: int
    bundle: str
    metrics: dict[str, dict[str, float | None]]
    absent: dict[str, dict[str, str]]
    run: RunData
    #: Why what was measured may be the machine's doing.
    busy: str | None = None

    @property
    def parameters(self) -> Json:
        """The values of its family's parameters."""
        parameters: Json = self.run.resolved["parameters"]
        return parameters

    def of(self, experiment: Json) -> Observation:
        """The same with the resolved experiment, which all runs of it share."""
        return replace(self, run=replace(self.run, resolved=experiment))


def observe(path: Path, *, quantities_only: bool = False) -> Observation:
    """Read a done bundle, without its experiment: small enough for another process. Raises BundleError if damaged."""
    bundle = Bundle.open(path)
    bundle.verify()
    record = bundle.record
    of_subflows = OF_SUBFLOWS if quantities_only else (*OF_SUBFLOWS, *TOLD_OF_SUBFLOWS)

    def is_kept(entity: str, metric: str) -> bool:
        return entity.startswith("flows.") and metric in (of_subflows if ".subflows." in entity else OF_FLOWS)

    run = read_data(path, {}, record["result"], record["backend"], is_kept)
    busy = None if record["backend"] == SIMULATOR else why_busy(record, bundle.resolved)
    return Observation(record["seed"], str(path), record["metrics"], record["absent"], run, busy)
