"""Tests the comparison of an algorithm with others: its runs, its ranking, and the command's table, page and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from command_line import is_refused, mptcplab
from mptcplab import algorithms, benchmark
from mptcplab.errors import UsageError
from mptcplab.report.quantities import MISSING
from mptcplab.results import Spread

ROOT = Path(__file__).parent.parent
AIMD = f"{ROOT}/examples/own-algorithms.py:Aimd"
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "bench-algorithm.json").read_text(encoding="utf-8"))


def test_by_default_all_of_the_kind_take_part_and_every_scenario_is_looked_at() -> None:
    contest = benchmark.contest("lia")
    assert set(contest.names) == set(algorithms.CC.names)
    scenarios = {path.stem for path in benchmark.SCENARIOS.glob("*.yaml")}
    assert {scenario for scenario, _ in contest.experiments} == scenarios
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
        (("lia", None, ["min_rtt"]), "--against min_rtt: no congestion control is called so"),
        (("lia", None, ["lia"]), "there is nothing to compare lia with"),
        (("default",), "default may be a scheduler or a path_manager: say which with --kind"),
    ],
)
def test_what_makes_no_contest_is_refused(arguments: tuple[object, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        benchmark.contest(*arguments)  # type: ignore[arg-type]


def test_a_place_counts_those_that_are_better() -> None:
    more, less = (benchmark.Measure("single-path", "run", "goodput_bps", better) for better in (True, False))
    spreads = {
        name: Spread(1, value, value, value) for name, value in {"a": 3.0, "own": 2.0, "b": 2.0, "c": 1.0}.items()
    }
    assert benchmark.Standing(more, "", spreads, "own").place == 2
    assert benchmark.Standing(less, "", spreads, "own").place == 2
    assert benchmark.Standing(more, "", {"a": spreads["a"], "own": None}, "own").place is None


def test_the_command_gives_a_table_a_page_and_json(tmp_path: Path) -> None:
    ended = mptcplab("bench-algorithm", AIMD, "--against", "reno,cubic", "--json", cwd=tmp_path)
    assert ended.status == 0, ended
    document = json.loads(ended.out)
    jsonschema.validate(document, SCHEMA)
    assert (document["algorithm"], document["kind"]) == ("own-algorithms.py:Aimd", "cc")
    assert all(measure["place"] in (1, 2, 3) for measure in document["measures"])
    page = (tmp_path / "bench-algorithm.html").read_text(encoding="utf-8")
    assert page.count("<figure") == len(benchmark.MEASURES)
    assert "User code: " in page
    table = mptcplab("bench-algorithm", AIMD, "--against", "reno,cubic", cwd=tmp_path).out
    assert len([line for line in table.splitlines() if " of 3" in line]) == len(benchmark.MEASURES)


def test_a_newcomer_that_fails_has_no_place_and_the_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("class Own:\n    def next(self, view): view.pear\n")
    ended = mptcplab("bench-algorithm", "./own.py:Own", "--against", "min_rtt", cwd=tmp_path)
    assert ended.status == 4
    assert f"{MISSING} of 2" in ended.out
    assert "has no attribute 'pear'" in ended.out


def test_a_wrong_name_is_refused(tmp_path: Path) -> None:
    assert is_refused(mptcplab("bench-algorithm", "./none.py:Own", cwd=tmp_path), 2, "./none.py cannot be read")
