"""Tests of overlays as experiments for the simulator."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import is_refused, mptcplab
from mptcplab.errors import SpecError
from mptcplab.overlay import description
from mptcplab.overlay.as_experiment import joined_routes

EXAMPLE = Path(__file__).parents[2] / "examples" / "overlay" / "overlay.yaml"


def test_a_host_of_the_example_has_a_path_for_each_tunnel(tmp_path: Path) -> None:
    made = mptcplab("overlay", "experiment", EXAMPLE, "--nearest", "2", cwd=tmp_path)
    (tmp_path / "joined.yaml").write_text(made.out)
    shown = mptcplab("show", "joined.yaml", "--resolved", cwd=tmp_path).document
    [flow] = shown["flows"]
    # vienna is 1 ms from the internet and paris 2 ms. Each site is passed in and out. The links of
    # host and server are 5 ms long.
    assert [path["rtt_ns"] for path in flow["paths"]] == [20_000_000, 24_000_000, 32_000_000]
    ran = mptcplab("run", "joined.yaml", "--set", "duration=3s", "--json", cwd=tmp_path)
    assert ran.status == 0, ran
    found = json.loads(next(tmp_path.rglob("run.json")).read_text())["metrics"]
    # The direct path alone has 5 Mbit/s, and the link of the host 20.
    assert 10e6 < found["flows.upload"]["goodput_bps"] < 20e6
    used = [found[name]["share"] for name in found if name.startswith("flows.upload.subflows.")]
    assert len([share for share in used if share > 0.05]) == 3, found


def test_routes_of_three_hundred_sites_follow_the_policy() -> None:
    routes = joined_routes(description.of_sites(300, ["s1"]), 3)
    assert len(routes) == 3
    assert {route[-1] for route in routes} == {0}
    used = [frozenset(pair) for route in routes for pair in pairwise(route)]
    assert len(used) == len(set(used))


def test_what_has_no_graph_is_refused(tmp_path: Path) -> None:
    (tmp_path / "remote.yaml").write_text("sites: {a: {exit: true}, b: {at: 'ssh://b'}}\n")
    with pytest.raises(SpecError, match="site b is another machine"):
        joined_routes(description.load(tmp_path / "remote.yaml"), 1)
    (tmp_path / "named.yaml").write_text("sites: {server: {exit: true}}\n")
    ended = mptcplab("overlay", "experiment", "named.yaml", cwd=tmp_path)
    assert is_refused(ended, 2, "a site has the name 'server'")
    ended = mptcplab("overlay", "experiment", "--sites", "3", "--nearest", "4", cwd=tmp_path)
    assert is_refused(ended, 2, "--nearest 4: there are 3 sites")
