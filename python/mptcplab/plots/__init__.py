"""Figures of runs: drawn with matplotlib's object interface, exported as PNG, SVG and CSV."""

from mptcplab.plots.comparison import arrivals_of, bars, overlay
from mptcplab.plots.contest import Cell, overview
from mptcplab.plots.drawing import Drawing, export, style
from mptcplab.plots.run import drawings_of
from mptcplab.plots.subflows import stacked, timeline
from mptcplab.plots.sweep import sweep_drawings

__all__ = [
    "Cell",
    "Drawing",
    "arrivals_of",
    "bars",
    "drawings_of",
    "export",
    "overlay",
    "overview",
    "stacked",
    "style",
    "sweep_drawings",
    "timeline",
]
