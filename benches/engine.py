"""The engine alone: segments from bytes to bytes, and from one endpoint to another."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

from figures import ROOT, Figure, alone, fastest_sample


def codec() -> dict[str, Figure]:
    """A data segment with DSS and SACK from bytes to a value and back, checksums included, with and
    without payload.
    """
    command = ["cargo", "bench", "--quiet", "-p", "mptcp", "--bench", "codec", "--", "--output-format", "bencher"]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    limits = {"parse-0": 900, "parse-1400": 1300, "emit-0": 850, "emit-1400": 1450}
    times = {f"codec-{case}": alone(fastest_sample("codec", case.replace("-", "_")), "ns", 100) for case in limits}
    return times | _instructions("codec", 10_000, limits)


def _instructions(bench: str, times: int, limits: dict[str, int]) -> dict[str, Figure]:
    """Instructions of each case of a bench of `mptcp`, which other work of the machine does not
    change.

    The bench has to take the arguments `repeat CASE TIMES`.
    """
    if shutil.which("valgrind") is None:
        print(f"{bench}: instructions left out, as valgrind is not installed")
        return {}
    # What twice as many take more: neither the start nor the end is counted.
    return {
        f"{bench}-{case}-instructions": alone(
            (_instructions_of(bench, case, 2 * times) - _instructions_of(bench, case, times)) / times,
            "instructions",
            limit,
        )
        for case, limit in limits.items()
    }


def _instructions_of(bench: str, case: str, times: int) -> int:
    runner = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command = ["cargo", f"--config=target.'cfg(all())'.runner={runner}", "bench", "--quiet", "-p", "mptcp"]
    arguments = ["--bench", bench, "--", "repeat", case, str(times)]
    printed = subprocess.run([*command, *arguments], check=True, cwd=ROOT, stderr=subprocess.PIPE, text=True).stderr
    found = re.search(r"I\s+refs:\s+([\d,]+)", printed)
    if found is None:
        sys.exit(f"{bench}: valgrind says no number of instructions:\n{printed}")
    return int(found[1].replace(",", ""))


def segment() -> dict[str, Figure]:
    """Two endpoints back to back with two subflows; the peer is smoltcp, plain TCP without SACK,
    measured before.
    """
    command = ["cargo", "bench", "--quiet", "-p", "mptcp", "--bench", "stack"]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    found = {name: float(value) for name, value in (line.split() for line in printed.splitlines())}
    smoltcp = {"unit": "ns/segment", "peer": "smoltcp", "peer_value": SMOLTCP_SEGMENT_NS}
    figures = {
        "segment": {"value": found["segment"], "limit": 500, **smoltcp},
        "segment-allocations": alone(found["segment-allocations"], "/segment", 0.01),
        "segment-idle-subflow-bytes": alone(found["segment-idle-subflow-bytes"], "bytes", 2048),
        "segment-unacknowledged-bytes": alone(found["segment-unacknowledged-bytes"], "bytes", 48),
    }
    return figures | _instructions("stack", 20_000, {"segment": 3000})


SMOLTCP_SEGMENT_NS = 444
"""The best of 444 to 601 ns: two endpoints of smoltcp back to back, without checksums, on our
machine of two cores.
"""
