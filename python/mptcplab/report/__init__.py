"""The report: one HTML page, complete in itself, for one run or for several side by side."""

from mptcplab.report.comparison import arms_of, comparison_page, in_order, outages_of, table_of
from mptcplab.report.contest import contest_page
from mptcplab.report.run import run_page

__all__ = ["arms_of", "comparison_page", "contest_page", "in_order", "outages_of", "run_page", "table_of"]
