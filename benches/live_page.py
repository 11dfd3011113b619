"""What the live page costs: its first picture, the server and the browser with sixteen subflows, a
run beside it, and how soon an action of a viewer happens on the kernel.
"""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import TYPE_CHECKING

from figures import MPTCPLAB, ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SIXTEEN = ROOT / "benches" / "sixteen-subflows.yaml"
TWO_PATHS = ROOT / "examples" / "two-paths-mptcp.yaml"
PICTURES = 5
#: Seconds for which sixteen subflows are watched; LIVE_SECONDS=600 watches the whole run.
WATCHED_S = float(os.environ.get("LIVE_SECONDS", "60"))
TURNS = 20
ACTIONS = 40
#: The seconds of a run from one action to the next.
EVERY_S = 0.2


@contextmanager
def shown(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs an experiment with its page. Yields the process and the address."""
    with tempfile.TemporaryDirectory() as out:
        command = [MPTCPLAB, "run", *arguments, "--live", "--port", "0", "--out", out]
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert program.stderr is not None
        try:
            yield program, re.findall(r"http://\S+", program.stderr.readline())[0]
        finally:
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=60)


def first_picture_s(browser: Browser) -> float:
    """Median time from the request of the page until its network is drawn, in seconds."""
    times = []
    with shown(TWO_PATHS, "--set", "duration=600s") as (_, address):
        for _ in range(PICTURES + 1):
            page = browser.new_page()
            begun = time.perf_counter()
            page.goto(address)
            page.locator("#topology svg .node").first.wait_for()
            times.append(time.perf_counter() - begun)
            page.close()
    return statistics.median(times[1:])


def sixteen_subflows(browser: Browser) -> tuple[float, float]:
    """Returns the processor time of the run with its server as a part of a core, and the JavaScript
    heap in MB at the end.
    """
    with shown(SIXTEEN) as (program, address):
        page = browser.new_page()
        page.goto(address)
        page.locator("#subflows tbody tr").nth(15).wait_for()
        before, begun = _cpu_s(program.pid), time.perf_counter()
        page.wait_for_timeout(1000 * WATCHED_S)
        share = (_cpu_s(program.pid) - before) / (time.perf_counter() - begun)
        session = page.context.new_cdp_session(page)
        session.send("HeapProfiler.collectGarbage")
        heap_bytes = page.evaluate("performance.memory.usedJSHeapSize")
        page.close()
    return share, heap_bytes / 1e6


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost_of_watching() -> float:
    """Returns the median of the processor time of a simulated run with a page and a viewer, divided
    by that of the same run without. The viewer is another process.
    """
    from mptcplab.experiment import load
    from mptcplab.runner import execute, plan
    from mptcplab.web.live import LivePage
    from mptcplab.web.pace import UNLIMITED, Pace
    from mptcplab.web.serving import Server
    from mptcplab.web.watching import Watching, watched

    [member] = load(TWO_PATHS, {"duration": "120s"})
    resolved = member.resolve().data
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(TURNS):
            costs = {}
            for is_watched in (turn % 2 == 0, turn % 2 == 1):
                jobs = plan([resolved], "sim", seed=turn + 1, repeat=1, out=Path(folder, str(is_watched)))
                if not is_watched:
                    begun = time.process_time()
                    execute(jobs, _Unwatched())
                    costs[is_watched] = time.process_time() - begun
                    continue
                run = watched(jobs[0], Pace(UNLIMITED))
                with Server(LivePage(run, None).app(), 0) as server, _viewer(server.address):
                    while run.feed.viewers == 0:
                        time.sleep(0.01)
                    begun = time.process_time()
                    execute(jobs, Watching(run))
                    costs[is_watched] = time.process_time() - begun
            ratios.append(costs[True] / costs[False])
    return statistics.median(ratios)


class _Unwatched:
    """An observer of runs that does nothing."""

    def advanced(self, *_: object) -> None: ...

    def finished(self, *_: object) -> None: ...


@contextmanager
def _viewer(address: str) -> Iterator[None]:
    program = subprocess.Popen([sys.executable, __file__, address])
    try:
        yield
    finally:
        program.terminate()
        program.wait()


def _view(address: str) -> None:
    """Reads all messages of a run: what the other process does."""
    from websockets.sync.client import connect

    jar = _opened(address)[1]
    base = address.partition("/?")[0]
    cookie = "; ".join(f"{one.name}={one.value}" for one in jar)
    with connect(
        f"{base.replace('http', 'ws')}/messages", origin=base, additional_headers={"Cookie": cookie}
    ) as socket:  # type: ignore[arg-type]
        for _ in socket:
            pass


def _opened(address: str) -> tuple[urllib.request.OpenerDirector, CookieJar]:
    jar = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    opener.open(address).read()
    return opener, jar


def actions_ms() -> list[float]:
    """Times in milliseconds from sending the request of an action until the answer that it has
    happened, on the kernel. Needs root.
    """
    times = []
    arguments = ("--on", "kernel", "--set", "events=[]", "--set", f"duration={ACTIONS * EVERY_S + 10}s")
    with shown(TWO_PATHS, *arguments) as (_, address):
        opener, _ = _opened(address)
        viewer = subprocess.Popen([sys.executable, __file__, address])
        time.sleep(4)
        base = address.partition("/?")[0]
        for number in range(ACTIONS):
            delay = {"set": "wifi", "delay": f"{10 + number % 7}ms"}
            words = (delay, {"down": "lte"}, delay, {"up": "lte"})[number % 4]
            request = urllib.request.Request(f"{base}/actions", json.dumps(words).encode(), {"x-mptcplab": "1"})
            begun = time.perf_counter()
            opener.open(request).read()
            times.append(1e3 * (time.perf_counter() - begun))
            time.sleep(EVERY_S)
        viewer.terminate()
        viewer.wait()
    return times


def figures() -> dict[str, dict[str, object]]:
    """Returns all figures with their limits."""
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(ROOT / "tests"))
    from browser import BROWSER

    with sync_playwright() as started:
        arguments = ["--enable-precise-memory-info", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = started.chromium.launch(executable_path=BROWSER, args=arguments)
        picture = first_picture_s(browser)
        share, heap_mb = sixteen_subflows(browser)
    found: dict[str, dict[str, object]] = {
        "live-first-picture": {"value": picture, "unit": "s", "limit": 1.0},
        "live-16-subflows-cpu": {"value": 100 * share, "unit": "% of a core", "limit": 15},
        "live-16-subflows-heap": {"value": heap_mb, "unit": "MB", "limit": 200},
        "live-cost": {"value": cost_of_watching(), "unit": "times", "limit": 1.05},
    }
    if os.geteuid() == 0:
        times = actions_ms()
        p95 = statistics.quantiles(times, n=20, method="inclusive")[-1]
        found["live-action-p95"] = {"value": p95, "unit": "ms", "limit": 20}
    return found


if __name__ == "__main__":
    _view(sys.argv[1])
