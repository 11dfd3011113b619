"""Tests `mptcplab check --known` on a run on the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import SHORT, mptcplab

pytestmark = pytest.mark.kernel

EXPECTED = "flows.call.goodput_bps > 1e9"
KNOWN = f"[[known]]\nexperiment = 'short'\nexpectation = '{EXPECTED}'\nwhy = 'it is slow'\nbefore = "


@pytest.mark.parametrize(("before", "status"), [("99.0", 0), ("6.1", 1)])
def test_a_known_failure_is_skipped_only_on_older_kernels(tmp_path: Path, before: str, status: int) -> None:
    (tmp_path / "short.yaml").write_text(SHORT)
    (tmp_path / "known.toml").write_text(f"{KNOWN}'{before}'\n")
    mptcplab("run", "short.yaml", "--on", "kernel", "--set", f"expect=[{EXPECTED}]", cwd=tmp_path)
    ended = mptcplab("check", "--known", "known.toml", "--ktap", "-", cwd=tmp_path)
    if ended.status == 4:
        pytest.skip("the machine was too busy for a run in real time")
    assert ended.status == status
    skipped = f"ok 1 {EXPECTED} # SKIP known before Linux {before}: it is slow"
    assert (skipped in ended.out) == (status == 0)
