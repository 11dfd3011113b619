"""Checks an answer: runs the description in the simulator and evaluates the conditions."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptcplab import document
from mptcplab.document import Node
from mptcplab.errors import UsageError
from mptcplab.exercises.gaps import check_filled
from mptcplab.experiment import Experiment, resolve
from mptcplab.runner import Nobody, execute, plan
from mptcplab.unfinished import removed_if_unfinished

if TYPE_CHECKING:
    from mptcplab.exercises.sheet import Check, Exercise
    from mptcplab.results import Bundle

SEED = 1


@dataclass(frozen=True)
class Outcome:
    """The result of a check: what did not hold, and what to think about; both None if all held."""

    failed: str | None = None
    hint: str | None = None
    #: The number of the check that failed, from 1; 0 if all held.
    number: int = 0

    @property
    def is_right(self) -> bool:
        """Whether the answer is right."""
        return self.failed is None


def checked(exercise: Exercise, file: Path) -> Outcome:
    """Runs the answer in a file. Raises SpecError for a gap that is left, for a change outside of
    the gaps, and for a wrong description.
    """
    answer = document.read(file)
    check_filled(document.parse(exercise.text, str(file)), answer)
    own = answer.child("expect")
    conditions = [(text, _about_own(exercise)) for text in (own.plain() if own is not None else [])]
    conditions += [(check.expect, check) for check in exercise.sheet.checks if check.expect is not None]
    wanted = Node([Node(text, answer.source) for text, _ in conditions], answer.source)
    with tempfile.TemporaryDirectory(prefix="mptcplab-") as scratch:
        bundle = _run(answer.replaced(("expect",), wanted), Path(scratch))
        return _outcome(exercise, bundle, [check for _, check in conditions])


def captures(exercise: Exercise, folder: Path) -> list[Path]:
    """Writes the captures of a run with the solution into a directory, and returns their files.
    Raises UsageError for a place that takes none.
    """
    solution = document.parse(exercise.answered(exercise.sheet.solution), exercise.name)
    written = []
    with tempfile.TemporaryDirectory(prefix="mptcplab-") as scratch:
        for capture in sorted((_run(solution, Path(scratch)).path / "captures").iterdir()):
            target = folder / f"{exercise.name}-{capture.name}"
            try:
                with removed_if_unfinished(target):
                    target.write_bytes(capture.read_bytes())
            except OSError as error:
                raise UsageError(f"{target}: cannot be written: {error.strerror}") from error
            written.append(target)
    return written


def _run(description: Node, out: Path) -> Bundle:
    resolved = resolve(Experiment.model_validate(description)).data
    (bundle,) = execute(plan([resolved], "sim", seed=SEED, repeat=1, out=out, fresh=True), Nobody())
    return bundle


def _about_own(exercise: Exercise) -> Check:
    return next(check for check in exercise.sheet.checks if check.expect is None)


def _outcome(exercise: Exercise, bundle: Bundle, checks: list[Check]) -> Outcome:
    if bundle.status != "done":
        return Outcome(f"the run ended as {bundle.status}", bundle.record.get("error"))
    verdicts: list[dict[str, Any]] = bundle.record["expectations"]
    for verdict, check in zip(verdicts, checks, strict=True):
        if not verdict["held"]:
            number = exercise.sheet.checks.index(check) + 1
            return Outcome(f"{verdict['text']} does not hold: {verdict['why']}", check.hint, number)
    return Outcome()
