"""Tests the page of a capture: self-contained, consistent with the packets, and usable in a
browser.
"""

from __future__ import annotations

import base64
import copy
import json
import re
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import BROWSER, chromium, needs_browser
from mptcplab import load, run
from mptcplab.captures import explain, read_series
from mptcplab.report.capture import capture_page
from mptcplab.report.capture_points import KINDS, points_of, rows_by_connection

#: A path is cut during the transfer, and its data is reinjected on the other path.
CUT = """
name: cut
hosts: {phone: {}, server: {}}
links:
  wifi: {between: [phone.wlan0, server.eth0], rate: 10mbit, delay: 15ms, queue: 60p}
  lte: {between: [phone.wwan0, server.eth1], rate: 6mbit, delay: 35ms, queue: 80p}
flows:
  upload: {from: phone, to: server, transport: mptcp, app: {bulk: {bytes: 3MB}}, path_manager: full_mesh}
  plain: {from: phone, to: server, transport: tcp, app: {bulk: {bytes: 20kB}}}
events:
  - {at: 1s, outage: wifi, for: 2s}
measure: {captures: [phone.wlan0, phone.wwan0]}
duration: 10s
"""
#: Columns by sender and name of the series.
Unpacked = dict[str, dict[str, dict[str, Any]]]
#: A drag on the first data chart, from a quarter to half of its time.
DRAG = """
<script>
setTimeout(() => {
  const chart = document.querySelector("figure[data-chart=sequence] .chart");
  const { left, top, width } = chart.getBoundingClientRect();
  const at = (part) => ({ clientX: left + 68 + part * (width - 80), clientY: top + 100, button: 0, pointerId: 1, bubbles: true });
  chart.setPointerCapture = () => {};
  chart.dispatchEvent(new PointerEvent("pointerdown", at(0.25)));
  chart.dispatchEvent(new PointerEvent("pointermove", at(0.4)));
  chart.dispatchEvent(new PointerEvent("pointerup", at(0.5)));
}, 2000);
</script>
"""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    directory = tmp_path_factory.mktemp("capture")
    (directory / "cut.yaml").write_text(CUT)
    [bundle] = run(next(iter(load(directory / "cut.yaml"))), on="sim", out=directory)
    series = directory / "series.parquet"
    return explain(sorted((bundle.path / "captures").iterdir()), series=series), series


@pytest.fixture(scope="module")
def page(capture: tuple[dict[str, Any], Path]) -> str:
    return capture_page(*capture)


def multipath(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the MPTCP connection, which the page shows first."""
    [found] = [connection for connection in document["connections"] if connection["version"] is not None]
    return found


def parts_of(page: str, kind: str) -> list[str]:
    return re.findall(rf'<script [^>]*class="{kind}">(.*?)</script>', page)


def points_on(page: str, number: int) -> Unpacked:
    """Returns the points of a connection on the page."""
    described = json.loads(parts_of(page, "described")[number])
    return unpacked(described["series"], parts_of(page, "points")[number])


def unpacked(series: dict[str, Any], text: str) -> Unpacked:
    """Decodes points as their description says."""
    packed = zlib.decompress(base64.b64decode(text))

    def column(points: int, layout: dict[str, Any]) -> Any:
        start, width = layout["start"], layout["width"]
        planes = np.frombuffer(packed, np.uint8, points * width, start).reshape(width, points)
        differences = sum(plane.astype(np.int64) << 8 * byte for byte, plane in enumerate(planes))
        units = np.cumsum(differences) % (1 << 8 * width)
        return np.where(units == (1 << 8 * width) - 1, np.nan, units * layout["unit"])

    return {
        sender: {
            name: {key: column(of["points"], layout) for key, layout in of["columns"].items()}
            for name, of in ways.items()
        }
        for sender, ways in series.items()
    }


def test_the_page_asks_for_nothing_and_says_what_happened_without_its_charts(page: str) -> None:
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    assert not re.findall(r"https?://", page)
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    for words in ("1 MPTCP connection, 1 plain TCP connection.", "nothing was acknowledged", "timeout", "MP_JOIN"):
        assert words in text
    titles = re.findall(r'<h2 id="title-\d+">(.*?)</h2>', text)
    assert ["Multipath TCP" in title for title in titles] == [True, False]


def test_points_are_the_packets(capture: tuple[dict[str, Any], Path], page: str) -> None:
    document, series = capture
    rows = read_series(series)
    codes, words = rows["kind"]
    connection = multipath(document)
    of_it = rows["connection"] == connection["id"]
    of_client = of_it & (rows["payload_bytes"] > 0)
    points = points_on(page, 0)["client"]
    segments = points["segments"]
    assert list(segments["packet"]) == list(rows["packet"][of_client])
    assert np.array_equal(segments["data"], rows["data"][of_client], equal_nan=True)
    assert list(segments["payload_bytes"]) == list(rows["payload_bytes"][of_client])
    assert [KINDS[int(kind)] for kind in segments["kind"]] == [words[code] for code in codes[of_client]]
    assert segments["time_s"] == pytest.approx(rows["time_s"][of_client], abs=1e-6)
    exactly = rows["unacknowledged_bytes"][of_client]
    assert segments["unacknowledged_bytes"] == pytest.approx(exactly, abs=exactly.max() / 10_000)
    known = of_it & ~np.isnan(rows["rtt_s"]) & (rows["from"][0] == rows["from"][1].index("server"))
    assert points["round_trips"]["rtt_s"] == pytest.approx(rows["rtt_s"][known], abs=1e-6)
    assert points["acknowledged"]["data_ack"][-1] == np.nanmax(rows["data_ack"][of_it])


def test_where_points_are_too_many_none_of_their_bytes_is_lost(capture: tuple[dict[str, Any], Path]) -> None:
    document, series = capture
    [rows] = rows_by_connection(read_series(series), [multipath(document)])
    whole, fewer = points_of(rows), points_of(rows, most=500)
    segments = unpacked(fewer.series, fewer.text)["client"]["segments"]
    assert whole.merged == 1
    assert fewer.merged > 1
    assert len(segments["packet"]) < 520
    assert segments["payload_bytes"].sum() == rows["payload_bytes"][(rows["from"] == 0) & (rows["kind"] >= 0)].sum()


def test_what_a_capture_says_is_no_part_of_the_page(capture: tuple[dict[str, Any], Path]) -> None:
    document, series = capture
    evil = copy.deepcopy(document)
    evil["files"][0]["path"] = "</script><script>alert(1)</script>"
    evil["connections"][0]["events"][0]["text"] = "</script><script>alert(1)</script>"
    assert "<script>alert" not in capture_page(evil, series)


def test_of_very_many_connections_the_largest_are_shown_and_the_others_counted(
    capture: tuple[dict[str, Any], Path],
) -> None:
    document, series = capture
    many = copy.deepcopy(document)
    many["connections"] += [copy.deepcopy(multipath(document)) | {"id": n} for n in range(2, 40)]
    assert "And 16 more connections" in capture_page(many, series)


@needs_browser
def test_the_subflows_of_a_connection_fit_into_the_page(page: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page.replace("<td>FIN</td>", "<td>RST by the client, reason 0</td>"))
    assert "RST by the client" in file.read_text()
    with chromium() as browser:
        shown = browser.new_page(viewport={"width": 1280, "height": 900})
        shown.goto(file.as_uri())
        hidden = shown.evaluate("[...document.querySelectorAll('.scroll')].map(t => t.scrollWidth - t.clientWidth)")
        lines = shown.evaluate(
            "Math.max(...[...document.querySelectorAll('.loose tbody tr')].map(t => t.offsetHeight))"
        )
    assert max(hidden) <= 0
    assert lines < 100


def test_a_capture_without_tcp_has_a_page(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    series = tmp_path / "series.parquet"
    assert "0 packets" in capture_page(explain([empty], series=series), series)


@needs_browser
def test_the_charts_draw_what_was_captured_and_zoom_by_dragging(
    capture: tuple[dict[str, Any], Path], page: str, tmp_path: Path
) -> None:
    document, _ = capture
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", DRAG + "</body>"))
    drawn, zoomed = (_seen(file, tmp_path, budget_ms) for budget_ms in (1500, 4000))
    connection = multipath(document)
    counts = dict.fromkeys(KINDS, 0)
    for kind in points_on(page, 0)["client"]["segments"]["kind"]:
        counts[KINDS[int(kind)]] += 1
    words = f"{sum(counts.values())} segments: {counts['new']} sent for the first time, {counts['reinjection']} reinjected, "
    assert words + f"{counts['retransmission']} retransmitted" in drawn
    assert counts["reinjection"] > 0
    begin, end = connection["start_s"], connection["end_s"]
    assert _view(drawn) == pytest.approx((begin, end), abs=0.01)
    asked = [begin + part * (end - begin) for part in (0.25, 0.5)]
    assert _view(zoomed) == pytest.approx(asked, abs=0.01 * (end - begin))


def _view(page: str) -> tuple[float, ...]:
    """Returns the period that the charts of the first connection show."""
    return tuple(float(part) for part in re.findall(r"<output>([\d.]+) s to ([\d.]+) s", page)[0])


def _seen(file: Path, profile: Path, budget_ms: int) -> str:
    """Returns the page as a browser has rendered it after ``budget_ms`` of virtual time."""
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile / 'profile'}"]
    options += ["--window-size=1100,2600", f"--virtual-time-budget={budget_ms}", "--dump-dom"]
    shown = subprocess.run([BROWSER, *options, file.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return shown.stdout
