"""Tests that the JSON Schema of descriptions and the loader accept the same descriptions."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mptcplab.document import parse
from mptcplab.errors import SpecError
from mptcplab.experiment import Experiment, json_schema

VALIDATOR = Draft202012Validator(json_schema())
HEAD = """\
name: x
hosts: {a: {}, b: {}}
links: {wire: {between: [a.eth0, b.eth0], rate: 1mbit}, other: {between: [a.eth1, b.eth1]}}
flows: {bulk: {from: a, to: b}}
"""

ACCEPTED = [
    "events: [{at: 1s, down: a.eth0}]",
    "events: [{at: 1s, down: [wire, other]}]",
    "events: [{at: 0, sequence: {down: 'eth[0-1]', on: [a, b], every: 2s}}]",
    "events: [{at: 1s, set: wire, loss: 0.01, queue: 100p, delay: {forward: 1ms}}]",
    "flows: {f: {from: a, to: b, path_manager: fullmesh, cc: NewReno, via: a.eth0}}",
    "flows: {f: {from: a, to: b, path_manager: [full_mesh, {n_diff_ports: {subflows: 3}}], cc: [lia, reno]}}",
    "flows: {f: {from: a, to: b, path_manager: {passive: {}}, app: bulk}}",
    "flows: {f: {from: a, to: b, transport: udp, app: probe, start: 0}}",
    "flows: {f: {from: a, to: b, app: {bulk: {bytes: 1500}}}}",
    "parameters: {p: {one: {x: 1%}}}\nlinks: {wire: {between: [a.eth0, b.eth0], loss: $p.x}}",
    "parameters: {n: [1, 2]}\nflows: {f: {from: a, to: b, parallel: $n, start: '${n}s'}}",
    "links: {wire: {between: [a.eth0, b.eth0], rate: 1mbit, queue: {limit: 15kB, discipline: codel, target: 5ms}}}",
    "links: {wire: {between: [a.eth0, b.eth0], loss: {packets: [3, 7]}, overhead: 22, delay: 0}}",
    "links: {wire: {between: [a.eth0, b.eth0], loss: {gilbert_elliott: {good_to_bad: 0.01, bad_to_good: 30%}}}}",
    "topology: {parallel_links: {n: 3, between: [a, b], rate: 1mbit}}\nlinks: {link2: {delay: 9ms}}",
    "topology: {star: {n: 4}}\nflows: {f: {pattern: incast, hosts: ['h[1-3]'], to: h4}}",
    "media: {air: {profile: wifi_n}}\nlinks: {wire: {between: [a.eth0, b.eth0], medium: air}}",
    "hosts: {a: {behaviour: oot}, b: {behaviour: {preset: oot, stale_intervals: 2}}}",
    "hosts: {a: {interfaces: {eth0: {address: [10.9.0.1/24, 'fd00:9::1/64'], up: false}}}, b: {}}",
    "vary: none",
    "vary: {rtt: 2%}",
    "measure: {captures: a.eth0, probe: {rtt: 100ms}}",
]
REFUSED = [
    "lincs: {}",
    "links: {wire: {between: [a.eth0, b.eth0], delai: 5ms}}",
    "links: {wire: {between: [a.eth0, b.eth0], rate: 10}}",
    "links: {wire: {between: [a.eth0, b.eth0], delay: 5}}",
    "links: {wire: {between: [a.eth0, b.eth0], queue: {limits: 10p}}}",
    "links: {wire: {between: [a.eth0, b.eth0], loss: 3}}",
    "links: {wire: {between: [a.eth0, b.eth0], delay: {forwards: 5ms}}}",
    "links: {'w i': {between: [a.eth0, b.eth0]}}",
    "flows: {f: {from: a, to: b, app: {bulc: {}}}}",
    "flows: {f: {from: a, to: b, app: cbr}}",
    "flows: {f: {from: a, to: b, path_manager: {n_diff_ports: {subflow: 3}}}}",
    "events: [{down: a.eth0}]",
    "events: [{at: 1s, handover: {from: a.eth0}}]",
    "hosts: {a: {mptcp: yes}, b: {}}",
    "measure: {probes: {rtt: 100ms}}",
    "family: [{id: x, ration: flows.bulk.goodput_bps}]",
]


def description(lines: str) -> Any:
    """Returns HEAD with other top-level keys."""
    return parse(HEAD).plain() | parse(lines).plain()


@pytest.mark.parametrize("lines", ACCEPTED)
def test_what_the_loader_accepts_fits(lines: str) -> None:
    Experiment.model_validate(description(lines))
    assert [error.message for error in VALIDATOR.iter_errors(description(lines))] == []


@pytest.mark.parametrize("lines", REFUSED)
def test_what_an_editor_marks_is_refused_by_the_loader_too(lines: str) -> None:
    assert not VALIDATOR.is_valid(description(lines))
    with pytest.raises(SpecError):
        Experiment.model_validate(description(lines))
