"""Tests of the live page in a real browser: see a run, pull a cable, save what was done."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import chromium, needs_browser
from command_line import mptcplab
from live_run import PATIENCE_MS, Shown, cells

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, WebSocketRoute

pytestmark = [pytest.mark.slow, needs_browser]

TELEPHONE_PX = 390


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


def mbps(page: Page, link: str) -> float:
    """Returns what the table says that a link carries, both ways, in Mbit/s."""
    row = page.locator("#links tbody tr", has=page.locator("th", has_text=re.compile(f"^{link}$")))
    texts = [row.locator("td").nth(place).inner_text() for place in (1, 2)]
    units = {"bit/s": 1e-6, "kbit/s": 1e-3, "Mbit/s": 1.0, "Gbit/s": 1e3}
    return sum(float(number) * units[unit] for number, unit in (text.split() for text in texts if text[0].isdigit()))


def wait_until(page: Page, holds: Any, what: str) -> None:
    until = time.monotonic() + PATIENCE_MS / 1000
    while not holds():
        assert time.monotonic() < until, what
        page.wait_for_timeout(100)


def test_a_viewer_pulls_a_cable_and_saves_what_was_done(page: Page, tmp_path: Path) -> None:
    shown = Shown(tmp_path, "--speed", "10x", duration="60s")
    page.goto(shown.address)
    assert "token" not in page.url
    wait_until(page, lambda: mbps(page, "wifi") > 4 and mbps(page, "lte") > 2, "both subflows carry")
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("wifi", exact=True).first.click()
    page.get_by_role("button", name="Cut wifi").click()
    page.get_by_role("button", name="Go on").click()
    wait_until(page, lambda: mbps(page, "wifi") == 0 and mbps(page, "lte") > 2, "traffic moves to lte")
    assert page.locator("#links .is-down").inner_text() == "cut"
    page.get_by_role("button", name="Restore wifi").click()
    wait_until(page, lambda: mbps(page, "wifi") > 2, "wifi carries again")
    page.get_by_role("button", name="As fast as it can").click()
    page.get_by_text("The run has ended").wait_for()
    assert [line.split(": ")[1] for line in page.locator("#log .by-hand").all_inner_texts()][::-1] == [
        "wifi cut, by hand",
        "wifi restored, by hand",
    ]
    with page.expect_download() as saving:
        page.get_by_role("link", name="Save as experiment").click()
    saved = tmp_path / "saved.yaml"
    saving.value.save_as(saved)
    page.get_by_role("link", name="Report of this run").click()
    page.get_by_role("heading", name="What happened").wait_for()
    page.go_back()
    page.get_by_text("The run has ended").wait_for()
    told = {row[0]: row[5] for row in cells(page, "links")}
    names = [row[0] for row in cells(page, "subflows")]
    page.close()
    assert shown.program.wait(30) == 0
    first = shown.record
    for link, lost in told.items():
        kept = [first["metrics"][f"links.{link}.{side}"]["dropped_packets"] for side in ("forward", "backward")]
        assert int(lost) == sum(kept), "the page shows what the bundle holds"
    taken = [f"{one['link']}, subflow {one['id']}" for one in first["result"]["flows"][0]["subflows"]]
    assert sorted(names) == sorted(taken)
    assert mptcplab("run", "saved.yaml", cwd=tmp_path).status == 0
    [again] = tmp_path.glob("results/shown/*/run.json")
    second = json.loads(again.read_text())
    times = [[event["asked_ns"] for event in record["result"]["events"]] for record in (first, second)]
    assert times[0] == times[1]
    assert len(times[0]) == 2
    assert first["result"]["flows"][0]["bytes"] == second["result"]["flows"][0]["bytes"]


def test_a_subflow_becomes_backup_and_regular_again(page: Page, tmp_path: Path) -> None:
    shown = Shown(tmp_path)
    page.goto(shown.address)
    row = page.locator("#subflows tbody tr", has_text="lte, subflow 1")
    row.wait_for()
    wait_until(page, lambda: mbps(page, "lte") > 2, "lte carries")
    for button, state, note in (("Backup", "backup", "is backup now"), ("Regular", "regular", "is regular again")):
        row.get_by_role("button", name=f"{button} phone.wwan0").press("Enter")
        page.locator("#log").get_by_text(f"subflow 1 of download {note}").wait_for()
        wait_until(page, lambda state=state: row.locator("td").nth(4).inner_text() == state, state)
    page.get_by_role("button", name="Link wifi").press("Enter")
    page.get_by_label("Loss").fill("12")
    page.locator("#log").get_by_text("wifi changed, by hand").wait_for()
    shown.end()
    changes = [event["action"] for event in shown.record["result"]["events"]]
    assert [change["kind"] for change in changes] == ["set_backup", "set_backup", "set_link"]
    assert changes[2]["forward"]["loss"] == {"kind": "bernoulli", "probability": 0.12}


def test_a_path_is_sent_over_other_switches(page: Page, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "disjoint-paths.yaml"
    shown = Shown(tmp_path, "--set", "events=[]", "--set", "duration=600s", spec=example)
    page.goto(shown.address)
    way = " \N{EN DASH} ".join(["Lisbon", "Madrid", "Milan", "Zurich", "Vienna"])
    page.get_by_role("button", name=f"Send bulk, path 1, over {way}").click()
    page.locator("#log").get_by_text("bulk, path 1, goes over Lisbon-Madrid").wait_for()
    wait_until(page, lambda: mbps(page, "Milan-Zurich") > 1, "the path goes over Milan and Zurich")
    page.get_by_label("Recovery").select_option("ip_preinstalled")
    page.locator("#log").get_by_text("the network recovers with ip_preinstalled from now on, by hand").wait_for()
    page.get_by_text("When a link fails, ip_preinstalled: switches send packets").wait_for()
    page.get_by_role("button", name="Link Milan-Zurich").press("Enter")
    page.get_by_role("button", name="Cut Milan-Zurich").first.click()
    page.get_by_role("alert").filter(has_text="raises no port status").wait_for()
    page.get_by_label("How the link is interrupted").select_option("port_down")
    page.get_by_label("Length of the outage in ms").fill("20000")
    page.get_by_role("button", name="Outage of").click()
    wait_until(page, lambda: mbps(page, "Milan-Zurich") == 0 and mbps(page, "Lisbon-Madrid") > 1, "packets go around")
    shown.end()


def test_ten_viewers_see_the_same_and_one_that_leaves_stops_nothing(browser: Browser, tmp_path: Path) -> None:
    shown = Shown(tmp_path, "--speed", "max", duration="20s")
    context = browser.new_context()
    pages = [context.new_page() for _ in range(10)]
    for each in pages:
        each.set_default_timeout(PATIENCE_MS)
        each.goto(shown.address if each is pages[0] else shown.address.partition("?")[0])
    pages[0].close()
    for each in pages[1:]:
        each.get_by_text("The run has ended").wait_for()
    tables = {each.locator("#links").inner_text() for each in pages[1:]}
    context.close()
    assert len(tables) == 1
    assert shown.program.wait(30) == 0
    assert shown.record["status"] == "done"


def test_a_dead_run_is_shown_as_dead(page: Page, tmp_path: Path) -> None:
    shown = Shown(tmp_path)
    page.goto(shown.address)
    wait_until(page, lambda: mbps(page, "wifi") > 1, "it runs")
    shown.program.kill()
    shown.program.communicate()
    page.get_by_text("no longer answers").wait_for()


def test_a_refusal_is_one_line_on_the_page(page: Page, tmp_path: Path) -> None:
    shown = Shown(tmp_path)
    page.goto(shown.address)
    page.get_by_role("button", name="Link wifi").press("Enter")
    page.get_by_role("button", name="Restore wifi").click()
    refusal = page.get_by_role("alert")
    refusal.filter(has_text="wifi").wait_for()
    assert "\n" not in refusal.inner_text()
    shown.end()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_meets_the_rules_of_axe_and_fits_a_telephone(browser: Browser, scheme: Any, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    shown = Shown(tmp_path)
    page = browser.new_page(color_scheme=scheme, viewport={"width": TELEPHONE_PX, "height": 800}, bypass_csp=True)
    page.goto(shown.address)
    wait_until(page, lambda: mbps(page, "wifi") > 1, "it runs")
    page.get_by_role("button", name="Link wifi").press("Enter")
    found = axe.Axe().run(page).response["violations"]
    width_px = page.evaluate("document.documentElement.scrollWidth")
    page.close()
    shown.end()
    assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found] == []
    assert width_px <= TELEPHONE_PX


def test_a_real_link_is_neither_measured_nor_changed(page: Page, tmp_path: Path) -> None:
    """Real links need other machines, so a link of the simulator is said to be one."""

    def make_real(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def told(text: str | bytes) -> None:
            messages = json.loads(text)
            for link in (link for message in messages for link in message.get("links", [])):
                link["is_real"] = link["id"] == "lte"
            socket.send(json.dumps(messages))

        server.on_message(told)

    shown = Shown(tmp_path)
    page.route_web_socket(re.compile("/messages$"), make_real)
    page.goto(shown.address)
    wait_until(page, lambda: mbps(page, "wifi") > 4, "the other link carries")
    rows = {row[0]: row[2:] for row in cells(page, "links")}
    assert rows["lte"] == ["\N{EN DASH}"] * 4 + ["up", "real link"]
    assert rows["wifi"][-1] == "Cut"
    page.get_by_text("real link, not measured").wait_for()
    page.get_by_role("button", name="Link lte", exact=True).press("Enter")
    buttons = page.locator("#hands button").all_inner_texts()
    assert buttons == ["Down", "Up", "Backup", "Regular"] * 2
    assert page.locator("#hands input").count() == 0
    shown.end()
