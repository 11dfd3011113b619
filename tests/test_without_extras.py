"""Tests that a command whose libraries are in an extra says which, where none is installed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command_line import environment
from documentation import EXAMPLES
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of the libraries of this environment that no extra names."""
    of_extras = {Requirement(one).name.replace("-", "_") for extra in EXTRAS.values() for one in extra}
    place = tmp_path_factory.mktemp("libraries")
    for entry in Path(pytest.__file__).parents[1].iterdir():
        if entry.name not in of_extras:
            (place / entry.name).symlink_to(entry)
    return place


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("serve", "web"),
        ("run two-paths-mptcp.yaml --live", "web"),
        ("overlay up --sites 2", "web"),
        ("overlay watch", "web"),
        ("run two-paths-mptcp.yaml --on ssh://nobody@127.0.0.1", "remote"),
        ("run disjoint-paths.yaml --on kernel", "sdn"),
        ("sweep two-paths-mptcp.yaml --set duration=20s,30s --cluster tcp://127.0.0.1:1", "cluster"),
    ],
)
def test_a_command_without_its_libraries_names_the_extra(libraries: Path, words: str, extra: str) -> None:
    # Without site, no other library is found.
    command = [sys.executable, "-S", "-m", "mptcplab", *words.split()]
    env = environment(PYTHONPATH=f"{ROOT / 'python'}:{libraries}")
    ended = subprocess.run(command, cwd=EXAMPLES, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 3, ended
    [told] = ended.stderr.splitlines()
    assert f"pip install 'mptcplab[{extra}]'" in told
