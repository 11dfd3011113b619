"""The table of a paper: its claims with what was published, its contradictions, and what had to be assumed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mptcplab.catalogue import PAPERS
from mptcplab.errors import SpecError, UsageError, Where
from mptcplab.reproduction.notation import Measure, Range

TABLE = "claims.toml"
#: Repetitions where the paper states none, and of a quick look: in virtual time, in real time.
REPETITIONS, QUICK, QUICK_IN_REAL_TIME = 10, 6, 3


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
    """A measured number against what was published: all of a claim's have to hold."""

    of: MeasureText
    #: What it is divided by; without an experiment of its own, that of the same run.
    over: MeasureText | None = None
    #: Instead of the numbers themselves, their rank correlation (Spearman) with this parameter over the experiments.
    trend: str | None = None
    #: What the paper says, in its words or numbers; None where only the order counts.
    published: str | None = None
    unit: str = ""
    #: With which values the statement holds; all others refute it.
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


class Claim(_Model):
    """A statement of the paper, as a conjunction of comparisons."""

    id: str
    says: str
    figure: str
    source: str
    quote: str | None = None
    compare: list[Comparison] = []
    #: What of the source the ranges of its comparisons follow from.
    tolerance: str | None = None
    #: Why it is not put to the test.
    untested: str | None = None

    @model_validator(mode="after")
    def _tested_or_not(self) -> Claim:
        if bool(self.compare) == (self.untested is not None):
            raise ValueError("a claim has either comparisons or a reason why it is untested")
        if bool(self.compare) != (self.tolerance is not None):
            raise ValueError("a claim with comparisons says what its tolerance follows from")
        return self


class Alternative(_Model):
    """Other values of descriptions, as ``--set`` takes them."""

    label: str
    set: dict[str, str]


class Assumption(_Model):
    """What the paper does not say, what is assumed and why, and what else it is tried with on which claims."""

    id: str
    says: str
    why: str
    concerns: list[str]
    instead: list[Alternative] = Field(min_length=1)


class Contradiction(_Model):
    """Two statements of the paper that cannot both be meant, and the reading that was chosen."""

    id: str
    says: str
    reading: str
    concerns: list[str] = []
    instead: list[Alternative] = []


class Factor(_Model):
    """What a ranking varies: the key of ``--set``, and its values by the words for them."""

    name: str
    key: str
    values: dict[str, str] = Field(min_length=2)


class Ranking(_Model):
    """All combinations of some factors, ordered by the mean of a metric over several experiments."""

    id: str
    title: str
    says: str
    of: MeasureText
    unit: str = ""
    among: list[Factor] = Field(min_length=1)
    #: The experiments, by the words for what happens in them.
    under: dict[str, str] = Field(min_length=1)

    def combinations(self) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
        """The words of each combination, and its values as ``--set`` takes them."""
        for words in product(*(factor.values for factor in self.among)):
            yield words, {factor.key: factor.values[word] for factor, word in zip(self.among, words, strict=True)}


class Figure(_Model):
    """A figure as the paper draws it: the experiments of a pattern, one line for each value of a parameter.

    ``examples`` are experiments of which the first run is shown subflow by subflow.
    """

    id: str
    title: str
    draw: list[Literal["goodput", "arrivals"]] = []
    on: str
    label: str
    examples: list[str] = []


class Paper(_Model):
    """The whole table. ``repetitions`` is what the paper states."""

    id: str
    title: str
    says: str
    repetitions: int | None = None
    claims: list[Claim] = Field(alias="claim")
    contradictions: list[Contradiction] = Field([], alias="contradiction")
    assumptions: list[Assumption] = Field([], alias="assumption")
    figures: list[Figure] = Field([], alias="figure")
    rankings: list[Ranking] = Field([], alias="ranking")

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
                    raise ValueError(f"{one.id} concerns {name}, which is no claim")
        return self


def papers() -> list[str]:
    """The papers that have a table of claims."""
    return sorted(path.parent.name for path in PAPERS.glob(f"*/{TABLE}"))


def load(paper: str) -> Paper:
    """The table of a paper by its folder's name. Raises UsageError for another, SpecError for a wrong table."""
    if paper not in papers():
        raise UsageError(f"no claims of a paper are called {paper!r}; allowed: {', '.join(papers())}")
    return read(PAPERS / paper / TABLE)


def read(path: Path) -> Paper:
    """A table of claims from a file. Raises SpecError."""
    try:
        data: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        return Paper.model_validate(data)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"not TOML: {error}", Where(str(path))) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise SpecError(str(first["msg"]), Where(str(path), field=field or None)) from error
