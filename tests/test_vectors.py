"""Tests the messages of the vector runner about malformed files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import vectors

ALL = json.loads((vectors.ROOT / "tests" / "vectors.json").read_text())["vectors"]


def vector(identifier: str) -> dict[str, Any]:
    return next(v for v in ALL if v["id"] == identifier)


def run(
    chosen: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    """Runs a file with these vectors, and returns the exit status and the lines."""
    file = tmp_path / "vectors.json"
    file.write_text(json.dumps({"vectors": chosen}))
    monkeypatch.setenv("MPTCPLAB_VECTORS", str(file))
    status = vectors.main()
    return status, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("identifier", ["lia.alpha.1", "metric.jain.1"])
def test_a_wrong_output_fails_with_what_was_found(
    identifier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = vector(identifier)
    name = next(iter(wrong["outputs"]))
    wrong = {**wrong, "outputs": {name: wrong["outputs"][name] + 1e-6}}
    status, lines = run([wrong, vector("lia.alpha.2")], tmp_path, monkeypatch, capsys)
    assert status == 1
    assert lines[0].startswith(f"failed {identifier}: {name} is ")
    assert lines[-1] == "vectors: 1 passed, 1 failed, 0 pending"


@pytest.mark.parametrize("identifier", ["liax.alpha.1", "metric.jainx.1", "paths.yenx.1"])
def test_an_id_that_nobody_knows_fails(
    identifier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = run([{**vector("lia.alpha.1"), "id": identifier}], tmp_path, monkeypatch, capsys)
    assert status == 1
    assert lines == [
        f"failed {identifier}: no family of vectors has such an id",
        "vectors: 0 passed, 1 failed, 0 pending",
    ]


def test_integers_of_a_kernel_are_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {**vector("balia.kernel.5"), "outputs": {"ai": 16001}, "rel_tolerance": 0.1}
    status, lines = run([wrong], tmp_path, monkeypatch, capsys)
    assert (status, lines[0]) == (1, "failed balia.kernel.5: ai is 16000, not 16001")
