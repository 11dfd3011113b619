"""Reproduction of a paper: its claims as a table, the runs that they need, and a verdict for each
claim.
"""

from mptcplab.reproduction.agreement import Agreement, agreements
from mptcplab.reproduction.arms import Arm
from mptcplab.reproduction.claims import Claim, Comparison, Figure, Paper, Ranking, load, papers
from mptcplab.reproduction.document import document
from mptcplab.reproduction.notation import Measure
from mptcplab.reproduction.observation import Kept, Observation, observe, observe_in_memory
from mptcplab.reproduction.outcome import Compared, Observations, Outcome, Verdict
from mptcplab.reproduction.publication import Publication, Statement
from mptcplab.reproduction.quantities import measured, needed, of_each_flow
from mptcplab.reproduction.ranking import Ranked, rank
from mptcplab.reproduction.reasons import apart, numbers, what, why
from mptcplab.reproduction.sides import Side, Twins
from mptcplab.reproduction.study import AS_DESCRIBED, Cell, Study, claims_about, parts, patterns, study
from mptcplab.reproduction.tabulation import TableRow, tabulated

__all__ = [
    "AS_DESCRIBED",
    "Agreement",
    "Arm",
    "Cell",
    "Claim",
    "Compared",
    "Comparison",
    "Figure",
    "Kept",
    "Measure",
    "Observation",
    "Observations",
    "Outcome",
    "Paper",
    "Publication",
    "Ranked",
    "Ranking",
    "Side",
    "Statement",
    "Study",
    "TableRow",
    "Twins",
    "Verdict",
    "agreements",
    "apart",
    "claims_about",
    "document",
    "load",
    "measured",
    "needed",
    "numbers",
    "observe",
    "observe_in_memory",
    "of_each_flow",
    "papers",
    "parts",
    "patterns",
    "rank",
    "study",
    "tabulated",
    "what",
    "why",
]
