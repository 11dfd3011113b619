"""Tests the specification of figures, what both renderers draw of it, and the files for
publications.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import BROWSER, chromium, needs_browser
from command_line import SHORT, mptcplab
from made_kernel_run import made_kernel_run
from made_run import made_run, resolved
from matplotlib.backends.backend_agg import FigureCanvasAgg
from mptcplab.algorithms import CC, PATH_MANAGER, SCHEDULER
from mptcplab.plots import Cell, Exporter, Look, Specification, bars, drawings_of, overlay, overview
from mptcplab.plots.specification import Axis, Curve, Panel
from mptcplab.report.captions import FIGURES, write_captions
from mptcplab.report.citations import bibliography, cited_algorithms
from mptcplab.report.grid import Grid
from mptcplab.report.grid_forms import in_form, latex_text
from mptcplab.report.page import dressed
from mptcplab.report.run import page_of
from mptcplab.results import BundleWriter, RunData, Spread, evaluated

#: Sources of algorithms that are no papers: the kernels, and this laboratory.
NO_PAPER = re.compile(r"^mptcplab|^Linux|out-of-tree kernel$|^smooth weighted")


def specified(run: RunData, name: str) -> Specification:
    (drawing,) = [drawing for drawing in drawings_of(run) if drawing.name == name]
    assert isinstance(drawing.specification, Specification)
    return drawing.specification


def panel_of(*values: Sequence[float], ceiling: float | None = None) -> Panel:
    curves = [Curve(f"c{n}", np.arange(len(y)), np.array(y), "step", n) for n, y in enumerate(values)]
    line = None if ceiling is None else Curve("capacity", [0.0, 3.0], [ceiling, ceiling], "hold")
    return Panel(tuple(curves), Axis("Time", "s", 3.0), Axis("Throughput", "Mbit/s"), ceiling=line)


# ---- the specification ----


def test_the_capacity_is_a_step_line_that_follows_the_events() -> None:
    (panel,) = specified(made_run(), "throughput").panels
    assert panel.ceiling is not None
    assert list(panel.ceiling.x) == [0, 10, 20, 30]
    assert list(panel.ceiling.y) == pytest.approx([7.4, 3.7, 7.4, 7.4])
    assert [(mark.label, mark.start_s, mark.end_s) for mark in panel.marks] == [("cut", 10, 20)]


@pytest.mark.parametrize(("offered_bps", "ceilings"), [(1_000_000, [None]), (6_000_000, [7.4])])
def test_a_call_is_not_pressed_to_the_floor_by_what_the_network_could_carry(
    offered_bps: int, ceilings: list[float | None]
) -> None:
    experiment, run = resolved(), made_run()
    [flow] = [one for one in experiment["flows"] if one["id"] == "bulk"]
    call = {**flow, "app": {"kind": "cbr", "rate_bps": offered_bps, "size_bytes": 1200}}
    paced = RunData(experiment | {"flows": [call]}, run.result, run.samples, run.units)
    panels = specified(paced, "throughput").panels
    assert [one.ceiling and one.ceiling.y[0] for one in panels] == [pytest.approx(c) if c else None for c in ceilings]


def test_curves_that_coincide_are_said_and_dashed() -> None:
    figure = Specification((panel_of([1, 2, 3], [1, 2, 3.001], [3, 2, 1]),)).told_apart()
    assert "c1 coincides with c0." in figure.notes
    assert [curve.is_dashed for curve in figure.panels[0].curves] == [False, True, False]


def test_an_axis_ends_not_far_above_the_capacity_and_says_so() -> None:
    panel = panel_of([1, 60, 1], ceiling=10)
    assert panel.top == 15
    assert Specification((panel,)).notes[-1] == "Values above 15 Mbit/s are cut off (▲); the highest is 60 Mbit/s."
    assert not panel_of([1, 12, 1], ceiling=10).is_clipped


def test_an_entity_has_one_colour_in_all_figures() -> None:
    run = made_kernel_run()
    of_subflows = {panel.title: panel.curves[0].colour for panel in specified(run, "cwnd").panels}
    of_links = {panel.title[:-2]: panel.curves[0].colour for panel in specified(run, "links").panels}
    assert of_subflows == {"wlan0-eth0": of_links["wifi"], "wwan0-eth1": of_links["lte"]}


def test_a_figure_says_that_it_leaves_queues_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {one.title for one in drawings_of(made_run()) if one.name == "queues"} == {"Queue length"}
    monkeypatch.setattr("mptcplab.plots.run.MOST_LINES", 1)
    titles = {one.name: one.title for one in drawings_of(made_run())}
    assert titles["queues"] == "Queue length; the 1 longest of 2 queues"


def test_lifetimes_have_the_colours_of_the_subflows() -> None:
    svgs = {drawing.name: drawing.svg() for drawing in drawings_of(made_kernel_run())}
    colours = {name: set(re.findall(r"var\(--c\d\)", svgs[name])) for name in ("timeline", "subflows")}
    assert len(colours["subflows"]) == 2
    assert colours["timeline"] == colours["subflows"]


def test_arms_stand_in_the_order_of_their_numbers_with_the_same_colours_whatever_their_order() -> None:
    arms = {f"n{number}": [made_run(resolved(name=f"n{number}"))] for number in (10, 2, 1)}
    drawing = overlay("goodput", arms, "bulk")
    assert drawing is not None
    assert isinstance(drawing.specification, Specification)
    (panel,) = drawing.specification.panels
    assert [(curve.label, curve.colour) for curve in panel.curves] == [("n1", 0), ("n2", 1), ("n10", 2)]
    assert "n2 and n10 coincide with n1." in drawing.notes


@pytest.mark.parametrize(
    ("arms", "panels", "told"),
    [
        ({"a": (0, 2, 3)}, 1, "Events are at the median time of 3 runs."),
        ({"a": (0, 2, 3), "b": (0, 2, 3)}, 1, "Events are at the median time of 6 runs."),
        ({"a": (2, 0, 3), "b": (2,)}, 1, "Events are at the median time of 4 runs."),
    ],
)
def test_an_overlay_has_the_events_of_runs_at_their_median_times(
    arms: dict[str, tuple[float, ...]], panels: int, told: str
) -> None:
    drawing = overlay(
        "goodput", {arm: [run_with_later_events(by) for by in late] for arm, late in arms.items()}, "bulk"
    )
    assert drawing is not None
    assert isinstance(drawing.specification, Specification)
    assert len(drawing.specification.panels) == panels
    for panel in drawing.specification.panels:
        assert [(mark.label, mark.start_s, mark.end_s) for mark in panel.marks] == [("cut", 12, 22)]
    assert told in drawing.notes
    assert any(note.startswith("The capacity is that of the first run") for note in drawing.notes)


def run_with_later_events(by_s: float) -> RunData:
    run = made_run()
    events = [event | {"actual_ns": event["actual_ns"] + by_s * 1e9} for event in run.result["events"]]
    return RunData(run.resolved, run.result | {"events": events}, run.samples, run.units)


def test_axes_have_words_and_units() -> None:
    for drawing in drawings_of(made_kernel_run()):
        for axes in drawing.figure.axes:
            assert re.fullmatch(r"|Number of the data unit|[A-Z][^(]+ \(.+\)|Packets dropped per .+", axes.get_ylabel())


def test_the_specification_is_json() -> None:
    shares = overview(["goodput", "delay"], {"lia": [Cell(1.0, True), Cell(0.4, False)], "olia": [None, None]})
    for drawing in [
        *drawings_of(made_kernel_run()),
        bars("bars", "Goodput", "Mbit/s", {"a": Spread(1, 1.0, 1.0, 1.0)}),
        shares,
    ]:
        assert drawing.specification is not None, drawing.name
        document = json.loads(json.dumps(drawing.specification.document(), allow_nan=False))
        assert document["panels"]


# ---- files for publications ----


@pytest.mark.parametrize(("size", "style"), [("column", "ieee"), ("slide", "projector")])
def test_long_names_of_arms_neither_overlap_nor_leave_the_figure(size: str, style: str) -> None:
    names = [f"queue={n}bdp, cc=cubic, scheduler=redundant" for n in range(8)]
    look = Look.of(size, style)
    panels = overlay("goodput", {name: [made_run(resolved(name=name))] for name in names}, "bulk")
    shown = bars("bars", "Goodput of download", "Mbit/s", {name: Spread(1, 20.0, 20.0, 20.0) for name in names})
    assert panels is not None
    for drawing in (panels, shown):
        figure = drawing.painted(look)
        FigureCanvasAgg(figure).draw()
        assert all(axes.get_position().width > 0.15 * (4 if drawing is shown else 1) for axes in figure.axes)
        texts = [text for axes in figure.axes for text in (axes._left_title, *axes.texts, axes.xaxis.label)]
        boxes = [text.get_window_extent() for text in texts if text.get_text()]
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
        assert not any(box.overlaps(other) for number, box in enumerate(boxes) for other in boxes[:number])


@pytest.mark.parametrize("style", ["plain", "ieee", "acm"])
def test_pdfs_embed_truetype_and_are_as_wide_as_a_column(tmp_path: Path, style: str) -> None:
    look = Look.of("column", style)
    drawings = [drawing for drawing in drawings_of(made_kernel_run()) if drawing.name in ("throughput", "timeline")]
    for path in Exporter(tmp_path, ("pdf",), look).write(drawings):
        content = path.read_bytes()
        assert b"/Type3" not in content
        assert b"/CIDFontType2" in content
        box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", content)
        assert box is not None
        assert float(box[1]) == pytest.approx(72 * look.width_in, abs=0.1)


def test_without_latex_pgf_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mptcplab.plots.publishing.latex", lambda: None)
    exporter = Exporter(tmp_path, ("pgf", "csv"))
    (drawing,) = [drawing for drawing in drawings_of(made_run()) if drawing.name == "throughput"]
    assert [path.name for path in exporter.write([drawing])] == ["throughput.csv"]
    assert exporter.left_out() == [
        "pgf: left out, because there is no LaTeX to measure text with; install one of xelatex, lualatex, pdflatex"
    ]
    assert FIGURES not in {path.name for path in write_captions([], [], exporter)}


def test_the_signs_of_captions_are_known_to_latex() -> None:
    assert latex_text("▲▶◆").isascii()


def test_every_algorithm_of_a_paper_has_a_reference() -> None:
    every = [one for family in (CC, SCHEDULER, PATH_MANAGER) for one in family.algorithms]
    of_papers = {one.name for one in every if not NO_PAPER.search(one.source)}
    assert of_papers <= cited_algorithms()
    assert cited_algorithms() <= {one.name for one in every} | {"mptcp", "papers/alenazi2019"}


def test_references_are_those_of_the_algorithms_that_ran(tmp_path: Path) -> None:
    experiment = resolved()
    writer = BundleWriter.create(tmp_path, experiment, backend="sim", seed=1, repeat=0)
    substituted = [{"where": "flows.bulk.cc", "asked": "lia", "used": "olia", "why": "a test"}]
    bundle = writer.finish("done", wall_s=0.1, substitutions=substituted, **evaluated(made_run(experiment)))
    keys = re.findall(r"^@\w+\{(\w+),", bibliography([bundle]), flags=re.MULTILINE)
    assert keys == ["rfc8684", "khalili2012", "paasch2014"]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (
            "latex",
            "\\begin{tabular}{lr}\n\\hline\na\\_b & 50 \\% \\\\\n\\hline\nx & -- \\\\\n\\hline\n\\end{tabular}\n",
        ),
        ("markdown", "| a_b | 50 % |\n| --- | ---: |\n| x | \N{EN DASH} |\n"),
        ("csv", "a_b,50 %\nx,\n"),
    ],
)
def test_tables_have_the_forms_of_papers(form: str, text: str) -> None:
    assert in_form(Grid(["a_b", "50 %"], [["x", "\N{EN DASH}"]], frozenset({1})), form) == text


def csv_table(*arguments: str, cwd: Path) -> list[dict[str, str]]:
    """Returns the rows of the table that a command prints."""
    ended = mptcplab(*arguments, "--table", "csv", cwd=cwd)
    assert ended.status == 0, ended.err
    return list(csv.DictReader(ended.out.splitlines()))


def test_csv_has_numbers_in_the_units_of_the_heads_and_every_name(tmp_path: Path) -> None:
    flow = "{from: phone, to: server, transport: udp, app: {cbr: {rate: 50kbit, size: 500}}}"
    more = "".join(f"\n  more{number}: {flow}" for number in range(15))
    (tmp_path / "short.yaml").write_text(
        SHORT.replace("flows: {call: ", "flows:\n  call: ")
        .replace("}}}}\n", f"}}}}}}{more}\n")
        .replace("duration: 2s", "duration: 5s")
    )
    rows = csv_table("run", "short.yaml", cwd=tmp_path)
    assert [(row["experiment"], row["flow"], row["median of"]) for row in rows] == [
        ("short", name, "1") for name in ("call", *(f"more{number}" for number in range(15)))
    ]
    (record,) = tmp_path.glob("results/short/*/run.json")
    metrics = json.loads(record.read_text())["metrics"]["flows.call"]
    shown = {"goodput (bit/s)": "goodput_bps", "lost": "loss_ratio", "delay p50 (s)": "delay_p50_s"}
    assert {head: float(rows[0][head]) for head in shown} == {head: metrics[name] for head, name in shown.items()}
    recovery = [rows[0][f"recovery {name}"] for name in ("(s)", "reached", "not reached")]
    assert (recovery, rows[0]["of ceiling"]) == (["0.0", "1", "0"], "")


def test_csv_of_a_comparison_has_intervals_in_two_columns_and_a_unit_in_each_row(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(SHORT)
    arms = ("compare", "short.yaml", "--set", "links.wifi.delay=10ms,20ms", "--set", "links.wifi.loss=0,1%")
    rows = csv_table(*arms, "--repeat", "2", cwd=tmp_path)
    (slow,) = [row for row in rows if (row["metric"], row["arm"]) == ("delay p50", "delay=20ms, loss=0")]
    assert (slow["flow"], slow["unit"], slow["n"]) == ("call", "s", "2")
    assert 0.02 <= float(slow["interval low"]) <= float(slow["median"]) <= float(slow["interval high"]) < 0.03
    assert 1.4 < float(slow["interval of the ratio low"]) <= float(slow["ratio"])
    (alone, *_) = csv_table(*arms, cwd=tmp_path)
    assert (alone["n"], alone["interval low"], alone["interval of the ratio high"]) == ("1", "", "")
    assert {row["unit"] for row in rows} == {"bit/s", "s", ""}


def test_a_run_is_exported_with_captions_and_its_table_printed(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text(SHORT)
    options = ("--export", "figures", "--format", "pdf,csv", "--size", "column", "--style", "ieee", "--table", "latex")
    ended = mptcplab("run", "short.yaml", *options, cwd=tmp_path)
    assert ended.status == 0, ended.err
    assert ended.out.startswith(r"\begin{tabular}")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"throughput.pdf", "throughput.csv", "captions.txt", "figures.tex"} <= names
    captions = (tmp_path / "figures" / "captions.txt").read_text()
    assert "throughput: Throughput over time." in captions
    assert "Run: short on sim, seed 1; mptcplab " in captions


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--size", "column"), "--size column: has no effect without --export DIR"),
        (("--export", "x", "--format", "pdf,gif"), "--format gif: unknown; allowed: pdf, pgf, svg, png, csv"),
        (("--export", "x", "--style", "elsevier"), "--style elsevier: unknown; allowed: plain, ieee, acm, projector"),
        (("--style", "projector"), "--style projector: has no effect without --export DIR or --live"),
        (("--table", "html"), "--table html: unknown; allowed: latex, markdown, csv"),
    ],
)
def test_what_cannot_be_exported_is_refused_before_anything_runs(
    tmp_path: Path, options: tuple[str, ...], line: str
) -> None:
    (tmp_path / "short.yaml").write_text(SHORT)
    ended = mptcplab("run", "short.yaml", *options, cwd=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert line in ended.err
    assert not (tmp_path / "results").exists()


# ---- the browser ----


def dom(page: str, directory: Path, *options: str) -> str:
    """Returns the page as the browser has it after its scripts ran."""
    file = directory / "page.html"
    file.write_text(page)
    fixed = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={directory / 'profile'}"]
    command = [str(BROWSER), *fixed, *options, "--virtual-time-budget=5000", "--dump-dom", file.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    experiment = resolved()
    writer = BundleWriter.create(tmp_path_factory.mktemp("out"), experiment, backend="sim", seed=1, repeat=0)
    run = made_run(experiment)
    bundle = writer.finish("done", wall_s=0.1, substitutions=[], **evaluated(run))
    return page_of(bundle.record, run, bundle.path)


@needs_browser
@pytest.mark.parametrize("width", [390, 1200])
def test_the_browser_draws_every_specified_figure_at_any_width(page: str, tmp_path: Path, width: int) -> None:
    found = dom(page, tmp_path, f"--window-size={width},900")
    specified = found.count('<figure class="specified')
    assert specified > 3
    assert found.count('<figure class="specified is-live"') == specified
    assert found.count("<canvas") >= specified


@needs_browser
def test_on_a_projector_charts_are_larger_and_are_read_at_the_same_places(page: str) -> None:
    told = {}
    with chromium() as browser:
        for style in (None, "projector"):
            opened = browser.new_page(viewport={"width": 1200, "height": 900})
            opened.set_content(dressed(page, style))
            chart = opened.locator(".live .chart").first
            chart.scroll_into_view_if_needed()
            # A mouse in the middle of the picture, where both charts have the same bin.
            chart.focus()
            opened.keyboard.press("ArrowRight")
            box = chart.bounding_box()
            assert box is not None
            tip, cursor = chart.locator(".tip"), chart.locator(".cursor").bounding_box()
            assert cursor is not None
            told[style] = (box["height"], tip.inner_text())
            opened.mouse.move(cursor["x"], box["y"] + box["height"] / 2)
            assert tip.inner_text() == told[style][1]
    assert told["projector"][0] > 1.5 * told[None][0]
    assert told["projector"][1] == told[None][1]


def test_a_projector_has_large_letters_and_thick_lines() -> None:
    plain, projector = Look.of("slide", "plain"), Look.of("slide", "projector")
    assert projector.font_pt > plain.font_pt
    drawing = next(drawing for drawing in drawings_of(made_run()) if drawing.name == "throughput")
    widths = {
        look: max(line.get_linewidth() for line in drawing.painted(look).axes[0].lines) for look in (plain, projector)
    }
    assert widths[projector] == pytest.approx(2 * widths[plain])


def test_labels_of_the_browser_are_at_least_11_px(page: str) -> None:
    sizes: list[Any] = re.findall(r'\.font="(\d+)px', page)
    assert sizes
    assert all(int(size) >= 11 for size in sizes)
    # In a pixel of 1/96 inch, at the least width that the SVG has on a page (50 rem).
    smallest_pt = Look().small_pt
    assert smallest_pt / 72 * 96 * (50 * 16) / (Look().width_in * 96) >= 10.6


def test_a_look_does_not_change_the_numbers(tmp_path: Path) -> None:
    drawing = drawings_of(made_run())[0]
    wide = replace(Look(), width_in=20)
    Exporter(tmp_path / "a", ("csv",)).write([drawing])
    Exporter(tmp_path / "b", ("csv",), wide).write([drawing])
    assert (tmp_path / "a/throughput.csv").read_bytes() == (tmp_path / "b/throughput.csv").read_bytes()
