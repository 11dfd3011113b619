"""The data of an exercise: a folder with ``exercise.yaml`` and ``description.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mptcplab import document
from mptcplab.errors import UsageError
from mptcplab.exercises.gaps import GAP, filled
from mptcplab.experiment.base import Model
from mptcplab.experiment.validation import validated

SHIPPED = Path(__file__).parent / "shipped"
#: The files of the folder of an exercise.
SHEET, DESCRIPTION = "exercise.yaml", "description.yaml"


class Check(Model):
    """A condition that a right answer satisfies."""

    expect: str | None = None
    """The condition, as in `expect` of a description. Without it, the conditions that the
    description itself has."""
    hint: str
    """What to think about if it does not hold."""


class Wrong(Model):
    """A wrong answer, with which the exercise is tested."""

    answers: list[str]
    """What stands in the gaps."""
    fails: int
    """The number of the check that does not hold, from 1."""


class Sheet(Model):
    """What an exercise asks, how answers are checked, and what a right answer explains."""

    title: str
    """What the exercise is about, in a few words."""
    question: str
    """The question."""
    solution: list[str]
    """A right answer for each gap."""
    wrong: list[Wrong]
    """Wrong answers that students give."""
    checks: list[Check]
    """The conditions, in the order in which they are checked."""
    explanation: str
    """Why the answer is right."""
    sources: list[str]
    """The sections and papers to read."""
    captured: bool = False
    """Whether students get the captures of a run with the solution."""


@dataclass(frozen=True)
class Exercise:
    """An exercise, and the name that its description has in the directory of a student."""

    name: str
    folder: Path

    @property
    def file(self) -> Path:
        """The name of the file for the answer."""
        return Path(f"{self.name}.yaml")

    @cached_property
    def sheet(self) -> Sheet:
        """The question and the checks. Raises SpecError."""
        return validated(Sheet, document.read(self.folder / SHEET))

    @cached_property
    def text(self) -> str:
        """The description with its gaps."""
        document.read(self.folder / DESCRIPTION)  # raises SpecError for what cannot be read
        return (self.folder / DESCRIPTION).read_text(encoding="utf-8")

    def answered(self, answers: list[str]) -> str:
        """Returns the description with answers in its gaps. Raises UsageError if their numbers
        differ.
        """
        try:
            return filled(self.text, answers)
        except ValueError as error:
            raise UsageError(f"{self.folder / SHEET}: {error}; allowed: one answer for each {GAP}") from error


def shipped() -> list[Exercise]:
    """Returns the exercises that come with mptcplab, in order."""
    folders = sorted(folder for folder in SHIPPED.iterdir() if (folder / SHEET).is_file())
    return [Exercise(f"exercise-{number}", folder) for number, folder in enumerate(folders, 1)]


def find(name: str) -> Exercise:
    """Returns the exercise with a number, or the one in a directory. Raises UsageError."""
    known = shipped()
    if name.isdigit() and 1 <= int(name) <= len(known):
        return known[int(name) - 1]
    folder = Path(name).expanduser()
    if (folder / SHEET).is_file() and (folder / DESCRIPTION).is_file():
        return Exercise(folder.resolve().name, folder)
    for missing, other in ((SHEET, DESCRIPTION), (DESCRIPTION, SHEET)):
        if (folder / other).is_file():
            raise UsageError(f"{folder / missing}: there is no such file; an exercise has {SHEET} and {DESCRIPTION}")
    raise UsageError(
        f"exercise {name}: there is none; allowed: 1 to {len(known)}, or a directory with {SHEET} and {DESCRIPTION}"
    )
