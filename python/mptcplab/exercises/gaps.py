"""Descriptions with gaps: what an exercise leaves to be filled in, and what it keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mptcplab.document import FieldPath, Node, kind_of, wrong

#: What is written in place of an answer.
GAP = "___"
#: What may fill a gap inside a text.
_PART = r"([\w.%/ -]*)"


def filled(text: str, answers: Sequence[str]) -> str:
    """Returns a description with an answer in each gap, in order. Raises ValueError for another
    number of answers.
    """
    parts = text.split(GAP)
    if len(parts) != len(answers) + 1:
        raise ValueError(f"{len(parts) - 1} gaps and {len(answers)} answers")
    return parts[0] + "".join(answer + part for answer, part in zip(answers, parts[1:], strict=True))


def check_filled(given: Node, found: Node) -> None:
    """Checks that `found` is the description `given` with its gaps filled in. Raises SpecError for
    a gap that is left, and for a change elsewhere.
    """
    for path, expected, value in _differences(given, found, ()):
        if value is not None and _has_gap(value):
            raise wrong(found, path, f"the gap {GAP} is not filled in", "your answer in its place")
        if value is None:
            raise wrong(found, path, "is missing", "only the gaps may change")
        if expected is None:
            raise wrong(found, path, "does not belong to the exercise", "only the gaps may change")
        if not _is_gap(expected):
            kept = f"{kind_of(expected.plain())} as in the exercise; only the gaps may change"
            raise wrong(found, path, f"found {kind_of(value.plain())}", kept)


def _differences(given: Node, found: Node, path: FieldPath) -> Iterator[tuple[FieldPath, Node | None, Node | None]]:
    """Yields each place where two descriptions differ, with both nodes. A filled gap is none."""
    if _is_gap(given):
        if _has_gap(found):
            yield path, given, found
    elif isinstance(given.value, dict) and isinstance(found.value, dict):
        for key in dict.fromkeys((*given.value, *found.value)):
            yield from _at((*path, key), given.value.get(key), found.value.get(key))
    elif isinstance(given.value, list) and isinstance(found.value, list):
        for index in range(max(len(given.value), len(found.value))):
            yield from _at((*path, index), given.child(index), found.child(index))
    elif not _is_same_text(given, found):
        yield path, given, found


def _at(
    path: FieldPath, given: Node | None, found: Node | None
) -> Iterator[tuple[FieldPath, Node | None, Node | None]]:
    if given is None or found is None:
        yield path, given, found
    else:
        yield from _differences(given, found, path)


def _is_gap(node: Node) -> bool:
    return node.value == GAP


def _has_gap(node: Node) -> bool:
    below = node.value if isinstance(node.value, list) else node.mapping.values()
    return (isinstance(node.value, str) and GAP in node.value) or any(map(_has_gap, below))


def _is_same_text(given: Node, found: Node) -> bool:
    """Returns whether two scalars are equal, apart from gaps inside a text."""
    if isinstance(given.value, str) and isinstance(found.value, str):
        pattern = _PART.join(map(re.escape, given.value.split(GAP)))
        return GAP not in found.value and re.fullmatch(pattern, found.value) is not None
    return bool(given.plain() == found.plain())
