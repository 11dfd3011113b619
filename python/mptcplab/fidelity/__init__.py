"""Compares the simulator with the kernel: cases, recorded results of a kernel,
bounds, and a page.
"""

from mptcplab.fidelity.bounds import Bounds, Exemption
from mptcplab.fidelity.cases import Case, cases_of
from mptcplab.fidelity.judgement import Row, Verdict, judged
from mptcplab.fidelity.measures import measures_of
from mptcplab.fidelity.page import page
from mptcplab.fidelity.recorded import Recorded

__all__ = ["Bounds", "Case", "Exemption", "Recorded", "Row", "Verdict", "cases_of", "judged", "measures_of", "page"]
