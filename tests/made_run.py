"""A synthetic run: a bulk flow over two paths, one of them down from 10 s to 20 s; a datagram flow;
probes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import completed
import numpy as np
from mptcplab.results import RunData, Samples, Table, Units

Json = dict[str, Any]
END_S = 30.0
EVERY_S = 0.1
S = 1_000_000_000
HALF_BPS = 3_600_000.0
CBR_BPS = 1_000_000.0
CBR_BYTES = 1250


def direction(rate_bps: int | None = 4_000_000, delay_ns: int = 20_000_000) -> Json:
    return completed.direction({"rate_bps": rate_bps, "delay_ns": delay_ns, "loss_at": "egress"})


def link(name: str, a: str, b: str, rate_bps: int = 4_000_000) -> Json:
    return {"id": name, "a": a, "b": b, "forward": direction(rate_bps), "backward": direction(rate_bps)}


def interface(name: str, link_id: str, subnet: int, number: int) -> Json:
    addresses = {"ipv4": f"10.1.{subnet}.{number}/24", "ipv6": f"fd00:1:{subnet}::{number}/64"}
    return {"id": name, "link": link_id, "subnet": subnet, **addresses}


def path(name: str, local: str, remote: str, ceiling_bps: int | None = 3_700_000) -> Json:
    hops = [{"link": name, "direction": "forward"}]
    limits = {"rate_bps": 4_000_000, "ceiling_bps": ceiling_bps, "rtt_ns": 40_000_000}
    return completed.path({"local": local, "remote": remote, "hops": hops, **limits})


PATHS = [path("wifi", "client.wlan0", "server.eth0"), path("lte", "client.wwan0", "server.eth1")]


def flow(name: str, transport: str, app: Json, paths: list[Json], ceiling_bps: int | None) -> Json:
    algorithms = {"cc": ["lia"], "scheduler": ["min_rtt"], "path_manager": [{"name": "full_mesh"}]}
    ends = {"id": name, "from": "client", "to": "server", "transport": transport}
    return {**ends, "app": app, **algorithms, "paths": paths, "ceiling_bps": ceiling_bps}


def resolved(**changes: Any) -> Json:
    cbr = {"kind": "cbr", "rate_bps": int(CBR_BPS), "size_bytes": CBR_BYTES, "duration_ns": None}
    bulk = {"kind": "bulk", "bytes": None, "duration_ns": None}
    document: Json = {
        "name": "two-paths/cut",
        "title": "One of two paths fails",
        "description": "A phone whose WiFi goes away for ten seconds while it uploads.",
        "parameters": {"n": 1},
        "duration_ns": int(END_S * S),
        "hosts": [{"id": "client"}, {"id": "server"}],
        "interfaces": [
            interface("client.wlan0", "wifi", 1, 1),
            interface("client.wwan0", "lte", 2, 1),
            interface("server.eth0", "wifi", 1, 2),
            interface("server.eth1", "lte", 2, 2),
        ],
        "subnets": [{"id": n, "ipv4": f"10.1.{n}.0/24", "ipv6": f"fd00:1:{n}::/64"} for n in (1, 2)],
        "links": [link("wifi", "client.wlan0", "server.eth0"), link("lte", "client.wwan0", "server.eth1")],
        "flows": [
            flow("bulk", "mptcp", bulk, PATHS, 7_400_000),
            flow("voice", "udp", cbr, PATHS[1:], 3_700_000),
        ],
        "events": [
            event("cut", 10, {"kind": "interface_down", "interface": "client.wlan0"}),
            event("back", 20, {"kind": "interface_up", "interface": "client.wlan0"}),
        ],
        "measure": {"every_ns": int(EVERY_S * S), "probe_rtt_ns": 100_000_000},
        "expect": ["flows.bulk.goodput_bps > 5e6", "events.cut.recovery_s < 2", "flows.bulk.connect_time_s < 1"],
        "origins": {
            "expect.0": "cut.yaml:21",
            "expect.1": "cut.yaml:22",
            "links.wifi.delay": "cut.yaml:7",
            "links.lte.queue": "default",
            "flows.bulk.cc": "profile alenazi2019 (Table 1)",
        },
    }
    return copy.deepcopy(completed.completed(document)) | changes


def event(name: str, at_s: float, action: Json, parent: str | None = None) -> Json:
    return {"id": name, "parent": parent, "at_ns": int(at_s * S), "action": action}


def result(experiment: Json) -> Json:
    return {
        "end_ns": int(END_S * S),
        "trace_hash": "00ff",
        "events": [
            {"id": e["id"], "parent": e["parent"], "asked_ns": e["at_ns"], "actual_ns": e["at_ns"], "injected": False}
            for e in experiment["events"]
        ],
        "flows": [
            {
                "id": f["id"],
                "start_ns": 0,
                "end_ns": None,
                "bytes": 0,
                "path": {"local": "10.1.1.1:4000", "remote": "10.1.1.2:5001", "link": f["paths"][0]["hops"][0]["link"]},
            }
            for f in experiment["flows"]
        ],
        "links": [],
        "packets": 1000,
        "event_count": 2000,
    }


def bulk_rate(t: np.ndarray) -> np.ndarray:
    """Returns the rate: 7.2 Mbit/s; from 10 s nothing for 0.4 s, then half until 20.5 s."""
    rate = np.full(len(t), 2 * HALF_BPS)
    rate[(t >= 10) & (t < 20.5)] = HALF_BPS
    rate[(t >= 10) & (t < 10.4)] = 0.0
    return rate


def counters(noise: np.random.Generator | None = None) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Yields the series of the run: entity, metric, times, values."""
    t = np.round(np.arange(0, END_S + EVERY_S / 2, EVERY_S), 6)
    wobble = 1.0 if noise is None else noise.normal(1.0, 0.02, len(t) - 1)
    bulk = bulk_rate(t[:-1] + EVERY_S / 2) * wobble
    cbr_packets = np.floor(t * CBR_BPS / 8 / CBR_BYTES)
    on_wifi = np.where((t[:-1] >= 10) & (t[:-1] < 20.4), 0, HALF_BPS)
    yield "flows.bulk", "bytes_in_order", t, np.floor(total(bulk))
    yield "flows.voice", "bytes_in_order", t, cbr_packets * CBR_BYTES
    yield "flows.voice", "packets_sent", t, cbr_packets
    for name, rate in {"wifi": on_wifi, "lte": bulk - on_wifi + CBR_BPS}.items():
        yield f"links.{name}.forward", "wire_bytes", t, total(np.maximum(rate, 0) * 1.04)
        yield f"links.{name}.backward", "wire_bytes", t, total(rate * 0.02)
        queue = np.where(np.append(rate, 0) > 0, 40_000 + 30_000 * np.sin(3 * t), 0)
        yield f"links.{name}.forward", "queue_bytes", t, queue
        yield f"links.{name}.forward", "dropped_queue_full", t, np.floor(t / 2)
    yield "links.wifi.forward", "dropped_link_down", t, np.where(t > 10, 31.0, 0.0)
    yield "interfaces.client.wlan0", "up", t, np.where((t >= 10) & (t < 20), 0.0, 1.0)
    probe = t[(t < 10) | (t >= 20)]
    yield "probes.client.wlan0-server.eth0", "rtt_s", probe + 0.04, 0.04 + 0.01 * np.sin(probe) ** 2
    yield "probes.client.wlan0-server.eth0", "sent", t, np.arange(len(t), dtype=float)
    yield "probes.client.wlan0-server.eth0", "answered", t, np.minimum(np.arange(len(t)), 199).astype(float)


def total(rate_bps: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(rate_bps) * EVERY_S / 8])


def samples_table(series: list[tuple[str, str, np.ndarray, np.ndarray]]) -> Table:
    entities, metrics = sorted({s[0] for s in series}), sorted({s[1] for s in series})
    lengths = [len(s[2]) for s in series]
    return Table(
        {
            "time_ns": np.concatenate([np.round(s[2] * S).astype(np.int64) for s in series]),
            "entity": (np.repeat([entities.index(s[0]) for s in series], lengths).astype(np.int32), entities),
            "metric": (np.repeat([metrics.index(s[1]) for s in series], lengths).astype(np.int32), metrics),
            "value": np.concatenate([s[3] for s in series]),
        }
    )


def units_table() -> Table:
    """Returns the datagrams of the voice flow, one every 10 ms with 20 ms of delay; 500 is lost,
    601 overtakes 600.
    """
    sent = np.arange(0, int(END_S * 100) - 3, dtype=np.int64) * 10_000_000
    number = np.arange(len(sent))
    delay = np.full(len(sent), 20_000_000, dtype=np.int64) + 2_000_000 * (number % 3)
    delay[600] += 15_000_000
    kept = number != 500
    received = (sent + delay)[kept]
    return Table(
        {
            "flow": (np.zeros(len(received), dtype=np.int32), ["voice"]),
            "unit": number[kept],
            "bytes": np.full(len(received), CBR_BYTES, dtype=np.int64),
            "sent_ns": sent[kept],
            "received_ns": received,
            "delivered_ns": received,
        }
    )


def made_run(experiment: Json | None = None, seed: int | None = None) -> RunData:
    """Returns the run. With a seed, its rates vary by 2 %."""
    experiment = experiment or resolved()
    noise = None if seed is None else np.random.default_rng(seed)
    samples = Samples(samples_table(list(counters(noise))))
    return RunData(experiment, result(experiment), samples, Units(units_table()))
