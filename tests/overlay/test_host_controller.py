"""Tests of what the host controller lets pass, and that no request stops it."""

from __future__ import annotations

import http.client
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

pytest.importorskip("starlette")

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mptcplab.errors import SpecError
from mptcplab.overlay import connections, host_controller, methods, rpc
from mptcplab.overlay.host_controller import HOST, NONCE_HEADER, OPERATOR, TIME_HEADER, HostController, Nonces, Rates
from mptcplab.web.serving import bound
from starlette.testclient import TestClient

AT = "127.0.0.1:8450"
TOKENS = {HOST: "token-of-hosts", OPERATOR: "token-of-the-operator"}
REQUESTS = 100_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 300


class Empty:
    """An overlay with one site, of which another has left, and without hosts."""

    def nodes(self) -> list[dict[str, Any]]:
        return [{"node": "s1", "address": "198.18.1.0", "port": 1, "exit": True}]

    def connect(self, client: str, names: Any) -> Any:
        raise SpecError(f"{client}: site {names[0]} does not operate", allowed="sites of the current list of nodes")

    def disconnect(self, host_id: str) -> bool:
        return host_id == "there"

    def set_cut(self, name: str, other: str | None, *, is_cut: bool) -> None:
        raise SpecError(f"unknown site {name!r} or {other!r}, {is_cut=}")

    def names(self, route: Any) -> list[str]:
        return [str(one) for one in route]

    def address_of(self, node: int) -> str:
        return str(node)

    def address_inside(self, node: int) -> str:
        return str(node)

    def status(self) -> dict[str, Any]:
        return {"name": "empty", "policy": "shortest", "sites": [], "tunnels": [], "hosts": []}


@pytest.fixture
def client() -> TestClient:
    return TestClient(HostController(Empty(), 1).app(TOKENS, [AT]), base_url=f"http://{AT}")


def headers(role: str = HOST, **changes: str) -> dict[str, str]:
    return {
        "authorization": f"Bearer {TOKENS[role]}",
        NONCE_HEADER: secrets.token_urlsafe(16),
        TIME_HEADER: f"{time.time():.3f}",
    } | changes


def call(method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1})


def code_of(answer: Any) -> int:
    document = answer.json()
    assert (document["jsonrpc"], document["id"]) in (("2.0", None), ("2.0", 1))
    code: int = document["error"]["code"]
    return code


def test_a_host_gets_the_list_of_nodes(client: TestClient) -> None:
    answer = client.post("/", content=call("overlay.nodes"), headers=headers())
    assert answer.json()["result"]["nodes"][0]["node"] == "s1"


@pytest.mark.parametrize("given_token", ["", "Bearer ", "Bearer token", "Basic token-of-hosts", "Bearer ä"])
def test_a_wrong_token_is_refused(client: TestClient, given_token: str) -> None:
    changed = headers() | {"authorization": given_token.encode("latin-1")}
    answer = client.post("/", content=call("overlay.nodes"), headers=changed)
    assert (answer.status_code, code_of(answer)) == (401, methods.NOT_AUTHORIZED)


def test_a_name_that_points_here_is_refused(client: TestClient) -> None:
    answer = client.post("/", content=call("overlay.nodes"), headers=headers(host="evil.example:8450"))
    assert (answer.status_code, code_of(answer)) == (421, methods.NOT_AUTHORIZED)


def test_a_request_that_comes_again_is_refused(client: TestClient) -> None:
    same = headers()
    assert client.post("/", content=call("overlay.nodes"), headers=same).status_code == 200
    again = client.post("/", content=call("overlay.nodes"), headers=same)
    assert (again.status_code, code_of(again)) == (409, methods.REPLAYED)


@pytest.mark.parametrize(
    "changes",
    [
        {NONCE_HEADER: ""},
        {NONCE_HEADER: "short"},
        {TIME_HEADER: ""},
        {TIME_HEADER: "nan"},
        {TIME_HEADER: f"{time.time() - 3600:.0f}"},
        {TIME_HEADER: f"{time.time() + 3600:.0f}"},
    ],
)
def test_a_request_without_a_nonce_or_of_another_time_is_refused(client: TestClient, changes: dict[str, str]) -> None:
    answer = client.post("/", content=call("overlay.nodes"), headers=headers(**changes))
    assert (answer.status_code, code_of(answer)) == (409, methods.REPLAYED)


def test_a_request_is_refused_as_long_as_its_time_is_valid() -> None:
    now_s = [1000.0]
    nonces = Nonces(lambda: now_s[0])
    nonce = "a" * 16
    assert nonces.refusal(nonce, "1050") is None
    now_s[0] = 1050 + host_controller.SKEW_S
    assert nonces.refusal(nonce, "1050") == "the request was sent before"
    now_s[0] += host_controller.SKEW_S
    assert "here it is" in (nonces.refusal(nonce, "1050") or "")


def test_a_large_body_is_refused(client: TestClient) -> None:
    answer = client.post("/", content=b" " * (host_controller.MOST_BYTES + 1), headers=headers())
    assert (answer.status_code, code_of(answer)) == (413, methods.TOO_LARGE)


def test_an_address_that_sends_too_much_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise a busy machine sends no more than is allowed.
    monkeypatch.setattr(host_controller, "PER_SECOND", 0)
    answers = [
        client.post("/", content=call("overlay.nodes"), headers=headers()) for _ in range(host_controller.BURST + 10)
    ]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert {code_of(answer) for answer in refused} == {methods.TOO_MANY}


def test_rates_are_counted_by_address_and_time() -> None:
    now_s = [0.0]
    rates = Rates(lambda: now_s[0])
    assert sum(rates.allows("a") for _ in range(1000)) == host_controller.BURST
    assert rates.allows("b")
    now_s[0] = 1.0
    assert sum(rates.allows("a") for _ in range(1000)) == host_controller.PER_SECOND


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (call("overlay.fly"), rpc.METHOD_NOT_FOUND),
        (call("overlay.connect", nodes=[]), rpc.INVALID_PARAMS),
        (call("overlay.connect", nodes=["s1"] * 9), rpc.INVALID_PARAMS),
        (call("overlay.connect", nodes=["left"]), methods.NOT_POSSIBLE),
        (call("overlay.disconnect", connection="left"), methods.UNKNOWN_CONNECTION),
        (call("overlay.status"), methods.FOR_OPERATOR),
        (call("overlay.cut", node="s1"), methods.FOR_OPERATOR),
        ("{", rpc.PARSE_ERROR),
        ('{"jsonrpc": "2.0", "method": "overlay.nodes", "id": 1e400}', rpc.PARSE_ERROR),
    ],
)
def test_errors_have_the_codes_of_the_specification(client: TestClient, text: str, code: int) -> None:
    answer = client.post("/", content=text, headers=headers())
    assert (answer.status_code, code_of(answer)) == (200, code)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 405), ("POST", "/nothing", 404)])
def test_another_path_gets_an_error_of_json_rpc(client: TestClient, method: str, path: str, status: int) -> None:
    answer = client.request(method, path, headers=headers())
    assert (answer.status_code, code_of(answer)) == (status, rpc.INVALID_REQUEST)
    assert f"found {method} {path}; allowed: POST /" in answer.text


def test_the_operator_may_do_more(client: TestClient) -> None:
    answer = client.post("/", content=call("overlay.status"), headers=headers(OPERATOR))
    assert answer.json()["result"]["name"] == "empty"


def test_the_schema_is_that_of_the_answers(client: TestClient) -> None:
    document = client.get("/openrpc.json", headers=headers()).json()
    assert document == methods.document()
    by_name = {method["name"]: method for method in document["methods"]}
    for method in by_name.values():
        for part in (*method["params"], method["result"]):
            Draft202012Validator.check_schema({**part["schema"], "components": document["components"]})
    nodes = client.post("/", content=call("overlay.nodes"), headers=headers()).json()["result"]
    schema = {**by_name["overlay.nodes"]["result"]["schema"], "components": document["components"]}
    Draft202012Validator(schema).validate(nodes)
    assert not Draft202012Validator(schema).is_valid({"nodes": [{"node": 1}]})


HALF = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
def at() -> Iterator[tuple[str, int]]:
    listening = bound(0)
    address, port = listening.getsockname()
    app = HostController(Empty(), 1).app(TOKENS, [f"{address}:{port}"])
    server = connections.server(app)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield address, port
    server.should_exit = True
    thread.join()


def status(at: tuple[str, int], body: str, **more: str) -> int:
    connection = http.client.HTTPConnection(*at, timeout=30)
    connection.request("POST", "/", body, headers() | {"content-type": "application/json"} | more)
    answer = connection.getresponse()
    assert json.loads(answer.read())["jsonrpc"] == "2.0"
    connection.close()
    return answer.status


def has_ended(connection: socket.socket) -> bool:
    """Waits for the end of a connection."""
    connection.settimeout(30)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_an_address_has_so_many_connections_and_no_more(at: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_OF_ADDRESS", 3)
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(at)) for _ in range(4)]
        for one in held[:3]:
            one.sendall(HALF)
        assert has_ended(held[3])
    assert status(at, call("overlay.nodes")) == 200


def test_a_connection_without_a_request_ends(at: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LONGEST_S", 0.1)
    with socket.create_connection(at) as held:
        held.sendall(HALF)
        assert has_ended(held)


def test_what_a_sender_says_of_its_address_is_not_believed(
    at: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_controller, "PER_SECOND", 0)
    monkeypatch.setattr(host_controller, "BURST", 2)
    found = [status(at, call("overlay.nodes"), **{"x-forwarded-for": f"192.0.2.{number}"}) for number in range(3)]
    assert found == [200, 200, 429]


def test_a_body_that_ends_early_is_no_fault(at: tuple[str, int], caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("uvicorn.error").propagate = True
    lines = {"host": f"{at[0]}:{at[1]}", "content-length": "100", **headers()}
    with socket.create_connection(at) as begun:
        begun.sendall(b"POST / HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in lines.items()).encode() + b"\r\n{")
        begun.shutdown(socket.SHUT_WR)
        assert has_ended(begun)
    assert status(at, call("overlay.nodes")) == 200
    assert caplog.text == ""


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
    max_leaves=10,
)
NAMES = st.sampled_from([*(method.name for method in methods.methods(Empty(), 1)), "rpc.discover"]) | st.text()
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | ANY_JSON,
        "method": NAMES | ANY_JSON,
        "params": st.fixed_dictionaries({}, optional={"nodes": ANY_JSON, "connection": ANY_JSON, "node": ANY_JSON})
        | ANY_JSON,
        "id": ANY_JSON,
    },
)
BODIES = st.binary(max_size=200) | st.builds(
    lambda value: json.dumps(value).encode(), CALLS | st.lists(CALLS, max_size=25) | ANY_JSON
)


@settings(max_examples=REQUESTS)
@given(body=BODIES, is_operator=st.booleans())
def test_random_requests_get_answers_of_the_specification(body: bytes, is_operator: bool) -> None:
    """The dispatcher without its server, so that the soak's 100,000 take minutes."""
    answer = methods.dispatcher(Empty(), 1).answer(body, is_operator=is_operator)
    if answer is None:
        return
    document = json.loads(answer)
    for one in document if isinstance(document, list) else [document]:
        assert one["jsonrpc"] == "2.0"
        assert ("result" in one) != ("error" in one)
        assert one.get("error", {}).get("code") not in (rpc.INTERNAL_ERROR,), one
