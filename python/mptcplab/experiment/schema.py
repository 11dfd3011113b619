"""The JSON Schema of a description, for editors and for the reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from mptcplab.experiment.description import Experiment

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema: TypeAlias = "dict[str, Any]"

_REFERENCE: Schema = {
    "type": "string",
    "pattern": r"\$",
    "description": "a parameter: $name, $name.field or a product ${10s * name}, alone or inside a text",
}
_EXPERIMENTS: Schema = {
    "type": "array",
    "items": {"$ref": "#"},
    "minItems": 1,
    "description": "Several descriptions. Each is merged over the other keys of the file and continues its name.",
}
# Keywords shown to people. Editors read them beside `anyOf`, not inside it.
_SPOKEN = ("description", "default", "examples")


def json_schema() -> Schema:
    """Returns the JSON Schema (2020-12) of a description file. Any value may be a `$parameter`, and
    `experiments` may hold several descriptions.
    """
    schema = Experiment.model_json_schema(by_alias=True, mode="validation")
    definitions: dict[str, Schema] = schema.pop("$defs")
    for part in [schema, *(definitions[name] for name in _merged(schema, definitions))]:
        _without_required(part)
    for part in [schema, *definitions.values()]:
        _open_to_references(part)
    schema["properties"]["experiments"] = _EXPERIMENTS
    head = {"$schema": DIALECT, "title": "mptcplab experiment"}
    return {**head, **schema, **head, "$defs": {**definitions, "Reference": _REFERENCE}}


def _merged(schema: Schema, definitions: dict[str, Schema]) -> set[str]:
    """Returns the definitions that profiles, generators and `experiments` can complete: all but
    those of list items.
    """
    found: set[str] = set()
    waiting = list(_references(schema))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(definitions[name])
    return found


def _references(part: Any) -> Iterator[str]:
    """Yields the definitions that a schema refers to, except in items of lists."""
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        for key, below in part.items():
            if key != "items":
                yield from _references(below)
    elif isinstance(part, list):
        for below in part:
            yield from _references(below)


def _without_required(part: Schema) -> None:
    for shape in (part, *part.get("anyOf", [])):
        shape.pop("required", None)


def _open_to_references(part: Schema) -> None:
    """Lets every value in a schema be a reference, except the values of `parameters`."""
    for choice in (*part.get("anyOf", []), *part.get("oneOf", [])):
        _open_to_references(choice)
    for keyword in ("properties", "patternProperties"):
        for name, value in part.get(keyword, {}).items():
            if name != "parameters":
                part[keyword][name] = _or_reference(value)
    if "patternProperties" in part:
        part["additionalProperties"] = False
    if isinstance(part.get("items"), dict):
        part["items"] = _or_reference(part["items"])


def _or_reference(value: Schema) -> Schema:
    _open_to_references(value)
    spoken = {key: value[key] for key in _SPOKEN if value.get(key) is not None}
    shape = {key: below for key, below in value.items() if key not in (*_SPOKEN, "title")}
    choices = shape["anyOf"] if set(shape) == {"anyOf"} else [shape]
    return {**spoken, "anyOf": [*choices, {"$ref": "#/$defs/Reference"}]}
