"""The benchmarks: each prints our figure, its limit and the peer's beside it, and all go to
benches/results.json.

Usage: python benches/run.py [NAME ...]. Figures are medians; the machine is noisy, so read ratios
rather than digits.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import captures
import commands
import engine
import kernel_controls
import links
import live_page
import namespaces
import overlay
import own_stack
import simulator
import switches
from figures import ROOT, Figure

RESULTS = ROOT / "benches" / "results.json"


def overlays() -> dict[str, Figure]:
    """How long an overlay of 300 sites and a host that joins it take, and the memory of the sites.

    Needs root.
    """
    if os.geteuid() != 0:
        return {}
    return {
        name: {"value": value, "unit": unit, "limit": limit, "peer": "the limit we set", "peer_value": limit}
        for (name, value), (limit, unit) in zip(overlay.figures().items(), overlay.LIMITS.values(), strict=True)
    }


def live() -> dict[str, Figure]:
    """What the live page costs. There is no peer, because no other testbed has one to measure."""
    return {name: {"peer": "nothing", "peer_value": 0.0, **figure} for name, figure in live_page.figures().items()}


BENCHES: dict[str, Callable[[], dict[str, Figure]]] = {
    "startup": commands.startup,
    "commands": commands.commands,
    "resolve": commands.resolve,
    "link": links.link,
    "access": links.access,
    "codec": engine.codec,
    "segment": engine.segment,
    "sim-8links": simulator.eight_links,
    "sim-in-flight": simulator.in_flight,
    "sim-fattree-k8": simulator.fattree_k8,
    "sim-fattree-k16": simulator.fattree_k16,
    "setup": namespaces.setup,
    "sdn": switches.switches,
    "sdn-port-down": switches.ports_down,
    "overlay": overlays,
    "link-accuracy": links.link_accuracy,
    "unshaped": links.unshaped,
    "stack-kernel": own_stack.stack_kernel,
    "wire": own_stack.wire,
    "live-wifi": links.live_wifi,
    "proxy": own_stack.proxy,
    "pcap": captures.pcap,
    "cc-cost": kernel_controls.cc_cost,
    "cc-goodput": kernel_controls.cc_goodput,
    "live-page": live,
    "install": commands.install,
    "sdn-paths": switches.sdn_paths,
}


def main(names: list[str]) -> None:
    unknown = set(names) - set(BENCHES)
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(sorted(unknown))}; allowed: {', '.join(BENCHES)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or BENCHES:
        for figure_name, figure in BENCHES[name]().items():
            results[figure_name] = figure
            print(in_words(figure_name, figure))
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


def in_words(name: str, figure: Figure) -> str:
    value = f"{name:<32} {figure['value']:10.3f} {figure['unit']:<12}"
    if "limit" not in figure:
        return value.rstrip()
    return f"{value} limit {figure['limit']:<6} {figure['peer']}: {figure['peer_value']:.3f}"


if __name__ == "__main__":
    main(sys.argv[1:])
