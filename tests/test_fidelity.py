"""Tests the simulator against recorded results of a kernel in a few cases, and the rules of
verdicts.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from documentation import ROOT
from mptcplab.errors import UsageError
from mptcplab.fidelity import Bounds, Exemption, Recorded, cases_of, judged, page
from mptcplab.fidelity.__main__ import main
from mptcplab.fidelity.judgement import misses
from mptcplab.fidelity.runs import Wanted, simulated, with_behaviour

FOLDER = ROOT / "tests" / "fidelity"
#: One case for each part of the engine that is quick to simulate: rates, losses, delays, short
#: transfers, IPv6.
QUICK = "unequal-,random-loss/reno-1,short-flows,request-response,ipv6,three-paths"
BOUNDS = Bounds({"goodput": 0.05, "share": 0.05, "recovery": 0.2, "delay": 0.25, "fairness": 0.1}, [])
KERNEL = {seed: {"bulk goodput_bps": 10.0 + 0.1 * seed} for seed in range(1, 6)}


def scaled(factor: float, wobble: float = 0.01) -> dict[int, dict[str, float]]:
    """Returns the kernel's values times ``factor``, each with a small deviation."""
    return {
        seed: {name: value * (factor + wobble * (seed % 3 - 1)) for name, value in of.items()}
        for seed, of in KERNEL.items()
    }


def verdict(factor: float, bounds: Bounds = BOUNDS, *, wobble: float = 0.01, together: bool = False) -> str:
    [row] = judged({"case": scaled(factor, wobble)}, {"case": KERNEL}, bounds, together=together)
    return row.verdict


@pytest.mark.slow
def test_the_simulator_does_what_a_kernel_did(tmp_path: Path) -> None:
    cases = cases_of(FOLDER / "cases", QUICK)
    recorded = Recorded.read(FOLDER / "recorded.json")
    recorded.check(cases)
    bounds = Bounds.read(FOLDER / "bounds.toml")
    rows = judged(simulated(Wanted(cases, 3, tmp_path)), recorded.cases, bounds, together=False)
    assert len(rows) > 40
    assert [f"{row.case} {row.measure} {row.apart}" for row in misses(rows)] == []


def test_every_case_is_on_record_as_it_is_described() -> None:
    cases = cases_of(FOLDER / "cases")
    recorded = Recorded.read(FOLDER / "recorded.json")
    recorded.check(cases)
    assert set(recorded.cases) == {case.name for case in cases}
    assert all(len(seeds) >= 5 for seeds in recorded.cases.values())


def test_a_changed_description_is_not_held_against_what_was_recorded_of_another(tmp_path: Path) -> None:
    recorded = Recorded.read(FOLDER / "recorded.json")
    text = (FOLDER / "cases" / "ipv6.yaml").read_text(encoding="utf-8")
    (tmp_path / "ipv6.yaml").write_text(text.replace("0.1%", "0.2%"), encoding="utf-8")
    with pytest.raises(UsageError, match="fidelity/ipv6: nothing is on record"):
        recorded.check(cases_of(tmp_path))


def test_another_preset_is_compared_only_with_a_kernel_that_runs_now(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FOLDER), "--behaviour", "mainline-7.3"]) == 2
    assert "the record is of mainline" in capsys.readouterr().err


def test_another_preset_takes_the_place_of_the_usual_one_on_all_hosts(tmp_path: Path) -> None:
    [case] = cases_of(FOLDER / "cases", "late-removal")
    [changed] = with_behaviour(Wanted([case], 1, tmp_path), "mainline-6.12").cases
    before, after = ([host["behaviour"][0] for host in one.experiment["hosts"]] for one in (case, changed))
    assert {one["name"] for one in after} == {"mainline-6.12"}
    assert [one["path_manager_delay_ns"] for one in after] == [one["path_manager_delay_ns"] for one in before]
    assert {one["add_address"] for one in after} == {"fixed"}


def test_what_is_recorded_is_read_again_as_it_was(tmp_path: Path) -> None:
    one = Recorded("Linux 6.18", "2026-11-23", {"a": {1: {"bulk goodput_bps": 1.23456789e6}}}, {"a": "sum"})
    one.joined(Recorded("Linux 6.19", "2026-12-01", {"b": {1: {}}}, {"b": "other"})).write(tmp_path / "recorded.json")
    again = Recorded.read(tmp_path / "recorded.json")
    assert (again.kernel, again.descriptions) == ("Linux 6.19", {"a": "sum", "b": "other"})
    assert again.cases["a"][1] == {"bulk goodput_bps": 1.23457e6}
    (tmp_path / "recorded.json").write_text(json.dumps({"schema": "other"}), encoding="utf-8")
    with pytest.raises(UsageError, match="found schema 'other'"):
        Recorded.read(tmp_path / "recorded.json")


def test_a_measure_holds_misses_or_is_undecided() -> None:
    assert verdict(1.0) == "holds"
    assert verdict(1.2) == "misses"
    assert verdict(1.07, wobble=0.2) == "undecided"
    assert verdict(1.075) == "misses"
    many = {f"case{n}": KERNEL for n in range(200)}
    rows = judged({"case": scaled(1.075)} | many, {"case": KERNEL} | many, BOUNDS, together=True)
    assert rows[0].verdict == "undecided"


def test_what_is_exempt_must_be_where_its_exemption_says() -> None:
    exempt = Bounds(BOUNDS.bounds, [Exemption("ca*", "* goodput_bps", (1.1, 1.3), "a reason")])
    assert verdict(1.2, exempt) == "exempt"
    assert verdict(1.5, exempt) == "misses"
    assert verdict(1.0, exempt) == "exempt no longer"


def test_short_recoveries_are_one_and_a_link_unused_on_one_side_has_no_share() -> None:
    simulated_ = {seed: {"cut.1 recovery_s": 0.0, "bulk share far": 0.2} for seed in range(1, 6)}
    measured = {seed: {"cut.1 recovery_s": 0.04} for seed in range(1, 6)}
    rows = judged({"case": simulated_}, {"case": measured}, BOUNDS, together=False)
    assert {row.measure: row.verdict for row in rows} == {"cut.1 recovery_s": "holds", "bulk share far": "misses"}


def test_bounds_of_all_kinds_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "bounds.toml").write_text("[bounds]\ngoodput = 0.05\n", encoding="utf-8")
    with pytest.raises(UsageError, match="delay"):
        Bounds.read(tmp_path / "bounds.toml")


def test_the_page_has_a_row_for_each_measure_and_names_what_misses() -> None:
    cases = cases_of(FOLDER / "cases", "ipv6")
    recorded = Recorded.read(FOLDER / "recorded.json")
    of_kernel = recorded.cases["fidelity/ipv6"]
    twice = {seed: {name: 2 * value for name, value in of.items()} for seed, of in of_kernel.items()}
    rows = judged({"fidelity/ipv6": twice}, recorded.cases, BOUNDS, together=False)
    text = page(cases, rows, BOUNDS, recorded)
    assert recorded.release in text
    assert "| bulk goodput_bps |" in text
    assert "**misses**" in text
    assert "$" not in text


def test_too_few_seeds_to_compare_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FOLDER), "--only", "ipv6", "--seeds", "2"]) == 2
    assert "--seeds 2: too few to compare; allowed: 3 or more" in capsys.readouterr().err


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FOLDER), "--only", "nothing-like-it"]) == 2
    assert "no case is called 'nothing-like-it'" in capsys.readouterr().err
