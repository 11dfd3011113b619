"""The report card of a congestion control: whether it meets the goals of RFC 6356, and uses all of
the capacity, in many conditions.

`worlds` describes the experiments, `goals` what is measured in them, `trials` chooses what runs,
and `marking` judges the runs and tells the result.
"""

from mptcplab.report_card.goals import GOALS, Goal
from mptcplab.report_card.marking import SCHEMA, Mark, document, marks
from mptcplab.report_card.trials import Examination, Trial, examination
from mptcplab.report_card.worlds import LOSSES, RTT_RATIOS, SUBFLOWS, Cell, Connection

__all__ = [
    "GOALS",
    "LOSSES",
    "RTT_RATIOS",
    "SCHEMA",
    "SUBFLOWS",
    "Cell",
    "Connection",
    "Examination",
    "Goal",
    "Mark",
    "Trial",
    "document",
    "examination",
    "marks",
]
