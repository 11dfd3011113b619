"""Tests of the controller as a command: what it needs, how it says what is
wrong, and how it ends.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from controlled import experiment, recovery

PATIENCE_S = 60


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mptcplab.controller", *arguments],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def written(tmp_path: Path, described: Any) -> str:
    path = tmp_path / "experiment.json"
    path.write_text(described if isinstance(described, str) else json.dumps(described))
    return str(path)


@pytest.mark.parametrize(
    ("described", "problem"),
    [
        ("{", "is no resolved experiment: "),
        ({"control": None}, "control: has no switches under control; allowed: an object"),
        (experiment(recovery=recovery("hope")), "control.recovery: unknown name 'hope'; allowed: none, "),
    ],
)
def test_a_wrong_experiment_is_told_in_one_line(tmp_path: Path, described: Any, problem: str) -> None:
    ended = command(written(tmp_path, described), MPTCPLAB_OPENFLOW=free_address())
    assert ended.returncode == 2
    assert problem in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_missing_experiment_and_a_wrong_address_are_told(tmp_path: Path) -> None:
    missing = command()
    assert (missing.returncode, missing.stderr) == (
        2,
        "mptcplab.controller: no experiment is given; allowed: a file as the argument or in MPTCPLAB_EXPERIMENT\n",
    )
    wrong = command(MPTCPLAB_EXPERIMENT=written(tmp_path, experiment()), MPTCPLAB_OPENFLOW="6653")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "mptcplab.controller: MPTCPLAB_OPENFLOW: found '6653'; allowed: ADDRESS:PORT, such as 127.0.0.1:6653\n",
    )


def test_without_os_ken_it_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "os_ken.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    ended = command(written(tmp_path, experiment()), PYTHONPATH=path)
    assert (ended.returncode, ended.stderr) == (
        3,
        "mptcplab.controller: the controller needs os-ken: pip install 'mptcplab[sdn]'\n",
    )


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_it_listens_where_it_is_told_and_ends_with_its_input(tmp_path: Path) -> None:
    address = free_address()
    with subprocess.Popen(
        [sys.executable, "-m", "mptcplab.controller", written(tmp_path, experiment())],
        env=os.environ | {"MPTCPLAB_OPENFLOW": address},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert json.loads(running.stdout.readline()) == {"said": "listening"}
        host, port = address.split(":")
        socket.create_connection((host, int(port))).close()
        running.stdin.write("dance\n")
        running.stdin.flush()
        problem = json.loads(running.stdout.readline())
        assert problem["said"] == "problem"
        assert problem["text"].startswith("an order is no JSON: ")
        running.stdin.close()
        assert running.wait(PATIENCE_S) == 0
