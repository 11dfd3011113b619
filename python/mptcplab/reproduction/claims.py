"""The table of a paper: its claims with published values, its contradictions,
and the assumptions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mptcplab.algorithms import nearest
from mptcplab.catalogue_index import PAPERS
from mptcplab.errors import SpecError, UsageError, Where
from mptcplab.reproduction.notation import Measure, Range

TABLE = "claims.toml"
#: Repetitions if the paper states none, with another assumption, and with --quick.
REPETITIONS, OTHERWISE, QUICK = 10, 6, 3


def _measure(text: str) -> str:
    Measure.parse(text)
    return text


def _range(text: str) -> str:
    Range.parse(text)
    return text


MeasureText = Annotated[str, AfterValidator(_measure)]
RangeText = Annotated[str, AfterValidator(_range)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Comparison(_Model):
    """A comparison of a measured number with a published one. All comparisons of
    a claim must hold.
    """

    of: MeasureText
    #: The quantity that it is divided by; of the same run, unless it names an experiment.
    over: MeasureText | None = None
    #: Compares the rank correlation (Spearman) with this parameter over the experiments instead of
    #: the numbers.
    trend: str | None = None
    #: Divides flow by flow, for the flows of a group, and takes the median of these ratios.
    paired: bool = False
    #: Compares the share of runs in which a quantity of 0 or 1 is 1, with its interval by Wilson.
    share: bool = False
    #: Compares the value of this parameter at which the quantity is largest over the experiments.
    largest_at: str | None = None
    #: With `largest_at`: values that are less than this fraction below the largest are as large.
    tie: float = 0.03
    #: The flow of the quantities, if it is not the first.
    flow: str | None = None
    #: The words or numbers of the paper; None if only the order counts.
    published: str | None = None
    unit: str = ""
    #: The values with which the statement holds. All others refute it.
    holds: RangeText

    @cached_property
    def allowed(self) -> Range:
        return Range.parse(self.holds)

    @cached_property
    def above(self) -> Measure:
        return Measure.parse(self.of)

    @cached_property
    def below(self) -> Measure | None:
        return None if self.over is None else Measure.parse(self.over)

    @property
    def measures(self) -> list[Measure]:
        """What is measured for it, the divisor last."""
        return [self.above] if self.below is None else [self.above, self.below]

    @property
    def is_plain(self) -> bool:
        """Whether the compared number has the unit of the quantity."""
        return self.over is None and self.trend is None and self.largest_at is None

    @model_validator(mode="after")
    def _one_way(self) -> Comparison:
        ways = [name for name in ("trend", "share", "largest_at", "paired") if getattr(self, name)]
        ways += [self.above.of_several] if self.above.of_several is not None else []
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)}: only one is allowed")
        if self.over is not None and ways and ways[0] in ("trend", "share", "largest_at"):
            raise ValueError(f"{ways[0]} has no divisor")
        if self.below is not None and self.below.is_ambiguous:
            raise ValueError(f"{self.over!r} means several experiments; allowed: one, or their sum, least or largest")
        return self


class Claim(_Model):
    """A statement of the paper, which holds if all its comparisons hold."""

    id: str
    says: str
    figure: str
    source: str
    quote: str | None = None
    compare: list[Comparison] = []
    #: The part of the source from which the ranges of its comparisons follow.
    tolerance: str | None = None
    #: The reason that it is not tested.
    untested: str | None = None

    @model_validator(mode="after")
    def _tested_or_not(self) -> Claim:
        if bool(self.compare) == (self.untested is not None):
            raise ValueError("a claim has either comparisons or a reason why it is untested")
        if bool(self.compare) != (self.tolerance is not None):
            raise ValueError("a claim with comparisons says what its tolerance follows from")
        return self


class Alternative(_Model):
    """Other values of descriptions, as in ``--set``."""

    label: str
    set: dict[str, str]


class Assumption(_Model):
    """An assumption where the paper is silent: its reason, and the alternatives that claims are
    tested with.
    """

    id: str
    says: str
    why: str
    concerns: list[str]
    instead: list[Alternative] = Field(min_length=1)


class Contradiction(_Model):
    """A contradiction: two statements of the paper that cannot both be true, and the chosen
    reading.
    """

    id: str
    says: str
    reading: str
    concerns: list[str] = []
    instead: list[Alternative] = []


class Factor(_Model):
    """A factor of a ranking: the key of ``--set``, and its values by their names."""

    name: str
    key: str
    values: dict[str, str] = Field(min_length=2)


class Ranking(_Model):
    """All combinations of some factors, ordered by the mean of a metric over
    several experiments.
    """

    id: str
    title: str
    says: str
    of: MeasureText
    unit: str = ""
    among: list[Factor] = Field(min_length=1)
    #: The experiments, by names of what happens in them.
    under: dict[str, str] = Field(min_length=1)

    def combinations(self) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
        """Returns the name of each combination, and its values as in ``--set``."""
        for words in product(*(factor.values for factor in self.among)):
            yield words, {factor.key: factor.values[word] for factor, word in zip(self.among, words, strict=True)}


class Figure(_Model):
    """A figure as the paper draws it: the experiments of a pattern, one line for each value of a
    parameter.

    `examples` are experiments whose first run is shown subflow by subflow. With `windows` among
    what is drawn, their congestion windows are shown, too. `bars` are of the quantity `of`;
    `curves` show it over the parameter `over`, and `pairs` for each flow of a group.
    """

    id: str
    title: str
    draw: list[Literal["goodput", "arrivals", "windows", "bars", "curves", "pairs"]] = []
    on: str
    #: The parameter whose values have a line each, or `name`; None for one line.
    label: str | None = None
    of: MeasureText | None = None
    over: str | None = None
    unit: str = ""
    examples: list[str] = []

    @model_validator(mode="after")
    def _has_what_it_draws(self) -> Figure:
        if {"bars", "curves", "pairs"}.isdisjoint(self.draw) != (self.of is None):
            raise ValueError(f"figure {self.id}: 'of' belongs to 'bars', 'curves' or 'pairs'")
        if ("curves" in self.draw) != (self.over is not None):
            raise ValueError(f"figure {self.id}: 'curves' and 'over' belong together")
        return self


class PublishedTable(_Model):
    """A table of the paper: the published values of the catalogue whose source it is, beside the
    measured ones.
    """

    id: str
    title: str
    #: The source of the published values in the catalogue.
    source: str


class Shorter(_Model):
    """What ``--quick`` changes in the experiments of some patterns, as in ``--set``."""

    on: list[str] = Field(min_length=1)
    set: dict[str, str] = Field(min_length=1)


class Paper(_Model):
    """The whole table. `repetitions` is the number that the paper states."""

    id: str
    title: str
    says: str
    repetitions: int | None = None
    claims: list[Claim] = Field(alias="claim")
    contradictions: list[Contradiction] = Field([], alias="contradiction")
    assumptions: list[Assumption] = Field([], alias="assumption")
    figures: list[Figure] = Field([], alias="figure")
    rankings: list[Ranking] = Field([], alias="ranking")
    tables: list[PublishedTable] = Field([], alias="table")
    quick: list[Shorter] = []

    @model_validator(mode="after")
    def _known_names(self) -> Paper:
        known = [claim.id for claim in self.claims]
        open_questions: list[Assumption | Contradiction] = [*self.assumptions, *self.contradictions]
        twice = next((name for name in known if known.count(name) > 1), None)
        if twice:
            raise ValueError(f"two claims are called {twice}")
        for one in open_questions:
            for name in one.concerns:
                if name not in known:
                    raise ValueError(f"{one.id} concerns unknown claim {name}")
        return self


def papers() -> list[str]:
    """Returns the papers with a table of claims."""
    return sorted(path.parent.name for path in PAPERS.glob(f"*/{TABLE}"))


def load(paper: str) -> Paper:
    """Returns the table of a paper by the name of its folder. Raises UsageError for an unknown
    paper and SpecError for a wrong table.
    """
    if paper not in papers():
        near = nearest(paper, papers())
        hint = f"; did you mean {near}?" if near else ""
        raise UsageError(f"no claims of a paper are called {paper!r}{hint}; allowed: {', '.join(papers())}, all")
    return read(PAPERS / paper / TABLE)


def read(path: Path) -> Paper:
    """Reads a table of claims from a file. Raises SpecError."""
    try:
        data: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        return Paper.model_validate(data)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"not TOML: {error}", Where(str(path))) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise SpecError(str(first["msg"]), Where(str(path), field=field or None)) from error
