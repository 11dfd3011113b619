"""Tests the section of a report that compares shares of the data with those in equilibrium."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from documentation import EXAMPLES
from made_kernel_run import made_kernel_run
from made_run import Json, S, counters, resolved, samples_table
from mptcplab import load, run
from mptcplab.algorithms import Control
from mptcplab.report.equilibrium import Settling, settlings
from mptcplab.report.run import page_of
from mptcplab.results import Absent, BundleWriter, RunData, Samples, evaluated
from mptcplab.results.equilibrium import Equilibrium, equilibrium_of

MB = 1e6
PACKET_BYTES = 1500


def made(lost_packets: tuple[int, int], sent_mb: tuple[int, int] = (20, 10), **series: float) -> RunData:
    """Makes 30 s over two open subflows with ``lost_packets`` in the last 20 s; wifi has 50 ms, lte
    100 ms.
    """
    base = made_kernel_run(resolved(events=[], expect=[]), "reused")
    t = np.arange(0, 30.1, 0.1)
    since = np.clip((t - 10) / 20, 0, 1)
    of_subflows: list[tuple[str, str, np.ndarray, np.ndarray]] = []
    for number, lost in enumerate(lost_packets):
        gauges = {"srtt_s": 0.05 * (number + 1), "cwnd_bytes": 15e3, "in_flight_bytes": 14e3} | series
        entity = f"flows.bulk.subflows.{number}"
        of_subflows += [(entity, name, t, np.full(len(t), value)) for name, value in gauges.items()]
        # Losses in slow start do not count.
        of_subflows.append((entity, "retransmitted_bytes", t, 5e5 * (t > 2) + since * lost * PACKET_BYTES))
        of_subflows.append(
            (entity, "bytes_sent", t, 9e6 * (t > 2) + since * (sent_mb[number] * MB - lost * PACKET_BYTES))
        )
    return RunData(base.resolved, base.result, Samples(samples_table([*counters(), *of_subflows])), base.units)


def closed_early(data: RunData) -> RunData:
    """Returns the run with the first subflow closed at 20 s."""
    data.result["flows"][0]["subflows"][0]["closed_ns"] = 20 * S
    return data


def told(data: RunData, *substitutions: Json) -> Settling:
    """Returns the section of the page about the only flow."""
    [settling] = settlings({"substitutions": substitutions}, data)
    return settling


@pytest.mark.parametrize(
    ("control", "rates"),
    [
        # Windows as 1 / sqrt(p), divided by round-trip times.
        ("reno", (1 / np.sqrt(0.01) / 0.05, 1 / np.sqrt(0.04) / 0.1)),
        # Windows as 1 / p, divided by round-trip times.
        ({"name": "semicoupled", "a": 0.5}, (1 / 0.01 / 0.05, 1 / 0.04 / 0.1)),
        ("olia", (1.0, 0.0)),
    ],
    ids=str,
)
def test_shares_are_those_of_the_fluid_for_what_was_measured(control: Control, rates: tuple[float, float]) -> None:
    lost = (round(0.01 * 20 * MB / PACKET_BYTES), round(0.04 * 10 * MB / PACKET_BYTES))
    found = equilibrium_of(made(lost), "bulk", control)
    assert isinstance(found, Equilibrium)
    assert [one.loss_ratio for one in found.subflows] == pytest.approx([0.01, 0.04], rel=0.01)
    assert [one.rtt_s for one in found.subflows] == pytest.approx([0.05, 0.1])
    assert found.share(found.subflows[0]) == pytest.approx(19.8 / (19.8 + 9.6), rel=0.01)
    for one, rate in zip(found.fluid, rates, strict=True):
        assert one.share == pytest.approx(rate / sum(rates), rel=0.01)
        assert one.low <= one.share <= one.high


def test_few_losses_leave_much_to_chance() -> None:
    def width(lost: tuple[int, int]) -> float:
        found = equilibrium_of(made(lost), "bulk", "lia")
        assert isinstance(found, Equilibrium)
        return found.fluid[0].high - found.fluid[0].low

    assert width((4, 4)) > 2 * width((400, 400))


@pytest.mark.parametrize(
    ("control", "lost", "why"),
    [
        ("cubic", (100, 100), "cubic has no fluid"),
        ("lia", (100, 0), "nothing was lost on subflow 1 from 7.5 s on"),
        ("lia", (0, 0), "nothing was lost on subflows 0, 1"),
    ],
)
def test_without_an_equilibrium_it_says_why(control: str, lost: tuple[int, int], why: str) -> None:
    found = equilibrium_of(made(lost), "bulk", control)
    assert isinstance(found, Absent)
    assert why in found.why


def test_the_page_has_both_shares(tmp_path: Path) -> None:
    data = made((133, 267))
    writer = BundleWriter.create(tmp_path, data.resolved, backend="kernel", seed=1, repeat=0)
    bundle = writer.finish("done", wall_s=1.0, substitutions=[], **evaluated(data))
    text = " ".join(re.sub(r"<[^>]+>", " ", page_of(bundle.record, data, bundle.path)).split())
    assert "bulk: lia" in text
    assert "0 wifi 1 % 50 ms 67 %" in text
    assert "Measured from 7.50 s to 30 s." in text
    assert "Meanwhile" not in text


def test_the_control_is_the_one_that_ran() -> None:
    data = made((133, 267))
    data.resolved["flows"][0]["cc"] = ["lia-oot", {"name": "semicoupled", "a": 2.0}]
    used = {"where": "flows.bulk.cc", "asked": "lia-oot", "used": "semicoupled", "why": "not here"}
    assert told(data, used).control == "semicoupled (a 2.0)"
    assert settlings({"substitutions": []}, data) == []


@pytest.mark.parametrize(
    ("data", "remark"),
    [
        (made((133, 0)), "No equilibrium: nothing was lost on subflow 1"),
        (made((133, 267), cwnd_bytes=2000), "Subflows 0, 1: the window was at its least most of the time"),
        (made((133, 267), in_flight_bytes=1000), "Subflows 0, 1: the window was not full most of the time"),
        (made_kernel_run(after="reused"), "Meanwhile there was cut, back"),
        (closed_early(made((133, 267))), "Subflow 0: not open all of this time."),
    ],
    ids=["no loss", "least window", "not full", "events", "not open"],
)
def test_it_says_when_it_does_not_hold(data: RunData, remark: str) -> None:
    assert remark in " ".join(told(data).remarks)


def test_a_simulated_run_settles_there(tmp_path: Path) -> None:
    [experiment] = [one for one in load(EXAMPLES / "random-losses.yaml") if one.name.endswith("/lia")]
    [bundle] = run(experiment, out=tmp_path)
    found = equilibrium_of(bundle.load(), "bulk", "lia")
    assert isinstance(found, Equilibrium)
    assert found.share(found.subflows[0]) == pytest.approx(found.fluid[0].share, abs=0.06)
