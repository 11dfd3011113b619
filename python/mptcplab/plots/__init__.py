"""Figures of runs: drawn with matplotlib's object interface, exported as PNG, SVG and CSV."""

from mptcplab.plots.comparison import bars, overlay
from mptcplab.plots.drawing import Drawing, export
from mptcplab.plots.run import drawings_of
from mptcplab.plots.sweep import sweep_drawings

__all__ = ["Drawing", "bars", "drawings_of", "export", "overlay", "sweep_drawings"]
