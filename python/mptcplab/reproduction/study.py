"""The runs that the claims of a paper need: experiments in both arms, as described and with other
assumptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mptcplab.algorithms import nearest
from mptcplab.backends import backend
from mptcplab.catalogue import catalogue, find
from mptcplab.errors import UsageError
from mptcplab.experiment import Member, Published
from mptcplab.reproduction.arms import NAMES, Arm, Chosen, chosen
from mptcplab.reproduction.claims import (
    OTHERWISE,
    QUICK,
    REPETITIONS,
    Alternative,
    Assumption,
    Claim,
    Contradiction,
    Figure,
    Paper,
    PublishedTable,
    Ranking,
    load,
    papers,
)
from mptcplab.reproduction.notation import Measure
from mptcplab.reproduction.observation import Kept
from mptcplab.reproduction.quantities import needed
from mptcplab.results import bundle_paths
from mptcplab.runner import Job, plan_chosen

Json = dict[str, Any]
AS_DESCRIBED = ""


@dataclass(frozen=True)
class Cell:
    """An experiment in an arm, by its name below the paper's. ``variant`` labels another
    assumption.
    """

    arm: Arm
    variant: str
    name: str
    experiment: Json
    chosen: Chosen

    @property
    def key(self) -> tuple[Arm, str, str]:
        return self.arm, self.variant, self.name


@dataclass(frozen=True)
class Study:
    """The claims to test and the cells that they need. A ``quick`` study tries no other
    assumptions.
    """

    paper: Paper
    claims: Sequence[Claim]
    arms: Sequence[Arm]
    cells: Mapping[tuple[Arm, str, str], Cell]
    #: The contradictions that concern one of the experiments, or no particular experiment.
    contradictions: Sequence[Contradiction]
    quick: bool
    rankings: Sequence[Ranking]
    #: The tables of the paper that are filled, and the values that the catalogue has of each
    #: experiment.
    tables: Sequence[PublishedTable]
    published: Mapping[str, Sequence[Published]]
    #: The arms in which rankings are made: in virtual time, with the stack that supports all their
    #: factors.
    ranked_in: Sequence[Arm]

    def kept(self, cell: Cell) -> Kept:
        """Returns what claims, rankings and figures use of the runs of a cell."""
        ranked = (Measure.parse(ranking.of) for ranking in self.rankings)
        kept = kept_for(self.claims, cell.name) | needed(ranked)
        if cell.variant == AS_DESCRIBED:
            for figure in self.paper.figures:
                kept |= _kept_for_figure(figure, cell.name)
        return kept

    def repetitions(self, variant: str) -> int:
        """Returns the number of seeds of a cell: as the paper states, or fewer if quick or with
        another assumption.
        """
        if self.quick:
            return QUICK
        return OTHERWISE if variant else self.paper.repetitions or REPETITIONS

    def jobs(self, backend_name: str, *, seed: int, out: Path, fresh: bool = False) -> list[Job]:
        """Returns the runs on one back-end, alternating between arms. A run that several cells need
        is made once.
        """
        found: dict[Path, Job] = {}
        for variants in (False, True):
            cells = [c for c in self.cells.values() if c.arm.backend == backend_name and bool(c.variant) == variants]
            work = [(cell.experiment, cell.chosen.choice) for cell in cells if cell.chosen.choice is not None]
            repeat = self.repetitions("any" if variants else AS_DESCRIBED)
            for job in plan_chosen(work, backend_name, seed=seed, repeat=repeat, out=out, fresh=fresh):
                found.setdefault(job.place, job)
        return list(found.values())

    def bundles(self, *, seed: int, out: Path) -> dict[tuple[Arm, str, str], list[Path]]:
        """Returns the paths of the bundles of each cell, in order of their seeds."""
        found = {}
        for key, cell in self.cells.items():
            if (choice := cell.chosen.choice) is not None:
                label = backend(cell.arm.backend).name
                seeds = range(seed, seed + self.repetitions(cell.variant))
                paths = bundle_paths(out, cell.experiment, label, seeds, choice.substitute)
                found[key] = list(paths.values())
        return found

    def experiments(self, pattern: str, arm: Arm, variant: str) -> list[Cell]:
        """Returns the cells that match a pattern of a comparison, in the order of the catalogue."""
        of_arm = (cell for cell in self.cells.values() if (cell.arm, cell.variant) == (arm, variant))
        return [cell for cell in of_arm if fnmatchcase(cell.name, pattern)]


def parts(paper: Paper, only: str | None) -> tuple[list[Claim], list[Ranking], list[PublishedTable]]:
    """Returns the claims, rankings and tables of a paper that ``only`` asks for: a name or a
    pattern of names, in any case. Raises UsageError if it matches nothing.
    """
    if only is None:
        return list(paper.claims), [], list(paper.tables)
    asked = only.removesuffix("/").lower()
    experiments = [short(member.name) for member in catalogue(paper.id)]
    claims = _about(paper, asked, experiments) or _drawn(paper, asked, experiments)
    # A ranking takes hundreds of runs, so a pattern does not ask for it.
    rankings = [ranking for ranking in paper.rankings if asked == ranking.id.lower()]
    tables = [table for table in paper.tables if _is_asked(table.id, asked)]
    if not claims and not rankings and not tables:
        raise UsageError(_nothing_about(paper, only, experiments))
    return claims, rankings, tables


def _is_asked(name: str, asked: str) -> bool:
    return fnmatchcase(name.lower(), asked)


def _about(paper: Paper, asked: str, experiments: Iterable[str]) -> list[Claim]:
    """Returns the claims of this id or figure, and those that need such an experiment."""
    needed_for = [name for name in experiments if _is_asked(name, asked)]
    return [
        claim
        for claim in paper.claims
        if any(_is_asked(name, asked) for name in (claim.id, claim.figure))
        or any(uses(claim, name) for name in needed_for)
    ]


def _drawn(paper: Paper, asked: str, experiments: Sequence[str]) -> list[Claim]:
    """Returns the claims that need an experiment which such a figure shows."""
    figures = [figure for figure in paper.figures if _is_asked(figure.id, asked)]
    shown = [name for name in experiments if any(fnmatchcase(name, figure.on) for figure in figures)]
    return [claim for claim in paper.claims if any(uses(claim, name) for name in shown)]


def _nothing_about(paper: Paper, only: str, experiments: Iterable[str]) -> str:
    """Returns why ``only`` matches nothing, and what is allowed."""
    known = dict.fromkeys(name for claim in paper.claims for name in (claim.figure, claim.id))
    known |= dict.fromkeys(one.id for of_kind in (paper.figures, paper.rankings, paper.tables) for one in of_kind)
    lower = {name.lower(): name for name in [*experiments, *known]}
    near = nearest(only.lower(), lower)
    hint = f"; did you mean {lower[near]}?" if near else ""
    found = f"--only {only}: no claim of {paper.id} is about it{hint}" if only.strip() else "--only: it is empty"
    allowed = f"a name or a pattern of {', '.join(known)}, or of an experiment (mptcplab list {paper.id})"
    return f"{found}; allowed: {allowed}"


def study(paper: Paper, backends: Sequence[str], *, only: str | None = None, quick: bool = False) -> Study:
    """Returns the study of the claims of a paper, or of one figure, experiment, claim or table.

    A ranking is included if ``only`` asks for it. Raises UsageError if ``only`` matches nothing.
    """
    claims, rankings, tables = parts(paper, only)
    arms = [Arm(name, one) for name in NAMES for one in backends]
    members = {short(member.name): member for member in catalogue(paper.id)}
    described = {
        name: _described(paper, member, quick=quick)
        for name, member in members.items()
        if any(uses(claim, name) for claim in claims) or _is_in(member, tables)
    }
    cells = [
        Cell(arm, AS_DESCRIBED, name, experiment, chosen(arm, experiment))
        for name, experiment in described.items()
        for arm in arms
    ]
    virtual = [arm for arm in arms if not backend(arm.backend).in_real_time]
    if not quick:
        cells += _variants(paper, claims, virtual, list(described))
    ranked_in = [arm for arm in virtual if arm.name == "then"]
    if rankings and not ranked_in:
        raise UsageError(f"--only {only}: takes hundreds of runs and is made in virtual time; allowed: --on sim")
    cells += [cell for ranking in rankings for cell in _combinations(paper, ranking, ranked_in)]
    of_others = {one for name, member in members.items() if name not in described for one in _contradicted(member)}
    touching = {one for name in described for one in _contradicted(members[name])}
    contradictions = [one for one in paper.contradictions if one.id in touching or one.id not in of_others]
    return Study(
        paper,
        claims,
        arms,
        {cell.key: cell for cell in cells},
        contradictions,
        quick,
        rankings,
        tables,
        {name: members[name].experiment.published for name in described},
        ranked_in,
    )


def claims_about(experiment: str) -> list[Claim]:
    """Returns the claims that need an experiment of the catalogue, or else the claims about its
    figure.

    A figure may show the runs of another experiment. Returns none if the paper has no table of
    claims.
    """
    paper, _, name = experiment.partition("/")
    claims = load(paper).claims if paper in papers() else []
    figure = name.partition("/")[0]
    return [one for one in claims if uses(one, name)] or [one for one in claims if one.figure == figure]


def alternatives(paper: Paper) -> Iterator[tuple[Alternative, list[str]]]:
    """Yields every other reading and assumption, with the claims for which it is tried."""
    open_questions: list[Assumption | Contradiction] = [*paper.assumptions, *paper.contradictions]
    for one in open_questions:
        for alternative in one.instead:
            yield alternative, one.concerns


def _variants(paper: Paper, claims: Iterable[Claim], arms: Sequence[Arm], names: Sequence[str]) -> Iterator[Cell]:
    for alternative, concerns in alternatives(paper):
        concerned = [claim for claim in claims if claim.id in concerns]
        for name in (name for name in names if any(uses(claim, name) for claim in concerned)):
            (member,) = find(f"{paper.id}/{name}", alternative.set)
            experiment = member.resolve().data
            yield from (Cell(arm, alternative.label, name, experiment, chosen(arm, experiment)) for arm in arms)


def _combinations(paper: Paper, ranking: Ranking, arms: Sequence[Arm]) -> Iterator[Cell]:
    """Yields the cells of a ranking."""
    for words, settings in ranking.combinations():
        for name in ranking.under.values():
            (member,) = find(f"{paper.id}/{name}", settings)
            experiment = member.resolve().data
            yield from (Cell(arm, variant_of(words), name, experiment, chosen(arm, experiment)) for arm in arms)


def variant_of(words: Iterable[str]) -> str:
    """Returns the variant name of a combination: ``OLIA, round robin, full_mesh``."""
    return ", ".join(words)


def _contradicted(member: Member) -> list[str]:
    return member.experiment.contradictions


def _is_in(member: Member, tables: Sequence[PublishedTable]) -> bool:
    """Returns whether a table has a published value of an experiment."""
    return bool({one.source for one in member.experiment.published} & {table.source for table in tables})


def _described(paper: Paper, member: Member, *, quick: bool) -> Json:
    """Returns an experiment as described, or as ``--quick`` shortens it."""
    shorter = (one for one in paper.quick if any(fnmatchcase(short(member.name), pattern) for pattern in one.on))
    changes = {key: value for one in shorter for key, value in one.set.items()} if quick else {}
    return find(member.name, changes)[0].resolve().data if changes else member.resolve().data


def kept_for(claims: Iterable[Claim], name: str) -> Kept:
    """Returns what claims use of the runs of an experiment."""
    about = (claim for claim in claims if uses(claim, name))
    return needed(measure for claim in about for compared in claim.compare for measure in compared.measures)


def _kept_for_figure(figure: Figure, name: str) -> Kept:
    shown, is_drawn = name in figure.examples, fnmatchcase(name, figure.on)
    of = [Measure.parse(figure.of)] if is_drawn and figure.of is not None else []
    return needed(of) | Kept(units=shown or (is_drawn and "arrivals" in figure.draw), shown=shown)


def uses(claim: Claim, name: str) -> bool:
    """Returns whether a claim is about an experiment."""
    return any(fnmatchcase(name, pattern) for pattern in patterns(claim))


def patterns(claim: Claim) -> Iterator[str]:
    """Yields the patterns of experiments in a claim. A parameter of another experiment matches any
    value.
    """
    for comparison in claim.compare:
        for measure in comparison.measures:
            if measure.on is not None:
                yield re.sub(r"\{\w+\}", "*", measure.on)


def short(name: str) -> str:
    """Returns the name of an experiment without its paper's prefix."""
    return name.partition("/")[2]
