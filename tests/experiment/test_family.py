"""Tests families, references, profiles and `--set`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mptcplab.errors import SpecError
from mptcplab.experiment import members

Write = Callable[[str], Path]

SCENARIOS = """\
name: barreira2014/$scenario/$transport
title: "$scenario.title over $transport"
hosts: {client: {}, server: {}}
parameters:
  scenario:
    A.1: {title: One link, links: {eth: {between: [client.e0, server.e0]}}}
    A.2: {title: With failure, links: {eth: {between: [client.e0, server.e0]}}, events: [{at: 3s, down: eth}]}
  transport: [tcp, mptcp]
exclude: [{scenario: A.2, transport: tcp}]
reference: {scenario: A.1, transport: tcp}
links: $scenario.links
events: $scenario.events
flows: {bulk: {from: client, to: server, transport: $transport}}
"""


def test_named_values_titles_exclusion_and_reference(write: Write) -> None:
    found = members(write(SCENARIOS))
    assert [(member.name, member.title) for member in found] == [
        ("barreira2014/A.1/tcp", "One link over tcp"),
        ("barreira2014/A.1/mptcp", "One link over mptcp"),
        ("barreira2014/A.2/mptcp", "With failure over mptcp"),
    ]
    assert {member.reference for member in found} == {"barreira2014/A.1/tcp"}
    assert [len(member.resolve().data["events"]) for member in found] == [0, 0, 1]
    assert found[2].resolve().data["parameters"] == {"scenario": "A.2", "transport": "mptcp"}


def test_a_title_has_quantities_as_a_sentence_does(write: Write) -> None:
    path = write(
        "name: a\nparameters: {rate: [50mbit], queue: [1p, 2bdp], loss: [0.1%], rest: {x: {lasts: 500us, size: 15MB}}, n: [3]}\n"
        'title: "$rate, $queue, $loss, $rest.lasts, $rest.size, $rest, $n times, ${rate / n}"\n'
    )
    first, second = members(path)
    assert first.title == "50 Mbit/s, 1 packet, 0.1 %, 500 µs, 15 MB, x, 3 times, 16666667 bit/s"
    assert second.title.startswith("50 Mbit/s, 2 bandwidth-delay products, ")


def test_several_families_share_what_stands_above(write: Write) -> None:
    path = write(
        "name: paper\nprofile: alenazi2019\ntopology: {parallel_links: {n: $n}}\nparameters: {n: [2, 8]}\n"
        "flows: {bulk: {from: client, to: server}}\n"
        "experiments:\n  - {name: fig5/n$n}\n  - {name: fig6, parameters: {n: [4]}, flows: {bulk: {transport: tcp}}}\n"
    )
    found = members(path)
    assert [member.name for member in found] == ["paper/fig5/n2", "paper/fig5/n8", "paper/fig6"]
    resolved = found[2].resolve()
    assert len(resolved.data["links"]) == 4
    assert resolved.data["flows"][0]["cc"] == ["lia-oot", "lia", "reno"]
    assert resolved.data["hosts"][0]["behaviour"][0]["failed_after"] == "first_rto"
    assert resolved.origins["links.link1.rate"].startswith("profile alenazi2019 (Table 1")


def test_the_file_wins_over_the_entitys_profile_over_the_experiments(write: Write) -> None:
    path = write(
        "name: x\nprofile: alenazi2019\nhosts: {a: {}, b: {}}\nlinks:\n"
        "  l1: {between: [a.e1, b.e1]}\n  l2: {between: [a.e2, b.e2], profile: lte}\n"
        "  l3: {between: [a.e3, b.e3], profile: lte, delay: 7ms}\n"
    )
    links = members(path)[0].resolve().data["links"]
    assert [link["forward"]["rate_bps"] for link in links] == [1_000_000, 9_400_000, 9_400_000]
    assert [link["forward"]["delay_ns"] for link in links] == [10_000_000, 25_000_000, 7_000_000]


def test_the_congestion_control_of_a_profile_is_not_for_commands(write: Write) -> None:
    path = write(
        "name: x\nprofile: alenazi2019\nhosts: {a: {}, b: {}}\nlinks: {l: {between: [a.e, b.e]}}\n"
        "flows:\n  program: {from: a, to: b, app: {command: [ls]}}\n  bulk: {from: a, to: b}\n"
    )
    program, bulk = members(path)[0].resolve().data["flows"]
    assert (program["cc"], bulk["cc"]) == (["cubic"], ["lia-oot", "lia", "reno"])


def test_a_profile_beside_the_description(write: Write) -> None:
    path = write("name: x\nprofile: ./mine.yaml\nhosts: {a: {}, b: {}}\nlinks: {l: {between: [a.e, b.e]}}\n")
    profile = path.parent / "mine.yaml"
    profile.write_text('profile: mine\ndefaults: {links: {rate: {value: 3mbit, source: "measured"}}}\n')
    assert members(path)[0].resolve().origins["links.l.rate"] == "profile mine (measured)"
    profile.write_text("profile: mine\ndefaults: {links: {rate: {value: 3mbit}}}\n# changed\n")
    with pytest.raises(SpecError, match=r"defaults\.links\.rate: needs a value and its ground"):
        members(path)[0].resolve()


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        ("links.wifi.delay=20ms", ("links", 0, "forward", "delay_ns"), 20_000_000),
        ("links.wifi.rtt=20ms", ("links", 0, "forward", "delay_ns"), 10_000_000),
        ("links.lte.rate.forward=1mbit", ("links", 1, "backward", "rate_bps"), 40_000_000),
        ("links.lte.queue.discipline=codel", ("links", 1, "forward", "queue", "limit_bytes"), 90_000),
        ("flows.bulk.cc=olia", ("flows", 0, "cc"), ["olia"]),
        ("events.cut.at=11s", ("events", 0, "at_ns"), 11_000_000_000),
        ("queue=2bdp", ("parameters", "queue"), "2bdp"),
        ("parameters.queue=[2bdp]", ("parameters", "queue"), "2bdp"),
        ("duration=90s", ("duration_ns",), 90_000_000_000),
    ],
)
def test_set(two_paths: Path, change: str, path: tuple[str | int, ...], value: object) -> None:
    found = members(two_paths, dict([change.split("=", 1)]))[0].resolve().data
    for step in path:
        found = found[step]
    assert found == value


def test_set_reaches_what_a_topology_is_made_from(write: Write) -> None:
    file = write("name: x\ntopology: {parallel_links: {n: 2, rate: 1mbit, queue: 50p}}\nlinks: {link2: {delay: 9ms}}\n")
    changes = {"topology.parallel_links.queue": "7p", "topology.parallel_links.n": "3", "links.link2.queue": "8p"}
    data = members(file, changes)[0].resolve().data
    limits = [link["forward"]["queue"]["limit_packets"] for link in data["links"]]
    assert limits == [7, 8, 7]


@pytest.mark.parametrize(
    ("pattern", "changed"), [("*", ["link1", "link2", "other"]), ("link?", ["link1", "link2"]), ("?t*", ["other"])]
)
def test_a_pattern_sets_every_name_that_it_matches_and_no_other(write: Write, pattern: str, changed: list[str]) -> None:
    file = write(
        "name: x\ntopology: {parallel_links: {n: 2, rate: 1mbit}}\n"
        "links: {other: {between: [client.eth9, server.eth9], rate: 1mbit}}\n"
    )
    resolved = members(file, {f"links.{pattern}.rate": "5mbit"})[0].resolve()
    rates = {link["id"]: link["forward"]["rate_bps"] for link in resolved.data["links"]}
    assert [link for link, rate in rates.items() if rate == 5_000_000] == changed
    assert resolved.origins[f"links.{changed[0]}.rate"] == f"--set links.{pattern}.rate=5mbit"


def test_a_pattern_matches_events_by_their_ids_and_objects_take_it_too(two_paths: Path) -> None:
    (first, *_) = members(two_paths, {"events.c*.at": "3s"})
    assert first.resolve().data["events"][0]["at_ns"] == 3_000_000_000
    changed = first.experiment.override({"links.*.delay": "7ms"})
    assert {str(link.delay) for link in changed.links.values()} == {"7ms"}


def test_set_is_an_origin(two_paths: Path) -> None:
    assert (
        members(two_paths, {"links.wifi.delay": "20ms"})[0].resolve().origins["links.wifi.delay"]
        == "--set links.wifi.delay=20ms"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("links.wify.delay=20ms", "unknown name 'wify' in links, did you mean 'wifi'?"),
        ("links.wifi.delai=20ms", "unknown field 'delai', did you mean 'delay'?"),
        ("links.wifi.delay=20", "links.wifi.delay: 20 has no unit"),
        ("parameters.quue=1bdp", "unknown parameter 'quue', did you mean 'queue'?"),
        ("events.cot.at=3s", "unknown name 'cot' in events, did you mean 'cut'?"),
        ("link.*.delay=3ms", "unknown field 'link', did you mean 'links'?"),
        ("links.x*.delay=3ms", "no name in links matches 'x*'; allowed: wifi, lte"),
        ("nodes.*.forwarding=1ms", "no name in nodes matches '*'; allowed: nothing: it is empty"),
        ("links.*=3mbit", "a pattern stands for names, not for fields; allowed: * and ? between two dots"),
    ],
)
def test_a_wrong_set(two_paths: Path, change: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        [member.resolve() for member in members(two_paths, dict([change.split("=", 1)]))]
    assert message in str(error.value)
    assert "--set" in str(error.value)


def test_a_catalogue_is_listed_and_resolved_quickly(two_paths: Path) -> None:
    text = two_paths.read_text().replace("queue: [1bdp, 4bdp]", "queue: [1bdp, 2bdp, 3bdp, 4bdp, 5bdp, 6bdp]")
    files = []
    for number in range(20):
        files.append(two_paths.parent / f"{number}.yaml")
        files[-1].write_text(text.replace("name: two-paths", f"name: n{number}"))
    start = time.process_time()
    found = [member for file in files for member in members(file)]
    listed = time.process_time()
    for member in found:
        member.resolve()
    resolved = time.process_time()
    assert len(found) == 120
    assert listed - start < 0.5
    assert resolved - listed < 1.5


QUEUES = """\
name: queues/$discipline
parameters: {discipline: [drop_tail, codel, pie]}
exclude: [{discipline: pie}]
reference: {discipline: drop_tail}
family:
  - {id: gain, ratio: flows.bulk.goodput_bps}
  - {id: best, argmax: flows.bulk.goodput_bps, over: discipline}
hosts: {a: {}, b: {}}
links: {wire: {between: [a.eth0, b.eth0], rate: 1mbit, queue: {discipline: $discipline}}}
flows: {bulk: {from: a, to: b}}
"""


def test_a_member_knows_its_family(write: Write) -> None:
    tail, codel = members(write(QUEUES))
    assert (codel.family, codel.reference, codel.why_no_reference) == ("queues", "queues/drop_tail", None)
    assert [(metric.id, metric.kind, metric.over) for metric in tail.family_metrics] == [
        ("gain", "ratio", None),
        ("best", "argmax", "discipline"),
    ]


def test_a_set_that_leaves_out_the_reference_drops_it(write: Write) -> None:
    (codel,) = members(write(QUEUES), {"discipline": "codel"})
    assert codel.reference is None
    assert codel.why_no_reference == "--set discipline leaves out the reference"
    assert codel.resolve().data["parameters"] == {"discipline": "codel"}
    kept = members(write(QUEUES), {"parameters.discipline": "[codel, drop_tail]"})
    assert [member.reference for member in kept] == ["queues/drop_tail"] * 2
    assert codel.experiment.override({"duration": "1s"}).reference is None


def test_families_of_a_file_have_different_names(write: Write) -> None:
    text = """\
name: house
experiments:
  - {name: $case, parameters: {case: [A.1, B.1]}}
  - {name: $case, parameters: {case: [A.2, B.2]}}
  - {name: cellar/n$n, parameters: {n: [1, 2]}}
  - {name: attic}
"""
    named = [member.family for member in members(write(text))]
    assert list(dict.fromkeys(named)) == ["house/A.1..B.1", "house/A.2..B.2", "house/cellar", "house/attic"]
    assert members(write(text))[0].why_no_reference == "the description names no reference"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("id: best", "id: gain", "7:10: family.1.id: 'gain' is also metric 1; allowed: different ids"),
        (
            "over: discipline",
            "over: disciplin",
            "7:54: family.1.over: unknown parameter 'disciplin', did you mean 'discipline'?; allowed: discipline",
        ),
        (
            "reference:",
            "notes: []\n#",
            "7:23: family.0.ratio: needs a reference; allowed: reference: {PARAMETER: VALUE}",
        ),
        (", over: discipline", "", "7:5: family.1: argmax needs 'over'; allowed: over: PARAMETER"),
        ("id: gain,", "id: gain, over: discipline,", "6:22: family.0.over: 'over' has no effect on ratio"),
        ("ratio:", "ration:", "6:16: family.0.ration: unknown field 'ration', did you mean 'ratio'?"),
    ],
)
def test_a_wrong_family_metric(write: Write, old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        members(write(QUEUES.replace(old, new)))
    assert f"x.yaml:{message}" in str(error.value)


SCALED = """\
name: scaled/$s
parameters: {s: [1, 3, 4], n: 2, at: {early: {time: 10ms}}}
hosts: {a: {}, b: {}}
links: {wire: {between: [a.eth0, b.eth0], rate: "${10mbit / s}", delay: "${at.time * s}"}}
flows: {bulk: {from: a, to: b, parallel: "${n * s}", start: "${at.none * s}", app: {bulk: {bytes: "${1.5kB * n * s}"}}}}
duration: ${1s * s}
"""


@pytest.mark.parametrize(("s", "rate_bps"), [(1, 10_000_000), (3, 3_333_333), (4, 2_500_000)])
def test_products_scale_quantities_to_whole_units(write: Write, s: int, rate_bps: int) -> None:
    data = {member.name: member for member in members(write(SCALED))}[f"scaled/{s}"].resolve().data
    forward = data["links"][0]["forward"]
    assert (forward["rate_bps"], forward["delay_ns"]) == (rate_bps, s * 10_000_000)
    assert [flow["app"]["bytes"] for flow in data["flows"]] == 2 * s * [3000 * s]
    assert data["duration_ns"] == s * 1_000_000_000


@pytest.mark.parametrize(
    ("product", "problem"),
    [
        ("${10ms * 4ms}", "links.wire.delay: '4ms' has a unit"),
        ("${10ms / 0}", "links.wire.delay: division by zero"),
        ("${10ms * scale}", "links.wire.delay: unknown parameter 'scale'"),
        ("${at * 2}", "links.wire.delay: 'early' is not a number"),
        ("${n*2}", "links.wire.delay: a lone '$'"),
    ],
)
def test_products_of_other_things_are_refused(write: Write, product: str, problem: str) -> None:
    with pytest.raises(SpecError, match=re.escape(problem)):
        members(write(SCALED.replace("${at.time * s}", product)))[0].resolve()
