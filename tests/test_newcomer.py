"""Tests the first minutes of a user: README and tutorial from a wheel, without privileges and
without a compiler.

As root the commands run as the user nobody, in a mount namespace where /dev/net/tun is open to all,
as distributions have it. The node of the machine stays as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from documentation import ROOT, TUTORIAL, Block, blocks

pytestmark = pytest.mark.newcomer

WHEELS = ROOT / "target" / "wheels"
PYTHONS = ("/usr/bin/python3", sys.executable)
NOBODY = 65534
#: Programs that lines of the documentation use beside those of the wheel.
PROGRAMS = ("sh", "head", "cat", "ls", "grep", "unshare", "setpriv")
#: Lines that install mptcplab or need what a newcomer has not: the test has done the first, and
#: skips the others.
NOT_FOR_NEWCOMERS = ("sudo ", "make ", "pip ", "git ", "cd ", ". ", "python3 -m venv", "docker ")
ENTER = """set -e
mount --make-rprivate /
mount -t tmpfs none /mnt
mknod -m {tun_mode} /mnt/tun c 10 200
mount --bind /mnt/tun /dev/net/tun
exec setpriv --reuid {user} --regid {user} --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \\
    "$@"
"""


@dataclass(frozen=True)
class Newcomer:
    """A user with an empty home, the examples, and a virtual environment with the wheel."""

    home: Path
    environment: dict[str, str]

    def run(self, *command: str, tun_mode: str = "666") -> subprocess.CompletedProcess[str]:
        words = ["env", "-i", *(f"{name}={value}" for name, value in self.environment.items()), *command]
        if os.geteuid() == 0:
            words = ["unshare", "--mount", "sh", "-c", ENTER.format(user=NOBODY, tun_mode=tun_mode), "sh", *words]
        return subprocess.run(words, cwd=self.home, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def newcomer() -> Iterator[Newcomer]:
    wheels = sorted(WHEELS.glob("*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    assert wheels, f"no wheel in {WHEELS}; `make try` makes one"
    # Not in the directory of the tests, which only its owner may enter.
    home = Path(tempfile.mkdtemp(prefix="mptcplab-newcomer-"))
    try:
        home.chmod(0o755)
        venv = home / "venv"
        subprocess.run([_python_for_all(home), "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "--quiet", wheels[-1]], check=True)
        programs = home / "programs"
        programs.mkdir()
        for name in PROGRAMS:
            (programs / name).symlink_to(str(shutil.which(name)))
        if os.geteuid() == 0:
            shutil.chown(home, NOBODY, NOBODY)
        found = Newcomer(home, {"HOME": str(home), "PATH": f"{venv / 'bin'}:{programs}", "LANG": "C.UTF-8"})
        copied = found.run("mptcplab", "examples")
        assert copied.returncode == 0, copied.stderr
        yield found
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _python_for_all(home: Path) -> str:
    """Returns a Python that is new enough and that the newcomer may start."""
    probe = Newcomer(home, {"PATH": os.environ["PATH"]})
    for python in PYTHONS:
        if probe.run(python, "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))").returncode == 0:
            return python
    raise AssertionError(f"none of {', '.join(PYTHONS)} is Python 3.11 or newer with venv and open to all users")


def commands(block: Block) -> list[str]:
    """Returns the command lines of a block that a newcomer runs."""
    lines = [line.removeprefix("$ ") for line in block.text.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.strip() and not line.startswith(("#", *NOT_FOR_NEWCOMERS))]


@pytest.mark.parametrize("page", [ROOT / "README.md", TUTORIAL], ids=lambda page: page.stem)
def test_page_works_from_top_to_bottom(page: Path, newcomer: Newcomer) -> None:
    for block in blocks(page):
        if block.title:
            (newcomer.home / block.title).write_text(block.text, encoding="utf-8")
        elif block.language in ("sh", "console"):
            for line in commands(block):
                done = newcomer.run("sh", "-c", line)
                assert done.returncode == block.exit_status, f"{block.place}: {line}\n{done.stdout}{done.stderr}"
        elif block.language == "python" and not block.needs:
            done = newcomer.run("python", "-c", block.text)
            assert done.returncode == 0, f"{block.place}: {done.stderr}"


def test_module_and_command_are_the_same_program(newcomer: Newcomer) -> None:
    by_module = newcomer.run("python", "-m", "mptcplab", "--version")
    assert by_module.returncode == 0
    assert by_module.stdout == newcomer.run("mptcplab", "--version").stdout


@pytest.mark.parametrize("tun_mode", ["666", "600"])
def test_the_kernel_needs_no_root(newcomer: Newcomer, tun_mode: str) -> None:
    command = ("mptcplab", "run", "examples/two-paths-mptcp.yaml", "--on", "kernel", "--fresh")
    done = newcomer.run(*command, tun_mode=tun_mode)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 expectations held" in done.stdout


def test_programs_of_a_description_have_no_rights_over_the_network(newcomer: Newcomer) -> None:
    (newcomer.home / "rights.yaml").write_text(
        "name: rights\nhosts: {a: {}, b: {}}\nlinks: {x: {between: [a.eth0, b.eth0], rate: 10mbit, delay: 5ms}}\n"
        "flows: {look: {from: a, to: b, transport: tcp, app: {command: [grep, -q, 'CapEff:.0000000000000000', /proc/self/status]}}}\n"
        "duration: 2s\n"
    )
    done = newcomer.run("mptcplab", "run", "rights.yaml", "--on", "kernel", "--allow-programs", "--out", "rights")
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = (newcomer.home / "rights").rglob("run.json")
    assert [flow["error"] for flow in json.loads(record.read_text())["result"]["flows"]] == [None]


def test_where_user_namespaces_are_forbidden_one_line_names_the_setting(newcomer: Newcomer) -> None:
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "
    command = "mptcplab run examples/two-paths-mptcp.yaml --on kernel --fresh"
    done = newcomer.run("unshare", "--user", "--map-root-user", "sh", "-c", forbid + command)
    assert done.returncode == 3
    assert "user.max_user_namespaces = 0 forbids user namespaces: as root: sysctl -w user." in done.stderr
    assert done.stderr.count("\n") == 1
