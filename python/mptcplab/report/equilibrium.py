"""The section of a run's page that compares the shares of subflows with the equilibrium of their
congestion control.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mptcplab.algorithms import Control, control_name
from mptcplab.report.grid import Grid
from mptcplab.report.quantities import MISSING, quantity
from mptcplab.results import Absent, RunData, Value
from mptcplab.results.entities import Json
from mptcplab.results.equilibrium import Equilibrium, equilibrium_of
from mptcplab.results.run_data import NotConcerned

MOST_FLOWS = 20
#: A condition is mentioned if it holds in more than this part of the samples.
MOSTLY = 0.5
#: From this width of a range of shares on, the losses do not decide which path is better.
UNDECIDED = 0.5
HEADS = ["subflow", "link", "loss", "round-trip time", "share", "share in equilibrium", "if losses differ by chance"]


@dataclass(frozen=True)
class Settling:
    """A flow with its control, a table of both shares of each subflow, and remarks on why they may
    differ.
    """

    flow: str
    control: str
    grid: Grid | None
    remarks: Sequence[str]


def settlings(record: Json, run: RunData) -> list[Settling]:
    """Returns an entry for each connection whose control has a fluid model and whose data used two
    or more subflows.
    """
    used = {one["where"]: one["used"] for one in record["substitutions"]}
    flows = [flow for flow in run.resolved["flows"] if flow["transport"] == "mptcp"][:MOST_FLOWS]
    controls = {flow["id"]: _used(flow["cc"], used.get(f"flows.{flow['id']}.cc")) for flow in flows}
    found = {flow: equilibrium_of(run, flow, control) for flow, control in controls.items()}
    return [
        _settling(flow, controls[flow], equilibrium, run)
        for flow, equilibrium in found.items()
        if not isinstance(equilibrium, NotConcerned)
    ]


def _used(preferred: Sequence[Control], used: str | None) -> Control:
    """Returns the control that ran, from a list in order of preference; the first if none was
    substituted.
    """
    return next((one for one in preferred if control_name(one) == used), preferred[0])


def _settling(flow: str, control: Control, found: Equilibrium | Absent, run: RunData) -> Settling:
    if isinstance(found, Absent):
        return Settling(
            flow, _label(control), None, [f"No equilibrium: {found.why}; something else bounded its window."]
        )
    return Settling(flow, _label(control), _grid(found), [_since(found), *_limits(found), *_changes(found, run)])


def _label(control: Control) -> str:
    """Returns the name and parameters of a control: ``semicoupled (a 2.0)``."""
    given = {} if isinstance(control, str) else {key: control[key] for key in control if key != "name"}
    of = ", ".join(f"{key} {value}" for key, value in given.items())
    return f"{control_name(control)} ({of})" if of else control_name(control)


def _grid(found: Equilibrium) -> Grid:
    rows = [
        [
            str(one.subflow.id),
            one.subflow.link or MISSING,
            f"{100 * one.loss_ratio:.2g} %",
            quantity(one.rtt_s, "s"),
            _percent(found.share(one)),
            _percent(fluid.share),
            f"{100 * fluid.low:.0f} to {_percent(fluid.high)}",
        ]
        for one, fluid in zip(found.subflows, found.fluid, strict=True)
    ]
    return Grid(HEADS, rows, frozenset(range(2, len(HEADS))))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _since(found: Equilibrium) -> str:
    return f"Measured from {quantity(found.since_s, 's')} to {quantity(found.until_s, 's')}."


def _limits(found: Equilibrium) -> Iterator[str]:
    """Yields what limited windows other than losses, as far as the samples show it."""
    least = [one.subflow.id for one in found.subflows if _or(one.smallest_cwnd_ratio, 0.0) > MOSTLY]
    if least:
        yield f"{_subflows(least)}: the window was at its least most of the time, where losses cannot make it smaller."
    unused = [one.subflow.id for one in found.subflows if _or(one.cwnd_limited_ratio, 1.0) < MOSTLY]
    if unused:
        yield (
            f"{_subflows(unused)}: the window was not full most of the time, so that the application, the scheduler or "
            "the receive window bounded what was sent."
        )
    if any(fluid.high - fluid.low > UNDECIDED for fluid in found.fluid):
        yield "The losses are too close, or too few, to tell which path is the better one."


def _changes(found: Equilibrium, run: RunData) -> Iterator[str]:
    """Yields the events of the network and the changes of subflows during the measurement."""
    events = [one.id for one in run.happenings if found.since_s <= one.actual_s <= found.until_s]
    if events:
        yield f"Meanwhile there was {', '.join(events)}: it is the mean of different states."
    passing = [one.subflow.id for one in found.subflows if not one.subflow.lived(found.since_s, found.until_s)]
    if passing:
        yield f"{_subflows(passing)}: not open all of this time."


def _or(value: Value, otherwise: float) -> float:
    return otherwise if isinstance(value, Absent) else value


def _subflows(ids: Sequence[int]) -> str:
    return f"Subflow{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
