"""Tests interrupted streams, the slowest link and the smallest buffers in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from mptcplab import load, run
from mptcplab.errors import MptcplabError

STREAMED = """
name: streamed
hosts: {a: {}, b: {}}
links: {l: {between: [a.eth0, b.eth0], rate: 2mbit, delay: 10ms}}
flows: {f: {from: a, to: b, transport: tcp, app: {streaming: {bitrate: 1mbit, startup: 0s}}}}
events: [{at: 4s, down: a.eth0}]
vary: {events: 0%}
duration: 10s
"""

FINITE_OVER_NOTHING = """
name: slowest
hosts: {a: {}, b: {}}
links: {l: {between: [a.eth0, b.eth0], rate: 1bit, delay: 10ms}}
flows: {f: {from: a, to: b, transport: tcp, app: {bulk: {bytes: 10kB}}}}
duration: 2s
"""


def _metrics(text: str, tmp_path: Path) -> dict[str, float | None]:
    description = tmp_path / "described.yaml"
    description.write_text(text)
    [bundle] = run(load(description)[0], on="sim", out=tmp_path)
    found: dict[str, float | None] = bundle.record["metrics"]["flows.f"]
    return found


def test_what_a_broken_stream_never_delivers_is_late(tmp_path: Path) -> None:
    found = _metrics(STREAMED, tmp_path)
    assert found["stream_late_1s"] == pytest.approx(5 / 9, abs=0.02)
    assert found["stream_late_5s"] == pytest.approx(1 / 5, abs=0.02)
    assert found["stream_late_10s"] is None, "the run ends as such a player would start"
    # Eight units of 64 kB, 0.512 s each, were sent by 4 s. The ninth never arrives.
    assert found["stream_startup_s"] == pytest.approx(10 - 8 * 0.512, abs=0.02)
    assert found["stream_throughput_ratio"] == pytest.approx(0.4, abs=0.02)


def test_a_finite_flow_over_the_smallest_rate_has_no_normalised_completion_time(tmp_path: Path) -> None:
    assert _metrics(FINITE_OVER_NOTHING, tmp_path)["fct_normalised"] is None


@pytest.mark.parametrize("buffer", ["rcvbuf: 0", "rcvbuf: 4095", "sndbuf: 1"])
def test_a_buffer_that_holds_no_segment_is_refused(buffer: str, tmp_path: Path) -> None:
    with pytest.raises(MptcplabError, match="at least 4KiB"):
        _metrics(FINITE_OVER_NOTHING.replace("a: {}, b", f"a: {{{buffer}}}, b"), tmp_path)
