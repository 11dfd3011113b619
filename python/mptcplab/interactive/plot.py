"""The figures of one run, and of several runs, as methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mptcplab import plots
from mptcplab.errors import UsageError
from mptcplab.interactive.figure import drawn
from mptcplab.plots import access as of_access
from mptcplab.plots import run as of_run
from mptcplab.plots import subflows as of_subflows
from mptcplab.report.quantities import head
from mptcplab.results import Bundle, RunData, check_metric, spread
from mptcplab.results.bundle import changes_of

if TYPE_CHECKING:
    from mptcplab.plots import Drawing

#: Units that figures show with a prefix, and the factor to it.
SCALED = {"bit/s": (1e-6, "Mbit/s"), "B": (1e-6, "MB")}


class RunPlot:
    """The figures of one run.

    Each method returns a figure that a notebook shows and that no pyplot knows of. With ``ax`` it
    draws into axes that exist, or into an array of axes where a figure has several panels, and
    returns these. Size, fonts and lines are those of ``matplotlib.rcParams``.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def throughput(self, ax: Any = None) -> Any:
        """Draws the goodput of each flow over time, with its ceiling and the events."""
        return self._draw(of_run.throughput, "the goodput of a flow", ax)

    def subflows(self, ax: Any = None) -> Any:
        """Draws what arrived in order on each subflow of the largest connection over time, stacked."""
        return self._draw(of_subflows.stacked, "subflows", ax)

    def timeline(self, ax: Any = None) -> Any:
        """Draws when each subflow of the largest connection was open, backup or stale."""
        return self._draw(of_subflows.timeline, "subflows", ax)

    def windows(self, ax: Any = None) -> Any:
        """Draws the congestion window of each subflow, with a panel for each pair of addresses."""
        return self._draw(of_subflows.congestion_windows, "congestion windows", ax)

    def rtt(self, ax: Any = None) -> Any:
        """Draws the smoothed round-trip time of each subflow, with a panel for each pair of
        addresses.
        """
        return self._draw(of_subflows.round_trip_times, "round-trip times of subflows", ax)

    def links(self, ax: Any = None) -> Any:
        """Draws the rate of each direction of a link, with a panel for each."""
        return self._draw(of_run.link_rates, "traffic on links", ax)

    def air(self, ax: Any = None) -> Any:
        """Draws the share of the air that each station of a Wi-Fi network occupies, stacked, with a
        panel for each network.
        """
        return self._draw(of_access.air_time, "Wi-Fi", ax)

    def aggregates(self, ax: Any = None) -> Any:
        """Draws the number of packets in a Wi-Fi transmission, for each
        direction of each station.
        """
        return self._draw(of_access.aggregate_sizes, "aggregates of Wi-Fi", ax)

    def radio(self, ax: Any = None) -> Any:
        """Draws the state of the radio of each device over time, and its handovers."""
        return self._draw(of_access.radio_states, "states of radios", ax)

    def delay(self, ax: Any = None) -> Any:
        """Draws the one-way delay of data units over time, and its distribution
        in a second panel.
        """
        return self._draw(of_run.delay, "data units", ax)

    def queue(self, ax: Any = None) -> Any:
        """Draws the length of the longest queues over time."""
        return self._draw(of_run.queues, "queues", ax)

    def drops(self, ax: Any = None) -> Any:
        """Draws the packets dropped over time, by reason."""
        return self._draw(of_run.drops, "dropped packets", ax)

    def probes(self, ax: Any = None) -> Any:
        """Draws the round-trip times of probes."""
        return self._draw(of_run.probe_rtt, "probes", ax)

    def arrivals(self, ax: Any = None) -> Any:
        """Draws the data units of the largest flow in order of arrival."""
        return self._draw(of_run.arrivals, "data units", ax)

    def _draw(self, draw: Callable[[RunData], Drawing | None], what: str, ax: Any) -> Any:
        run = self._bundle.load()
        nothing = f"{self._bundle.path}: the run has no {what} to draw"
        return drawn(lambda: draw(run), nothing, ax, _name_of(self._bundle))


class RunsPlot:
    """The figures of several runs: repetitions together, arms next to each other. Options are as
    those of a run.
    """

    def __init__(self, arms: Mapping[str, Sequence[Bundle]]) -> None:
        self._arms = arms

    def throughput(self, flow: str | None = None, ax: Any = None) -> Any:
        """Draws the goodput of a flow over time: the median of each arm and the
        range of its runs.
        """
        return self._draw(plots.overlay, flow, ax)

    def arrivals(self, flow: str | None = None, ax: Any = None) -> Any:
        """Draws when the data units of a flow were delivered in the first run of each arm, in two
        panels.
        """
        return self._draw(plots.arrivals_of, flow, ax)

    def bars(self, metric: str, ax: Any = None) -> Any:
        """Draws the median of a metric, such as ``flows.call.delay_p95_s``, in each arm, with its
        interval.
        """
        first = next(iter(self._arms.values()))[0]
        unit = check_metric(metric, first.resolved, "plot.bars").unit
        factor, shown = SCALED.get(unit, (1.0, unit))
        entity, _, name = metric.rpartition(".")
        found = {arm: spread(bundles, entity, name) for arm, bundles in self._arms.items()}
        spreads = {arm: one.scaled(factor) for arm, one in found.items() if one is not None}
        title, nothing = f"{head(name)} of {entity}".capitalize(), f"no run has a value of {metric}"
        return drawn(lambda: plots.bars("bars", title, shown, spreads) if spreads else None, nothing, ax)

    def _draw(self, draw: Callable[..., Drawing | None], flow: str | None, ax: Any) -> Any:
        loaded = {arm: [bundle.load() for bundle in bundles] for arm, bundles in self._arms.items()}
        flows = list(dict.fromkeys(name for runs in loaded.values() for run in runs for name in run.flows))
        # Frames and metrics name it `flows.bulk`.
        flow = flow.removeprefix("flows.") if flow is not None else None
        if flow is not None and flow not in flows:
            raise UsageError(f"flow={flow!r}; allowed: {', '.join(flows)}")
        of = flow or max(flows, key=lambda name: _most_bytes(loaded, name))
        return drawn(lambda: draw("overlay", loaded, of), f"no run has data of {of}", ax)


def _name_of(bundle: Bundle) -> str:
    """Returns what tells a run apart in a legend: what was changed, and its seed."""
    changed = [
        change.rpartition("=")[0].rpartition(".")[2] + "=" + change.rpartition("=")[2] for change in changes_of(bundle)
    ]
    return ", ".join([*(changed or [bundle.record["experiment"]]), f"seed {bundle.record['seed']}"])


def _most_bytes(arms: Mapping[str, Sequence[RunData]], flow: str) -> float:
    return max(run.flow_results[flow]["bytes"] if flow in run.flows else 0 for runs in arms.values() for run in runs)
