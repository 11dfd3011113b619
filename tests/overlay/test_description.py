"""Tests of descriptions of overlays."""

from __future__ import annotations

from pathlib import Path

import pytest
from mptcplab.errors import SpecError, UsageError
from mptcplab.overlay import description
from mptcplab.overlay.plan import Plan

ROOT = Path(__file__).parents[2]
GOOD = """
name: small
sites:
  s[1-3]: {delay: [2ms, 60ms], rate: 100mbit}
  vienna: {delay: 5ms, exit: true}
mesh: [[s1, s2], [vienna, s3]]
policy: shortest
"""


def planned(text: str, tmp_path: Path) -> Plan:
    file = tmp_path / "overlay.yaml"
    file.write_text(text)
    return description.load(file)


def test_ranges_become_sites_with_drawn_delays(tmp_path: Path) -> None:
    plan = planned(GOOD, tmp_path)
    assert [site.name for site in plan.sites] == ["s1", "s2", "s3", "vienna"]
    delays = [site.delay_ns for site in plan.sites]
    assert len(set(delays)) == 4
    assert all(2_000_000 <= delay <= 60_000_000 for delay in delays)
    assert delays[3] == 5_000_000
    assert [site.is_exit for site in plan.sites] == [False, False, False, True]
    assert plan.pairs == [(0, 1), (2, 3)]
    assert planned(GOOD, tmp_path) == plan == Plan.from_json(plan.to_json())


def test_the_example_is_that_of_the_page() -> None:
    example = ROOT / "examples" / "overlay" / "overlay.yaml"
    assert len(description.load(example).sites) == 5
    page = (ROOT / "docs" / "guide" / "overlay.md").read_text()
    assert example.read_text().partition("\n")[2] in page
    machines = example.with_name("machines.yaml")
    assert [site.at for site in description.load(machines).sites] == ["ssh://root@192.0.2.7", "ssh://root@192.0.2.8"]
    assert machines.read_text().partition("overlay check machines.yaml\n")[2] in page
    switches = example.with_name("switches.yaml")
    assert [site.forwarding for site in description.load(switches).sites] == ["openflow"] * 3
    assert switches.read_text().partition("overlay check switches.yaml\n")[2] in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sites: {}", "sites: has 0 items"),
        ("sites: {a: {}, 'a[1-2]': {}, a1: {}}", "two sites have the name 'a1'"),
        ("sites: {a: {delay: 5}}", "sites.a.delay"),
        ("sites: {a: {on: b}}", "unknown field 'on'"),
        ("sites: {a: {at: 'ssh://a b@c'}}", "sites.a.at: found 'ssh://a b@c'; allowed: ssh://[USER@]HOST[:PORT]"),
        ("sites: {a: {at: lab2}}", "sites.a.at: found 'lab2'; allowed: ssh://[USER@]HOST[:PORT]"),
        ("sites: {a: {at: 'ssh://b', delay: 1ms}}", "delay of a machine that has a real link"),
        ("sites: {a: {at: 'ssh://b', exit: true}}", "an exit changes its machine; allowed: `touch: true`"),
        ("sites: {a: {at: 'ssh://b', address: b}}", "found 'b'; allowed: an IPv4 address"),
        ("sites: {a: {touch: true}}", "touch without a machine"),
        ("sites: {a: {forwarding: openflow}}", "forwarding without a machine"),
        ("sites: {a: {at: 'ssh://b', forwarding: ovs}}", "forwarding: found 'ovs'; allowed: linux, openflow"),
        ("sites: {a: {at: 'ssh://b'}, c: {at: 'ssh://b'}}", "two sites are at ssh://b"),
        ("sites: {'s[1-200]': {}}\nmesh: full", "found 200 sites"),
        ("sites: {a: {}, b: {}}\nmesh: [[a, c]]", "unknown site 'c'"),
        ("sites: {a: {}, b: {}}\nmesh: [[a, a]]", "both ends of a tunnel are a"),
        ("sites: {a: {}, b: {}, c: {}}\nmesh: [[a, b]]", "mesh: site 'c' has no tunnel"),
        (
            "sites: {a: {delay: [1ms, 100000s]}}",
            "sites.a.delay: sites with a longer delay seem lost; allowed: at most 1s",
        ),
        ("sites: {a: {rate: 1bit}}", "sites.a.rate: sites with a smaller rate seem lost; allowed: at least 10kbit"),
        ("sites: {a: {}}\npolicy: fastest", "policy: found 'fastest'"),
        ("sites: {'a b': {}}", "'a b' is not a valid name"),
        ("sites: {'s[1-2000]': {}}", "found 2000 sites"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        planned(text, tmp_path)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_numbers_and_exits_of_the_command_line_are_checked() -> None:
    assert len(description.of_sites(300, ["s1"]).sites) == 300
    with pytest.raises(UsageError, match="1 to 1000"):
        description.of_sites(0, [])
    with pytest.raises(UsageError, match="unknown site"):
        description.of_sites(3, ["s4"])
