"""The parts that all models of a description share: the base model, values per direction, short
forms and names.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mptcplab.algorithms import is_class, nearest
from mptcplab.document import given
from mptcplab.errors import SpecError
from mptcplab.experiment.uses import remark
from mptcplab.units import Duration, Quantity, Rate

T = TypeVar("T")

Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*$", max_length=40, description="a name of letters, digits, _ and -"),
]


def described(problem: str, allowed: str | None = None, *, field: str | None = None) -> PydanticCustomError:
    """Makes an error about `field` of the validated model. The loader adds the
    place in the file.
    """
    return PydanticCustomError("described", "{problem}", {"problem": problem, "allowed": allowed, "field": field})


class Model(BaseModel):
    """A mapping in a description. Refuses unknown fields and names the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True, defer_build=True)
    #: If fields are features of the engine's table by their names: the kind of these features.
    kind_of_features: ClassVar[str | None] = None

    if not TYPE_CHECKING:  # type checkers know the fields from pydantic

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(
                    **{name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
                )
            except ValidationError as error:
                raise _wrong_in_python(error, type(self), fields) from None

        # The validation of a model inside another one then does not call `__init__`, which would
        # lose the path above an error.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def default(cls, **fields: Any) -> Self:
        """Makes a value that is used as a default. It is not validated, because validation would
        build the schema of the class whenever its module is imported.
        """
        return cast("Self", cls.model_construct(**fields))

    @classmethod
    def field_names(cls) -> list[str]:
        """The names of the fields as written in a description."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, data: Any) -> Any:
        if isinstance(data, BaseModel):
            return data
        if not isinstance(data, Mapping):
            raise PydanticCustomError("not_a_mapping", "not a mapping", {"fields": cls.field_names()})
        for key in data:
            if key not in cls.model_fields and key not in cls.field_names():
                raise PydanticCustomError("unknown_field", "unknown field", {"field": key, "fields": cls.field_names()})
        return data

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = handler(schema)
        fields = {field.alias or name: name for name, field in cls.model_fields.items()}
        for written, schema_of_field in handler.resolve_ref_schema(reference).get("properties", {}).items():
            if text := meaning(cls, fields[written]):
                schema_of_field["description"] = text
        return reference

    def dumped(self) -> dict[str, Any]:
        """Returns the given values as plain data."""
        return self.model_dump(by_alias=True, exclude_unset=True)


def _wrong_in_python(error: ValidationError, model: type[Model], fields: Mapping[str, Any]) -> SpecError:
    """Returns the error of a model made in Python. It has no file, but a field,
    as in `Link.rate`.
    """
    from mptcplab.experiment.validation import first_problem  # imports this module

    return first_problem(error, given(plain(fields)), (model.__name__,))


def plain(value: object) -> Any:
    """Converts Python values, models and quantities included, to the data of a description."""
    if isinstance(value, (Model, Quantity)):
        return value.dumped()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@cache
def field_texts(model: type[Model]) -> dict[str, str]:
    """Returns the docstrings of the fields of a model. They are read from the source, so only a
    schema needs that time.
    """
    texts: dict[str, str] = {}
    for origin in reversed(model.__mro__):
        if issubclass(origin, Model) and "[" not in origin.__name__:
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(origin))).body
            for field, text in itertools.pairwise(getattr(body, "body", [])):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                ):
                    texts[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return texts


def meaning(model: type[Model], name: str) -> str:
    """Returns what a field means, and which back-ends lack it."""
    said = field_texts(model).get(name) or model.model_fields[name].description or ""
    lacked = remark(model, name)
    return f"{said.removesuffix('.')}. {lacked}" if lacked else said


class Shorthand(Model):
    """A mapping that may be written as the value of its main field, which `shorthand` names."""

    shorthand: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _from_one_line(cls, data: Any) -> Any:
        return data if isinstance(data, (Mapping, BaseModel)) else {cls.shorthand: data}

    @model_serializer(mode="wrap")
    def _to_one_line(self, handler: SerializerFunctionWrapHandler) -> Any:
        full = handler(self)
        given = {key for key, value in full.items() if value is not None}
        return full[self.shorthand] if given == {self.shorthand} else full

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = super().__get_pydantic_json_schema__(schema, handler)
        full = handler.resolve_ref_schema(reference)
        short = full.get("properties", {}).get(cls.shorthand)
        if short is None:
            return reference
        whole = dict(full)
        full.clear()
        full.update({"anyOf": [short, whole]})
        return reference


class Summarized(Protocol):
    """What a name of a table stands for."""

    @property
    def summary(self) -> str:
        """What it does, in a few words."""


class Choice(Model):
    """A choice by its name, or `NAME: {..}` with its settings."""

    #: What is chosen, in words.
    kind: ClassVar[str]
    #: What can be chosen, by name.
    choices: ClassVar[Mapping[str, Summarized]]
    #: Whether users can choose a class of their own.
    takes_classes: ClassVar[bool] = True

    name: str
    """Its name."""

    @classmethod
    def known(cls, name: str) -> str:
        """Returns the name. Raises an error of `described` if it is unknown."""
        if name in cls.choices or (cls.takes_classes and is_class(name)):
            return name
        allowed = ", ".join(cls.choices) + (", or ./FILE.py:CLASS" if cls.takes_classes else "")
        raise described(f"unknown {cls.kind} '{name}'{nearest_hint(name, list(cls.choices))}", allowed)

    @classmethod
    def settings(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the fields beside the name that the mapping behind the name gives."""
        return dict(given)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = super().__get_pydantic_json_schema__(schema, handler)
        full = handler.resolve_ref_schema(reference)
        whole = dict(full)
        settings = {name: field for name, field in whole.get("properties", {}).items() if name != "name"}
        by_name = {"type": "object", "properties": settings}
        one = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": by_name}
        full.clear()
        names = [{"const": name, "description": choice.summary} for name, choice in cls.choices.items()]
        full.update({"anyOf": [{"oneOf": names}, {"type": "string"}, one, whole]})
        return reference

    @model_validator(mode="before")
    @classmethod
    def _from_one_line(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"name": cls.known(data)}
        if isinstance(data, BaseModel):
            return data
        if isinstance(data, Mapping) and isinstance(data.get("name"), str):
            return {**data, "name": cls.known(data["name"])}
        if isinstance(data, Mapping) and len(data) == 1:
            ((name, given),) = data.items()
            if isinstance(name, str) and isinstance(given, Mapping):
                return {**cls.settings(given), "name": cls.known(name)}
        raise described(f"found {data!r}", "a name, or NAME: {SETTING: VALUE}")

    @model_serializer(mode="wrap")
    def _to_one_line(self, handler: SerializerFunctionWrapHandler) -> Any:
        others = {key: value for key, value in handler(self).items() if key != "name" and value not in (None, {})}
        return {self.name: others} if others else self.name


class Directions(Model, Generic[T]):
    """A value for each direction of a link. A direction that is left out keeps the default."""

    forward: T | None = None
    """From the first end of `between` to the second."""
    backward: T | None = None
    """From the second end to the first."""


class _OneOrMore:
    """Marks a list that may be written as its only item, without brackets."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._listed, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        several = handler(schema)
        return {"anyOf": [several["items"], several]}

    @staticmethod
    def _listed(value: object) -> object:
        return value if isinstance(value, (list, tuple)) else [value]


ONE_OR_MORE = _OneOrMore()


def _direction_form(value: object) -> str:
    each = isinstance(value, Directions) or (isinstance(value, Mapping) and {"forward", "backward"} & set(value))
    return "<each>" if each else "<same>"


def _direction_form_of_scalars(value: object) -> str:
    return "<each>" if isinstance(value, Directions | Mapping) else "<same>"


# The two forms of a value per direction. `validation` omits tags in angle brackets from the path of
# a field.
SAME, EACH = Tag("<same>"), Tag("<each>")
BY_DIRECTION = Discriminator(_direction_form)
_SCALAR = Discriminator(_direction_form_of_scalars)

RatePerDirection = Annotated[Annotated[Rate, SAME] | Annotated[Directions[Rate], EACH], _SCALAR]
DurationPerDirection = Annotated[Annotated[Duration, SAME] | Annotated[Directions[Duration], EACH], _SCALAR]
BoolPerDirection = Annotated[Annotated[bool, SAME] | Annotated[Directions[bool], EACH], _SCALAR]
TextPerDirection = Annotated[Annotated[str, SAME] | Annotated[Directions[str], EACH], _SCALAR]


def one_of(model: Model, fields: list[str], what: str) -> str:
    """Returns the one field of `fields` that is given. Raises an error that begins with `what` if
    it is not exactly one.
    """
    chosen = [name for name in fields if getattr(model, name) is not None]
    if len(chosen) != 1:
        found = " and ".join(name.rstrip("_") for name in chosen) or "none"
        raise described(
            f"{what} needs exactly one of these, found {found}", ", ".join(name.rstrip("_") for name in fields)
        )
    return chosen[0]


def nearest_hint(name: str, known: list[str]) -> str:
    """Returns `, did you mean 'x'?`, or an empty text if no known name is close to `name`."""
    close = nearest(name, known)
    return f", did you mean '{close}'?" if close else ""
