"""Converts errors of pydantic to a SpecError with the place, the field, what was found and what is
allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from mptcplab.document import FieldPath, Node, field_name, kind_of, wrong
from mptcplab.errors import SpecError, Where
from mptcplab.experiment.base import nearest_hint

M = TypeVar("M", bound=BaseModel)

_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "a mapping",
}
_LIMITS = {
    "greater_than_equal": ("is less than {ge}", "at least {ge}"),
    "less_than_equal": ("is more than {le}", "at most {le}"),
    "multiple_of": ("is not a multiple of {multiple_of}", "multiples of {multiple_of}"),
    "string_too_long": ("is longer than {max_length}", "at most {max_length} characters"),
    "string_pattern_mismatch": ("is not a valid name", "letters, digits, _ and -"),
}


def validated(model: type[M], tree: Node, path: FieldPath = ()) -> M:
    """Validates a tree, which is at `path` of the description. Raises SpecError for the first error
    in it.
    """
    try:
        return model.model_validate(tree.plain())
    except ValidationError as error:
        raise first_problem(error, tree, path) from None


def first_problem(error: ValidationError, tree: Node, path: FieldPath = ()) -> SpecError:
    """Returns the error that comes first in the file."""
    problems = [_spec_error(details, tree, path) for details in error.errors(include_url=False)]
    return min(problems, key=lambda problem: (problem.where.line or 0, problem.where.column or 0))


def _spec_error(details: Any, tree: Node, above: FieldPath) -> SpecError:
    steps = tuple(step for step in details["loc"] if not _is_tag(step))
    context = details.get("ctx", {})
    if context.get("field"):
        steps = (*steps, *context["field"].split("."))
    steps = _as_written(tree, steps)
    node, reached = tree.deepest(steps)
    # A short form has no node for its main field, so the error is at the short form itself.
    shown = steps if details["type"] in ("unknown_field", "missing") else reached
    parent = tree.deepest(steps[:-1])[0] if details["type"] == "unknown_field" else node
    problem, allowed = _explained(details, context, parent)
    source = (details["type"] == "unknown_field" and node.key) or node.source
    return SpecError(
        problem, Where(source.file, source.line, source.column, field_name((*above, *shown)) or None), allowed=allowed
    )


def _as_written(tree: Node, steps: FieldPath) -> FieldPath:
    """Returns the path without the index of a list that is written as its only item."""
    written: FieldPath = ()
    for step in steps:
        node, reached = tree.deepest(written)
        if not (isinstance(step, int) and reached == written and not isinstance(node.value, list)):
            written = (*written, step)
    return written


def _is_tag(step: object) -> bool:
    """Returns whether a step of a location of pydantic names a branch of a union instead of a
    field.
    """
    return isinstance(step, str) and (
        step.startswith(("<", "literal[", "constrained-", "function-")) or step in ("int", "str", "[key]")
    )


def _explained(details: Any, context: dict[str, Any], node: Node) -> tuple[str, str | None]:
    """Returns the problem and what is allowed."""
    kind = details["type"]
    found = kind_of(details["input"])
    if kind == "described":
        return context["problem"], context.get("allowed")
    if kind == "unknown_field" and (meant := _decimal_comma(node, context["field"])):
        return meant, "numbers with a decimal point"
    if kind == "unknown_field":
        hint = nearest_hint(context["field"], context["fields"])
        return f"unknown field '{context['field']}'{hint}", ", ".join(context["fields"])
    if kind == "not_a_mapping":
        empty = "{} or " if details["input"] is None else ""
        return f"found {found}", f"{empty}a mapping with {', '.join(context['fields'])}"
    if kind == "missing":
        return "is missing", None
    if kind == "literal_error":
        choices = [choice.strip("'") for choice in context["expected"].replace(" or ", ", ").split(", ")]
        return f"found {found}{nearest_hint(str(details['input']), choices)}", ", ".join(choices)
    if kind in _LIMITS:
        problem, allowed = _LIMITS[kind]
        return f"{found} {problem.format(**context)}", allowed.format(**context)
    if kind in ("too_short", "too_long"):
        limit = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        count = context["actual_length"]
        return f"has {count} {'item' if count == 1 else 'items'}", limit
    return f"found {found if node.value is not None else 'nothing'}", _KINDS.get(kind, details["msg"])


def _decimal_comma(node: Node, field: str) -> str | None:
    """Returns the error for a decimal comma, as in `{delay: 10,5ms}`. YAML reads the field `5ms`
    after the number 10.
    """
    names = list(node.mapping)
    after = names.index(field) if field in names else 0
    if not after or not re.fullmatch(r"[0-9]+ ?[A-Za-z/]*%?", field) or node.mapping[field].value is not None:
        return None
    before = names[after - 1]
    number = node.mapping[before].value
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    return f"'{before}: {number},{field}' has a comma in its number, did you mean {before}: {number}.{field}?"


@contextmanager
def at(tree: Node, *path: str | int) -> Iterator[None]:
    """Adds the place in the description to errors of `described` that arise inside."""
    try:
        yield
    except PydanticCustomError as error:
        context = error.context or {}
        below = (context["field"],) if context.get("field") else ()
        raise wrong(tree, (*path, *below), context["problem"], context.get("allowed")) from None
