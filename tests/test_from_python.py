"""Tests mptcplab from Python: loading, running, frames, figures in the caller's style, and what a
notebook shows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import mptcplab
import pytest
from matplotlib.colors import to_hex
from mptcplab.errors import MptcplabError, SpecError, UsageError
from mptcplab.report.quantities import MISSING

TWO_PATHS = """
name: two
hosts: {phone: {}, server: {}}
links:
  wifi: {between: [phone.wlan0, server.eth0], rate: 8mbit, delay: 10ms, queue: 50p}
  lte: {between: [phone.wwan0, server.eth1], rate: 4mbit, delay: 20ms, queue: 50p}
flows:
  download: {from: server, to: phone, path_manager: full_mesh, scheduler: min_rtt}
  call: {from: phone, to: server, transport: udp, app: {cbr: {rate: 100kbit, size: 200}}}
events: [{id: cut, at: 1s, down: phone.wlan0}, {id: back, at: 2s, up: phone.wlan0}]
duration: 3s
"""
FAMILY = """
name: delays/$delay
parameters: {delay: [10ms, 40ms]}
reference: {delay: 10ms}
family: [{id: slower, ratio: flows.ping.METRIC}]
hosts: {a: {}, b: {}}
links: {wire: {between: [a.eth0, b.eth0], rate: 10mbit, delay: $delay}}
flows: {ping: {from: a, to: b, transport: udp, app: {probe: {every: 100ms}}}}
duration: 1s
"""
IS_PNG = b"\x89PNG\r\n\x1a\n"


def write(directory: Path, text: str) -> Path:
    path = directory / "described.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> mptcplab.Runs:
    directory = tmp_path_factory.mktemp("two")
    slower = mptcplab.load(write(directory, TWO_PATHS), set={"links.*.rate": "3mbit"})
    return mptcplab.run(slower, repeat=2, out=directory / "results")


# ---- loading and running ----


def test_load_takes_what_the_command_line_takes(tmp_path: Path) -> None:
    path = write(tmp_path, TWO_PATHS)
    changes: dict[str, Any] = {"links.*.rate": "3mbit", "flows.download.cc": ["lia", "reno"], "duration": "4s"}
    (member,) = mptcplab.load(path, set=changes)
    data = member.resolve().data
    assert {link["forward"]["rate_bps"] for link in data["links"]} == {3_000_000}
    assert data["flows"][0]["cc"] == ["lia", "reno"]
    assert [one.name for one in mptcplab.load("alenazi2019/fig9/n3")] == ["alenazi2019/fig9/n3"]
    with pytest.raises(SpecError, match="did you mean alenazi2019"):
        mptcplab.load("alenazi2091")
    with pytest.raises(SpecError, match="unknown name 'w3' in links"):
        mptcplab.load(path, set={"links.w3.rate": "3mbit"})


def test_a_pattern_leaves_out_flows_that_cannot_have_the_field(tmp_path: Path) -> None:
    path = write(tmp_path, TWO_PATHS)
    (member,) = mptcplab.load(path, set={"flows.*.cc": "lia"})
    assert [flow["cc"] for flow in member.resolve().data["flows"]] == [["lia"], []]
    with pytest.raises(SpecError, match="transport udp"):
        mptcplab.load(path, set={"flows.ca*.cc": "lia"})


@pytest.mark.parametrize("written", ["10us", "10\u00b5s", "10\u03bcs"])
def test_microseconds_are_read_as_they_are_printed(tmp_path: Path, written: str) -> None:
    (member,) = mptcplab.load(write(tmp_path, TWO_PATHS), set={"links.*.delay": written})
    assert {link["forward"]["delay_ns"] for link in member.resolve().data["links"]} == {10_000}


def test_runs_are_a_sequence_of_bundles(runs: mptcplab.Runs) -> None:
    assert [run.record["seed"] for run in runs] == [1, 2]
    assert runs[-1].record["metrics"]["flows.call"]["goodput_bps"] > 0
    assert isinstance(runs[:1], mptcplab.Runs)
    assert len(runs[:1] + runs[1:]) == len(mptcplab.Runs.read(runs[0].path.parent)) == 2
    assert repr(runs) == "Runs(2: 2 done)"


def test_run_refuses_a_wrong_family_metric_before_anything_runs(tmp_path: Path) -> None:
    experiments = mptcplab.load(write(tmp_path, FAMILY.replace("METRIC", "delay_p60_s")))
    with pytest.raises(SpecError, match="delay_p60_s"):
        mptcplab.run(experiments, out=tmp_path / "results")
    described = mptcplab.Experiment.from_yaml(FAMILY.replace("METRIC", "delay_p60_s"))
    with pytest.raises(SpecError, match="delay_p60_s"):
        mptcplab.run(described, out=tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_metrics_over_families_are_a_frame_of_the_runs_of_one_call(tmp_path: Path) -> None:
    found = mptcplab.run(mptcplab.load(write(tmp_path, FAMILY.replace("METRIC", "delay_p50_s"))), out=tmp_path / "out")
    pytest.importorskip("polars")
    slower = dict(found.families().select("experiment", "median").iter_rows())
    assert slower["delays/10ms"] == 1
    assert 3.5 < slower["delays/40ms"] < 4
    with pytest.raises(UsageError, match="the runs of one call"):
        (found + found).families()


# ---- frames ----


def test_metrics_have_a_row_for_each_entity_with_changes_and_parameters_as_columns(
    runs: mptcplab.Runs, tmp_path: Path
) -> None:
    pytest.importorskip("polars")
    frame = runs.metrics()
    assert set(frame["kind"]) == {"flow", "subflow", "link", "interface", "event", "run"}
    flows = runs.metrics(kind="flow")
    assert flows.columns[:5] == ["experiment", "links.*.rate", "links.*.rate:number", "backend", "seed"]
    assert set(flows["links.*.rate"]) == {"3mbit"}
    assert set(flows["links.*.rate:number"]) == {3e6}
    measured = runs[1].record["metrics"]["flows.download"]["goodput_bps"]
    assert flows.filter(seed=2, entity="flows.download")["goodput_bps"].to_list() == [measured]
    family = mptcplab.run(mptcplab.load(write(tmp_path, FAMILY.replace("METRIC", "delay_p50_s"))), out=tmp_path / "out")
    assert family.metrics(kind="run")["delay:number"].to_list() == [0.01, 0.04]
    with pytest.raises(UsageError, match="allowed: run, flow"):
        runs.metrics(kind="flows")


def test_samples_and_units_are_those_of_the_bundles(runs: mptcplab.Runs) -> None:
    pytest.importorskip("polars")
    loaded = runs[0].load()
    frame = runs.samples(entity="flows.call", metric="bytes_received").filter(seed=1)
    series = loaded.samples.series("flows.call", "bytes_received")
    assert series is not None
    assert frame["time_s"].to_list() == list(series.times_s)
    assert frame["value"].to_list() == list(series.values)
    units = runs.units(flow="call").filter(seed=1)
    assert units["delay_s"].to_list() == pytest.approx(list(loaded.units.of("call").delays_s))
    assert len(runs.units()) > len(runs.units(flow="call"))


def test_pandas_gets_the_same_frames(runs: mptcplab.Runs) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    for frame in (runs.metrics, runs.samples, runs.units):
        ours, theirs = frame(), frame(frame="pandas")
        assert list(theirs.columns) == ours.columns
        assert len(theirs) == len(ours)
    assert (
        runs.metrics(kind="flow", frame="pandas").goodput_bps.tolist()
        == runs.metrics(kind="flow")["goodput_bps"].to_list()
    )


def test_a_missing_library_is_told_with_the_line_that_installs_it(
    runs: mptcplab.Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MptcplabError, match=r"needs polars: pip install 'mptcplab\[frames\]'"):
        runs.metrics()
    with pytest.raises(UsageError, match="allowed: polars, pandas"):
        runs.metrics(frame="arrow")  # type: ignore[arg-type]


# ---- figures ----


@pytest.mark.parametrize(
    "name",
    ["throughput", "subflows", "timeline", "windows", "rtt", "links", "delay", "queue", "drops", "arrivals"],
)
def test_a_figure_shows_itself_and_pyplot_does_not_know_it(runs: mptcplab.Runs, name: str) -> None:
    figure = getattr(runs[0].plot, name)()
    assert figure._repr_png_().startswith(IS_PNG)
    assert plt.get_fignums() == []


def test_a_figure_has_the_size_font_and_colours_of_the_caller(runs: mptcplab.Runs) -> None:
    settings = {"figure.figsize": (3.5, 2.2), "font.size": 7, "text.color": "#123456", "axes.spines.top": True}
    cycle = plt.cycler(color=["#ff0000", "#00aa00"])
    with mpl.rc_context({**settings, "axes.prop_cycle": cycle}):
        figure = runs[0].plot.throughput()
    (plot,) = figure.axes
    assert tuple(figure.get_size_inches()) == (3.5, 2.2)
    assert plot.spines["top"].get_visible()
    assert plot.xaxis.label.get_fontsize() == 7
    colours = {to_hex(line.get_color()) for line in plot.lines}
    assert {"#ff0000", "#00aa00", "#123456"} <= colours
    assert {to_hex(text.get_color()) for text in plot.texts} <= {"#ff0000", "#00aa00", "#123456"}


def test_a_figure_leaves_the_settings_and_the_style_of_pages_alone(runs: mptcplab.Runs) -> None:
    from mptcplab.plots import drawings_of

    before = dict(mpl.rcParams)
    runs[0].plot.throughput()
    assert dict(mpl.rcParams) == before
    page = next(drawing for drawing in drawings_of(runs[0].load()) if drawing.name == "throughput")
    assert tuple(page.figure.get_size_inches()) == (9, 3.7)


def test_figures_combine_in_axes_that_exist(runs: mptcplab.Runs) -> None:
    figure = mpl.figure.Figure()
    plot = figure.subplots()
    plot.plot([0, 10], [0, 50], color="#abcdef")
    assert runs[0].plot.throughput(ax=plot) is plot
    first = {to_hex(line.get_color()) for line in plot.lines}
    runs[1].plot.throughput(ax=plot)
    both = {to_hex(line.get_color()) for line in plot.lines}
    names = [text.get_text() for text in plot.get_legend().get_texts()]
    assert len(names) == len(set(names)) > 2
    assert all("seed " in name for name in names)
    events = [text.get_text() for text in plot.texts]
    assert len(events) == len(set(events))
    assert "#abcdef" in first < both
    assert plot.get_xlim()[1] >= 10
    assert plot.get_ylim()[1] >= 50
    dots = figure.subplots()
    for run in runs:
        run.plot.arrivals(ax=dots)
    assert all(line.get_markerfacecolor() == line.get_color() for line in dots.lines if line.get_marker() == ".")
    with pytest.raises(UsageError, match="found 1 axes for 2 panels"):
        runs[0].plot.windows(ax=plot)
    with pytest.raises(UsageError, match="ax=3; allowed: axes of matplotlib"):
        runs[0].plot.throughput(ax=3)
    several = figure.subplots(1, 2)
    assert runs[0].plot.windows(ax=several) is several


def test_what_a_run_does_not_have_is_told(runs: mptcplab.Runs) -> None:
    with pytest.raises(UsageError, match="has no probes to draw"):
        runs[0].plot.probes()
    with pytest.raises(UsageError, match="flow='x'; allowed: download, call"):
        runs.plot.throughput("x")


# ---- comparisons ----


def test_compare_makes_an_arm_of_each_value_in_a_list_or_text(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    path, key = write(tmp_path, TWO_PATHS), "flows.download.scheduler"
    by_list = mptcplab.compare(path, set={key: ["min_rtt", "redundant"]}, out=tmp_path / "out")
    by_text = mptcplab.compare(path, set={key: "min_rtt,redundant"}, out=tmp_path / "out")
    assert list(by_list.arms) == list(by_text.arms) == ["scheduler=min_rtt", "scheduler=redundant"]
    table = by_list.table().filter(flow="download", metric="goodput_bps")
    assert table["ratio"][0] == 1
    assert table["ratio"][1] == pytest.approx(table["median"][1] / table["median"][0])
    assert "Comparison of 2 arms" in by_list.write_page(tmp_path / "page.html").read_text(encoding="utf-8")
    for figure in (by_list.plot.throughput("download"), by_list.plot.bars("flows.download.goodput_bps")):
        assert figure._repr_png_().startswith(IS_PNG)
    assert list(by_list.runs.compare().arms) == list(by_list.arms)


def test_a_found_run_has_the_name_that_is_asked_now(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    path, out = write(tmp_path, TWO_PATHS), tmp_path / "out"
    mptcplab.run(mptcplab.load(path, set={"flows.download.scheduler": "min_rtt"}), out=out)
    found = mptcplab.run(mptcplab.load(path, set={"links.wifi.loss": "0"}), out=out)
    assert "links.wifi.loss" in found.metrics().columns
    assert "flows.download.scheduler" not in found[:1].metrics().columns
    assert repr(mptcplab.compare(path, set={"links.wifi.loss": ["0", "1%"]}, out=out)) == (
        "Comparison(loss=0 (1), loss=1% (1))"
    )


@pytest.mark.parametrize(
    ("called", "arguments", "words"),
    [
        (mptcplab.load, {"set": ["links.wifi.rate=5mbit"]}, "allowed: a mapping"),
        (mptcplab.run, {"seed": "x"}, "seed='x'; allowed: a whole number from 0"),
        (mptcplab.run, {"repeat": 0}, "repeat=0; allowed: a whole number from 1"),
        (mptcplab.compare, {"set": {"links.wifi.loss": []}}, "has no value"),
        (mptcplab.compare, {"repeat": 0}, "repeat=0; allowed: a whole number from 1"),
    ],
)
def test_a_wrong_argument_is_told_in_one_line(
    tmp_path: Path, called: Callable[..., Any], arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        called(write(tmp_path, TWO_PATHS), **arguments)


@pytest.mark.parametrize(
    ("frame", "pattern", "words"),
    [
        ("samples", {"metric": "cwnd_byts"}, "metric='cwnd_byts', did you mean 'cwnd_bytes'?"),
        ("samples", {"entity": "flow.call"}, "did you mean 'flows.call'?"),
        ("units", {"flow": "nope"}, "flow='nope'; allowed: download, call"),
        ("metrics", {"kind": "flw"}, "did you mean 'flow'?"),
    ],
)
def test_a_pattern_that_matches_nothing_is_told_with_the_nearest_name(
    runs: mptcplab.Runs, frame: str, pattern: dict[str, str], words: str
) -> None:
    pytest.importorskip("polars")
    with pytest.raises(UsageError, match=re.escape(words)):
        getattr(runs, frame)(**pattern)


def test_run_takes_a_path_and_a_sum_takes_a_list(runs: mptcplab.Runs, tmp_path: Path) -> None:
    found = mptcplab.run(str(write(tmp_path, FAMILY.replace("METRIC", "delay_p50_s"))), out=tmp_path / "out")
    others = [runs[0]]
    assert len(found + others) == 3


def test_a_notebook_shows_no_ceiling_of_a_steady_application(runs: mptcplab.Runs) -> None:
    rows = runs[:1]._repr_html_().split("<tr")
    (call,) = (re.findall(r"<td[^>]*>([^<]*)", row) for row in rows if ">call<" in row)
    assert call[-5] == MISSING
    assert 0.5 < float(call[-4]) <= 1


def test_one_arm_is_no_comparison(runs: mptcplab.Runs) -> None:
    with pytest.raises(UsageError, match="there is no run"):
        runs[0:0].compare()
    with pytest.raises(UsageError, match="at least two"):
        runs.compare()
    assert runs.plot.throughput()._repr_png_().startswith(IS_PNG)


# ---- notebooks ----


def test_a_notebook_shows_tables_and_pictures(runs: mptcplab.Runs, tmp_path: Path) -> None:
    experiments = mptcplab.load(write(tmp_path, TWO_PATHS))
    experiment = mptcplab.Experiment.from_yaml(TWO_PATHS.replace("rate: 8mbit", "rate: 9mbit"))
    for shown, rate in ((experiments, "8mbit"), (experiments[0], "8mbit"), (experiment, "9mbit")):
        html = shown._repr_html_()
        assert "<svg" in html
        assert rate in html
        assert "<td>min_rtt</td>" in html
    assert "<td>download</td>" in runs._repr_html_()
    assert "data:image/png;base64," in runs[0]._repr_html_()
    assert "<td>delays/10ms</td>" in mptcplab.load(write(tmp_path, FAMILY))._repr_html_()


def test_a_notebook_escapes_what_descriptions_hold(tmp_path: Path) -> None:
    text = TWO_PATHS.replace("name: two", 'name: two\ntitle: "<script>alert(1)</script>"')
    html = mptcplab.load(write(tmp_path, text))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
