"""Tests of `mptcplab serve` in a real browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import chromium, needs_browser
from command_line import PROGRAM, mptcplab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, needs_browser]

TELEPHONE_PX = 390
PATIENCE_MS = 60_000

SHORT = """
name: short
title: A short transfer over two paths
hosts: {phone: {}, server: {}}
links:
  wifi: {between: [phone.wlan0, server.eth0], rate: 6mbit, delay: 10ms}
  lte: {between: [phone.wwan0, server.eth1], rate: 4mbit, delay: 30ms}
flows:
  download: {from: server, to: phone, opened_by: to, path_manager: full_mesh}
duration: 20s
"""


class Served:
    """A server of a folder, and what it printed until it printed its address."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        command = [PROGRAM, "serve", "results", *options]
        self.program = subprocess.Popen(
            command, cwd=folder, stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )
        self.lines: list[str] = []
        assert self.program.stderr is not None
        while not self.lines or not self.lines[-1].startswith("results: "):
            line = self.program.stderr.readline()
            assert line, self.lines
            self.lines.append(line)
        self.address = self.lines[-1].split()[1]
        self.port = int(re.findall(r":([0-9]+)/", self.address)[0])

    def end(self) -> None:
        self.program.send_signal(signal.SIGINT)
        self.program.communicate(timeout=30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a description, and results of two runs of it."""
    directory = tmp_path_factory.mktemp("served")
    (directory / "short.yaml").write_text(SHORT)
    for loss in ("0%", "5%"):
        assert mptcplab("run", "short.yaml", "--set", f"links.wifi.loss={loss}", cwd=directory).status == 0
    return directory


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    served = Served(folder, "--port", "0", "--offer", "short.yaml")
    yield served
    served.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(served.address)
    page.locator("#runs tbody tr").first.wait_for()
    yield page
    page.close()
    assert errors == []


def test_a_reader_finds_compares_and_deletes_runs(page: Page, folder: Path) -> None:
    rows = page.locator("#runs tbody tr")
    assert rows.count() == 2
    page.get_by_label("Search").fill("loss=5")
    page.get_by_text("1 of 2 runs").wait_for()
    rows.get_by_role("link", name="short").click()
    page.get_by_role("heading", name="What happened").wait_for()
    page.go_back()
    page.get_by_label("Search").fill("")
    page.get_by_text("2 runs", exact=True).wait_for()
    page.get_by_label("Choose all runs that are shown").check()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="What is compared").wait_for()
    page.locator("#figures canvas").first.wait_for()
    page.go_back()
    page.get_by_label("Setting", exact=True).fill("links.wifi.loss=5%")
    page.get_by_text("1 of 2 runs").wait_for()
    page.get_by_label("Choose all runs that are shown").check()
    for answer, left in (("Keep", 2), ("Delete", 1)):
        page.get_by_role("button", name="Delete …").click()
        page.get_by_role("dialog").get_by_role("button", name=answer).click()
        page.get_by_role("dialog").wait_for(state="hidden")
        page.get_by_label("Setting", exact=True).fill("")
        page.locator("#state").filter(has_text=re.compile(f"^{left} run")).wait_for()
        assert len(list(folder.glob("results/short/*/run.json"))) == left
        page.get_by_label("Setting", exact=True).fill("links.wifi.loss=5%")


def test_a_run_is_started_watched_and_found_again(page: Page) -> None:
    page.locator("#asked").fill("short")
    page.locator("#speed").select_option("max")
    page.get_by_role("button", name="Start").click()
    page.get_by_text("The run has ended").wait_for()
    assert "token" not in page.url
    page.goto("/".join(page.url.split("/")[:3]))
    again = page.locator("#runs tbody tr", has_text="short").first
    again.get_by_role("button", name="Run short again, live").click()
    page.get_by_role("heading", name="Network").wait_for()
    page.goto("/".join(page.url.split("/")[:3]))
    page.get_by_role("link", name="Watch").click()
    page.get_by_text("running:").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_meets_the_rules_of_axe_and_fits_a_telephone(browser: Browser, served: Served, scheme: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = browser.new_page(color_scheme=scheme, viewport={"width": TELEPHONE_PX, "height": 800}, bypass_csp=True)
    page.goto(served.address)
    page.locator("#runs tbody tr").first.wait_for()
    found = axe.Axe().run(page).response["violations"]
    width_px = page.evaluate("document.documentElement.scrollWidth")
    page.close()
    assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found] == []
    assert width_px <= TELEPHONE_PX


def test_a_second_server_takes_the_next_port_and_says_that_it_is_not_alone(folder: Path, served: Served) -> None:
    second = Served(folder, "--port", str(served.port), SSH_CONNECTION="10.0.0.1 5000 10.0.0.2 22")
    told = second.lines
    assert second.program.stderr is not None
    forwarding = second.program.stderr.readline()
    second.end()
    assert "another mptcplab serve shows results too" in told[0]
    assert f"port {served.port} is in use, so the page is at port {second.port}" in told[1]
    assert f"ssh -L {second.port}:127.0.0.1:{second.port} 10.0.0.2" in forwarding


@pytest.mark.parametrize(("folder_name", "why"), [("nowhere", "no such directory"), ("short.yaml", "not a directory")])
def test_a_folder_that_is_none_is_refused(folder: Path, folder_name: str, why: str) -> None:
    told = mptcplab("serve", folder_name, cwd=folder)
    assert told.status == 2
    assert why in told.err
