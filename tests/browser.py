"""The browser of the tests: Chromium without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yields a browser. Skips the test if playwright is not installed."""
    playwright = pytest.importorskip("playwright.sync_api")
    # As root, Chromium starts only without its sandbox.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        yield started.chromium.launch(executable_path=BROWSER, args=sandbox)
