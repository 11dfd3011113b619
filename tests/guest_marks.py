"""The marks of tests that start guests, and what these tests need."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mptcplab.remote.guest import QEMU

AGENT = Path(__file__).parents[1] / "python" / "mptcplab" / "mptcplab-agent"
MARKS = [
    pytest.mark.guest,
    pytest.mark.kernel,
    pytest.mark.alone,
    pytest.mark.skipif(shutil.which(QEMU) is None, reason="there is no QEMU: apt-get install qemu-system-x86"),
    pytest.mark.skipif(not AGENT.exists(), reason="there is no agent: make agent"),
]
