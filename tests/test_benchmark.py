"""Tests the comparison of an algorithm with others: its runs, its ranking, and the command's table,
page and JSON.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import jsonschema
import pytest
from command_line import is_refused, mptcplab
from mptcplab import algorithms, benchmark
from mptcplab.backends import backend
from mptcplab.errors import UsageError
from mptcplab.experiment import Experiment
from mptcplab.report.quantities import MISSING
from test_own_simulator import PROGRAM, built

ROOT = Path(__file__).parent.parent
AIMD = f"{ROOT}/examples/own-algorithms.py:Aimd"
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "bench-algorithm.json").read_text(encoding="utf-8"))


def test_by_default_all_of_the_kind_take_part_in_the_scenarios_of_the_kind() -> None:
    contest = benchmark.contest("lia")
    assert set(contest.names) == set(algorithms.CC.names)
    of_controls = {scenario for scenario, kinds in benchmark.KINDS.items() if "cc" in kinds}
    assert {scenario for scenario, _ in contest.experiments} == of_controls
    for (_, name), experiment in contest.experiments.items():
        tested = [flow for flow in experiment["flows"] if flow["group"] == "tested"]
        assert {flow["cc"][0] for flow in tested} == {name}
        assert all(flow["cc"] == ["reno"] for flow in experiment["flows"] if flow["group"] != "tested")


def test_the_kind_follows_from_the_name_or_from_the_hooks() -> None:
    files = f"{ROOT}/examples/own-algorithms.py"
    kinds = {f"{files}:Aimd": "cc", f"{files}:MostRoom": "scheduler", f"{files}:EveryPair": "path_manager"}
    for name, field in (kinds | {"RoundRobin": "scheduler", "full_mesh": "path_manager"}).items():
        assert benchmark.contest(name).family.field == field
    assert benchmark.contest("RoundRobin").newcomer == "round_robin"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("lai",), "no algorithm is called 'lai'"),
        (("lia", "queue"), "--kind queue: allowed is cc, scheduler, path_manager"),
        (("lia", None, ["min_rtt"]), "--against: no congestion control is called 'min_rtt'"),
        (("lia", None, ["oli"]), "--against: no congestion control is called 'oli', did you mean 'olia'?"),
        (("lia", None, ["lia"]), "there is nothing to compare lia with"),
        (("default",), "default may be a scheduler or a path_manager: say which with --kind"),
    ],
)
def test_what_makes_no_contest_is_refused(arguments: tuple[object, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        benchmark.contest(*arguments)  # type: ignore[arg-type]


def test_every_scenario_is_for_a_kind_and_in_the_guide() -> None:
    assert {path.stem for path in benchmark.SCENARIOS.glob("*.yaml")} == set(benchmark.KINDS)
    guide = (ROOT / "docs" / "guide" / "extending.md").read_text(encoding="utf-8")
    for scenario, kinds in benchmark.KINDS.items():
        title = Experiment.from_yaml(benchmark.SCENARIOS / f"{scenario}.yaml").title
        words = "; ".join(measure.words.lower() for measure in benchmark.MEASURES if measure.scenario == scenario)
        assert f"| `{scenario}` | {title} | {words} | {', '.join(f'`{kind}`' for kind in kinds)} |\n" in guide


GOODPUT = benchmark.Measure("single-path", "run", "goodput_bps", "Goodput")
DELAY = benchmark.Measure("single-path", "flows.tested", "delay_p95_s", "Delay", more_is_better=False)
#: What all algorithms have in common in one seed.
LUCK = [1.0, 1.3, 0.7, 1.1, 0.9]


def places(measure: benchmark.Measure, **levels: list[float]) -> dict[str, tuple[int, int] | None]:
    values = {name: dict(enumerate(of)) for name, of in levels.items()}
    return {name: one and (one.place, one.tied) for name, one in benchmark.ranking(measure, values).items()}


def test_differences_that_are_small_or_chance_are_ties() -> None:
    best, close = [10 * luck for luck in LUCK], [9.95 * luck for luck in LUCK]
    noisy = [10 * luck for luck in (0.5, 1.2, 1.2, 0.6, 1.0)]
    clear = [9 * luck for luck in LUCK]
    assert places(GOODPUT, best=best, close=close) == {"best": (1, 1), "close": (1, 1)}
    assert places(GOODPUT, best=best, noisy=noisy)["noisy"] == (1, 1)
    assert places(GOODPUT, best=best, close=close, clear=clear)["clear"] == (3, 0)
    assert places(DELAY, best=best, close=close, clear=clear) == {"clear": (1, 0), "close": (2, 1), "best": (2, 1)}


def test_values_of_zero_and_missing_values_have_places_too() -> None:
    some = [0.5, 0.6, 0.4, 0.5, 0.6]
    assert places(DELAY, none=[0.0] * 5, some=some) == {"none": (1, 0), "some": (2, 0)}
    assert places(DELAY, none=[0.0] * 5, also=[0.0] * 5) == {"none": (1, 1), "also": (1, 1)}
    assert places(GOODPUT, some=some, failed=[]) == {"some": (1, 0), "failed": None}
    assert places(GOODPUT, some=[2.0], once=[1.0]) == {"some": (1, 1), "once": (1, 1)}


def test_the_command_gives_a_table_a_page_and_json(tmp_path: Path) -> None:
    arguments = ("bench-algorithm", AIMD, "--against", "reno,cubic", "--repeat", "2")
    ended = mptcplab(*arguments, "--json", cwd=tmp_path)
    assert ended.status == 0, ended
    document = json.loads(ended.out)
    jsonschema.validate(document, SCHEMA)
    assert (document["algorithm"], document["kind"], document["seeds"]) == ("own-algorithms.py:Aimd", "cc", [1, 2])
    assert all(measure["place"] in (1, 2, 3) for measure in document["measures"])
    page = (tmp_path / "bench-algorithm.html").read_text(encoding="utf-8")
    measures = benchmark.measures_of("cc")
    assert page.count("<figure") == 1 + len(measures)
    assert "Goodput (Mbit/s), more is better" in page
    assert "User code: " in page
    table = mptcplab(*arguments, cwd=tmp_path).out.splitlines()
    assert [line.split()[0] for line in table[1 : 1 + len(measures)]] == [one.scenario for one in measures]
    first, *_ = csv.DictReader(mptcplab(*arguments, "--table", "csv", cwd=tmp_path).out.splitlines())
    own = next(one for one in document["measures"][0]["values"] if one["algorithm"] == document["algorithm"])
    assert (first["unit"], float(first["newcomer"]), int(first["place"])) == ("bit/s", own["median"], own["place"])
    bounds = [float(first["of best low"]), float(first["of best high"])]
    assert (float(first["of best"]), bounds) == (own["ratio"]["value"], own["ratio"]["interval"])


def test_a_newcomer_that_fails_has_no_place_and_the_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("class Own:\n    def next(self, view): view.pear\n")
    ended = mptcplab("bench-algorithm", "./own.py:Own", "--against", "min_rtt", "--repeat", "2", cwd=tmp_path)
    assert ended.status == 4
    assert MISSING in next(line for line in ended.out.splitlines() if line.startswith("small-buffer"))
    assert "has no attribute 'pear'" in ended.out
    lines = ended.out.splitlines()
    assert sum(line.startswith("failed: ") for line in lines) == 5
    [more] = [line for line in lines if "more runs are not done" in line]
    page = (tmp_path / "bench-algorithm.html").read_text()
    assert page.count("<p>failed: ") == 5
    assert more.split(";")[0] in page
    assert "<h1>own.py:Own compared with min_rtt</h1>" in page
    arguments = ("bench-algorithm", "./own.py:Own", "--against", "min_rtt", "--repeat", "2", "--quiet")
    assert mptcplab(*arguments, cwd=tmp_path).out.splitlines()[-1] == more


@built
def test_an_algorithm_of_a_program_is_compared_with_built_in_ones(tmp_path: Path) -> None:
    arguments = ("crate:aimd", "--on", PROGRAM, "--against", "reno", "--repeat", "2")
    ended = mptcplab("bench-algorithm", *arguments, "--json", cwd=tmp_path)
    assert ended.status == 0, ended
    document = json.loads(ended.out)
    assert (document["algorithm"], document["kind"]) == ("crate:aimd", "cc")
    assert {value["algorithm"] for value in document["measures"][0]["values"]} == {"crate:aimd", "reno"}
    unknown = mptcplab("bench-algorithm", "crate:none", "--on", PROGRAM, cwd=tmp_path)
    assert is_refused(unknown, 2, "crate:none: ", "has no such algorithm")


def test_a_program_without_the_algorithm_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "empty"
    capabilities = json.dumps([[one.feature, True, ""] for one in backend("sim").probe()])
    unknown = json.dumps([["cc crate:aimd", "not here"]])
    answers = f"""'"capabilities"') echo '{capabilities}';; '{{"check"'*) echo '{unknown}';;"""
    program.write_text(f"#!/bin/sh\nwhile read -r line; do case $line in {answers} esac; done\n")
    program.chmod(0o755)
    ended = mptcplab("bench-algorithm", "crate:aimd", "--on", program, cwd=tmp_path)
    assert is_refused(ended, 2, "crate:aimd: ", "empty has no such algorithm")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("./none.py:Own",), "./none.py cannot be read"),
        (("crate:aimd",), "only your own simulator has it"),
        (("crate:aimd", "--on", "./none"), "--on none: there is no such program"),
        (("crate:aimd", "--on", "/bin/true"), "not a simulator of mptcplab"),
        (("crate:aimd", "--on", "kernel"), "--on kernel: algorithms are compared in the simulator"),
        (("lia", "--on", "./sim"), "the program runs only algorithms of its own"),
    ],
)
def test_a_wrong_name_or_program_is_refused(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    assert is_refused(mptcplab("bench-algorithm", *arguments, cwd=tmp_path), 2, told)
