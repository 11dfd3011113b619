"""Tests report cards: the cells, the numbers of each goal, and the command's table, page and JSON."""

from __future__ import annotations

import csv
import json
from itertools import combinations, product
from pathlib import Path

import jsonschema
import pytest
from command_line import is_refused, mptcplab
from mptcplab import report_card
from mptcplab.report_card import GOALS, Cell
from mptcplab.results import Spread

ROOT = Path(__file__).parent.parent
AIMD = f"{ROOT}/examples/own-algorithms.py:Aimd"
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "report-card.json").read_text(encoding="utf-8"))
GOAL = {goal.name: goal for goal in GOALS}


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
def test_each_two_values_of_two_factors_meet_in_a_cell(goal: report_card.Goal) -> None:
    def pairs(cells: list[Cell]) -> set[tuple[object, ...]]:
        fields = [("subflows", "rtt_ratio", "loss", "rivals")] * len(cells)
        return {
            (left, getattr(cell, left), right, getattr(cell, right))
            for cell, names in zip(cells, fields, strict=True)
            for left, right in combinations(names, 2)
        }

    assert pairs(goal.cells()) == pairs(goal.cells(full=True))
    assert len(goal.cells()) < len(goal.cells(full=True)) / 4
    every = product(report_card.SUBFLOWS, report_card.RTT_RATIOS, report_card.LOSSES, goal.rivals)
    assert goal.cells(full=True) == [Cell(*values) for values in every]


def run(goodput: float, **wire: float) -> dict[str, dict[str, float | None]]:
    links = {f"links.{name}.forward": {"wire_rate_bps": rate} for name, rate in wire.items()}
    return {"flows.tested": {"goodput_bps": goodput}, "links.path_b.forward": {"wire_rate_bps": 99.0}, **links}


def test_the_number_of_each_goal_is_in_comparison_with_tcp() -> None:
    own, a, b = run(6.0, a1=4.0, b1=1.0, b2=1.0), run(4.0), run(8.0)
    values = {name: goal.value(own, a, b) for name, goal in GOAL.items()}
    # Of 6, 2 are on path B; TCP on each path has 8 of 12 there.
    assert values == pytest.approx({"improve": 6 / 8, "harm": 6 / 4, "balance": (2 / 6) / (8 / 12), "capacity": 6 / 12})
    assert {name: goal.is_met(values[name]) for name, goal in GOAL.items()} == {
        "improve": False,
        "harm": False,
        "balance": True,
        "capacity": False,
    }


def test_the_worst_cell_has_the_smallest_margin() -> None:
    cells = GOAL["harm"].cells()
    spreads = dict(zip(cells, map(spread, [1.0, 1.3, 0.2]), strict=False))
    mark = report_card.Mark("own", GOAL["harm"], {**spreads, cells[3]: None})
    assert mark.worst == (cells[1], 1.3)
    assert (mark.met, len(mark.known)) == (2, 3)


def spread(value: float) -> Spread:
    found = Spread.of([value])
    assert found is not None
    return found


def test_references_are_shared_by_controls_and_goals() -> None:
    examined = report_card.examination(["lia", "olia"])
    of = [
        {json.dumps(trial.experiments["a"], sort_keys=True) for trial in examined.trials if trial.control == name}
        for name in ("lia", "olia")
    ]
    assert of[0] == of[1]
    # Path A with each of the four rivals, and the shared bottleneck with the two of TCP.
    assert len(of[0]) == 6


def test_the_command_judges_a_class_of_a_users_own(tmp_path: Path) -> None:
    arguments = ("report-card", f"reno,{AIMD}", "--goal", "balance", "--repeat", "1")
    ended = mptcplab(*arguments, "--json", cwd=tmp_path)
    assert ended.status == 0, ended
    document = json.loads(ended.out)
    jsonschema.validate(document, SCHEMA)
    reno, own = document["cards"]
    assert (own["control"], own["marks"][0]["of"]) == ("own-algorithms.py:Aimd", 9)
    # One reno connection on each path has about the share of one TCP connection on each.
    first = reno["marks"][0]["cells"][0]
    assert (first["subflows"], first["rtt_ratio"], first["loss"], first["rivals"]) == (1, 1, "0%", "1 TCP")
    assert 0.85 < first["value"] < 1.2
    page = (tmp_path / "report-card.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 1
    assert "User code: " in page
    again = mptcplab(*arguments, "--table", "csv", cwd=tmp_path)
    rows = list(csv.DictReader(again.out.splitlines()))
    assert [(row["control"], row["goal"], row["met out of"]) for row in rows] == [
        ("reno", "balance", "9"),
        ("own-algorithms.py:Aimd", "balance", "9"),
    ]
    assert [float(row["worst"]) for row in rows] == [card["marks"][0]["worst"]["value"] for card in (reno, own)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("lia , lai",), "no congestion control is called 'lai', did you mean 'lia'?"),
        (("lia", "--goal", "speed"), "--goal speed: unknown; allowed: improve, harm, balance, capacity"),
        (("crate:aimd",), "only your own simulator has it"),
        ((",",), "no congestion control is named; allowed: "),
    ],
)
def test_what_has_no_card_is_refused(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    assert is_refused(mptcplab("report-card", *arguments, cwd=tmp_path), 2, told)
    assert not list(tmp_path.iterdir())
