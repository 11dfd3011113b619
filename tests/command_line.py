"""Runs the program as users start it, for the tests of the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("mptcplab")

#: A short run: a call of two seconds over a link that is cut.
SHORT = """
name: short
hosts: {phone: {}, server: {}}
links: {wifi: {between: [phone.wlan0, server.eth0], rate: 2mbit, delay: 10ms, loss: 1%}}
flows: {call: {from: phone, to: server, transport: udp, app: {cbr: {rate: 1mbit, size: 1000}}}}
events: [{id: cut, at: 1s, down: phone.wlan0}, {id: back, at: 1500ms, up: phone.wlan0}]
duration: 2s
expect: [flows.call.goodput_bps > 1e5, flows.call.loss_ratio < 0.9]
"""

#: A run of minutes, which tests stop early.
LONG = """
name: long
topology: {star: {n: 9, rate: 1gbit, delay: 50us, queue: 100p}}
flows:
  load: {pattern: incast, hosts: ["h[1-8]"], to: h9, transport: udp, app: {cbr: {rate: 500mbit, size: 1400}}}
duration: 200s
"""


@dataclass(frozen=True)
class Ended:
    """The result of a command."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as a single JSON document."""
        return json.loads(self.out)


def environment(**changes: str) -> dict[str, str]:
    """Returns the environment of this process with some changes, and without variables that affect
    terminals.
    """
    steering = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM", "PYTHONIOENCODING"}
    return {name: value for name, value in os.environ.items() if name not in steering} | changes


def mptcplab(*arguments: str | Path, cwd: Path, **changes: str) -> Ended:
    """Runs the program to its end. Keywords change the environment."""
    command = [PROGRAM, *map(str, arguments)]
    env = environment(**changes)
    ended = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def start(*arguments: str | Path, cwd: Path) -> subprocess.Popen[str]:
    """Starts the program and returns at once."""
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=cwd, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def may_mount() -> bool:
    """Returns whether mounts for some processes only are possible."""
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


def is_refused(ended: Ended, status: int, *words: str) -> bool:
    """Returns whether a command ended with a status, an empty standard output, and a message with
    these words.
    """
    assert ended.status == status, ended
    assert ended.out == "", ended
    assert "Traceback" not in ended.err, ended
    for word in words:
        assert word in ended.err, (word, ended.err)
    return True
