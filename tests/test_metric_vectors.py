"""Runs the metric vectors of every file in tests/vectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mptcplab import metrics

Inputs = dict[str, Any]


def jitter(inputs: Inputs) -> dict[str, Any]:
    variance = metrics.interarrival_variance(inputs["arrivals"])
    assert variance is not None
    return {
        "var_interarrival": variance,
        "std_interarrival": variance**0.5,
        "var_arrival_times": float(np.var(inputs["arrivals"])),
        "rfc3550_constant_gap": metrics.rfc3550_jitter_constant_gap(inputs["arrivals"]),
    }


def reordering(inputs: Inputs) -> dict[str, Any]:
    found = [
        {"seq": r.sequence, "index": r.index, "extent": r.extent, "n_reordering": r.n_reordering}
        for r in metrics.reordered(inputs["arrivals"])
    ]
    return {"reordered": found, "ratio": metrics.reordering_ratio(inputs["arrivals"])}


def goodput(inputs: Inputs) -> dict[str, Any]:
    start, last = inputs["t_start"], inputs["t_last"]
    return {
        "goodput_bps": metrics.goodput(inputs["bytes"], start, last),
        "total_delivery_time": metrics.completion_time(start, last),
    }


def recovery(inputs: Inputs) -> dict[str, Any]:
    rates = np.asarray(inputs["throughput_per_s"], dtype=float)
    fail, before = inputs["t_fail"], inputs["pre"]
    baseline = float(rates[fail - before : fail].mean())
    seconds = metrics.recovery_time(np.arange(len(rates)), rates, fail, inputs["frac"] * baseline, hold=inputs["hold"])
    return {"baseline": baseline, "recovery_time": seconds}


def gap(inputs: Inputs) -> dict[str, Any]:
    return {"gap": metrics.longest_silence(inputs["deliveries"], inputs["event"], inputs["w"])}


def completion(inputs: Inputs) -> dict[str, Any]:
    last = inputs["last_byte_read"]
    return {
        "fct": metrics.completion_time(inputs["connect"], last),
        "fct_no_handshake": metrics.completion_time(inputs["first_byte_sent"], last),
    }


RUNNERS: dict[str, Callable[[Inputs], dict[str, Any]]] = {
    "Jain index": lambda inputs: {"J": metrics.jain_index(inputs["x"])},
    "application jitter": jitter,
    "RFC 4737": reordering,
    "goodput": goodput,
    "recovery time": recovery,
    "handover gap": gap,
    "flow completion time": completion,
}


def vectors() -> list[Any]:
    found = []
    for file in sorted((Path(__file__).parent / "vectors").glob("*.json")):
        of_metrics = [v for v in json.loads(file.read_text())["vectors"] if v["id"].startswith("metric.")]
        found += [pytest.param(vector, id=vector["id"]) for vector in of_metrics]
    return found


@pytest.mark.parametrize("vector", vectors())
def test_vector(vector: dict[str, Any]) -> None:
    result = RUNNERS[vector["algorithm"]](vector["inputs"])
    for name, expected in vector["outputs"].items():
        if isinstance(expected, list):
            assert result[name] == expected
        else:
            assert result[name] == pytest.approx(expected, rel=vector["rel_tolerance"], abs=1e-12)
