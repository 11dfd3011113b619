"""The report: one HTML page, complete in itself, for one run or for several side by side."""

from mptcplab.report.comparison import comparison_page
from mptcplab.report.run import run_page

__all__ = ["comparison_page", "run_page"]
