"""What all tests stand on."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """A shell starts its background jobs with SIGINT ignored, which the programs under test would inherit."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
