"""The features of the engine's table that fields of a description use, and what follows for their
back-ends.

A field names a feature, never a back-end. The table has the back-ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from mptcplab.features import features, lacking, names

if TYPE_CHECKING:
    from mptcplab.experiment.base import Model


class Uses:
    """Marks a field that uses these features if it is given, as in `Annotated[bool,
    Uses("one_at_a_time")]`.

    Of several features, it depends on the value, or on other fields, which of them it uses.
    """

    def __init__(self, *used: str) -> None:
        self.used = used


class UsesByValue:
    """Marks a field whose values use the features of `kind` that have their names: `transport: udp`
    uses `transport udp`. `others` names the features of values with another name.
    """

    def __init__(self, kind: str, **others: Sequence[str]) -> None:
        self.kind = kind
        self.others = {value: [f"{kind} {name}" for name in named] for value, named in others.items()}

    def used(self) -> dict[str, list[str]]:
        """Returns the features by value."""
        elsewhere = [feature for named in self.others.values() for feature in named]
        by_name = {name: [f"{self.kind} {name}"] for name in names(self.kind)}
        return self.others | {name: used for name, used in by_name.items() if used[0] not in elsewhere}


def uses(model: type[Model], name: str) -> list[str]:
    """Returns the features that a field uses if it is given, whatever its value."""
    marked = [feature for mark in _marks(model, name) if isinstance(mark, Uses) for feature in mark.used]
    named = f"{model.kind_of_features} {name}"
    return [*marked, named] if model.kind_of_features and named in features() else marked


def uses_by_value(model: type[Model], name: str) -> dict[str, list[str]]:
    """Returns the features that single values of a field use."""
    marks = [mark.used() for mark in _marks(model, name) if isinstance(mark, UsesByValue)]
    return {value: used for mark in marks for value, used in mark.items()}


def _marks(model: type[Model], name: str) -> Iterator[object]:
    field = model.model_fields[name]
    yield from field.metadata
    yield from _inside(field.annotation)


def _inside(annotation: Any) -> Iterator[object]:
    """Yields what `Annotated` adds to a type and to the types that it is made of."""
    yield from getattr(annotation, "__metadata__", ())
    for part in get_args(annotation):
        yield from _inside(part)


def remark(model: type[Model], name: str) -> str:
    """Returns which back-ends lack a field, or some of its values, as a sentence; empty if none
    does.
    """
    whole = _not_on(uses(model, name))
    values: dict[str, list[str]] = {}
    for value, used in uses_by_value(model, name).items():
        if where := _not_on(used):
            values.setdefault(where, []).append(f"`{value}`")
    sentences = [f"{', '.join(named)}: {where}" for where, named in values.items()]
    return " ".join(sentences or [whole[:1].upper() + whole[1:]])


def _not_on(used: Sequence[str]) -> str:
    """Returns, as in "not on `kernel`.", which back-ends lack all of these features, and which some
    of them.
    """
    lacked = [lacking(feature) for feature in used]
    if not lacked:
        return ""
    everything, something = set.intersection(*lacked), set.union(*lacked)
    parts = {"not on": everything, "not everything on": something - everything}
    return " ".join(f"{words} {_in_order(backends)}." for words, backends in parts.items() if backends)


def _in_order(backends: set[str]) -> str:
    every: Mapping[str, object] = next(iter(features().values()))
    return ", ".join(f"`{name}`" for name in every if name in backends)
