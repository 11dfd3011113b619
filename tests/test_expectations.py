"""Tests the language of expectations: accepted and refused texts, and messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from command_line import SHORT
from made_kernel_run import made_kernel_run
from made_run import made_run, resolved
from mptcplab.errors import SpecError
from mptcplab.experiment import members
from mptcplab.results import Evaluation, check, evaluate


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("flows.bulk.goodput_bps > 5.8e6", True),
        ("flows.bulk.goodput_bps > 6.8e6", False),
        ("5e6 < flows.bulk.goodput_bps <= 6e6", True),
        ("flows.bulk.goodput_bps > 0.7 * flows.bulk.ceiling_bps and events.cut.recovery_s < 2", True),
        ("not flows.bulk.goodput_bps > 5e6", False),
        ("abs(flows.bulk.goodput_bps - 5.9e6) / 5.9e6 < 0.01", True),
        ("max(flows.bulk.goodput_bps, flows.voice.goodput_bps) == flows.bulk.goodput_bps", True),
        ("min(links.wifi.forward.utilisation, 1) < 0.7", True),
        ("probes.client.wlan0-server.eth0.rtt_p50_s < 0.05", True),
        ("flows.bulk.connect_time_s < 1", False),
        ("not flows.bulk.connect_time_s < 1", False),
        ("flows.bulk.connect_time_s < 1 or run.duration_s == 30", True),
        ("flows.bulk.goodput_bps / 0 > 1", False),
        ("-run.duration_s < +0", True),
        ("run.duration_s > 1e-6", True),
        ("run.duration_s < 1E+2 and run.duration_s > 1.5e-3 s", True),
    ],
)
def test_verdict(text: str, held: bool) -> None:
    check([text], resolved())
    assert evaluate([text], Evaluation(made_run()))[0].held is held


def test_a_null_metric_fails_with_its_reason() -> None:
    verdict = evaluate(["flows.bulk.duplicate_bytes < 1"], Evaluation(made_run()))[0]
    assert verdict.value is None
    assert verdict.why is not None
    assert "analysis of captures" in verdict.why


def test_what_did_not_hold_shows_the_value() -> None:
    verdict = evaluate(["flows.bulk.goodput_bps > 6.8e6"], Evaluation(made_run()))[0]
    assert verdict.value == pytest.approx(5.892e6)
    assert verdict.why == "flows.bulk.goodput_bps is 5.892e+06"


@pytest.mark.parametrize(
    ("text", "held", "why"),
    [
        ("hosts.server.MPTcpExtMPJoinSynTx == 2", True, None),
        ("hosts.client.MPTcpExtSubflowStale == 0", True, None),
        ("hosts.server.TcpRetransSegs < 31", False, "hosts.server.TcpRetransSegs is 31"),
        ("hosts.client.MPTcpExtMPJoinSynTxx == 0", False, "did you mean MPTcpExtMPJoinSynTx?"),
    ],
)
def test_counters_of_the_kernel(text: str, held: bool, why: str | None) -> None:
    check([text], resolved())
    verdict = evaluate([text], Evaluation(made_kernel_run()))[0]
    assert verdict.held is held
    assert (verdict.why is None) if why is None else why in str(verdict.why)


def test_a_counter_that_the_kernel_lacks_is_not_judged() -> None:
    [verdict] = evaluate(["hosts.client.MPTcpExtMPJoinRejected == 0"], Evaluation(made_kernel_run()))
    assert verdict.held is None
    assert "the kernel of client has no counter MPTcpExtMPJoinRejected" in str(verdict.why)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("hosts.server.MPTcpExtMPJoinSynRx > 0", None),
        ("flows.bulk.goodput_bps > 5.8e6 or hosts.server.MPTcpExtMPJoinSynRx > 0", True),
        ("flows.bulk.goodput_bps > 6.8e6 and hosts.server.MPTcpExtMPJoinSynRx > 0", False),
        ("flows.bulk.duplicate_bytes < 1 and hosts.server.MPTcpExtMPJoinSynRx > 0", False),
    ],
)
def test_without_a_kernel_counters_are_not_judged_unless_the_rest_decides(text: str, held: bool | None) -> None:
    check([text], resolved())
    verdict = evaluate([text], Evaluation(made_run()))[0]
    assert verdict.held is held
    assert held is not None or "back-end sim has no counters of a kernel" in str(verdict.why)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("events.home > 0", ["there is no 'events.home' in this experiment"]),
        ("hosts.sever.MPTcpExtMPJoinSynRx > 0", ["'hosts.sever'", "did you mean hosts.server?"]),
        ("hosts.server.goodput_bps > 0", ["no metric 'goodput_bps'", "as nstat names it"]),
        ("hosts.server > 0", ["metric is missing"]),
        ("hosts.server.TcpRetransSegs < 5ms", ["in no unit"]),
        ("flows.bilk.goodput_bps > 1", ["'flows.bilk'", "did you mean flows.bulk?"]),
        ("flows.bulk.goodput > 1", ["'goodput'", "did you mean goodput_bps?", "allowed:"]),
        ("flows.bulk > 1", ["metric is missing"]),
        ("flows.bulk.throughput_bps > 1", ["series"]),
        ("flows.bulk.goodput_bps", ["not a comparison"]),
        ("flows.bulk.goodput_bps > ", ["not an expectation"]),
        ("flows.bulk.goodput_bps > limit", ["'limit'", "6.8e6"]),
        ("flows.bulk.goodput_bps-flows.voice.goodput_bps > 0", ["spaces"]),
        ("__import__('os').system('x') > 0", ["neither a metric nor a number"]),
        ("(1).__class__ > 0", ["neither a metric nor a number"]),
        ("9 ** 9 > run.duration_s", ["neither a metric nor a number"]),
        ("True > run.duration_s", ["neither a metric nor a number"]),
        ("[x for x in 'abc']", ["not a comparison"]),
        ("1 in run.duration_s", ["not a comparison"]),
        ("abs(1, 2) > 0", ["one argument"]),
        ("(" * 500 + "1" + ")" * 500 + " > 0", ["not an expectation"]),
        ("", ["not an expectation"]),
    ],
)
def test_refused_with_place_and_remedy(text: str, words: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        check(["run.duration_s > 0", text], resolved())
    assert (caught.value.where.file, caught.value.where.line) == ("cut.yaml", 22)
    for word in words:
        assert word in str(caught.value)


def test_without_a_file_the_field_is_the_place() -> None:
    experiment: dict[str, Any] = resolved(origins={"expect.0": "--set"})
    with pytest.raises(SpecError, match=r"^expect\.0: "):
        check(["nothing"], experiment)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("flows.bulk.goodput_bps > 100kbit", "flows.bulk.goodput_bps > 1e5"),
        ("flows.bulk.goodput_bps > 6.8 Mbit/s", "flows.bulk.goodput_bps > 6.8e6"),
        ("events.cut.recovery_s<400ms", "events.cut.recovery_s < 0.4"),
        ("events.cut.recovery_s <= 0.4 s", "events.cut.recovery_s <= 0.4"),
        ("flows.bulk.bytes_in_order > 22 MB", "flows.bulk.bytes_in_order > 22e6"),
        ("flows.voice.loss_ratio < 1%", "flows.voice.loss_ratio < 0.01"),
        ("2 * flows.voice.goodput_bps > 1.9mbit", "2 * flows.voice.goodput_bps > 1.9e6"),
    ],
)
def test_numbers_may_have_units(text: str, same: str) -> None:
    check([text, same], resolved())
    with_unit, plain = evaluate([text, same], Evaluation(made_run()))
    assert with_unit.held == plain.held
    assert with_unit.value == plain.value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("flows.bulk.goodput_bps > 100ms", "flows.bulk.goodput_bps is in bit/s, and compared with s"),
        ("flows.bulk.goodput_bps > 100furlong", "'100furlong' has the unknown unit 'furlong'"),
        ("events.cut > 5", "events.cut is an event, the metric is missing"),
        ("events.cut.gop_s > 5", "is an event and has no metric 'gop_s'"),
        ("flows.bulk.goodput_bps << 2mbit", "'flows.bulk.goodput_bps << 2mbit' is not a comparison"),
    ],
)
def test_what_is_wrong_is_told_with_the_place_in_the_file(text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=re.escape(problem)) as found:
        check([text], resolved())
    assert str(found.value).startswith("cut.yaml:21: expect.0: ")


def test_an_expectation_of_a_file_is_told_to_the_column(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text(SHORT.replace("flows.call.loss_ratio < 0.9", "flows.call.los_ratio < 0.9"))
    (member,) = members(file)
    data = member.resolve().data
    with pytest.raises(SpecError, match=r"short\.yaml:8:40: expect\.1: 'flows\.call' is a flow and has no metric"):
        check(data["expect"], data)
