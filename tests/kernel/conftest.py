"""The settings of the tests on this machine's kernel. Each test must leave the
machine unchanged.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from traces import Traces, adopt_orphans, left_since


# Before xdist, which reads the groups then.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needs_root = pytest.mark.skip(reason="needs root on Linux")
    may_run = sys.platform == "linux" and os.geteuid() == 0
    for item in items:
        if "kernel" in item.keywords and not may_run:
            item.add_marker(needs_root)
        # With --dist loadgroup a file is one group, because its tests share what takes long to
        # make. Tests that each take a run of their own are spread.
        if "spread" not in item.keywords:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


@pytest.fixture(scope="session", autouse=True)
def _orphans_come_to_us() -> None:
    adopt_orphans()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = Traces.now()
    yield
    assert left_since(before) == {}


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Collects programs that were started here, and ends them with the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()
