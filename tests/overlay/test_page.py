"""Tests of the page of an overlay: who may see and change it, and what it shows in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("starlette")

from browser import chromium, needs_browser
from mptcplab.overlay.client import HostControllerAddress
from mptcplab.overlay.failure import OverlayFailed, OverlayMissing
from mptcplab.overlay.page import OverlayPage
from mptcplab.web.gate import CHANGES_HEADER, Gate
from mptcplab.web.serving import Server
from starlette.testclient import TestClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SECRET = "token-of-the-operator"
OPERATOR = HostControllerAddress("127.0.0.1", 8450, SECRET)
AT = "127.0.0.1:8440"
CHANGES = {CHANGES_HEADER: "1"}
TO = "\N{EN DASH}"
TUNNELS = [("s1", "s2"), ("s1", "s3"), ("s2", "s3")]


class Controller:
    """A host controller with three sites in a ring. What is cut does not operate."""

    def __init__(self) -> None:
        self.rtts_s = dict.fromkeys(TUNNELS, 0.012)
        self.cut: set[tuple[str, ...]] = set()
        self.hosts: list[dict[str, Any]] = []
        self.is_up = True
        self.calls: list[tuple[str, dict[str, str]]] = []

    def __call__(self, server: HostControllerAddress, method: str, **params: str) -> Any:
        assert server is OPERATOR
        if not self.is_up:
            raise OverlayMissing("no host controller answers at 127.0.0.1:8450: refused")
        if method == "overlay.status":
            return self.status()
        self.calls.append((method, params))
        if params["node"] not in ("s1", "s2", "s3"):
            raise OverlayFailed(f"{method}: unknown site {params['node']!r} (-32005)")
        (self.cut.add if method == "overlay.cut" else self.cut.discard)(tuple(params.values()))
        return {}

    def status(self) -> dict[str, Any]:
        return {
            "name": "ring",
            "policy": "edge_disjoint",
            "sites": [
                {
                    "node": name,
                    "operates": (name,) not in self.cut,
                    "exit": name == "s3",
                    "cut": (name,) in self.cut,
                    "heard_s": 0.5,
                }
                for name in ("s1", "s2", "s3")
            ],
            "tunnels": [
                {
                    "ends": list(ends),
                    "operates": ends not in self.cut,
                    "cut": ends in self.cut,
                    "rtt_s": rtt_s,
                    "sent": 10,
                    "answered": 9,
                }
                for ends, rtt_s in self.rtts_s.items()
            ],
            "hosts": self.hosts,
        }


HOST = {
    "connection": "c1",
    "client": "192.0.2.2",
    "tunnels": [{"node": "s1", "address": "198.19.0.1", "route": ["s1", "s3"], "heard_s": 0.1}],
}


@pytest.fixture
def controller() -> Controller:
    return Controller()


def viewer(controller: Controller, *, has_token: bool = True) -> TestClient:
    app = Gate(OverlayPage("ring", OPERATOR, controller).app(), "right", [AT])
    client = TestClient(app, base_url=f"http://{AT}")
    if has_token:
        client.get("/?token=right")
    return client


@pytest.mark.parametrize("path", ["/", "/status", "/overlay.js"])
def test_nothing_is_told_without_the_token_of_the_page(path: str, controller: Controller) -> None:
    assert viewer(controller, has_token=False).get(path).status_code == 401
    assert viewer(controller).get(path).status_code == 200


def test_the_token_of_the_operator_stays_with_the_server(controller: Controller) -> None:
    client = viewer(controller)
    told = "".join(client.get(path).text for path in ("/", "/status", "/overlay.js"))
    assert SECRET not in told
    assert client.get("/", headers={"host": "overlay.example"}).status_code == 421


def test_a_change_needs_the_header_that_a_foreign_page_cannot_send(controller: Controller) -> None:
    client = viewer(controller)
    assert client.post("/cut", json={"node": "s1"}).status_code == 403
    assert controller.calls == []
    assert client.post("/cut", json={"node": "s1"}, headers=CHANGES).status_code == 200
    assert client.post("/restore", json={"node": "s1", "other": "s2"}, headers=CHANGES).status_code == 200
    assert controller.calls == [("overlay.cut", {"node": "s1"}), ("overlay.restore", {"node": "s1", "other": "s2"})]


@pytest.mark.parametrize(
    ("path", "asked", "status", "why"),
    [
        ("/connect", {"node": "s1"}, 404, "allowed: cut, restore"),
        ("/cut", ["s1"], 400, "allowed: {"),
        ("/cut", {"node": 1}, 400, "allowed: {"),
        ("/cut", {"node": "s1", "others": "s2"}, 400, "allowed: {"),
        ("/cut", {"node": "s9"}, 409, "unknown site 's9'"),
    ],
)
def test_a_wrong_request_is_refused_with_the_reason(
    path: str, asked: Any, status: int, why: str, controller: Controller
) -> None:
    answer = viewer(controller).post(path, json=asked, headers=CHANGES)
    assert answer.status_code == status
    assert why in answer.json()["why"]


def test_many_viewers_ask_the_host_controller_once(controller: Controller) -> None:
    page = OverlayPage("ring", OPERATOR, lambda *asked: controller.calls.append(("status", {})) or controller(*asked))
    client = TestClient(page.app())
    for _ in range(10):
        assert client.get("/status").json()["name"] == "ring"
    assert len(controller.calls) < 10


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.mark.slow
@needs_browser
def test_a_viewer_cuts_a_tunnel_and_sees_a_host_go_another_way(browser: Browser, controller: Controller) -> None:
    with Server(OverlayPage("ring", OPERATOR, controller).app(), 0) as server:
        page = browser.new_page()
        page.goto(server.address)
        assert "token" not in page.url
        page.get_by_text("3 of 3 sites operate").wait_for()
        page.get_by_text("No host has joined").wait_for()
        controller.hosts.append(HOST)
        log = page.locator("#log")
        log.get_by_text("host 192.0.2.2 has joined with 1 tunnel").wait_for()
        page.locator("#map .hit", has=page.locator("title", has_text=f"s1 {TO} s3")).click()
        page.keyboard.press("Enter")
        log.get_by_text(f"tunnel s1 {TO} s3 is cut").wait_for()
        log.get_by_text(f"tunnel s1 {TO} s3 is silent").wait_for()
        assert page.locator("#tunnels .is-down").inner_text() == "cut, silent"
        controller.hosts[0] = {**HOST, "tunnels": [{**HOST["tunnels"][0], "route": ["s1", "s2", "s3"]}]}
        log.get_by_text(f"host 192.0.2.2 goes over s1 {TO} s2 {TO} s3 now").wait_for()
        page.get_by_role("button", name="Cut s2", exact=True).click()
        page.get_by_text("2 of 3 sites operate").wait_for()
        page.get_by_role("button", name="Restore s2", exact=True).click()
        log.get_by_text("site s2 operates again").wait_for()
        page.get_by_label("Search").fill("s9")
        assert page.locator("#sites tbody tr").count() == 0
        controller.hosts.clear()
        log.get_by_text("host 192.0.2.2 has left").wait_for()
        controller.is_up = False
        page.get_by_text("no host controller answers").wait_for()
        page.close()


@pytest.mark.slow
@needs_browser
def test_sites_with_a_short_round_trip_are_near_each_other_on_the_map(browser: Browser, controller: Controller) -> None:
    controller.rtts_s = {("s1", "s2"): 0.02, ("s1", "s3"): 0.1, ("s2", "s3"): 0.1}
    with Server(OverlayPage("ring", OPERATOR, controller).app(), 0) as server:
        page = browser.new_page()
        page.goto(server.address)
        page.get_by_text("3 of 3 sites operate").wait_for()
        places = {
            site: page.locator("#map .place", has=page.get_by_text(site, exact=True)).locator("rect").bounding_box()
            for site in ("s1", "s2", "s3")
        }
        page.close()
    at = {site: complex(box["x"], box["y"]) for site, box in places.items() if box}
    distances = [abs(at[one] - at[other]) for one, other in controller.rtts_s]
    assert distances[0] < 0.5 * min(distances[1:])
    assert distances[1] == pytest.approx(distances[2], rel=0.1)


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_meets_the_rules_of_axe_and_fits_a_telephone(
    browser: Browser, scheme: Any, controller: Controller
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    controller.hosts.append(HOST)
    controller.cut |= {("s1",), ("s2", "s3")}
    with Server(OverlayPage("ring", OPERATOR, controller).app(), 0) as server:
        page = browser.new_page(color_scheme=scheme, viewport={"width": 390, "height": 800}, bypass_csp=True)
        page.goto(server.address)
        page.get_by_text("2 of 3 sites operate").wait_for()
        found = axe.Axe().run(page).response["violations"]
        width_px = page.evaluate("document.documentElement.scrollWidth")
        page.close()
    assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found] == []
    assert width_px <= 390
