"""Figures of runs: specified once, drawn with matplotlib for print, and by the browser on pages."""

from mptcplab.plots.comparison import arrivals_of, bars, overlay, points_over
from mptcplab.plots.contest import Cell, overview
from mptcplab.plots.drawing import Drawing
from mptcplab.plots.look import PAGE, SIZES, STYLES, Look, style
from mptcplab.plots.publishing import DEFAULT_FORMATS, FORMATS, Exporter, export
from mptcplab.plots.report_card import GoalCell, goal_map
from mptcplab.plots.run import drawings_of
from mptcplab.plots.specification import Axis, Specification
from mptcplab.plots.subflows import congestion_windows, stacked, timeline
from mptcplab.plots.sweep import sweep_drawings
from mptcplab.plots.words import key_in_words, metric_in_words

__all__ = [
    "DEFAULT_FORMATS",
    "FORMATS",
    "PAGE",
    "SIZES",
    "STYLES",
    "Axis",
    "Cell",
    "Drawing",
    "Exporter",
    "GoalCell",
    "Look",
    "Specification",
    "arrivals_of",
    "bars",
    "congestion_windows",
    "drawings_of",
    "export",
    "goal_map",
    "key_in_words",
    "metric_in_words",
    "overlay",
    "overview",
    "points_over",
    "stacked",
    "style",
    "sweep_drawings",
    "timeline",
]
