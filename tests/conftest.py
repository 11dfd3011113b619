"""The settings of all tests."""

from __future__ import annotations

import os
import signal

from hypothesis import settings
from mptcplab import callers, consent


def pytest_configure() -> None:
    """Sets what the programs under test inherit.

    A shell starts its background jobs with SIGINT ignored. Code of descriptions in these tests is
    trusted, and runs with the rights of the tests.
    """
    examples = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else settings.default.max_examples
    # Without a deadline, because the machine may be busy.
    settings.register_profile("mptcplab", settings.default, max_examples=examples, deadline=None)
    settings.load_profile("mptcplab")
    os.environ[consent.ALLOW] = "1"
    for name in (callers.USER, callers.GROUP):
        os.environ.pop(name, None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
