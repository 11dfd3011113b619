"""A synthetic run of the kernel back-end: the run of ``made_run`` with subflows
and host counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from made_run import END_S, EVERY_S, HALF_BPS, Json, S, counters, resolved, result, samples_table, total, units_table
from mptcplab.results import RunData, Samples, Units

#: Whether the subflow over wifi continues after the outage, or another one replaces it.
After = Literal["reused", "recreated"]
RESUMED_S = 20.5
WIFI, LTE = ("client.wlan0", "server.eth0", "wifi"), ("client.wwan0", "server.eth1", "lte")


def subflow(number: int, path: tuple[str, str, str], port: int, opened_s: float, closed_s: float | None) -> Json:
    subnet = 1 if path == WIFI else 2
    rate = carried(number)
    return {
        "id": number,
        "local": f"10.1.{subnet}.1:{port}",
        "remote": f"10.1.{subnet}.2:5001",
        "interface": path[0],
        "remote_interface": path[1],
        "link": path[2],
        "opened_ns": int(opened_s * S),
        "closed_ns": None if closed_s is None else int(closed_s * S),
        "bytes": int(rate.sum() * EVERY_S / 8),
        "retransmitted_bytes": 14480 * (number + 1),
        "opened_by": "client",
    }


def subflows(after: After) -> list[Json]:
    if after == "reused":
        return [subflow(0, WIFI, 40001, 0.05, None), subflow(1, LTE, 40002, 0.12, None)]
    return [
        subflow(0, WIFI, 40001, 0.05, 10.5),
        subflow(1, LTE, 40002, 0.12, None),
        subflow(2, WIFI, 40003, RESUMED_S, None),
    ]


def times() -> np.ndarray:
    return np.round(np.arange(0, END_S + EVERY_S / 2, EVERY_S), 6)


def carried(number: int) -> np.ndarray:
    """Returns the rate of a subflow over time in bit/s: lte continues, wifi carries before and
    after the outage.
    """
    middle = times()[:-1] + EVERY_S / 2
    before, behind = middle < 10, middle >= RESUMED_S
    shares = {0: before, 1: (middle < 10) | (middle >= 10.4), 2: behind}
    return np.where(shares[number], HALF_BPS, 0.0)


def telemetry(after: After) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Yields the series that only the kernel provides."""
    t = times()
    for reported in subflows(after):
        number = reported["id"]
        rate = carried(0) + carried(2) if (number, after) == (0, "reused") else carried(number)
        since, until = reported["opened_ns"] / S, (reported["closed_ns"] or END_S * S) / S
        kept = (t >= since) & (t <= until + EVERY_S)
        entity = f"flows.bulk.subflows.{number}"
        alive = (t[kept] < until).astype(float) if reported["closed_ns"] else np.ones(kept.sum())
        down = (t[kept] >= 11) & (t[kept] < 20) if reported["link"] == "wifi" else np.zeros(kept.sum(), bool)
        yield entity, "bytes_sent", t[kept], total(rate)[kept]
        yield entity, "retransmitted_bytes", t[kept], np.minimum(1448 * t[kept], reported["retransmitted_bytes"])
        cwnd = np.where(down, 1448.0, 14480 + 7000 * (t[kept] % 5))
        yield entity, "cwnd_bytes", t[kept], cwnd
        yield entity, "in_flight_bytes", t[kept], np.where(t[kept] < 5, cwnd - 1448, 0)
        yield entity, "ssthresh_bytes", t[kept], np.full(kept.sum(), 29000.0)
        yield entity, "srtt_s", t[kept], 0.05 + 0.02 * number + 0.01 * np.sin(t[kept])
        yield entity, "alive", t[kept], alive
        yield entity, "backup", t[kept], ((t[kept] > 25) & (number == 1)).astype(float)
        yield entity, "rto_count", t[kept], np.cumsum(down.astype(float)) // 20
    opened = len(subflows(after))
    yield "flows.bulk", "subflows_opened", t, np.where(t < RESUMED_S, 2.0, opened)
    yield "flows.bulk", "subflows_alive", t, np.where((t >= 10.5) & (t < RESUMED_S), 1.0, 2.0)
    yield "flows.bulk", "retransmitted_bytes", t, 2 * np.floor(1448 * t / 10)
    for link in ("wifi", "lte"):
        yield f"links.{link}.forward", "late_s", t, np.full(len(t), 40e-6)


def kernel_result(experiment: Json, after: After, **changes: Any) -> Json:
    """Returns the result of the kernel back-end at the end of a run."""
    made = result(experiment)
    for flow in made["flows"]:
        established = flow["id"] == "bulk"
        flow |= {"established_ns": 41_000_000 if established else None, "error": None, "fallback": None}
        flow["subflows"] = subflows(after) if established else []
    late = {"mean_s": 4e-5, "p99_s": 2e-4, "max_s": 1.1e-3, "deliveries": 5000}
    settings = {"net.mptcp.enabled": "1", "net.mptcp.checksum_enabled": "0", "net.ipv4.tcp_syn_retries": "3"}
    counted = {"MPTcpExtMPCapableSYNTX": 1, "MPTcpExtMPJoinSynTx": 2, "MPTcpExtSubflowStale": 0, "TcpRetransSegs": 31}
    rules = ["1001: from 10.1.1.1 lookup 1001", "1002: from 10.1.2.1 lookup 1002"]
    routes = ["10.1.1.0/24 dev wlan0 table 1001", "unreachable default table 1001"]
    hosts = [
        {"id": host["id"], "settings": settings, "rules": rules, "routes": routes, "counters": counted}
        for host in experiment["hosts"]
    ]
    told = {"host": "client", "flow": "bulk", "token": 1, "local_id": 0, "remote_id": 0, "backup": False, "why": None}
    wifi = {"local": "10.1.1.1:40001", "remote": "10.1.1.2:5001"}
    path_events = [
        {"time_ns": int(0.05 * S), **told, "what": "subflow_established", **wifi},
        {"time_ns": int(10.5 * S), **told, "what": "subflow_closed", **wifi, "why": "interface down"},
        {"time_ns": int(20.2 * S), **told, "what": "address_announced", "local": "10.1.1.1", "remote": None},
    ]
    return {
        **made,
        "trace_hash": None,
        "status": "done",
        "why": None,
        "links": [
            {"id": link["id"], "direction": direction, "late": late}
            for link in experiment["links"]
            for direction in ("forward", "backward")
        ],
        "hosts": hosts,
        "path_events": path_events if after == "recreated" else path_events[:1],
        "programs": [
            {
                "flow": None,
                "event": "cut",
                "host": "client",
                "argv": ["ip", "link", "show"],
                "started_ns": 10 * S,
                "ended_ns": 10 * S + 4_000_000,
                "exit_status": 0,
                "signal": None,
                "ended_by_run": False,
                "stdout": "2: wlan0: <POINTOPOINT>",
                "stderr": "",
                "stdout_file": None,
                "stderr_file": "programs/0.stderr",
                "measured": None,
            }
        ],
        "longest_standstill_s": 2.5e-3,
        **changes,
    }


def made_kernel_run(experiment: Json | None = None, after: After = "recreated", **changes: Any) -> RunData:
    """Returns the run, with ``changes`` to its result."""
    experiment = experiment or resolved()
    series = [*counters(), *telemetry(after)]
    outcome = kernel_result(experiment, after, **changes)
    return RunData(experiment, outcome, Samples(samples_table(series)), Units(units_table()), "kernel")
