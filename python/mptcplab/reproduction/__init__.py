"""A paper reproduced: its claims as a table, the runs that they need, and a verdict for each from the samples."""

from mptcplab.reproduction.arms import Arm
from mptcplab.reproduction.claims import Claim, Figure, Paper, Ranking, load, papers
from mptcplab.reproduction.document import document
from mptcplab.reproduction.observation import Observation, observe
from mptcplab.reproduction.outcome import Compared, Observations, Outcome, Verdict
from mptcplab.reproduction.ranking import Ranked, rank
from mptcplab.reproduction.reasons import apart, numbers, why
from mptcplab.reproduction.study import AS_DESCRIBED, Cell, Study, claims_about, study

__all__ = [
    "AS_DESCRIBED",
    "Arm",
    "Cell",
    "Claim",
    "Compared",
    "Figure",
    "Observation",
    "Observations",
    "Outcome",
    "Paper",
    "Ranked",
    "Ranking",
    "Study",
    "Verdict",
    "apart",
    "claims_about",
    "document",
    "load",
    "numbers",
    "observe",
    "papers",
    "rank",
    "study",
    "why",
]
