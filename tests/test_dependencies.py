"""Tests that scripts/check-dependencies distinguishes what it checked, what it found, and what it
could not check.
"""

from __future__ import annotations

import json
import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "check-dependencies"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The script, with access only to the tools that a test creates in ``tmp_path``."""
    loader = SourceFileLoader("check_dependencies", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setattr(module.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(module, "PATIENCE_S", 5)
    return module


def make(tool: Path, body: str) -> None:
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("exit 0", 0, "\nchecked: advisories"),
        ("echo 'error[rejected]: failed to satisfy license' >&2; exit 1", 1, "failed to satisfy license"),
        ("echo 'failed to fetch advisory database x' >&2; exit 1", 0, "not checked: advisories"),
        ("echo \"thread 'main' panicked at x\" >&2; exit 101", 0, "exit status 101: thread 'main' panicked"),
    ],
)
def test_a_check_of_crates_that_did_not_take_place_is_never_said_to_pass(
    script: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], body: str, status: int, said: str
) -> None:
    make(tmp_path / "cargo-deny", body)
    assert script.main() == status
    output = "\n" + "\n".join(capfd.readouterr())
    assert said in output
    assert ("\nchecked: advisories of the crates" in output) == (body == "exit 0")


def test_a_tool_that_is_missing_or_does_not_answer_is_told(
    script: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "PATIENCE_S", 0.2)
    make(tmp_path / "pip-audit", "exec sleep 5")
    assert script.main() == 0
    # Nothing but a lock file is needed to check npm packages.
    lines = [line for line in capfd.readouterr().out.splitlines() if "npm" not in line and "package-lock" not in line]
    assert all(line.startswith("not checked: ") for line in lines)
    assert "cargo-deny is not installed" in lines[0]
    assert "no answer within 0.2 s" in lines[-1]


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        ([{"name": "a", "vulns": []}], 0, "\nchecked: advisories of the Python packages"),
        ([{"name": "a", "vulns": [{"id": "PYSEC-1"}]}, {"name": "b", "skip_reason": "none"}], 1, "a: PYSEC-1"),
        ([{"name": "a", "vulns": []}, {"name": "b", "skip_reason": "no data"}], 0, "not checked: .*1 of 2.*b: no data"),
        ([], 0, "not checked: .*named no package"),
    ],
)
def test_python_packages_that_were_skipped_are_never_said_to_pass(
    script: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], packages: list[Any], status: int, said: str
) -> None:
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"dependencies": packages}))
    make(tmp_path / "pip-audit", f"cat {answer}; exit {status}")
    assert script.main() == status
    assert re.search(said, "\n" + "\n".join(capfd.readouterr()))


def test_an_npm_package_of_another_licence_or_source_is_found(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "deny.toml").write_text('[licenses]\nallow = ["MIT"]\n')
    registry = {"resolved": "https://registry.npmjs.org/a.tgz", "integrity": "sha512-a"}
    packages = {
        "": {},
        "a": {"license": "MIT", **registry},
        "b": {"license": "GPL-3.0", **registry},
        "c": {"license": "MIT", "resolved": "https://x/c.tgz"},
    }
    (tmp_path / "web" / "package-lock.json").write_text(json.dumps({"packages": packages}))
    monkeypatch.setattr(script, "HOUSE", tmp_path)
    assert [fault.split(": ")[1:3] for fault in script.check_npm()] == [
        ["b", "licence GPL-3.0; allowed"],
        ["c", "is not from https://registry.npmjs.org/ with a checksum"],
    ]
