"""What crates may be, by scripts/check-dependencies."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "check-dependencies"
RULES = {
    "licenses": {"allow": ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "ISC"]},
    "sources": {"allow-registry": ["https://example.org/index"]},
}


@pytest.fixture(scope="module")
def script() -> Any:
    loader = SourceFileLoader("check_dependencies", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("expression", "is_allowed"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT/GPL-3.0", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR GPL-3.0-only) AND ISC", True),
        ("MIT OR GPL-3.0-only AND ISC", True),
        ("(MIT OR ISC) AND GPL-3.0-only", False),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0-only", True),
        ("ISC WITH LLVM-exception", False),
        ("(MIT", False),
        ("MIT MIT", False),
        ("", False),
    ],
)
def test_licence_expressions_are_read_as_spdx_means_them(script: Any, expression: str, is_allowed: bool) -> None:
    assert script.is_allowed(expression, set(RULES["licenses"]["allow"])) == is_allowed


def test_what_is_wrong_with_a_crate_is_told(script: Any) -> None:
    good = {
        "name": "a",
        "version": "1.0.0",
        "license": "MIT",
        "source": "registry+https://example.org/index",
        "dependencies": [],
    }
    assert list(script.faults(good, RULES)) == []
    bad = {**good, "license": None, "source": "git+https://example.org/a"}
    assert [fault.split(":")[0] for fault in script.faults(bad, RULES)] == ["a 1.0.0"] * 2
    ours = {**good, "source": None, "dependencies": [{"name": "b", "req": "*"}, {"name": "c", "req": "*", "path": "c"}]}
    assert list(script.faults(ours, RULES)) == ["a 1.0.0: any version of b would do"]
