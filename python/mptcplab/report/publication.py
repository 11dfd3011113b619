"""What a paper says about the experiment of a run, beside what was measured: a section of the page
of the run.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isinf

from mptcplab.errors import first_few
from mptcplab.report.beside import IN_SIMULATOR, second_choices
from mptcplab.report.quantities import quantity
from mptcplab.report.reproduction import ARMS
from mptcplab.report.verdict import busy, place
from mptcplab.reproduction import Claim, Compared, Comparison, Publication, Side, Statement, patterns, what
from mptcplab.results import Bundle
from mptcplab.results.bundle import changes_of


@dataclass(frozen=True)
class Value:
    """A measured value, and whether it is inside the tolerance, or the reason
    that there is none.
    """

    text: str
    inside: bool | None


@dataclass(frozen=True)
class Row:
    """A comparison: the measured quantity, the published value, the tolerance, and the measured
    values.
    """

    measured: str
    published: str
    tolerance: str
    values: Sequence[Value]


@dataclass(frozen=True)
class Said:
    """A claim, and those of its comparisons that concern the run."""

    claim: Claim
    rows: Sequence[Row]


@dataclass(frozen=True)
class Published:
    """The section: the claims, with a column of values for each side."""

    paper: str
    #: What to know before the numbers.
    remark: str | None
    sides: Sequence[str]
    #: A sentence for each side.
    tally: Sequence[str]
    said: Sequence[Said]
    #: What runs the experiments without which there is no value; None if there are all.
    others: str | None
    #: What repeats the runs and gives verdicts.
    command: str

    @classmethod
    def of(cls, publication: Publication, bundle: Bundle, sides: Sequence[Side]) -> Published:
        """What is published about the experiment of a run, beside it and in the simulator if that
        is among the sides.

        A run whose description is another is not compared.
        """
        paper, command = publication.paper.title, _command(publication, bundle)
        why_not = _why_not_compared(publication, bundle)
        if why_not is not None:
            return cls(paper, why_not, [], [], [Said(claim, []) for claim in publication.claims], None, command)
        heads = [bundle.record["backend"], IN_SIMULATOR][: len(sides)]
        of_claims = zip(*(publication.statements(side) for side in sides), strict=True)
        said = [one for one in (_said(publication, statements) for statements in of_claims) if one.rows]
        tally = list(_tally(said, heads, busy(bundle.record, bundle.resolved)))
        return cls(paper, _stack(bundle), heads, tally, said, _others(sides[0], bundle), command)


def _said(publication: Publication, of_sides: Sequence[Statement]) -> Said:
    rows = zip(*(one.compared for one in of_sides), strict=True)
    return Said(of_sides[0].claim, [_row(publication, one) for one in rows])


def _row(publication: Publication, of_sides: Sequence[Compared]) -> Row:
    first = of_sides[0]
    of_another = "" if publication.name.endswith(f"/{first.on}") else f"{first.on}: "
    comparison = first.comparison
    published = comparison.published or ""
    return Row(f"{of_another}{what(first)}", published, _tolerance(comparison), [_value(one) for one in of_sides])


def _value(one: Compared) -> Value:
    spread = one.judged.spread
    if spread is None:
        return Value(one.why_not or one.why_without or "no value", None)
    return Value(_quantity(one.comparison, spread.median), one.is_inside)


def _tolerance(comparison: Comparison) -> str:
    """``0.5 to 1.6 Mbit/s``, ``< 0.95``."""
    allowed = comparison.allowed
    low, high = (_quantity(comparison, end) for end in (allowed.low, allowed.high))
    if isinf(allowed.high):
        return f"{'>' if allowed.low_open else '≥'} {low}"
    if isinf(allowed.low):
        return f"{'<' if allowed.high_open else '≤'} {high}"
    return low if low == high else f"{low} to {high}"


def _quantity(comparison: Comparison, value: float) -> str:
    """Of a ratio and of a trend without a unit."""
    return "∞" if isinf(value) else quantity(value, comparison.unit if comparison.is_plain else "")


def _tally(said: Sequence[Said], heads: Sequence[str], causes: Sequence[str]) -> Iterator[str]:
    """Yields, for each side, the number of comparisons inside the tolerance and causes for those
    outside.
    """
    for number, head in enumerate(heads):
        values = [row.values[number] for one in said for row in one.rows]
        known = [value for value in values if value.inside is not None]
        count = sum(bool(value.inside) for value in known)
        without = f", {len(values) - len(known)} without a value" if len(known) < len(values) else ""
        is_explained = number == 0 and (count < len(known) or not known)
        why = " ".join(["", *causes, "One run decides nothing."]) if is_explained else ""
        yield f"{head}: {count} of {len(known)} inside the tolerance{without}.{why}"


def _stack(bundle: Bundle) -> str | None:
    """Returns that the run had another stack than the paper."""
    chosen = second_choices(bundle.record)
    return f"Not on {ARMS['then']}, but on {ARMS['today']}: {chosen}." if chosen else None


def _why_not_compared(publication: Publication, bundle: Bundle) -> str | None:
    """Returns the reason that nothing is compared: another description, or only claims about other
    experiments.
    """
    if not publication.is_about(bundle):
        changes = ", ".join(changes_of(bundle)) or "the description is another"
        return f"It is about {publication.name} as the catalogue has it. This run is not compared with it: {changes}."
    if not publication.needed:
        looked_at = first_few(list(dict.fromkeys(one for claim in publication.claims for one in patterns(claim))))
        return f"It is measured in other experiments of the paper: {looked_at}."
    return None


def _others(side: Side, bundle: Bundle) -> str | None:
    seed = [] if bundle.record["seed"] == 1 else ["--seed", str(bundle.record["seed"])]
    command = ["mptcplab", "run", *side.why_not, "--on", place(bundle.record), *seed]
    return shlex.join(command) if side.why_not else None


def _command(publication: Publication, bundle: Bundle) -> str:
    known = {claim.figure for claim in publication.claims}
    figure = publication.name.split("/")[1]
    only = figure if figure in known else publication.claims[0].figure
    backends = dict.fromkeys(["sim", place(bundle.record)])
    return f"mptcplab reproduce {publication.paper.id} --only {only} --on {','.join(backends)}"
