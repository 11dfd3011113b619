"""mptcplab in a script or a notebook: loads experiments, runs them, and shows runs as frames,
figures and tables.
"""

from mptcplab.interactive.comparison import Comparison, compare
from mptcplab.interactive.experiments import Experiments, load
from mptcplab.interactive.runs import Run, Runs, run

__all__ = ["Comparison", "Experiments", "Run", "Runs", "compare", "load", "run"]
