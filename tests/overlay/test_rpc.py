"""Tests of JSON-RPC 2.0: the examples of the specification, and its limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mptcplab.overlay import rpc
from mptcplab.overlay.rpc import Dispatcher, Method, Model


class Two(Model):
    """Two numbers."""

    minuend: int
    subtrahend: int


class Number(Model):
    """A number."""

    value: int


class Nothing(Model):
    """No members."""


def _fails(_nothing: Any, _caller: str) -> Number:
    raise ZeroDivisionError("by zero")


def _subtract(two: Any, _caller: str) -> Number:
    return Number(value=two.minuend - two.subtrahend)


METHODS = [
    Method("subtract", "Subtracts.", Two, Number, {}, False, _subtract),
    Method("get_data", "Returns data.", Nothing, Number, {}, False, lambda _nothing, _caller: Number(value=5)),
    Method("fails", "Fails.", Nothing, Number, {}, False, _fails),
    Method("secret", "Is for the operator.", Nothing, Number, {}, True, lambda _nothing, _caller: Number(value=1)),
]
FORBIDDEN = -32007


def answered(body: str | bytes, **rights: bool) -> Any:
    document = rpc.openrpc("test", "1", METHODS, {})
    answer = Dispatcher(METHODS, document, FORBIDDEN).answer(body.encode() if isinstance(body, str) else body, **rights)
    return None if answer is None else json.loads(answer)


def error(code: int, wanted: Any = None) -> Any:
    """What the specification says of an error; its message is ours."""
    return ("error", code, wanted)


def told(answer: Any) -> Any:
    assert answer["jsonrpc"] == "2.0"
    if "error" in answer:
        assert "result" not in answer
        assert isinstance(answer["error"]["message"], str)
        return error(answer["error"]["code"], answer["id"])
    return ("result", answer["result"], answer["id"])


# https://www.jsonrpc.org/specification, section 7. Results are objects here.
EXAMPLES = [
    ('{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}', ("result", {"value": 19}, 1)),
    ('{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}', ("result", {"value": -19}, 2)),
    (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}',
        ("result", {"value": 19}, 3),
    ),
    ('{"jsonrpc": "2.0", "method": "foobar", "id": "1"}', error(rpc.METHOD_NOT_FOUND, "1")),
    ('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', error(rpc.PARSE_ERROR)),
    ('{"jsonrpc": "2.0", "method": 1, "params": "bar"}', error(rpc.INVALID_REQUEST)),
    (
        '[{"jsonrpc": "2.0", "method": "subtract", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method"',
        error(rpc.PARSE_ERROR),
    ),
    ("[]", error(rpc.INVALID_REQUEST)),
]


@pytest.mark.parametrize(("request_text", "expected"), EXAMPLES)
def test_the_examples_of_the_specification_get_its_answers(request_text: str, expected: Any) -> None:
    assert told(answered(request_text)) == expected


def test_notifications_get_no_answer() -> None:
    assert answered('{"jsonrpc": "2.0", "method": "get_data", "params": []}') is None
    assert answered('{"jsonrpc": "2.0", "method": "foobar"}') is None
    assert answered('[{"jsonrpc": "2.0", "method": "get_data"}, {"jsonrpc": "2.0", "method": "foobar"}]') is None


def test_a_batch_is_answered_call_by_call() -> None:
    assert [told(one) for one in answered("[1,2,3]")] == [error(rpc.INVALID_REQUEST)] * 3
    batch = [
        {"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": "2"},
        {"jsonrpc": "2.0", "method": "get_data"},
        {"foo": "boo"},
        {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
        {"jsonrpc": "2.0", "method": "get_data", "id": "9"},
    ]
    assert [told(one) for one in answered(json.dumps(batch))] == [
        ("result", {"value": 19}, "2"),
        error(rpc.INVALID_REQUEST),
        error(rpc.METHOD_NOT_FOUND, "5"),
        ("result", {"value": 5}, "9"),
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"\xff\xfe", rpc.PARSE_ERROR),
        (b"NaN", rpc.PARSE_ERROR),
        (b"[" * 100_000, rpc.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","method":"get_data","id":' + b"9" * 5000 + b"}", rpc.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","method":"get_data","id":true}', rpc.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","method":"get_data","id":{}}', rpc.INVALID_REQUEST),
        (b'{"jsonrpc":"1.0","method":"get_data","id":1}', rpc.INVALID_REQUEST),
        (b"[" + b",".join([b"1"] * (rpc.MOST_CALLS + 1)) + b"]", rpc.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","method":"subtract","params":[1],"id":1}', rpc.INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","method":"subtract","params":[1,2,3],"id":1}', rpc.INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","method":"subtract","params":[1,"2"],"id":1}', rpc.INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","method":"get_data","params":{"more":1},"id":1}', rpc.INVALID_PARAMS),
        (b'{"jsonrpc":"2.0","method":"fails","id":1}', rpc.INTERNAL_ERROR),
        (b'{"jsonrpc":"2.0","method":"secret","id":1}', FORBIDDEN),
    ],
)
def test_what_is_wrong_gets_the_code_for_it(body: bytes, code: int) -> None:
    assert answered(body)["error"]["code"] == code


def test_what_is_for_the_operator_needs_the_operator() -> None:
    assert answered('{"jsonrpc":"2.0","method":"secret","id":1}', is_operator=True)["result"] == {"value": 1}


def test_a_long_name_does_not_come_back_whole() -> None:
    answer = answered(json.dumps({"jsonrpc": "2.0", "method": "x" * 50_000, "id": 1}))
    assert len(answer["error"]["message"]) < 300


def test_the_document_describes_the_methods() -> None:
    document = answered('{"jsonrpc":"2.0","method":"rpc.discover","id":1}')["result"]
    assert document["openrpc"] == rpc.OPENRPC
    [subtract] = [method for method in document["methods"] if method["name"] == "subtract"]
    assert [(one["name"], one["required"], one["schema"]["type"]) for one in subtract["params"]] == [
        ("minuend", True, "integer"),
        ("subtrahend", True, "integer"),
    ]
