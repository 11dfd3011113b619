"""The sentences about the fields of a description, by where a field stands. They come from the
models, as those of the reference and of the schema do.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, TypeAlias, get_args, get_origin

from mptcplab.experiment import Experiment
from mptcplab.experiment.base import Choice, Directions, Model, meaning
from mptcplab.experiment.flows import Algorithm

#: The types that a value may have: models, and mappings and lists of them.
Types: TypeAlias = "tuple[Any, ...]"
#: A field: its model, and its name there.
FieldOf: TypeAlias = "tuple[type[Model], str]"

WHOLE: Types = (Experiment,)


def at_key(types: Types, key: str) -> tuple[FieldOf | None, Types]:
    """Returns the field that `key` is in a mapping of one of `types`, and the types of its value.

    The field is None for a name that the description gives, as that of a link.
    """
    for model in _models(types):
        named = {field.alias or name: name for name, field in model.model_fields.items()}
        if key in named:
            field = model.model_fields[named[key]]
            # A direction has no sentence worth repeating for every value that has directions.
            told = None if issubclass(model, Directions) else (model, named[key])
            return told, tuple(_choices(field.annotation))
    mappings = [one for one in types if _origin(one) is dict]
    if mappings:
        return None, tuple(part for one in mappings for part in _choices(get_args(one)[1]))
    return None, tuple(model for model in _models(types) if issubclass(model, Choice))


def of_items(types: Types) -> Types:
    """Returns the types of the items of a list of one of `types`."""
    lists = [one for one in types if _origin(one) is list]
    return tuple(part for one in lists for part in _choices(get_args(one)[0]))


def sentence(field: FieldOf) -> str:
    """Returns what a field means, with a capital letter and a full stop."""
    text = meaning(*field)
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "..")) else ".") if text else ""


def of_choice(types: Types, name: str) -> str | None:
    """Returns what the choice of a name does, None if the name is not one of a table."""
    # A list may be written as its only item.
    known = (_summaries(model) for model in _models((*types, *of_items(types))))
    return next((summaries[name] for summaries in known if name in summaries), None)


def _summaries(model: type[Model]) -> dict[str, str]:
    """Returns what the algorithms or choices of a model do, by name."""
    if issubclass(model, Algorithm) and hasattr(model, "family"):
        return {one.name: one.summary for one in model.family.algorithms}
    if issubclass(model, Choice) and hasattr(model, "choices"):
        return {name: choice.summary for name, choice in model.choices.items()}
    return {}


def _models(types: Types) -> Iterator[type[Model]]:
    return (one for one in types if inspect.isclass(one) and issubclass(one, Model))


def _choices(annotation: Any) -> Iterator[Any]:
    """Yields the models, mappings and lists that a type allows."""
    if _origin(annotation) in (dict, list) or (inspect.isclass(annotation) and issubclass(annotation, Model)):
        yield annotation
        return
    for part in get_args(annotation):
        yield from _choices(part)


def _origin(annotation: Any) -> object:
    return get_origin(annotation)
