"""A run with its live page, for the tests of the page in a browser."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_line import PROGRAM

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Loading takes longer on a busy machine.
PATIENCE_MS = 60_000

TWO_PATHS = """
name: shown
title: Two paths, shown
vary: none
hosts: {phone: {}, server: {}}
links:
  wifi: {between: [phone.wlan0, server.eth0], rate: 6mbit, delay: 10ms}
  lte: {between: [phone.wwan0, server.eth1], rate: 4mbit, delay: 30ms}
flows:
  download: {from: server, to: phone, opened_by: to, path_manager: full_mesh}
duration: DURATION
"""


class Shown:
    """A run with its page: the program, and the address that it printed."""

    def __init__(self, directory: Path, *options: str, duration: str = "600s", spec: Path = Path("shown.yaml")) -> None:
        directory.mkdir(exist_ok=True)
        (directory / "shown.yaml").write_text(TWO_PATHS.replace("DURATION", duration))
        command = [PROGRAM, "run", spec, "--live", "--port", "0", *options]
        self.directory = directory
        self.program = subprocess.Popen(
            command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.program.stderr is not None
        found = re.fullmatch(r"live: (http://\S+)\n", self.program.stderr.readline())
        assert found is not None
        self.address = found[1]

    def end(self) -> None:
        self.program.send_signal(signal.SIGINT)
        self.program.communicate(timeout=30)

    @property
    def bundle(self) -> Path:
        """The directory of its bundle."""
        [file] = self.directory.glob("results/live/*/*/*/run.json")
        return file.parent

    @property
    def record(self) -> Any:
        return json.loads((self.bundle / "run.json").read_text())


def cells(page: Page, table: str) -> list[list[str]]:
    """Returns the texts of a table, by rows."""
    rows = page.locator(f"#{table} tbody tr")
    return [rows.nth(n).locator("th, td").all_inner_texts() for n in range(rows.count())]
