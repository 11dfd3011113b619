"""Tests of who may see and change a run."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

from mptcplab.web.gate import CHANGES_HEADER, POLICY, Gate
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

HOST = "127.0.0.1:8440"
TOKEN = "the-token"


async def _page(_request: Request) -> Response:
    return PlainTextResponse("the page")


async def _socket(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("news")
    await socket.close()


def client(host: str = HOST) -> TestClient:
    routes = [Route("/", _page), Route("/change", _page, methods=["POST"]), WebSocketRoute("/messages", _socket)]
    app = Gate(Starlette(routes=routes), TOKEN, [HOST, "localhost:8440"])
    return TestClient(app, base_url=f"http://{host}", follow_redirects=False)


def known() -> TestClient:
    """A browser that has opened the printed address."""
    browser = client()
    assert browser.get(f"/?token={TOKEN}").status_code == 303
    return browser


def test_the_token_becomes_a_cookie_and_leaves_the_address() -> None:
    browser = client()
    first = browser.get(f"/?token={TOKEN}")
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    page = browser.get("/")
    assert page.text == "the page"
    assert "default-src 'none'" in page.headers[POLICY]


@pytest.mark.parametrize("address", ["/", "/?token=", "/?token=the-toke", "/?token=the-token2"])
def test_nobody_passes_without_the_token(address: str) -> None:
    refused = client().get(address)
    assert refused.status_code == 401
    assert "the address that mptcplab printed" in refused.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8440", "127.0.0.1:80", "127.0.0.1"])
def test_another_name_for_this_machine_is_refused(host: str) -> None:
    assert client(host).get(f"/?token={TOKEN}").status_code == 421


def test_a_change_needs_a_header_that_a_foreign_page_cannot_send() -> None:
    browser = known()
    assert browser.post("/change").status_code == 403
    assert browser.post("/change", headers={CHANGES_HEADER: "1"}).text == "the page"


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null", "http://127.0.0.1:81"])
def test_a_foreign_page_cannot_follow(origin: str | None) -> None:
    headers = {"origin": origin} if origin else {}
    with pytest.raises(WebSocketDisconnect), known().websocket_connect(f"ws://{HOST}/messages", headers=headers):
        pass


def test_the_own_page_can_follow() -> None:
    with known().websocket_connect(f"ws://{HOST}/messages", headers={"origin": f"http://{HOST}"}) as socket:
        assert socket.receive_text() == "news"


def test_following_needs_the_cookie_too() -> None:
    asked = client().websocket_connect(f"ws://{HOST}/messages", headers={"origin": f"http://{HOST}"})
    with pytest.raises(WebSocketDisconnect), asked:
        pass
