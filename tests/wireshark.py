"""Reads captures with Wireshark, an independent reader of every header and option."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

#: The decoder setting that treats payload as data, whatever it looks like.
PAYLOAD = "tcp.port==1-65535,data"
#: Warnings that are no faults of the engine: about changes by the network, and about a zero that
#: Linux writes as 0xffff (`CSUM_MANGLED_0`).
PASSED_OVER = ("Sequence", "see RFC 1624")
#: Excludes the analysis of mappings, which reports missing mappings of MP_CAPABLE also in captures
#: of the kernel.
CHECKS = ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE"]


def complaints(captures: Iterable[Path]) -> list[str]:
    """Returns the warnings and errors about the format of packets, with the count of each."""
    options = [word for check in CHECKS for word in ("-o", check)]
    found = []
    for capture in captures:
        command = ["tshark", *options, "-d", PAYLOAD, "-r", str(capture), "-q", "-z", "expert,warn"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        found += [
            f"{capture.name}: {line.strip()}"
            for line in lines
            if line.split()[:1] and line.split()[0].isdigit() and not any(one in line for one in PASSED_OVER)
        ]
    return found


def options(captures: Iterable[Path]) -> set[int]:
    """Returns the subtypes of MPTCP options in captures."""
    seen: set[int] = set()
    for capture in captures:
        command = ["tshark", "-r", str(capture), "-T", "fields", "-e", "tcp.options.mptcp.subtype"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        seen |= {int(value, 0) for line in lines for value in line.split(",")}
    return seen
