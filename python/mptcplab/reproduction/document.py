"""The claims in the output of ``reproduce --json``."""

from __future__ import annotations

from math import isfinite
from typing import Any

from mptcplab.reproduction.agreement import agreements
from mptcplab.reproduction.arms import NAMES
from mptcplab.reproduction.outcome import Compared, Outcome, Verdict
from mptcplab.reproduction.ranking import rank
from mptcplab.reproduction.reasons import apart, what, why
from mptcplab.reproduction.tabulation import tabulated
from mptcplab.results import Spread

Json = dict[str, Any]


def document(outcome: Outcome) -> Json:
    """Returns the document with the keys ``paper claims rankings tables agreements disagreements``.

    A claim has ``id says figure source tolerance``. Its ``then`` and ``today`` hold the verdict of
    the arm's representative back-end: ``verdict provisional why backend depends_on tried
    compared``. Its ``on`` holds the verdicts of all back-ends.
    """
    return {
        "paper": outcome.study.paper.id,
        "claims": [
            {name: getattr(claim, name) for name in ("id", "says", "figure", "source", "tolerance")}
            | {name: _verdict(outcome, outcome.verdict(claim, name)) for name in NAMES}
            | {"on": [_verdict(outcome, one) | {"arm": one.arm.name} for one in outcome.verdicts if one.claim is claim]}
            for claim in outcome.study.claims
        ],
        "rankings": [
            {
                "id": ranking.id,
                "arm": arm.label,
                "metric": ranking.of,
                "unit": ranking.unit,
                "combinations": [
                    dict(zip((factor.name for factor in ranking.among), one.words, strict=True))
                    | {
                        "under": dict(zip(ranking.under, map(_spread, one.under), strict=True)),
                        "mean": _spread(one.mean),
                    }
                    for one in rank(outcome.observations, ranking, arm)
                ],
            }
            for ranking in outcome.study.rankings
            for arm in outcome.study.ranked_in
        ],
        "tables": [
            {
                "id": table.id,
                "title": table.title,
                "rows": [
                    {
                        "experiment": row.experiment,
                        "metric": row.metric,
                        "unit": row.published.unit or "",
                        "published": row.published.value,
                        "measured": {
                            arm.label: None if spread is None else _spread(spread)
                            for arm, spread in zip(outcome.study.arms, row.measured, strict=True)
                        },
                    }
                    for row in tabulated(outcome, table, outcome.study.arms)
                ],
            }
            for table in outcome.study.tables
        ],
        "agreements": [
            {
                "arm": one.arms[0].name,
                "backends": [arm.backend for arm in one.arms],
                "decided": one.decided,
                "alike": len(one.alike),
                "contrary": [verdict.claim.id for verdict, _ in one.contrary],
            }
            for one in agreements([outcome])
        ],
        "disagreements": [
            {
                "id": one.claim.id,
                "arm": one.arm.name,
                "verdicts": {
                    v.arm.backend: {"verdict": v.as_described, "why": "; ".join([why(outcome, v), *apart(outcome, v)])}
                    for v in (one, other)
                },
            }
            for one, other in outcome.disagreements()
        ],
    }


def _verdict(outcome: Outcome, verdict: Verdict) -> Json:
    return {
        "verdict": verdict.kind,
        "provisional": verdict.provisional,
        "why": why(outcome, verdict),
        "backend": verdict.arm.backend,
        "depends_on": list(verdict.flipped),
        "tried": dict(verdict.tried),
        "compared": [_compared(one) for one in verdict.compared],
    }


def _compared(one: Compared) -> Json:
    spread = one.judged.spread
    return {
        "experiment": one.on,
        "what": what(one),
        "published": one.comparison.published,
        "unit": one.comparison.unit if one.comparison.is_plain else "",
        "holds": one.comparison.holds,
        "verdict": one.judged.kind,
        "n": spread.n if spread else 0,
        "median": _finite(spread.median) if spread else None,
        "ci95": [_finite(spread.low), _finite(spread.high)] if spread else None,
        "why": one.why_not or one.why_without,
    }


def _spread(spread: Spread) -> Json:
    return {"n": spread.n, "median": spread.median, "ci95": [spread.low, spread.high]}


def _finite(value: float) -> float | None:
    """Returns a number, or None for infinity, because JSON has no infinity."""
    return value if isfinite(value) else None
