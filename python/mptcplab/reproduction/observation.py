"""The parts of a run that claims and figures use: its metrics, and a few series of its samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mptcplab.backends import SIMULATOR
from mptcplab.results import Bundle, RunData, read_data, why_busy
from mptcplab.results.tables import Units

Json = dict[str, Any]
#: Series that quantities, figures of several runs and the fates of subflows use.
OF_FLOWS = ("bytes_in_order", "out_of_order_bytes")
OF_SUBFLOWS = ("bytes_received", "bytes_sent", "rto_count", "retransmitted_bytes", "stale")
#: Further series that figures of a single run use.
TOLD_OF_SUBFLOWS = ("backup", "cwnd_bytes")


@dataclass(frozen=True)
class Observation:
    """One done run. ``run`` holds only the samples that are used."""

    seed: int
    bundle: str
    metrics: dict[str, dict[str, float | None]]
    absent: dict[str, dict[str, str]]
    run: RunData
    #: The reason why the machine may have disturbed the measurement; None if it did not.
    busy: str | None = None

    @property
    def parameters(self) -> Json:
        """The values of its family's parameters."""
        parameters: Json = self.run.resolved["parameters"]
        return parameters

    def of(self, experiment: Json) -> Observation:
        """Returns this observation with the resolved experiment, which all its runs share."""
        return replace(self, run=replace(self.run, resolved=experiment))

    def of_flows(self) -> Observation:
        """Returns this observation without the samples of subflows."""
        return replace(self, run=replace(self.run, samples=self.run.samples.kept(_is_of_flow)))


#: Counters of entities, of which claims measure rates.
Counters = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Kept:
    """What an observation keeps of a run beside its metrics: the samples of which quantities are
    made, and what else is asked for. A run of a minute can have a million data units.
    """

    counters: Counters = frozenset()
    units: bool = False
    #: The samples that only pictures of a single run show.
    shown: bool = False

    def __or__(self, other: Kept) -> Kept:
        return Kept(self.counters | other.counters, self.units or other.units, self.shown or other.shown)

    def has(self, entity: str, metric: str) -> bool:
        """Returns whether the samples of a metric are kept."""
        if (entity, metric) in self.counters:
            return True
        of_subflows = (*OF_SUBFLOWS, *TOLD_OF_SUBFLOWS) if self.shown else OF_SUBFLOWS
        return entity.startswith("flows.") and metric in (of_subflows if ".subflows." in entity else OF_FLOWS)


def observe(path: Path, kept: Kept) -> Observation:
    """Reads a done bundle without its experiment, so that the result is small enough to send to
    another process. Raises BundleError if the bundle is damaged.
    """
    bundle = Bundle.open(path)
    bundle.verify()
    record = bundle.record
    return _observation(bundle, read_data(path, {}, record["result"], record["backend"], kept.has), kept)


def observe_in_memory(bundle: Bundle, run: RunData, kept: Kept) -> Observation:
    """Returns what ``observe`` returns, from the data in the memory of the process that made the
    run.
    """
    return _observation(bundle, replace(run, resolved={}, samples=run.samples.kept(kept.has)), kept)


def _is_of_flow(entity: str, metric: str) -> bool:
    return entity.startswith("flows.") and metric in OF_FLOWS


def _observation(bundle: Bundle, run: RunData, kept: Kept) -> Observation:
    record = bundle.record
    busy = None if record["backend"] == SIMULATOR else why_busy(record, bundle.resolved)
    seen = run if kept.units else replace(run, units=Units())
    return Observation(record["seed"], str(bundle.path), record["metrics"], record["absent"], seen, busy)
