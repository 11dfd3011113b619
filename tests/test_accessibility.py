"""Tests pages in a browser: the rules of axe for accessibility in both colour schemes, and that
paper cuts nothing off.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import chromium, needs_browser
from command_line import SHORT, mptcplab

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, needs_browser]

#: The width of an A4 page between its margins, in pixels of 1/96 inch.
PAPER_PX = 718
TELEPHONE_PX = 390
TWO_PATHS = """
name: paths
hosts: {phone: {}, server: {}}
links:
  wifi: {between: [phone.wlan0, server.eth0], rate: 8mbit, delay: 10ms}
  lte: {between: [phone.wwan0, server.eth1], rate: 4mbit, delay: 30ms}
flows: {load: {from: phone, to: server, transport: mptcp, path_manager: full_mesh}}
events: [{id: leave, at: 1s, down: phone.wlan0}, {id: return, at: 2s, up: phone.wlan0}]
measure: {captures: [phone.wlan0, phone.wwan0]}
expect: [flows.load.subflows_opened >= 2, flows.load.goodput_bps > 1e9]
duration: 3s
"""
#: Its page has the figures of access networks.
RADIOS = """
name: radios
hosts: {phone: {}, server: {}}
nodes: {ap: {kind: ap}, gateway: {kind: router}}
media: {air: {wifi: {standard: n}}}
links:
  wifi: {between: [phone.wlan0, ap], medium: air, wifi: {power_save: 100ms}}
  line: {between: [ap, gateway], rate: 20mbit, delay: 5ms}
  lte: {between: [phone.wwan0, gateway], cellular: {rate: 10mbit}}
  net: {between: [gateway, server.eth0], rate: 1gbit}
flows: {load: {from: phone, to: server}}
events: [{id: cell, at: 1s, handover: {link: lte, gap: 300ms}}]
duration: 3s
"""
#: Each page, and the command that writes it.
PAGES = {
    "run.html": "report results/paths --out run.html",
    "radios.html": "report results/radios --out radios.html",
    "comparison.html": "compare paths.yaml --set links.wifi.rate=8mbit,6mbit,4mbit,3mbit,2mbit --report comparison.html",
    "sweep.html": "sweep short.yaml --set links.wifi.rate=2mbit,3mbit --set links.wifi.delay=5ms,10ms,20ms",
    "capture.html": "pcap results/paths/BUNDLE/captures/phone.wlan0.pcapng --report capture.html",
    "contest.html": "bench-algorithm round_robin --against min_rtt --repeat 2 --report contest.html",
    "report-card.html": "report-card lia --goal harm --repeat 1",
    "reproduction.html": "reproduce alenazi2019 --only CL-A13b --quick",
}
#: Elements in which something cannot be seen on paper.
CUT_OFF = """() => [...document.querySelectorAll("body *")]
    .filter((each) => getComputedStyle(each).overflowX !== "visible" && each.scrollWidth > each.clientWidth + 1)
    .map((each) => each.outerHTML.slice(0, 120))"""
BEYOND_THE_PAGE = "() => document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    desk = tmp_path_factory.mktemp("desk")
    (desk / "short.yaml").write_text(SHORT)
    (desk / "paths.yaml").write_text(TWO_PATHS)
    assert mptcplab("run", "paths.yaml", cwd=desk).status == 1, "one of the expectations does not hold"
    (desk / "radios.yaml").write_text(RADIOS)
    assert mptcplab("run", "radios.yaml", cwd=desk).status == 0
    [bundle] = (desk / "results/paths").iterdir()
    for page, command in PAGES.items():
        ended = mptcplab(*command.replace("BUNDLE", bundle.name).split(), cwd=desk)
        assert ended.status == 0, (page, ended)
    return {page: next(desk.rglob(page)) for page in PAGES}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_pages_meet_the_rules_of_axe(name: str, scheme: Any, pages: dict[str, Path], browser: Browser) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page(color_scheme=scheme)
    page.goto(pages[name].as_uri())
    page.wait_for_load_state("load")
    found = Axe().run(page).response["violations"]
    page.close()
    assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found] == []


@pytest.mark.parametrize("name", PAGES)
def test_paper_cuts_nothing_off(name: str, pages: dict[str, Path], browser: Browser) -> None:
    page = browser.new_page(viewport={"width": PAPER_PX, "height": 1000})
    page.goto(pages[name].as_uri())
    page.emulate_media(media="print")
    cut_off, width_px = page.evaluate(CUT_OFF), page.evaluate(BEYOND_THE_PAGE)
    page.close()
    assert cut_off == []
    assert width_px <= PAPER_PX


@pytest.mark.parametrize("name", [name for name in PAGES if name != "capture.html"])
def test_the_browser_draws_every_figure_on_a_telephone(name: str, pages: dict[str, Path], browser: Browser) -> None:
    page = browser.new_page(viewport={"width": TELEPHONE_PX, "height": 800})
    page.goto(pages[name].as_uri())
    page.wait_for_load_state("load")
    figures, drawn = (page.locator(which).count() for which in ("figure", "figure.is-live :is(canvas, table.cells)"))
    live = page.locator("figure.is-live").count()
    width_px = page.evaluate(BEYOND_THE_PAGE)
    page.close()
    assert drawn >= live == figures > 0
    assert width_px <= TELEPHONE_PX
