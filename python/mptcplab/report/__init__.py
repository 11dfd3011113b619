"""Reports: self-contained HTML pages for a run, several runs side by side, a sweep, or a paper."""

from mptcplab.report.agreement import metrics_grid, notes, shares_grid
from mptcplab.report.beside import Beside
from mptcplab.report.capture import capture_page
from mptcplab.report.captured import captured_hosts, host_page
from mptcplab.report.comparison import arms_of, comparison_drawings, comparison_page, in_order, outages_of, table_of
from mptcplab.report.contest import contest_drawings, contest_page
from mptcplab.report.publication import Published
from mptcplab.report.reproduction import judged, pictures_of, rankings, reproduction_page, sheets, tally
from mptcplab.report.run import run_page
from mptcplab.report.sweep import findings, medians_of, sweep_page

__all__ = [
    "Beside",
    "Published",
    "arms_of",
    "capture_page",
    "captured_hosts",
    "comparison_drawings",
    "comparison_page",
    "contest_drawings",
    "contest_page",
    "findings",
    "host_page",
    "in_order",
    "judged",
    "medians_of",
    "metrics_grid",
    "notes",
    "outages_of",
    "pictures_of",
    "rankings",
    "reproduction_page",
    "run_page",
    "shares_grid",
    "sheets",
    "sweep_page",
    "table_of",
    "tally",
]
