"""Tests figures and report pages of a synthetic run."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_run import made_run, resolved
from mptcplab.errors import MptcplabError, UsageError
from mptcplab.plots import bars, drawings_of, export
from mptcplab.report.comparison import arms_of
from mptcplab.report.comparison import page_of as comparison_of
from mptcplab.report.quantities import quantity
from mptcplab.report.run import page_of
from mptcplab.results import Bundle, BundleWriter, RunData, Spread, evaluated

NAMES = ["throughput", "links", "delay", "queues", "drops", "rtt", "arrivals"]
EVIL = "<script>alert(1)</script>\"'$x$"


def recorded(out: Path, seed: int = 1, *, status: Any = "done", **changes: Any) -> tuple[Bundle, RunData]:
    experiment = resolved(**changes)
    writer = BundleWriter.create(out, experiment, backend="sim", seed=seed, repeat=0)
    run = made_run(experiment, seed)
    substituted = [{"where": "flows.bulk.cc", "asked": "lia", "used": "reno", "why": "not in this kernel"}]
    return writer.finish(status, wall_s=0.2, substitutions=substituted, **evaluated(run)), run


class Page(HTMLParser):
    """Collects the elements of a page and whether its ids are unique."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def values(self, attribute: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(attribute)) is not None]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    bundle, run = recorded(tmp_path_factory.mktemp("out"))
    return page_of(bundle.record, run, bundle.path)


def test_results_load_without_matplotlib() -> None:
    code = "import sys, mptcplab.results; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_drawing_leaves_no_global_state() -> None:
    code = "\n".join(
        (
            "import sys, matplotlib; before = matplotlib.rcParams.copy()",
            f"sys.path.insert(0, {str(Path(__file__).parent)!r})",
            "from made_run import made_run; from mptcplab.plots import drawings_of",
            "[drawing.svg() for drawing in drawings_of(made_run())]",
            "sys.exit('matplotlib.pyplot' in sys.modules or matplotlib.rcParams.copy() != before)",
        )
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_figure_is_exported_as_picture_and_numbers(tmp_path: Path) -> None:
    written = export(drawings_of(made_run()), tmp_path / "figures")
    assert [path.name for path in written] == [f"{name}.{end}" for name in NAMES for end in ("png", "svg", "csv")]
    for path in written:
        if path.suffix == ".svg":
            ElementTree.parse(path)
    rows = list(csv.reader((tmp_path / "figures" / "throughput.csv").open()))
    assert rows[0] == ["series", "time_s", "throughput_mbps"]
    bulk = [float(rate) for series, time, rate in rows[1:] if series == "bulk" and float(time) < 10]
    assert np.mean(bulk) == pytest.approx(7.2)


def test_export_into_what_is_no_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MptcplabError, match="cannot be written"):
        export([], tmp_path / "file")


def test_a_drawing_is_the_same_bytes_each_time() -> None:
    first, second = (drawings_of(made_run())[0].svg() for _ in range(2))
    assert first == second


def test_a_run_without_samples_has_no_figures() -> None:
    experiment = resolved(flows=[], links=[], events=[])
    run = made_run(experiment)
    bare = RunData(experiment, run.result | {"flows": []}, run.samples, run.units)
    assert "throughput" not in [drawing.name for drawing in drawings_of(bare)]


def test_the_page_says_what_happened_first(page: str) -> None:
    words = [
        "bulk (mptcp) carried 5.8",
        "of its ceiling of 7.40 Mbit/s",
        "cut at 10 s: the worst flow had at least 90 % of the remaining capacity after 400 ms; it had less in 1 s of 10 s",
        "Expectations: 2 of 3 held",
        "Substituted: flows.bulk.cc: reno instead of lia (not in this kernel).",
    ]
    for sentence in words:
        assert 0 < page.index(sentence) < page.index("<figure")


def test_a_change_that_costs_no_flow_anything_is_over_at_once(tmp_path: Path) -> None:
    bundle, run = recorded(tmp_path)
    back = {**bundle.record["metrics"]["events.cut"], "mean_before_bps": None, "recovery_s": 0.0}
    record = bundle.record | {"metrics": bundle.record["metrics"] | {"events.cut": back}}
    assert "cut at 10 s: every flow had at least 90 % of the remaining capacity at once." in page_of(
        record, run, bundle.path
    )


def test_a_page_of_an_earlier_version_has_what_its_metrics_were(tmp_path: Path) -> None:
    bundle, run = recorded(tmp_path)
    old = {**bundle.record["metrics"]["events.cut"], "recovery_before_s": 10.3}
    del old["shortfall_s"], old["full_rate_s"]
    record = bundle.record | {"metrics": bundle.record["metrics"] | {"events.cut": old}}
    assert "after 400 ms; longest silence" in page_of(record, run, bundle.path)


def test_the_page_is_complete_in_itself(page: str) -> None:
    parsed = Page(page)
    assert not [tag for tag, _ in parsed.elements if tag in ("link", "iframe", "img")]
    assert not parsed.values("src")
    assert all(target.startswith("#") for target in parsed.values("href") + parsed.values("xlink:href"))
    assert "url(http" not in page
    assert len(page) < 1_000_000


def test_ids_are_unique_and_links_lead_to_them(page: str) -> None:
    parsed = Page(page)
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    targets = {target[1:] for target in parsed.values("href") + parsed.values("xlink:href")}
    targets |= set(re.findall(r"url\(#([^)]+)\)", page))
    assert targets <= set(ids)


def test_figures_have_words_and_follow_the_colour_scheme(page: str) -> None:
    labels = [a["aria-label"] for tag, a in Page(page).elements if a.get("class") == "static"]
    assert len(labels) == len(NAMES)
    assert any("bulk: mean 5.8" in (label or "") for label in labels)
    assert "var(--c1)" in page
    assert "#0072b2" not in page.split("</style>", 1)[1]


def test_nothing_from_the_description_becomes_markup(tmp_path: Path) -> None:
    evil = resolved(title=EVIL, description=EVIL, origins={"expect.0": EVIL})
    evil["flows"][1].update(id=EVIL, group=EVIL)
    evil["events"][0]["id"] = EVIL
    evil["links"][1]["id"] = EVIL
    for path in [*evil["flows"][0]["paths"], *evil["flows"][1]["paths"]]:
        for hop in path["hops"]:
            hop["link"] = EVIL if hop["link"] == "lte" else hop["link"]
    evil["expect"] = ["run.duration_s > 1"]
    bundle, _ = recorded(tmp_path)
    run = made_run(evil)
    record = (
        bundle.record
        | evaluated(run)
        | {"experiment": EVIL, "substitutions": [dict.fromkeys(("where", "asked", "used", "why"), EVIL)]}
    )
    html = page_of(record, run, tmp_path / EVIL)
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html
    kinds = [attributes.get("type") for tag, attributes in Page(html).elements if tag == "script"]
    # What figures show, and the one script that draws them.
    assert kinds.count(None) == 1
    assert set(kinds) == {None, "application/json"}


def test_an_invalid_run_says_so_first(tmp_path: Path) -> None:
    bundle, run = recorded(tmp_path, status="invalid")
    assert "This run is invalid: no reason was recorded." in page_of(bundle.record, run, bundle.path)


def test_a_comparison_needs_two_arms_and_takes_ratios_seed_by_seed(tmp_path: Path) -> None:
    found = [recorded(tmp_path, s, name=f"two-paths/{arm}") for arm in ("min_rtt", "round_robin") for s in (1, 2)]
    arms = arms_of([bundle for bundle, _ in found])
    assert {name: len(bundles) for name, bundles in arms.items()} == {"min_rtt": 2, "round_robin": 2}
    html = comparison_of(arms, {str(bundle.path): run for bundle, run in found})
    assert "Provisional: an arm has 2 runs." in html
    assert "1.000 to 1.000" in html
    with pytest.raises(UsageError, match="at least two"):
        arms_of([found[0][0]])


def test_arms_of_different_experiments_say_which_changes_only_one_of_them_has(tmp_path: Path) -> None:
    changed = {"links.wifi.rate": "--set links.*.rate=5mbit", "duration": "--set duration=30s"}
    kept = {"duration": "--set duration=30s"}
    found = [recorded(tmp_path, name=f"cuts/{name}", origins=o)[0] for name, o in (("n1", changed), ("n2", kept))]
    assert list(arms_of(found)) == ["n1, rate=5mbit", "n2"]


def test_names_of_drawings_are_safe_for_files_and_elements() -> None:
    with pytest.raises(ValueError, match="names files"):
        bars("../x", "Goodput", "Mbit/s", {"a": Spread(1, 1.0, 1.0, 1.0)})


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (7.2049e6, "bit/s", "7.20 Mbit/s"),
        (999_700, "bit/s", "1.00 Mbit/s"),
        (0.03, "s", "30 ms"),
        (0.9996, "s", "1.00 s"),
        (0.9996e-3, "s", "1.00 ms"),
        (999.7, "", "1\N{NARROW NO-BREAK SPACE}000"),
        (92.0, "s", "92 s"),
        (0.0, "s", "0 s"),
        (15e6, "B", "15 MB"),
        (1.0, "0/1", "yes"),
        (0.97512, "", "0.975"),
        (None, "s", "\N{EN DASH}"),
    ],
)
def test_quantity(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text
