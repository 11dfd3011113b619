"""The JSON Schema of a description, for editors and for the reference."""

from __future__ import annotations

from typing import Any

from mptcplab.experiment.description import Experiment

_REFERENCE = {"type": "string", "pattern": r"^\$", "description": "a parameter: $name or $name.field"}


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a description file: any field may be a `$parameter`, and `experiments` may hold several."""
    schema = Experiment.model_json_schema(by_alias=True, mode="validation")
    definitions = schema.setdefault("$defs", {})
    for part in [*definitions.values(), schema]:
        for whole in (part, *part.get("anyOf", [])):
            properties = whole.get("properties", {})
            for name, field in properties.items():
                if name != "parameters":
                    properties[name] = _or_reference(field)
    definitions["Reference"] = _REFERENCE
    schema["properties"]["experiments"] = {
        "type": "array",
        "items": {"type": "object"},
        "description": "several descriptions over shared keys",
    }
    # Profiles and `experiments` may supply what a description itself leaves out.
    return {key: value for key, value in schema.items() if key != "required"} | {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mptcplab experiment",
    }


def _or_reference(field: dict[str, Any]) -> dict[str, Any]:
    """The field's schema or a reference; what it says to people stays outside, where editors look for it."""
    spoken: dict[str, Any] = {
        key: field[key] for key in ("title", "description", "default", "examples") if key in field
    }
    shape = {key: value for key, value in field.items() if key not in spoken}
    choices = [*shape["anyOf"]] if set(shape) == {"anyOf"} else [shape]
    return {**spoken, "anyOf": [*choices, {"$ref": "#/$defs/Reference"}]}
