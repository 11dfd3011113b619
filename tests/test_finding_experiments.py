"""Tests the catalogue: the experiments that a SPEC selects, their order, and their changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from mptcplab.catalogue import catalogue, find
from mptcplab.errors import SpecError


def test_names_are_in_natural_order() -> None:
    names = [member.name for member in catalogue()]
    assert len(names) == len(set(names))
    in_order = [
        ("alenazi2019/fig5/tcp", "alenazi2019/fig10/n2"),
        ("barreira2014/A.2", "barreira2014/A.4"),
        ("barreira2014/A.8", "barreira2014/B.1"),
        ("ghosh/graph3/n=2", "ghosh/graph3/n=10"),
    ]
    assert [pair for pair in in_order if names.index(pair[0]) > names.index(pair[1])] == []


def test_changes_reach_what_is_found(tmp_path: Path) -> None:
    (member,) = find("alenazi2019/fig5/tcp", {"duration": "7s"})
    assert member.resolve().data["duration_ns"] == 7_000_000_000
    file = tmp_path / "x.yaml"
    file.write_text("name: x\nparameters: {n: [1, 2]}\n")
    assert [member.name for member in find(str(file), {"n": "[2, 10, 3]"})] == ["x/n=2", "x/n=10", "x/n=3"]


def test_a_change_may_leave_no_experiment_of_that_name() -> None:
    assert [member.name for member in find("ghosh/graph3", {"n": "7"})] == ["ghosh/graph3"]
    with pytest.raises(SpecError, match=r"with --set n no experiment is called 'ghosh/graph3/n=2'"):
        find("ghosh/graph3/n=2", {"n": "7"})


def test_an_unknown_name_is_met_with_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"no file is called 'ghosh/graph8'; did you mean ghosh/graph"):
        find("ghosh/graph8")


def test_a_part_of_a_name_is_met_with_the_names_that_end_in_it() -> None:
    with pytest.raises(SpecError, match=r"did you mean alenazi2019/fig9\?"):
        find("fig9")
    with pytest.raises(SpecError, match=r"did you mean \S+/lia or \S+/lia or \S+/lia\?"):
        find("lia")
