"""Tests flows whose application does not send all it can: what they are compared with, and when
recovery has a time.
"""

from __future__ import annotations

from typing import Any

import pytest
from made_run import CBR_BPS, PATHS, made_run, resolved
from mptcplab.report.verdict import sentences
from mptcplab.results import RunData, evaluated

Json = dict[str, Any]


def with_app(app: Json) -> RunData:
    """Returns the made run with another application of `voice`, of which a unit of 1250 bytes
    arrives every 10 ms.
    """
    experiment = resolved()
    experiment["flows"][1] |= {"app": app, "paths": PATHS[:1]}
    return made_run(experiment)


def sentence(app: Json) -> str:
    run = with_app(app)
    record = {**evaluated(run), "backend": "sim", "seed": 1, "machine": {}}
    [found] = [said for said in sentences(record, run) if said.startswith("voice")]
    return found


@pytest.mark.parametrize(
    ("app", "end"),
    [
        ({"kind": "bulk", "bytes": None, "duration_ns": None}, "27 % of its ceiling of 3.70 Mbit/s."),
        (
            {"kind": "cbr", "rate_bps": int(CBR_BPS), "size_bytes": 1250, "duration_ns": None},
            "100 % of the 1 Mbit/s that it was offered.",
        ),
        (
            {"kind": "streaming", "bitrate_bps": 900_000, "startup_ns": 0},
            "limited by its application (streaming of 900 kbit/s).",
        ),
        (
            {"kind": "request_response", "request_bytes": 1, "response_bytes": 1, "count": None, "duration_ns": None},
            "limited by its application (request response).",
        ),
    ],
)
def test_a_flow_is_compared_with_what_limits_it(app: Json, end: str) -> None:
    assert sentence(app).endswith(f", {end}")


def test_a_pause_of_the_application_is_no_failure_to_recover() -> None:
    def recovery(bitrate_bps: int) -> tuple[float | None, str]:
        found = evaluated(with_app({"kind": "streaming", "bitrate_bps": bitrate_bps, "startup_ns": 0}))
        reasons = found["absent"].get("flows.voice", {})
        return found["metrics"]["flows.voice"]["recovery_s"], reasons.get("recovery_s", "")

    seldom = recovery(4000)  # 1250 bytes every 2.5 s
    assert seldom == (None, "its application sends every 2.5 s, more seldom than the bins of 1 s")
    assert recovery(1_000_000) != seldom
