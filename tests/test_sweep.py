"""Tests sweeps: their combinations, refusals, table, findings, pages and figures."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import polars as pl
import pytest
from command_line import SHORT, Ended, is_refused, mptcplab
from documentation import EXAMPLES, ROOT, command_lines
from mptcplab.errors import UsageError
from mptcplab.plots import Drawing, sweep_drawings
from mptcplab.report.quantities import MISSING
from mptcplab.report.sweep import findings, sweep_page
from mptcplab.resolved_versions import VERSION_1
from mptcplab.results import Bundle, BundleError, digest, find
from mptcplab.sweep import Combination, Factor, Find, Outcome, Sweep, crossing_axis

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "sweep.json").read_text(encoding="utf-8"))
QUEUES = ["--set", "links.wifi.queue=10p,100p", "--set", "links.wifi.delay=5ms,20ms,0.5s"]
GOODPUT = "flows.bulk.goodput_bps"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "short.yaml").write_text(SHORT)
    return tmp_path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """A directory with a sweep of two factors and two seeds, and its result, which tests must not
    change.
    """
    directory = tmp_path_factory.mktemp("done")
    (directory / "short.yaml").write_text(SHORT)
    find = ["--find", "max:flows.call.goodput_bps", "--find", "min:flows.call.delay_p50_s"]
    return directory, mptcplab("sweep", "short.yaml", *QUEUES, *find, "--repeat", "2", "--json", cwd=directory)


# ---- the table ----


def test_the_table_names_the_metric_as_other_tables_do_and_has_no_interval_of_one_run(desk: Path) -> None:
    sweep = ("sweep", "short.yaml", "--set", "links.wifi.delay=5ms,20ms", "--metric", "flows.call.delay_p50_s")
    head, first, *_ = mptcplab(*sweep, "--repeat", "2", cwd=desk).out.splitlines()
    assert re.fullmatch(r"links.wifi.delay +n +delay p50 of call +interval", head)
    assert re.fullmatch(r"5ms +2 +[0-9.]+ ms +[0-9.]+ to [0-9.]+ ms", first)
    _, alone, *_ = mptcplab(*sweep, cwd=desk).out.splitlines()
    assert re.fullmatch(rf"5ms +1 +[0-9.]+ ms +{MISSING}", alone)


def test_csv_has_factors_as_numbers_and_an_interval_only_of_several_runs(desk: Path) -> None:
    factors = ("--set", "links.wifi.delay=0,20ms", "--set", "flows.call.transport=udp,tcp")
    sweep = ("sweep", "short.yaml", *factors, "--table", "csv")
    several = list(csv.DictReader(mptcplab(*sweep, "--repeat", "2", cwd=desk).out.splitlines()))
    assert [(float(row["links.wifi.delay (s)"]), row["flows.call.transport"]) for row in several] == [
        (delay, transport) for delay in (0, 0.02) for transport in ("udp", "tcp")
    ]
    for row in several:
        low, median, high = (float(row[f"{head} (bit/s)"]) for head in ("interval low", "goodput", "interval high"))
        assert 1e5 < low <= median <= high < 2e6
    alone = next(csv.DictReader(mptcplab(*sweep, cwd=desk).out.splitlines()))
    assert (alone["n"], alone["interval low (bit/s)"], alone["interval high (bit/s)"]) == ("1", "", "")


# ---- refusals before a run ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", ["nothing varies", "--set links.wifi.queue=10p,100p"]),
        ("--set duration=3s", ["nothing varies"]),
        ("--set duration=1s,", ["--set duration: a value is missing"]),
        ("--set duration=2s,3s,2s", ["--set duration: has the value '2s' twice"]),
        ("--set links.wfi.delay=3ms,4ms", ["links.wfi.delay", "did you mean 'wifi'?"]),
        ("--set duration=2s,3s --find most:x", ["--find most:x", "max:METRIC"]),
        ("--set duration=2s,3s --find max:flows.cal.goodput_bps", ["did you mean flows.call?"]),
        ("--set duration=2s,3s --metric flows.call.goodput", ["flows.call", "did you mean goodput_bps?"]),
        ("--set duration=2s,3s --find crossover:run.goodput_bps", ["found duration (2s, 3s)", "the arms"]),
        ("--set duration=2s,3s --jobs 2 --cluster tcp://127.0.0.1:1", ["--jobs"]),
        ("--set duration=2s,3s --cluster nonsense", ["--cluster nonsense", "tcp://HOST:PORT"]),
        ("--set duration=2s,3s --on nonsense", ["'nonsense'", "allowed: sim"]),
    ],
)
def test_wrong_usage_is_one_message(desk: Path, arguments: str, words: list[str]) -> None:
    assert is_refused(mptcplab("sweep", "short.yaml", *arguments.split(), cwd=desk), 2, *words)
    assert [path.name for path in desk.iterdir()] == ["short.yaml"]


def test_all_combinations_that_cannot_run_are_named(desk: Path) -> None:
    values = ["--set", "links.wifi.delay=5ms,5", "--set", "links.wifi.queue=10p,0p,20p"]
    ended = mptcplab("sweep", "short.yaml", *values, cwd=desk)
    assert is_refused(ended, 2, "4 of 6 combinations cannot run; nothing was started")
    named = [line.strip().split(": ")[0] for line in ended.err.splitlines()[1:]]
    assert named == [
        f"links.wifi.delay={delay}, links.wifi.queue={queue}"
        for delay, queue in (("5ms", "0p"), ("5", "10p"), ("5", "0p"), ("5", "20p"))
    ]
    assert "5 has no unit" in ended.err
    assert "'0p' holds nothing" in ended.err
    assert not (desk / "results").exists()


def test_what_a_back_end_lacks_is_named_too(desk: Path) -> None:
    (desk / "program.yaml").write_text(SHORT.replace("duration: 2s", "duration: 2s\nparameters: {n: [1, 2]}"))
    values = ["--set", "flows.call.app={cbr: {rate: 1mbit, size: 1000}},{command: ['true']}", "--set", "expect=[]"]
    ended = mptcplab("sweep", "program.yaml", *values, cwd=desk)
    assert is_refused(ended, 2, "2 of 4 combinations cannot run", "{command: ['true']}, n=2", "app: command")


# ---- combinations ----


def test_parameters_of_the_description_are_factors(desk: Path) -> None:
    text = SHORT.replace("rate: 2mbit", "rate: $rate").replace(
        "name: short", "name: short\nparameters: {rate: [1mbit, 2mbit]}"
    )
    (desk / "family.yaml").write_text(text)
    ended = mptcplab(
        "sweep", "family.yaml", "--set", "links.wifi.queue={limit: 9p, discipline: codel},9p", "--json", cwd=desk
    )
    assert ended.status == 0
    factors = {factor["name"]: factor for factor in ended.document["factors"]}
    assert factors["links.wifi.queue"]["values"] == ["{limit: 9p, discipline: codel}", "9p"]
    assert factors["rate"]["numbers"] == [1e6, 2e6]
    assert factors["rate"]["unit"] == "bit/s"
    assert len(ended.document["combinations"]) == 4
    assert is_refused(
        mptcplab("sweep", "family.yaml", "--set", "rate=[1mbit,2mbit],[3mbit,4mbit]", cwd=desk), 2, "--set rate=1,2,3"
    )


def test_combinations_may_differ_in_how_many_experiments_they_leave(desk: Path) -> None:
    family = "parameters: {rate: [1mbit, 2mbit], seed: [1, 2]}\nexclude: [{rate: 1mbit, seed: 2}]\n"
    (desk / "family.yaml").write_text(SHORT.replace("rate: 2mbit", "rate: $rate") + family)
    ended = mptcplab("sweep", "family.yaml", "--set", "rate=1mbit,2mbit", "--json", cwd=desk)
    assert [one["values"] for one in ended.document["combinations"]] == [
        {"rate": "1mbit", "seed": "1"},
        {"rate": "2mbit", "seed": "1"},
        {"rate": "2mbit", "seed": "2"},
    ]
    table = pl.read_parquet(desk / ended.document["table"])
    assert table["parameters.seed"].to_list() == ["1", "1", "2"]
    assert table["seed"].to_list() == [1, 1, 1]


def test_experiments_that_share_no_parameters_are_a_factor(desk: Path) -> None:
    listed = "experiments: [{name: a}, {name: b, links: {wifi: {delay: 30ms}}}]\n"
    (desk / "several.yaml").write_text(SHORT + listed)
    ended = mptcplab("sweep", "several.yaml", "--json", cwd=desk)
    assert [factor["values"] for factor in ended.document["factors"]] == [["short/a", "short/b"]]
    assert pl.read_parquet(desk / ended.document["table"])["experiment"].to_list() == ["short/a", "short/b"]


@pytest.mark.parametrize(
    ("values", "numbers", "unit"),
    [
        ("1 2.5 1e3", (1, 2.5, 1000), ""),
        ("0 10ms 2s", (0, 0.01, 2), "s"),
        ("500kbit 1mbit", (5e5, 1e6), "bit/s"),
        ("15MB 4KiB", (15e6, 4096), "B"),
        ("0.1% 0.5%", (0.001, 0.005), ""),
        ("10p 100p", (10, 100), "packets"),
        ("1bdp 2.5bdp", (1, 2.5), "bdp"),
        ("10p 1bdp", None, ""),
        ("10ms 1mbit", None, ""),
        ("lia olia", None, ""),
        ("10 cubic", None, ""),
    ],
)
def test_values_are_numbers_if_their_units_go_together(values: str, numbers: Any, unit: str) -> None:
    factor = Factor("k", tuple(values.split()))
    assert (factor.numbers, factor.unit) == (numbers and pytest.approx(numbers), unit)


# ---- results ----


def test_the_document_follows_its_schema(done: tuple[Path, Ended]) -> None:
    directory, ended = done
    assert (ended.status, ended.err) == (0, "")
    jsonschema.validate(ended.document, SCHEMA)
    assert [one["values"] for one in ended.document["combinations"]] == [
        {"links.wifi.queue": queue, "links.wifi.delay": delay}
        for queue in ("10p", "100p")
        for delay in ("5ms", "20ms", "0.5s")
    ]
    most, least = ended.document["find"]
    assert most["n"] == 2
    assert most["provisional"]
    assert least["at"]["links.wifi.delay"] == "5ms"
    for path in (ended.document["table"], ended.document["page"], *ended.document["figures"]):
        assert (directory / path).stat().st_size > 0


def test_the_table_has_a_row_for_each_combination_seed_and_flow(done: tuple[Path, Ended]) -> None:
    directory, ended = done
    table = pl.read_parquet(directory / ended.document["table"])
    assert table.height == 2 * 3 * 2
    assert table.columns[:3] == ["links.wifi.queue", "links.wifi.queue:number", "links.wifi.delay"]
    assert sorted(set(table["links.wifi.delay:number"])) == [0.005, 0.02, 0.5]
    assert set(table["status"]) == {"done"}
    assert set(table["expectations_held"]) <= {0, 1, 2}
    for row in table.iter_rows(named=True):
        record = Bundle.open(directory / "results" / row["bundle"]).record
        assert record["seed"] == row["seed"]
        assert record["metrics"]["flows.call"]["goodput_bps"] == row["goodput_bps"]
        assert record["metrics"]["run"]["goodput_bps"] == row["run.goodput_bps"]
        assert record["metrics"]["events.cut"]["gap_s"] == row["events.cut.gap_s"]


def test_a_second_call_runs_only_what_is_missing(desk: Path) -> None:
    first = mptcplab("sweep", "short.yaml", "--set", "duration=2s,3s", cwd=desk)
    assert (first.status, first.err) == (0, "")
    started = {bundle.path: bundle.record["started"] for bundle in find(desk)}
    wider = mptcplab("sweep", "short.yaml", "--set", "duration=2s,3s,4s", cwd=desk)
    assert "done already: 2 of 3" in wider.out
    assert started.items() <= {bundle.path: bundle.record["started"] for bundle in find(desk)}.items()
    again = mptcplab("sweep", "short.yaml", "--set", "duration=2s,3s,4s", "--fresh", cwd=desk)
    assert "done already" not in again.out
    assert all(bundle.record["started"] > started.get(bundle.path, "") for bundle in find(desk))
    assert not list(desk.rglob("*.unfinished"))


def test_values_that_mean_the_same_share_their_runs(desk: Path) -> None:
    ended = mptcplab("sweep", "short.yaml", "--set", "links.wifi.delay=20ms,0.02s", "--json", cwd=desk)
    first, second = ended.document["combinations"]
    assert first["runs"] == second["runs"]
    assert len(list(find(desk))) == 1


def test_workers_give_the_same_bytes_as_run(done: tuple[Path, Ended], tmp_path: Path) -> None:
    directory, _ = done
    settings = ["--set", "links.wifi.queue=100p", "--set", "links.wifi.delay=20ms"]
    alone = mptcplab("run", directory / "short.yaml", *settings, "--json", cwd=tmp_path).document["runs"][0]
    hashes = {bundle.record["trace_hash"] for bundle in find(directory / "results")}
    assert alone["trace_hash"] in hashes


def test_a_packed_bundle_is_whole_or_refused(done: tuple[Path, Ended], tmp_path: Path) -> None:
    directory, _ = done
    bundle = next(find(directory / "results"))
    packed = bundle.packed()
    assert Bundle.unpack(tmp_path, packed, bundle.resolved).load().end_s > 0
    damaged = packed | {"samples.parquet": packed["samples.parquet"][:-1]}
    with pytest.raises(BundleError, match=r"samples.parquet was changed"):
        Bundle.unpack(tmp_path / "damaged", damaged, bundle.resolved)
    with pytest.raises(BundleError, match="not the bundle of this run"):
        Bundle.unpack(tmp_path / "other", packed, {**bundle.resolved, "duration_ns": 1})
    assert [found.record for found in find(tmp_path)] == [bundle.record]


# ---- findings from synthetic results ----


def made(
    factors: dict[str, str], seeds: int, goodput: Callable[..., float | None], find: str = f"crossover:{GOODPUT}"
) -> Outcome:
    """Makes a sweep whose goodput is a function of the seed and the values."""
    swept = [Factor(name, tuple(values.split())) for name, values in factors.items()]
    combinations: list[Combination] = []
    bundles = []
    grid: list[tuple[str, ...]] = [()]
    for factor in swept:
        grid = [(*values, value) for values in grid for value in factor.values]
    for values in grid:
        experiment = {"name": "made", "made_of": values, **EMPTY}
        combinations.append(Combination(dict(zip(factors, values, strict=True)), experiment))
        for seed in range(1, seeds + 1):
            record = {"seed": seed, "status": "done", "digest": digest(experiment), "why": None}
            bundles.append(
                Bundle(Path("made"), record | {"metrics": {"flows.bulk": {"goodput_bps": goodput(seed, *values)}}})
            )
    return Outcome.of(Sweep(swept, combinations), bundles, GOODPUT, [Find.parse(find)], seed=1)


EMPTY: dict[str, Any] = {
    "nodes": [],
    "flows": [{"id": "bulk", "group": "", "transport": "tcp", "app": {"kind": "bulk"}, "paths": []}],
    "links": [],
    "interfaces": [],
    "events": [],
    "origins": {},
    "schema": VERSION_1,
    "measure": {"probe_rtt_ns": None},
}


def crossing_lines(seed: int, delay: str, arm: str) -> float:
    """Arms that cross at 30 ms in the median, and 4 ms earlier or later for other seeds."""
    at = float(delay.removesuffix("ms")) + 4 * (seed % 3 - 1)
    return 1e6 * (100 - at if arm == "mptcp" else 40 + at)


def test_a_crossing_is_found_with_its_interval() -> None:
    [found] = made({"delay": "40ms 10ms 20ms 60ms", "transport": "tcp mptcp"}, 9, crossing_lines).found
    assert found["value"] == pytest.approx(0.030)
    assert found["between"] == ["20ms", "40ms"]
    assert 0.026 <= found["interval"][0] <= 0.030 <= found["interval"][1] <= 0.034
    assert found["interval"][0] < found["interval"][1]
    assert (found["share"], found["n"], found["provisional"], found["unit"]) == (1.0, 9, False, "s")


def test_intervals_follow_the_seed() -> None:
    factors = {"delay": "10ms 20ms 40ms", "transport": "tcp mptcp"}
    assert made(factors, 5, crossing_lines).found == made(factors, 5, crossing_lines).found


def test_without_a_crossing_there_is_a_reason() -> None:
    [found] = made({"delay": "10ms 20ms", "transport": "tcp mptcp"}, 3, crossing_lines).found
    assert (found["value"], found["interval"]) == (None, None)
    assert found["why"] == "the arms do not cross in what was run"


def test_each_value_of_other_factors_has_a_crossing_of_its_own() -> None:
    outcome = made(
        {"rate": "1mbit 2mbit", "delay": "10ms 20ms 40ms", "cc": "lia olia cubic", "transport": "tcp mptcp"},
        2,
        lambda seed, rate, delay, cc, arm: crossing_lines(seed, delay, arm),  # noqa: ARG005
    )
    assert crossing_axis(outcome.sweep.factors).over.name == "rate"
    assert len(outcome.found) == 9
    outcome = made(
        {"delay": "10ms 20ms 40ms", "cc": "lia olia cubic", "transport": "tcp mptcp"},
        2,
        lambda seed, delay, cc, arm: crossing_lines(seed, delay, arm) if cc != "cubic" else None,
    )
    assert [found["at"] for found in outcome.found] == [{"cc": "lia"}, {"cc": "olia"}, {"cc": "cubic"}]
    assert [found["why"] for found in outcome.found] == [None, None, "no seed has the metric in both arms"]


def test_the_best_combination_is_told_with_how_sure_it_is() -> None:
    def goodput(seed: int, cc: str, n: str) -> float:
        return {"lia": 1e6, "olia": 2e6, "reno": 2e6 - 1e5}[cc] + 1e3 * int(n) + 2e5 * (cc == "reno" and seed > 4)

    factors = {"cc": "lia olia reno", "n": "1 2"}
    [most] = made(factors, 7, goodput, f"max:{GOODPUT}").found
    assert (most["at"], most["value"]) == ({"cc": "olia", "n": "2"}, 2.002e6)
    assert 0.5 < most["share"] < 1
    [least] = made(factors, 7, goodput, f"min:{GOODPUT}").found
    assert (least["at"], least["share"]) == ({"cc": "lia", "n": "1"}, 1.0)
    [alone] = made(factors, 1, goodput, f"max:{GOODPUT}").found
    assert (alone["interval"], alone["share"], alone["provisional"]) == (None, None, True)


def test_a_wrong_find_is_refused() -> None:
    for text in ("max", "max:", "best:flows.bulk.goodput_bps"):
        with pytest.raises(UsageError, match="allowed: max:METRIC"):
            Find.parse(text)


# ---- figures and page ----


def drawn(factors: dict[str, str], find: str = f"max:{GOODPUT}") -> list[Drawing]:
    return sweep_drawings(made(factors, 3, lambda seed, *values: 1e6 * (seed + sum(map(len, values))), find))


@pytest.mark.parametrize(
    ("factors", "panels"),
    [
        ({"delay": "10ms 5ms"}, 1),
        ({"cc": "lia olia"}, 1),
        ({"delay": "10ms 5ms", "cc": "lia olia reno"}, 1),
        ({"delay": "10ms 5ms", "cc": "lia olia reno", "n": "1 2 3 4"}, 4),
        ({"a": "1 2 3 4", "b": "1 2 3 4", "c": "1 2 3 4", "d": "x y z w"}, 12),
    ],
)
def test_there_is_a_figure_for_any_number_of_factors(factors: dict[str, str], panels: int) -> None:
    [drawing] = drawn(factors)
    colour_bar = len(factors) > 1
    assert sum(axes.get_visible() for axes in drawing.figure.axes) == panels + colour_bar
    ElementTree.fromstring(drawing.svg())


def test_heat_maps_have_numbers_ascending_and_gaps_where_nothing_ran() -> None:
    outcome = made(
        {"delay": "10ms 5ms", "cc": "lia olia"}, 1, lambda _, d, cc: None if (d, cc) == ("5ms", "lia") else len(d) * 1e6
    )
    [lia, olia] = sweep_drawings(outcome)[0].lines
    assert list(lia.x) == [0.005, 0.01]
    assert lia.y == pytest.approx([float("nan"), 4.0], nan_ok=True)
    assert list(olia.y) == [3.0, 4.0]


def test_the_page_says_what_was_found() -> None:
    outcome = made({"delay": "10ms 20ms 40ms 60ms", "<arm>": "tcp mptcp"}, 2, crossing_lines)
    page = sweep_page(outcome, sweep_drawings(outcome), "runs.parquet")
    assert "tcp and mptcp crosses at delay = " in page
    assert "Provisional: a combination has 2 runs" in page
    assert page.count("<svg") == 2
    assert "<arm>" not in page
    assert findings(outcome)[0].endswith("; provisional, 2 runs")


# ---- the example ----


@pytest.mark.slow
def test_the_example_finds_where_a_second_path_helps(tmp_path: Path) -> None:
    head = (EXAMPLES / "second-path.yaml").read_text(encoding="utf-8").split("\nname:")[0]
    [arguments] = [line for line in command_lines(head.replace("#", "")) if line[0] == "sweep"]
    ended = mptcplab(*(word.replace("examples/", f"{EXAMPLES}/") for word in arguments), "--json", cwd=tmp_path)
    assert (ended.status, ended.err) == (0, "")
    [crossing] = ended.document["find"]
    assert 0.04 < crossing["value"] < 0.16
    assert not crossing["provisional"]
