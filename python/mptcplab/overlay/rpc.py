"""JSON-RPC 2.0 (https://www.jsonrpc.org/specification): requests in, answers out, and the OpenRPC
document of the methods (https://spec.open-rpc.org).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
#: Calls of one batch. Answers are as bounded as requests.
MOST_CALLS = 20
#: Texts that a request made are cut off in answers.
_LONGEST_SHOWN = 80
OPENRPC = "1.3.2"
DISCOVER = "rpc.discover"


class Refused(Exception):
    """A method refuses. `code` is one of the server's own: -32000 to -32099."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


class Model(BaseModel):
    """Parameters or results. Refuses unknown members and converts nothing."""

    model_config = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True)
class Method:
    """A method: what it does, what it takes and returns, which errors of its own it has, and
    whether it is for the operator alone.
    """

    name: str
    summary: str
    params: type[BaseModel]
    result: type[BaseModel]
    errors: Mapping[int, str]
    for_operator: bool
    function: Callable[[Any, str], BaseModel]
    """Gets the parameters and the address of the caller."""


class Dispatcher:
    """Answers requests by the methods it has."""

    def __init__(self, methods: Iterable[Method], document: Mapping[str, Any], forbidden: int) -> None:
        """`forbidden` is the code of a method that is for the operator alone."""
        self._methods = {method.name: method for method in methods}
        self._document = document
        self._forbidden = forbidden

    def answer(self, body: bytes, caller: str = "", *, is_operator: bool = False) -> bytes | None:
        """Returns the answer to a request or a batch; None if there is nothing to answer."""
        try:
            given = json.loads(body, parse_constant=_refuse_constant, parse_float=_finite)
        except (ValueError, RecursionError):
            return _dumped(_error(None, PARSE_ERROR, "the request is no JSON"))
        if not isinstance(given, list):
            one = self._answered(given, caller, is_operator)
            return None if one is None else _dumped(one)
        if not 1 <= len(given) <= MOST_CALLS:
            return _dumped(_error(None, INVALID_REQUEST, f"found {len(given)} calls; allowed: 1 to {MOST_CALLS}"))
        answers = [answer for call in given if (answer := self._answered(call, caller, is_operator)) is not None]
        return _dumped(answers) if answers else None

    def _answered(self, call: Any, caller: str, is_operator: bool) -> dict[str, Any] | None:
        if not _is_request(call):
            return _error(None, INVALID_REQUEST, 'allowed: {"jsonrpc": "2.0", "method": .., "params": .., "id": ..}')
        answer = self._called(call["method"], call.get("params", {}), caller, is_operator)
        return {"jsonrpc": "2.0", **answer, "id": call["id"]} if "id" in call else None

    def _called(self, name: str, params: Any, caller: str, is_operator: bool) -> dict[str, Any]:
        """Returns the result or the error of a call."""
        if name == DISCOVER:
            return {"result": self._document}
        method = self._methods.get(name)
        if method is None:
            allowed = ", ".join((*self._methods, DISCOVER))
            return _failure(METHOD_NOT_FOUND, f"unknown method {_shown(name)}; allowed: {allowed}")
        if method.for_operator and not is_operator:
            return _failure(self._forbidden, f"{name} is for the operator, whose token this is not")
        try:
            return {"result": method.function(_parameters(method.params, params), caller).model_dump()}
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            return _failure(INVALID_PARAMS, f"{_shown(place)}: {first['msg']}" if place else first["msg"])
        except Refused as refusal:
            return _failure(refusal.code, str(refusal))
        except Exception as error:
            return _failure(INTERNAL_ERROR, f"{name} failed: {type(error).__name__}: {_shown(str(error))}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _is_request(call: Any) -> bool:
    """Returns whether a value is a request object by section 4 of the specification."""
    if not isinstance(call, dict) or call.get("jsonrpc") != "2.0" or not isinstance(call.get("method"), str):
        return False
    has_params = isinstance(call.get("params", {}), (dict, list))
    wanted = call.get("id")
    return has_params and (wanted is None or (isinstance(wanted, (str, int, float)) and not isinstance(wanted, bool)))


def _parameters(model: type[BaseModel], given: Any) -> BaseModel:
    """Returns parameters that are given by name, or by position in a list."""
    if isinstance(given, list):
        names = list(model.model_fields)
        # One too many gets a name that the model refuses.
        names += [f"the {number}th parameter" for number in range(len(names) + 1, len(given) + 1)]
        given = dict(zip(names, given, strict=False))
    return model.model_validate(given)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..")


def _failure(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _error(wanted: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **_failure(code, message), "id": wanted}


def error_body(code: int, message: str) -> bytes:
    """Returns the answer to a request that was refused before it was read."""
    return _dumped(_error(None, code, message))


def _dumped(answer: Any) -> bytes:
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()


def openrpc(title: str, version: str, methods: Iterable[Method], common: Mapping[int, str]) -> dict[str, Any]:
    """Returns the OpenRPC document of the methods. `common` are errors that each of them has."""
    schemas: dict[str, Any] = {}
    described = [_described(method, common, schemas) for method in methods]
    return {
        "openrpc": OPENRPC,
        "info": {"title": title, "version": version},
        "methods": described,
        "components": {"schemas": schemas},
    }


def _described(method: Method, common: Mapping[int, str], schemas: dict[str, Any]) -> dict[str, Any]:
    params = _schema(method.params, schemas)
    required = params.get("required", [])
    errors = {**common, **method.errors}
    return {
        "name": method.name,
        "summary": method.summary,
        "params": [
            {"name": name, "required": name in required, "schema": schema}
            for name, schema in params.get("properties", {}).items()
        ],
        "result": {"name": "result", "schema": _schema(method.result, schemas)},
        "errors": [{"code": code, "message": message} for code, message in errors.items()],
    }


def _schema(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a model. The models that it consists of go into `schemas`."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs", {}))
    return schema
