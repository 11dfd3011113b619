"""How long a datagram waits for another way after the ports of its link go down, under real
switches.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import mptcplab
import yaml

#: The recoveries that move flows, with the 95th percentile in milliseconds that each must keep.
LIMITS_MS = {"ip_preinstalled": 10.0, "ip_reactive": 50.0}
FAILURES = 100
#: From one failure to the next; half of it the link is down.
EVERY_MS = 400


def milliseconds(recovery: str, results: Path) -> list[float]:
    """Times in milliseconds from each failure to the sending of the first datagram that arrives.

    Needs root and Open vSwitch. A datagram leaves each millisecond.

    Raises:
        RuntimeError: the run did not end as `done`.
    """
    run = mptcplab.run(_experiment(recovery, results), on="kernel", out=results)[0]
    if run.status != "done":
        raise RuntimeError(f"port down, {recovery}: the run is {run.status}: {run.record['why']}")
    sent_s = sorted(mptcplab.Runs([run]).units(flow="probe")["sent_s"].to_list())
    return [1e3 * (next(at for at in sent_s if at > failed_s) - failed_s) for failed_s in _failures_s(run)]


def _failures_s(run: mptcplab.Run) -> list[float]:
    """When the ports went down: the first step of each outage."""
    return [event["actual_ns"] / 1e9 for event in run.record["result"]["events"] if event["id"].endswith(".1")]


def _experiment(recovery: str, folder: Path) -> mptcplab.Experiments:
    description = {
        "name": f"port-down-{recovery.replace('_', '-')}",
        "topology": {"geant5": {"attach": 1, "rate": "100mbit", "delay": "1ms"}},
        "control": {"recovery": recovery},
        "flows": {
            "probe": {
                "from": "h-uk",
                "to": "h-de",
                "transport": "udp",
                "app": {"cbr": {"rate": "512kbit", "size": 64}},
            }
        },
        "events": [
            {
                "id": f"cut{index}",
                "at": f"{(index + 1) * EVERY_MS}ms",
                "outage": "uk-de",
                "for": f"{EVERY_MS // 2}ms",
                "by": "port_down",
            }
            for index in range(FAILURES)
        ],
        "duration": f"{(FAILURES + 1) * EVERY_MS}ms",
    }
    file = folder / f"{recovery}.yaml"
    file.write_text(yaml.safe_dump(description))
    return mptcplab.load(str(file))


def percentile_95(values: list[float]) -> float:
    """The 95th percentile of `values`, of which there are at least two."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1]
