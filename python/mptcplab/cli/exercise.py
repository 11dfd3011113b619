"""``mptcplab exercise``: questions about Multipath TCP, answered by filling in a description."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli import completion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptcplab.exercises import Exercise, Outcome

EXAMPLE = "Example: mptcplab exercise 1, then fill in exercise-1.yaml, then: mptcplab exercise 1 --check"

_WIDTH = 80


def command(
    exercise: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.exercises,
            metavar="N",
            help="Its number, or a directory with an exercise of yours.",
        ),
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="With --check: the answers; default exercise-N.yaml.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Run the answer, and explain it or give a hint.")] = False,
    solution: Annotated[bool, typer.Option("--solution", help="Print a solution and its explanation.")] = False,
) -> None:
    """Learn MPTCP with exercises that check themselves.

    Each has a question and a description with a gap. Without N, the command lists the exercises.
    With N, it prints the question and writes the description to exercise-N.yaml. With --check,
    exit status 1 means that an answer is not right.
    """
    from mptcplab.errors import UsageError
    from mptcplab.exercises import find

    if check and solution:
        raise UsageError("--check and --solution: found both; allowed: one of them")
    if exercise is None:
        if check or solution:
            raise UsageError(
                f"exercise: N is missing; allowed: mptcplab exercise N {'--check' if check else '--solution'}"
            )
        _list()
        return
    asked = find(exercise)
    if files and not check:
        raise UsageError(f"exercise {exercise}: found {files[0]} without --check; allowed: FILE with --check")
    if check:
        _check(asked, exercise, files or [asked.file])
    elif solution:
        _print_solution(asked)
    else:
        _begin(asked, exercise)


def _list() -> None:
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import print_outline, print_remark
    from mptcplab.exercises import shipped

    print_outline([(str(number), escape(one.sheet.title)) for number, one in enumerate(shipped(), 1)])
    print_remark("begin: mptcplab exercise 1")


def _begin(exercise: Exercise, asked: str) -> None:
    """Prints the question. Writes the description and captures, unless the description exists."""
    from mptcplab import callers
    from mptcplab.cli.output import RESULTS, print_line, print_remark, write_text
    from mptcplab.exercises import captures

    RESULTS.print(f"[bold]{exercise.sheet.title}[/]")
    _print_text(exercise.sheet.question)
    print_line("")
    if exercise.file.exists():
        print_line(f"{exercise.file} exists and is kept; delete it to begin again")
    else:
        # The description comes last, because without captures it must not stand for a whole exercise.
        written = captures(exercise, Path()) if exercise.sheet.captured else []
        write_text(exercise.file, exercise.text)
        print_line(f"wrote {exercise.file}")
        for capture in written:
            callers.give(capture)
            print_line(f"wrote {capture}")
    print_remark(f"fill in its gaps, then: mptcplab exercise {shlex.quote(asked)} --check")


def _check(exercise: Exercise, asked: str, files: Sequence[Path]) -> None:
    from mptcplab.cli.options import rights
    from mptcplab.errors import MptcplabError
    from mptcplab.exercises import checked

    all_right = True
    with rights(allow=False):
        for file in files:
            try:
                outcome = checked(exercise, file)
            except MptcplabError as error:
                if len(files) == 1:
                    raise
                _print_verdict(file, f"wrong: {error}", is_right=False)
                all_right = False
                continue
            _print_outcome(exercise, asked, file, outcome, is_alone=len(files) == 1)
            all_right = all_right and outcome.is_right
    if not all_right:
        raise typer.Exit(1)


def _print_outcome(exercise: Exercise, asked: str, file: Path, outcome: Outcome, *, is_alone: bool) -> None:
    from mptcplab.cli.output import print_line, print_remark

    _print_verdict(file, "right" if outcome.is_right else f"not yet: {outcome.failed}", is_right=outcome.is_right)
    if not is_alone:
        return
    print_line("")
    if outcome.is_right:
        _print_explanation(exercise)
        if following := _following(asked):
            print_remark(f"next: mptcplab exercise {following}")
    else:
        _print_text(f"Hint: {outcome.hint}")
        print_remark(f"see the run: mptcplab run {shlex.quote(str(file))}")


def _print_verdict(file: Path, text: str, *, is_right: bool) -> None:
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import RESULTS

    colour = "green" if is_right else "red"
    RESULTS.print(f"[{colour}]{escape(f'{file}: {text}')}[/]", soft_wrap=True)


def _print_solution(exercise: Exercise) -> None:
    from mptcplab.cli.output import print_line

    print_line(exercise.answered(exercise.sheet.solution))
    _print_explanation(exercise)


def _print_explanation(exercise: Exercise) -> None:
    from mptcplab.cli.output import print_line

    _print_text(exercise.sheet.explanation)
    print_line("")
    _print_text(f"Read: {'; '.join(exercise.sheet.sources)}.")


def _print_text(text: str) -> None:
    """Prints paragraphs, each filled to a width that can be read."""
    from mptcplab.cli.output import print_line

    for number, paragraph in enumerate(text.strip().split("\n")):
        if number:
            print_line("")
        for line in textwrap.wrap(paragraph, _WIDTH):
            print_line(line)


def _following(asked: str) -> int | None:
    """Returns the number of the exercise after this one."""
    from mptcplab.exercises import shipped

    return int(asked) + 1 if asked.isdigit() and int(asked) < len(shipped()) else None
