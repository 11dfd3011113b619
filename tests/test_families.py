"""Tests metrics over families that each member has, and the table of the members."""

from __future__ import annotations

from pathlib import Path

import mptcplab
import pytest
from command_line import mptcplab as command
from mptcplab import families
from mptcplab.errors import SpecError
from mptcplab.report.members import members_grids

FAMILY = """\
name: ways/$recovery/$delay
parameters:
  recovery:
    undisturbed: {strategy: none}
    optical: {strategy: optical, events: &cut [{id: cut, at: 1s, outage: uk-de, for: 500ms, by: port_down}]}
    ip: {strategy: ip_reactive, events: *cut}
  delay: [5ms, 20ms]
reference: {recovery: undisturbed}
family:
  - {id: against_undisturbed, difference: flows.bulk.bytes_in_order}
  - {id: part, ratio: flows.bulk.bytes_in_order}
  - {id: silence, value: METRIC}
  - {id: reserved, value: run.capacity_reserved_bps}
topology: {geant5: {rate: 2mbit, delay: $delay}}
control: {recovery: $recovery.strategy}
flows: {bulk: {from: h-uk, to: h-de, transport: tcp}}
events: $recovery.events
duration: 3s
"""


def described(folder: Path, metric: str = "events.cut.gap_s") -> Path:
    path = folder / "ways.yaml"
    path.write_text(FAMILY.replace("METRIC", metric))
    return path


def test_each_member_is_compared_with_the_reference_of_its_other_parameters(tmp_path: Path) -> None:
    members = mptcplab.load(described(tmp_path))
    runs = list(mptcplab.run(members, out=tmp_path / "out"))
    found = families.evaluate(members, runs)
    carried = {run.record["experiment"]: run.record["metrics"]["flows.bulk"]["bytes_in_order"] for run in runs}
    against = {entry["experiment"]: entry["median"] for entry in found if entry["id"] == "against_undisturbed"}
    assert against == {
        name: value - carried[f"ways/undisturbed/{name.rpartition('/')[2]}"] for name, value in carried.items()
    }
    assert against["ways/optical/20ms"] < 0
    silent = {entry["experiment"]: entry["why"] for entry in found if entry["id"] == "silence"}
    assert silent["ways/optical/5ms"] is None
    assert silent["ways/undisturbed/5ms"] == "no run has the metric"
    reserved = {entry["experiment"]: entry["median"] for entry in found if entry["id"] == "reserved"}
    # One way around the only link of the path, over two links of 2 Mbit/s each.
    assert reserved["ways/optical/5ms"] == 4e6
    assert reserved["ways/ip/5ms"] == reserved["ways/undisturbed/5ms"] == 0
    ((name, grid),) = members_grids({"sim": found}, runs)
    assert name == "ways"
    assert grid.heads == ["recovery", "delay", "against undisturbed", "part", "silence", "reserved"]
    assert [row[:2] for row in grid.rows] == [
        [recovery, delay] for recovery in ("undisturbed", "optical", "ip") for delay in ("5ms", "20ms")
    ]
    assert [row[-1] for row in grid.rows] == ["0 bit/s"] * 2 + ["4 Mbit/s"] * 2 + ["0 bit/s"] * 2


def test_a_metric_that_no_member_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"there is no 'events\.cutt'"):
        mptcplab.run(mptcplab.load(described(tmp_path, "events.cutt.gap_s")), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_compare_shows_the_members_of_a_family_in_the_terminal_and_on_its_page(tmp_path: Path) -> None:
    described(tmp_path)
    ended = command("compare", "ways.yaml", "--out", "out", "--set", "delay=5ms", cwd=tmp_path)
    told = [line.split() for line in ended.out.splitlines()]
    assert ["recovery", "against", "undisturbed", "part", "silence", "reserved"] in told
    page = (tmp_path / "comparison.html").read_text()
    assert "Metrics over families" in page
    assert "4 Mbit/s" in page


@pytest.mark.parametrize("kind", ["difference", "ratio"])
def test_what_is_relative_needs_a_reference(tmp_path: Path, kind: str) -> None:
    text = FAMILY.replace("reference: {recovery: undisturbed}\n", "").replace("METRIC", "run.duration_s")
    other = {"difference": "ratio", "ratio": "difference"}[kind]
    kept = "\n".join(line for line in text.splitlines() if f", {other}: " not in line)
    path = tmp_path / "ways.yaml"
    path.write_text(kept)
    with pytest.raises(SpecError, match=f"family.0.{kind}: needs a reference"):
        mptcplab.load(path)
