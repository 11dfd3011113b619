"""The picture of a trace: rate, delay and loss over time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mptcplab.plots.drawing import Drawing, Line
from mptcplab.plots.specification import Axis, Curve, Panel, Specification
from mptcplab.traces.model import averaged
from mptcplab.traces.statistics import INTERVAL_NS

if TYPE_CHECKING:
    from mptcplab.metrics.arrays import Numbers
    from mptcplab.traces.model import Step, Trace

#: The quantities in the order of their panels: name, axis, and the factor from the unit of the
#: trace.
_AXES = {
    "rate": (Axis("Rate", "Mbit/s"), 1e-6),
    "delay": (Axis("One-way delay", "ms"), 1e-6),
    "loss": (Axis("Loss", "%"), 100.0),
}


def drawing_of(name: str, trace: Trace) -> Drawing:
    """Returns the picture of a trace. The rate is that of intervals of 100 ms."""
    rates = averaged(trace, min(INTERVAL_NS, trace.period_ns)) if trace.has_capacity else ()
    steps = {"rate": rates, "delay": trace.delays, "loss": trace.losses}
    lines = {kind: _line(kind, found, trace) for kind, found in steps.items() if found}
    panels = [
        Panel(
            (Curve("", line.x, line.y, "hold", number),), Axis("Time", "s", high=trace.period_ns / 1e9), _AXES[kind][0]
        )
        for number, (kind, line) in enumerate(lines.items())
    ]
    alt = "; ".join(
        f"{_AXES[kind][0].label}: {np.min(line.y):.3g} to {np.max(line.y):.3g}" for kind, line in lines.items()
    )
    origin = ", ".join(text for text in (trace.origin.source, trace.origin.licence) if text)
    remarks = (f"Source: {origin}.",) if origin else ()
    specification = Specification(tuple(panels), layout="rows", remarks=remarks)
    safe = re.sub(r"[^\w-]", "-", name)
    return Drawing.specified(
        f"trace-{safe}", f"Trace {name}", alt, specification, "time_s", "value", list(lines.values())
    )


def _line(kind: str, steps: Sequence[Step[int]] | Sequence[Step[float]], trace: Trace) -> Line:
    """Returns the steps, and the last value again at the end."""
    times: Numbers = np.array([step.from_ns for step in steps] + [trace.period_ns]) / 1e9
    values: Numbers = np.array([float(step.value) for step in steps] + [float(steps[-1].value)]) * _AXES[kind][1]
    return Line(kind, times, values)
