"""Tests of the exercises: solutions pass, gaps and wrong answers do not, and each wrong answer gets
the hint that is meant for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import is_refused, mptcplab
from mptcplab.cli import completion
from mptcplab.errors import SpecError
from mptcplab.exercises import Exercise, captures, checked, shipped
from mptcplab.exercises.sheet import SHIPPED

EXERCISES = shipped()
WRONG = [(exercise, number) for exercise in EXERCISES for number in range(len(exercise.sheet.wrong))]


def _answer(exercise: Exercise, answers: list[str], folder: Path) -> Path:
    file = folder / exercise.file
    file.write_text(exercise.answered(answers), encoding="utf-8")
    return file


def test_there_are_ten() -> None:
    assert [exercise.name for exercise in EXERCISES] == [f"exercise-{number}" for number in range(1, 11)]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.folder.name)
def test_the_solution_is_right(exercise: Exercise, tmp_path: Path) -> None:
    outcome = checked(exercise, _answer(exercise, exercise.sheet.solution, tmp_path))
    assert outcome.is_right, outcome


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.folder.name)
def test_doing_nothing_is_not_right(exercise: Exercise, tmp_path: Path) -> None:
    (tmp_path / exercise.file).write_text(exercise.text)
    with pytest.raises(SpecError, match="the gap ___ is not filled in"):
        checked(exercise, tmp_path / exercise.file)


@pytest.mark.parametrize(
    ("exercise", "number"), WRONG, ids=[f"{exercise.folder.name}-{number}" for exercise, number in WRONG]
)
def test_a_wrong_answer_gets_its_hint(exercise: Exercise, number: int, tmp_path: Path) -> None:
    wrong = exercise.sheet.wrong[number]
    outcome = checked(exercise, _answer(exercise, wrong.answers, tmp_path))
    assert not outcome.is_right
    assert outcome.number == wrong.fails, outcome
    assert outcome.hint == exercise.sheet.checks[wrong.fails - 1].hint


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.folder.name)
def test_it_cites_what_to_read(exercise: Exercise) -> None:
    assert exercise.sheet.wrong
    assert any("RFC" in source and "section" in source for source in exercise.sheet.sources)


def test_a_shell_completes_their_numbers() -> None:
    assert completion.exercises("1")[:2] == ["1", "10"]


def test_only_the_gaps_may_change(tmp_path: Path) -> None:
    file = _answer(EXERCISES[0], ["full_mesh"], tmp_path)
    for old, new, told in (
        ("rate: 10mbit", "rate: 100mbit", "links.lte.rate: found '100mbit'; allowed: '10mbit' as in the exercise"),
        ("duration: 5s", "duration: 5s\nvary: none", "vary: does not belong to the exercise"),
        ("duration: 5s", "", "duration: is missing"),
    ):
        changed = tmp_path / "changed.yaml"
        changed.write_text(file.read_text().replace(old, new))
        with pytest.raises(SpecError) as raised:
            checked(EXERCISES[0], changed)
        assert told in str(raised.value)


def test_a_student_goes_from_the_question_to_the_right_answer(tmp_path: Path) -> None:
    begun = mptcplab("exercise", "1", cwd=tmp_path)
    assert begun.status == 0, begun
    assert "wrote exercise-1.yaml" in begun.out
    file = tmp_path / "exercise-1.yaml"
    assert is_refused(mptcplab("exercise", "1", "--check", cwd=tmp_path), 2, "exercise-1.yaml:", "the gap ___")
    file.write_text(file.read_text().replace("___", "passive"))
    wrong = mptcplab("exercise", "1", "--check", cwd=tmp_path)
    assert wrong.status == 1
    assert "subflows_opened is 1" in wrong.out
    assert "Hint: " in wrong.out
    file.write_text(file.read_text().replace("passive", "full_mesh"))
    right = mptcplab("exercise", "1", "--check", cwd=tmp_path)
    assert right.status == 0
    assert "exercise-1.yaml: right" in right.out
    assert "RFC 8684" in right.out
    assert "full_mesh" in mptcplab("exercise", "1", cwd=tmp_path).out + file.read_text(), "the answer is kept"


def test_the_answers_of_a_class_are_checked_in_one_go(tmp_path: Path) -> None:
    for student, answer in (("ada", "full_mesh"), ("bob", "passive"), ("cyd", "fullmash")):
        (tmp_path / f"{student}.yaml").write_text(EXERCISES[0].answered([answer]))
    ended = mptcplab("exercise", "1", "--check", "ada.yaml", "bob.yaml", "cyd.yaml", cwd=tmp_path)
    assert ended.status == 1
    assert [line[:16] for line in ended.out.splitlines()] == ["ada.yaml: right", "bob.yaml: not ye", "cyd.yaml: wrong:"]


def test_a_teacher_can_add_an_exercise(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for file in (SHIPPED / "01-first-join").iterdir():
        (folder / file.name).write_text(file.read_text())
    assert "wrote mine.yaml" in mptcplab("exercise", "mine", cwd=tmp_path).out
    (folder / "exercise.yaml").write_text("title: Mine\nqestion: Why?\n")
    assert is_refused(mptcplab("exercise", "mine", cwd=tmp_path), 2, "mine/exercise.yaml:2:1: qestion: unknown field")


@pytest.mark.parametrize(("there", "missing"), [("exercise", "description"), ("description", "exercise")])
def test_half_an_exercise_says_what_is_missing(there: str, missing: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / f"{there}.yaml").touch()
    assert is_refused(mptcplab("exercise", "mine", cwd=tmp_path), 2, f"mine/{missing}.yaml: there is no such file")


def test_the_captures_of_an_exercise_show_what_the_question_says(tmp_path: Path) -> None:
    written = captures(EXERCISES[9], tmp_path)
    assert [file.name for file in written] == ["exercise-10-phone.wlan0.pcapng", "exercise-10-phone.wwan0.pcapng"]
    ended = mptcplab("pcap", written[0].name, "--interface", written[1].name, cwd=tmp_path)
    assert ended.status == 0
    assert "MP_JOIN" in ended.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["11"], "exercise 11: there is none; allowed: 1 to 10"),
        (["--check"], "N is missing"),
        (["1", "--check", "--solution"], "found both"),
        (["1", "x.yaml"], "found x.yaml without --check"),
        (["1", "--check", "x.yaml"], "there is no such file"),
    ],
)
def test_bad_input_gets_one_line(arguments: list[str], told: str, tmp_path: Path) -> None:
    ended = mptcplab("exercise", *arguments, cwd=tmp_path)
    assert is_refused(ended, 2, told)
    assert len(ended.err.splitlines()) == 1
