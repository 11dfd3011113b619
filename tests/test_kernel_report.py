"""Tests figures and pages of kernel runs, and what they omit for runs without the data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from made_kernel_run import After, made_kernel_run
from made_run import made_run, resolved
from mptcplab.plots import drawings_of, overlay
from mptcplab.plots.subflows import lanes_of
from mptcplab.report.comparison import arms_of, in_order, outages_of
from mptcplab.report.comparison import page_of as comparison_of
from mptcplab.report.run import page_of
from mptcplab.results import Bundle, BundleWriter, RunData, evaluated, subflows_of

SECTIONS = ("subflows", "lateness", "hosts", "programs")
EVIL = "<script>alert(1)</script>"


def recorded(
    out: Path,
    *,
    after: After = "recreated",
    seed: int = 1,
    status: Any = "done",
    why: str | None = None,
    **changes: Any,
) -> tuple[Bundle, RunData]:
    experiment = resolved(**changes)
    writer = BundleWriter.create(out, experiment, backend="kernel", seed=seed, repeat=0)
    run = made_kernel_run(experiment, after)
    return writer.finish(status, why=why, wall_s=30.1, **evaluated(run)), run


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    bundle, run = recorded(tmp_path_factory.mktemp("out"))
    return page_of(bundle.record, run, bundle.path)


def words_of(page: str) -> str:
    """Returns the text of a page without its figures and markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"<(svg|style).*?</\1>", "", page, flags=re.DOTALL)).split())


def test_a_run_with_subflows_has_their_figures_and_one_without_has_none() -> None:
    names = {"subflows", "timeline", "cwnd", "srtt"}
    assert names <= {drawing.name for drawing in drawings_of(made_kernel_run())}
    assert not names & {drawing.name for drawing in drawings_of(made_run())}


def test_what_subflows_carried_adds_up_to_the_goodput() -> None:
    (drawing,) = [drawing for drawing in drawings_of(made_kernel_run()) if drawing.name == "subflows"]
    *subflows, goodput = drawing.lines
    assert [line.label for line in subflows] == ["0: wlan0-eth0", "2: wlan0-eth0", "1: wwan0-eth1"]
    carried = sum(float(sum(line.y)) for line in subflows)
    assert carried == pytest.approx(float(sum(goodput.y)), rel=0.01)


def test_a_subflow_stands_behind_the_one_it_replaces() -> None:
    lanes = lanes_of(subflows_of(made_kernel_run(), "bulk"))
    assert {lane.label: [subflow.id for subflow in lane.subflows] for lane in lanes} == {
        "wlan0-eth0": [0, 2],
        "wwan0-eth1": [1],
    }
    (timeline,) = [drawing for drawing in drawings_of(made_kernel_run()) if drawing.name == "timeline"]
    assert "subflow 0: wlan0-eth0: alive from 0.05 s to 10.5 s" in timeline.alt


def test_subflows_of_one_pair_that_live_at_once_have_rows_of_their_own() -> None:
    run = made_kernel_run()
    run.result["flows"][0]["subflows"][0]["closed_ns"] = None
    assert [lane.label for lane in lanes_of(subflows_of(run, "bulk"))] == [
        "wlan0-eth0",
        "wwan0-eth1",
        "wlan0-eth0 #2",
    ]


def test_the_page_tells_what_the_kernel_told(page: str) -> None:
    text = words_of(page)
    for words in (
        "Ran on the Linux kernel for 30 s",
        "of the affected subflows none survived and 1 was re-created",
        "The emulator delivered packets 40 µs late on average (at most 1.10 ms).",
        "10.1.1.1:40003 10.1.1.2:5001 client.wlan0 → server.eth0 wifi",
        "in place of 0",
        "3 events of path managers",
        "wifi.forward 5000 40 µs 200 µs 1.10 ms",
        "The longest that the emulator stood still: 2.50 ms.",
        "subflow closed: interface down 10.1.1.1:40001",
        "net.mptcp.checksum_enabled 0 0",
        "1001: from 10.1.1.1 lookup 1001",
        "TcpRetransSegs 31 31",
        "event cut at client: ip link show (exit status 0) 2: wlan0:",
        "All of it is in programs/0.stderr of the bundle.",
    ):
        assert words in text, words
    assert "TCPTimeouts" not in text
    targets = set(re.findall(r'href="#([\w-]+)"', page))
    assert set(SECTIONS) <= targets <= set(re.findall(r'id="([\w-]+)"', page))


def test_a_run_that_does_not_tell_has_no_such_sections(tmp_path: Path) -> None:
    writer = BundleWriter.create(tmp_path, resolved(), backend="sim", seed=1, repeat=0)
    run = made_run()
    page = page_of(writer.finish("done", wall_s=0.1, **evaluated(run)).record, run, tmp_path)
    assert not [section for section in SECTIONS if f'id="{section}"' in page or f'href="#{section}"' in page]


def test_a_connection_that_fell_back_to_tcp_is_a_warning(tmp_path: Path) -> None:
    experiment = resolved()
    run = made_kernel_run(experiment)
    run.result["flows"][0]["fallback"] = "the SYN had no MP_CAPABLE option"
    writer = BundleWriter.create(tmp_path, experiment, backend="kernel", seed=1, repeat=0)
    bundle = writer.finish("done", wall_s=30.1, **evaluated(run))
    text = words_of(page_of(bundle.record, run, bundle.path))
    assert text.index("bulk fell back to TCP: the SYN had no MP_CAPABLE option.") < text.index("What happened")


def test_an_invalid_run_says_why_first(tmp_path: Path) -> None:
    bundle, run = recorded(tmp_path, status="invalid", why="packets were 30 ms late on wifi")
    text = words_of(page_of(bundle.record, run, bundle.path))
    warning = text.index("This run is invalid: packets were 30 ms late on wifi.")
    assert warning < text.index("What happened")


def test_missed_transmissions_are_shown_if_there_are_any(page: str, tmp_path: Path) -> None:
    assert "missed transmissions" not in words_of(page)
    bundle, run = recorded(tmp_path)
    run.result["links"][0]["late"] = run.result["links"][0]["late"] | {"missed_transmissions": 17}
    text = words_of(page_of(bundle.record, run, bundle.path))
    assert "missed transmissions" in text
    assert " 17 " in text


def test_nothing_that_a_machine_says_becomes_markup(tmp_path: Path) -> None:
    bundle, run = recorded(tmp_path)
    told = run.result
    told["programs"][0] |= {"stdout": EVIL, "stderr": EVIL, "argv": [EVIL]}
    told["hosts"][0] |= {"settings": {EVIL: EVIL}, "counters": {EVIL: 1}, "rules": [EVIL], "routes": [EVIL]}
    told["path_events"][0] |= {"what": EVIL, "local": EVIL}
    told["flows"][0]["subflows"][0] |= {"local": EVIL, "interface": EVIL, "link": EVIL}
    assert "<script>alert" not in page_of(bundle.record, run, bundle.path)


def test_outages_are_one_table_over_experiments_and_variants(tmp_path: Path) -> None:
    found = []
    cases: tuple[tuple[After, str], ...] = (("recreated", "full_mesh"), ("reused", "kernel_endpoints"))
    for after, name in cases:
        flows = resolved()["flows"]
        flows[0]["path_manager"] = [{"name": name}]
        origins = {"flows.bulk.path_manager": f"--set pm={name}"}
        found += [recorded(tmp_path, after=after, name=f"fig9/n{n}", flows=flows, origins=origins) for n in (1, 2)]
    arms = arms_of([bundle for bundle, _ in found])
    outages = outages_of(arms)
    assert outages is not None
    assert outages.heads[:3] == ["event", "arm", "n"]
    columns = [outages.heads.index(head) for head in ("recovery", "subflows reused", "re-created")]
    rows = {row[1]: [row[column] for column in columns] for row in outages.rows if row[0] == "cut"}
    assert rows == {
        "n1, pm=full_mesh": ["400 ms", "0", "1"],
        "n2, pm=full_mesh": ["400 ms", "0", "1"],
        "n1, pm=kernel_endpoints": ["400 ms", "1", "0"],
        "n2, pm=kernel_endpoints": ["400 ms", "1", "0"],
    }
    html = comparison_of(arms, {str(bundle.path): run for bundle, run in found})
    assert 'id="outages"' in html


def test_arms_come_in_order_of_their_numbers_with_short_names(tmp_path: Path) -> None:
    found = []
    for n in (10, 2):
        for queue in ("100p", "10p"):
            origins = {f"links.{link}.queue": f"--set links.{link}.queue={queue}" for link in ("wifi", "lte")}
            # A difference that changes the digest.
            flows = resolved()["flows"]
            flows[0]["path_manager"] = [{"name": queue}]
            found.append(recorded(tmp_path, name=f"fig9/n{n}", flows=flows, origins=origins)[0])
    assert list(arms_of(in_order(found))) == ["n2, queue=100p", "n2, queue=10p", "n10, queue=100p", "n10, queue=10p"]


def test_each_of_many_arms_has_a_panel_with_the_others_in_grey() -> None:
    def named(number: int, arm: int) -> RunData:
        return made_kernel_run(resolved(name=f"n{number}", title=str(arm)))

    arms = {f"n{number}, {arm}": [named(number, arm)] for number in range(5) for arm in range(2)}
    drawing = overlay("goodput", arms, "bulk")
    assert drawing is not None
    assert [line.label for line in drawing.lines] == list(arms)
    assert drawing.specification is not None
    assert [panel.title for panel in drawing.specification.panels] == list(arms)
    for panel in drawing.specification.panels:
        assert [curve.label for curve in panel.shown] == [panel.title]
        assert len(panel.curves) == len(arms)
