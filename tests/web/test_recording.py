"""Tests that a live run can be recorded in the browser, as for the documentation, and the recording
that stands there.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import needs_browser
from pictures import IMAGES, RECORDED_PX, live_page, record
from PIL import Image, ImageChops

SHORT = """
name: short
title: A short run
hosts: {phone: {}, server: {}}
links: {wifi: {between: [phone.wlan0, server.eth0], rate: 6mbit, delay: 10ms}}
flows: {download: {from: server, to: phone, opened_by: to}}
duration: 60s
"""
MOST_BYTES = 3_000_000


def _frames(file: Path) -> tuple[int, float]:
    """Returns the number of frames of a recording, and its length in seconds."""
    with Image.open(file) as recording:
        assert recording.is_animated  # type: ignore[attr-defined]
        assert recording.width == RECORDED_PX
        lengths_ms = []
        for number in range(recording.n_frames):  # type: ignore[attr-defined]
            recording.seek(number)
            recording.load()
            lengths_ms.append(recording.info["duration"])
    return len(lengths_ms), sum(lengths_ms) / 1000


@pytest.mark.slow
@needs_browser
def test_a_live_run_is_recorded_while_it_changes(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(SHORT)
    file = tmp_path / "recording.webp"
    with live_page(tmp_path / "short.yaml", tmp_path, "--style", "projector") as page:
        page.locator("html.projector").wait_for()
        page.get_by_text("running").wait_for()
        record(page, 4, [(1, lambda page: page.get_by_role("button", name="Cut").first.click())], file)
        page.get_by_text("wifi cut, by hand").wait_for()
    frames, _ = _frames(file)
    assert frames >= 2
    with Image.open(file) as recording:
        first = recording.convert("RGB")
        recording.seek(frames - 1)
        assert ImageChops.difference(first, recording.convert("RGB")).getbbox() is not None


def test_the_recording_of_the_documentation_lasts_twenty_seconds() -> None:
    file = IMAGES / "live-run.webp"
    assert file.stat().st_size < MOST_BYTES
    frames, length_s = _frames(file)
    assert frames > 40
    assert length_s == pytest.approx(20, abs=1)
