"""The settings of all tests."""

from __future__ import annotations

import os
import signal

from mptcplab import callers, consent


def pytest_configure() -> None:
    """Sets what the programs under test inherit.

    A shell starts its background jobs with SIGINT ignored. Code of descriptions in these tests is
    trusted, and runs with the rights of the tests.
    """
    os.environ[consent.ALLOW] = "1"
    for name in (callers.USER, callers.GROUP):
        os.environ.pop(name, None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
