"""Links: one packet over each kind, and how closely they follow their description in real time."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import MPTCPLAB, ROOT, Figure, alone, fastest_sample, printed_by_live


def link() -> dict[str, Figure]:
    """One packet through one direction of a busy link; the peer's is a hop of csg-htsim over 8
    parallel links.
    """
    command = ["cargo", "bench", "--quiet", "-p", "emulation", "--bench", "link", "--", "--output-format", "bencher"]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    found = re.findall(r"^test (\S+)\s.*?bench:\s+([\d,]+) ns/iter", printed, re.MULTILINE)
    return {
        _link_name(name.split("/")[-1]): {
            "value": int(per_iteration.replace(",", "")) / 1000,
            "unit": "ns/packet",
            "limit": 40 if "drop_tail" in name else 80,
            "peer": "htsim, per hop",
            "peer_value": 125,
        }
        for name, per_iteration in found
    }


def _link_name(discipline: str) -> str:
    return "link" if discipline == "drop_tail" else f"link-{discipline}"


def access() -> dict[str, Figure]:
    """One packet over each access network; the peer is a plain link in the same run."""
    command = ["cargo", "bench", "--quiet", "-p", "emulation", "--bench", "access", "--", "--output-format", "bencher"]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    plain_ns = fastest_sample("access", "plain") / 10_000
    return {
        f"access-{network}": {
            "value": fastest_sample("access", network) / 10_000,
            "unit": "ns/packet",
            "limit": times * plain_ns,
            "peer": "a plain link",
            "peer_value": plain_ns,
        }
        for network, times in (("wifi", 5), ("cellular", 3.5), ("leo", 2))
    }


def link_accuracy() -> dict[str, Figure]:
    """How closely live links follow their description (root). The peer is netem, or else tbf, which
    has no delay.
    """
    found = printed_by_live("link_accuracy")
    figures = {}
    for mbit, goodput, core in ((10, 0.99, 0.06), (100, 0.99, 0.25), (1000, 0.95, 0.9)):
        peer = "netem" if f"netem-{mbit}-goodput" in found else "tbf"
        for name, unit, limit in (
            ("goodput", "of the ceiling", goodput),
            ("ping-median-ms", "ms", 0.5),
            ("ping-p99-ms", "ms", 2),
        ):
            figures[f"link-accuracy-{mbit}-{name}"] = {
                "value": found[f"link-accuracy-{mbit}-{name}"],
                "unit": unit,
                "limit": limit,
                "peer": peer,
                "peer_value": found[f"{peer}-{mbit}-{name}"],
            }
        figures[f"link-accuracy-{mbit}-core"] = alone(found[f"link-accuracy-{mbit}-core"], "of a core", core)
        figures[f"link-accuracy-{mbit}-late-p99-ms"] = alone(found[f"link-accuracy-{mbit}-late-p99-ms"], "ms", 5)
    figures["link-accuracy-8x8-goodput"] = alone(found["link-accuracy-8x8-goodput"], "of the ceiling", 0.99)
    figures["link-accuracy-8x8-core"] = alone(found["link-accuracy-8x8-core"], "of a core", 0.25)
    simulator = {"peer": "the simulator's link", "peer_value": 0}
    lost = {"value": found["link-accuracy-read-lost-differently"], "unit": "packets", "limit": 0}
    figures["link-accuracy-read-lost-differently"] = lost | simulator
    for place in ("read", "sockets"):
        later = {"value": found[f"link-accuracy-{place}-p99-ms"], "unit": "ms later", "limit": 2}
        figures[f"link-accuracy-{place}-p99-ms"] = later | simulator
    return figures


def unshaped() -> dict[str, Figure]:
    """One TCP flow through a link that does nothing (root); the peer is a plain veth pair in the
    same run.
    """
    found = printed_by_live("unshaped")
    peer = {"unit": "Gbit/s", "peer": "veth pair", "peer_value": found["veth"] / 1e9}
    return {
        "unshaped": {"value": found["unshaped"] / 1e9, "limit": 10, **peer},
        "unshaped-packets": {"value": found["unshaped-packets"] / 1e9, "limit": 2.5, **peer},
    }


def live_wifi() -> dict[str, Figure]:
    """100 Mbit/s of datagrams over 802.11ac (root): how far the emulator's goodput and its 99th
    percentile of the delay are from the simulator's. Medians of five runs that are valid.
    """
    live, simulated = (_streams_over_wifi(on) for on in ("kernel", "sim"))
    goodput, delay_s = (statistics.median(of) for of in zip(*live, strict=True))
    expected, expected_s = (statistics.median(of) for of in zip(*simulated, strict=True))
    peer = {"peer": "the simulator", "peer_value": 0}
    print(f"live-wifi: {goodput / 1e6:.2f} Mbit/s and {1e3 * delay_s:.2f} ms", end="; ")
    print(f"the simulator: {expected / 1e6:.2f} Mbit/s and {1e3 * expected_s:.2f} ms")
    return {
        "live-wifi-goodput": {"value": abs(goodput / expected - 1), "unit": "of it away", "limit": 0.03, **peer},
        "live-wifi-p99-ms": {"value": 1e3 * abs(delay_s - expected_s), "unit": "ms away", "limit": 2, **peer},
    }


def _streams_over_wifi(on: str) -> list[tuple[float, float]]:
    """Goodput in bit/s and 99th percentile of the delay in s of five valid runs, of at most 15."""
    found = []
    for seed in range(1, 16):
        with tempfile.TemporaryDirectory() as folder:
            command = [MPTCPLAB, "run", ROOT / "benches" / "live-wifi.yaml", "--on", on, "--out", folder]
            # A busy machine makes a run invalid, and its status is not 0 then.
            command += ["--seed", str(seed), "--json"]
            printed = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout
            [run] = json.loads(printed)["runs"]
            stream = json.loads((Path(run["bundle"]) / "run.json").read_text())["metrics"]["flows.stream"]
        if run["status"] == "done":
            found.append((stream["goodput_bps"], stream["delay_p99_s"]))
        if len(found) == 5:
            return found
    sys.exit(f"live-wifi: only {len(found)} of 15 runs on {on} are valid, because the machine is too busy")
