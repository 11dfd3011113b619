"""What the subflows of a connection lost and sent, beside the equilibrium that its congestion
control has for it.

All of it is of the settled part of a flow, without its first quarter, in which windows come from
slow start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from mptcplab import metrics
from mptcplab.algorithms import Control, equilibrium, why_no_fluid
from mptcplab.results.run_data import Absent, NotConcerned, RunData, Value
from mptcplab.results.subflow_metrics import SubflowView, cwnd_limited_ratio, smallest_cwnd_ratio
from mptcplab.results.subflows import Subflow, sent, subflows_of
from mptcplab.results.tables import Series

#: The part of a flow after which its windows are taken for settled.
SETTLED_AFTER = 0.25
#: Loss rates that a fluid has an answer to.
LEAST_LOSS, MOST_LOSS = 1e-7, 0.99


@dataclass(frozen=True)
class Settled:
    """A subflow in the settled part of its flow."""

    subflow: Subflow
    #: Payload bytes sent for the first time, and again.
    bytes: float
    retransmitted_bytes: float
    #: Median of its smoothed round-trip time.
    rtt_s: float
    #: A full packet.
    packet_bytes: float
    #: The metrics of these names.
    cwnd_limited_ratio: Value
    smallest_cwnd_ratio: Value

    @property
    def loss_ratio(self) -> float:
        """Part of the bytes sent that were sent again."""
        return self.retransmitted_bytes / (self.bytes + self.retransmitted_bytes)

    @property
    def loss_error(self) -> float:
        """Standard error of the loss rate over the loss rate: that of a count of independent
        losses.
        """
        return sqrt(self.packet_bytes / self.retransmitted_bytes)


@dataclass(frozen=True)
class Share:
    """The part of the data that the fluid gives a subflow.

    ``low`` and ``high``: if the losses are a standard error off, its own and the others' opposite
    ways.
    """

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Equilibrium:
    """The subflows of a flow that carried data once it had settled, and what
    the fluid gives each.
    """

    since_s: float
    until_s: float
    subflows: Sequence[Settled]
    fluid: Sequence[Share]

    def share(self, settled: Settled) -> float:
        """The part of the data that a subflow carried."""
        return settled.bytes / sum(one.bytes for one in self.subflows)


def equilibrium_of(run: RunData, flow: str, control: Control) -> Equilibrium | Absent:
    """Where a flow should have settled that ran with a congestion control.

    Absent with the reason where nothing holds windows in an equilibrium; NotConcerned if the
    control has no fluid, or fewer than two subflows carried data.
    """
    why_not = why_no_fluid(control)
    if why_not is not None:
        return NotConcerned(why_not)
    start_s, until_s = run.start_s(flow), run.flow_end_s(flow)
    since_s = start_s + SETTLED_AFTER * (until_s - start_s)
    views = [SubflowView(run, subflow, since_s, until_s) for subflow in subflows_of(run, flow)]
    settled = [one for view in views if (one := _settled(view)) is not None]
    if len(settled) < 2:
        return NotConcerned("fewer than two subflows carried data once it had settled")
    without = [str(one.subflow.id) for one in settled if one.retransmitted_bytes <= 0]
    if without:
        subflows = f"subflow{'s' if len(without) > 1 else ''} {', '.join(without)}"
        return Absent(f"nothing was lost on {subflows} from {since_s:.3g} s on")
    return Equilibrium(since_s, until_s, settled, _fluid(control, settled))


def _settled(view: SubflowView) -> Settled | None:
    """The subflow, if it carried data then, and its losses and round-trip time were sampled."""
    counted = sent(view.run, view.subflow)
    again = view.run.samples.series(view.subflow.entity, "retransmitted_bytes")
    srtt_s = view.gauge("srtt_s")
    if counted is None or again is None or srtt_s is None or _grown(counted, view) <= 0 or metrics.median(srtt_s) <= 0:
        return None
    return Settled(
        view.subflow,
        _grown(counted, view),
        _grown(again, view),
        metrics.median(srtt_s),
        view.two_packets_bytes / 2,
        cwnd_limited_ratio(view),
        smallest_cwnd_ratio(view),
    )


def _grown(counter: Series, view: SubflowView) -> float:
    before, after = metrics.counter_at(counter.times_s, counter.values, [view.since_s, view.until_s])
    return float(after - before)


def _fluid(control: Control, settled: Sequence[Settled]) -> list[Share]:
    shares = _shares(control, settled, [one.loss_ratio for one in settled])
    return [
        Share(share, *(_shares(control, settled, _off(settled, this, sign))[this] for sign in (1, -1)))
        for this, share in enumerate(shares)
    ]


def _off(settled: Sequence[Settled], this: int, sign: int) -> list[float]:
    """Loss rates a standard error off: higher (1) or lower (-1) on one subflow, the other way on
    the others.
    """
    signs = [sign if number == this else -sign for number in range(len(settled))]
    off = [one.loss_ratio * (1 + its * one.loss_error) for one, its in zip(settled, signs, strict=True)]
    return [min(max(p, LEAST_LOSS), MOST_LOSS) for p in off]


def _shares(control: Control, settled: Sequence[Settled], losses: Sequence[float]) -> list[float]:
    """The part of the data of each, if the loss rates are these."""
    rtts_s = [one.rtt_s for one in settled]
    windows = equilibrium(control, list(zip(losses, rtts_s, strict=True)))
    rates = [window / rtt_s for window, rtt_s in zip(windows, rtts_s, strict=True)]
    return [rate / sum(rates) for rate in rates]
