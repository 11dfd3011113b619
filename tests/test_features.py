"""Tests that the fields of a description name the features of the engine's table, and what the
pages then say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from mptcplab.backends import BACKENDS, OWN_CLASS, all_on_any_machine, feature_of
from mptcplab.backends.preferences import Offer, first_choices
from mptcplab.document import parse
from mptcplab.experiment import Experiment, json_schema, resolve
from mptcplab.experiment.base import Model
from mptcplab.experiment.hosts import Behaviour
from mptcplab.experiment.uses import uses, uses_by_value
from mptcplab.features import features, lacking
from mptcplab.reference import models
from mptcplab.report import verdict
from mptcplab.results.table import SUPPLIERS
from mptcplab.runner import WITH_CLASSES

FIELDS = [(model, name) for model in models() for name in model.model_fields]


def named(model: type[Model], name: str) -> set[str]:
    """Returns the features that a field or its values name."""
    return {*uses(model, name), *(one for used in uses_by_value(model, name).values() for one in used)}


def test_every_feature_that_a_field_names_exists() -> None:
    assert {one for model, name in FIELDS for one in named(model, name)} - set(features()) == set()


def test_every_feature_of_the_table_is_named_by_a_field_or_a_value() -> None:
    assert set(features()) - {one for model, name in FIELDS for one in named(model, name)} == set()


def test_values_that_name_a_feature_can_be_written() -> None:
    for model, name in FIELDS:
        by_value = uses_by_value(model, name)
        if by_value:
            field = model.model_fields[name]
            words = {word for part in parts(field.annotation) if get_origin(part) is Literal for word in get_args(part)}
            # A mapping of settings has no word of its own, and stands in one row at most.
            mappings = [part for part in parts(field.annotation) if isinstance(part, type) and issubclass(part, Model)]
            assert len(set(by_value) - words) == len(mappings), (model, name)


def parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in () if get_origin(annotation) is Literal else get_args(annotation):
        yield from parts(part)


def test_the_table_has_every_parameter_of_a_behaviour() -> None:
    unnamed = [name for name in Behaviour.model_fields if name != "preset" and not uses(Behaviour, name)]
    assert unnamed == []


HEAD = """\
name: x
hosts: {a: {}, b: {}}
links: {wire: {between: [a.eth0, b.eth0], rate: 1mbit}}
flows: {bulk: {from: a, to: b}}
"""
ROUTED = "links: {l: {between: [a.eth0, r], rate: 1mbit}, m: {between: [r, b.eth0], rate: 1mbit}}\n"
# Programs use the kernel's sockets, also beside hosts with the userspace stack.
PROGRAM = "hosts: {a: {stack: kernel}, b: {stack: kernel}}\n"
SWITCHED = ROUTED + "nodes: {r: {kind: openflow}}\n"

#: Descriptions that use the features that not every back-end has.
USERS = {
    "app video": "flows: {f: {from: a, to: b, app: {video: {bitrates: [1mbit]}}}}",
    "app iperf3": PROGRAM + "flows: {f: {from: a, to: b, app: iperf3}}",
    "app command": PROGRAM + "flows: {f: {from: a, to: b, app: {command: [curl, 'http://b/']}}}",
    "action exec": "events: [{at: 1s, exec: a, argv: ['true']}]",
    "next_hop ecmp_l3": ROUTED + "nodes: {r: {kind: router, next_hop: ecmp, hash: l3}}",
    "next_hop ecmp_l4": ROUTED + "nodes: {r: {kind: router, next_hop: ecmp}}",
    "next_hop random": ROUTED + "nodes: {r: {kind: router, next_hop: random}}",
    "next_hop by_port": ROUTED + "nodes: {r: {kind: router, next_hop: by_port}}",
    "install reactive": SWITCHED + "control: {install: reactive}",
    "control command": SWITCHED + "control: {command: [./controller.py]}",
    "control discover": SWITCHED + "control: {discover: true}",
    "stack kernel": "hosts: {a: {stack: kernel}, b: {}}",
    "stack userspace": "hosts: {a: {stack: userspace}, b: {}}",
    "fallback strict": "hosts: {a: {fallback: strict}, b: {}}",
    "host_jitter none": "hosts: {a: {host_jitter: none}, b: {}}",
    "host_jitter quantiles": "hosts: {a: {host_jitter: {p50: 1us, p90: 2us, p99: 3us, max: 4us}}, b: {}}",
    "handshake race": "flows: {f: {from: a, to: b, handshake: race}}",
    "on": "machines: {m: {at: 'ssh://m'}}\nhosts: {a: {on: m}, b: {}}",
    "real": (
        "hosts: {a: {interfaces: {eth0: {device: e1}}}, b: {interfaces: {eth0: {device: e2}}}}\n"
        "links: {wire: {between: [a.eth0, b.eth0], real: true}}"
    ),
    "one_at_a_time": "hosts: {a: {one_at_a_time: true}, b: {}}",
    "behaviour mainline-6.12": "hosts: {a: {behaviour: mainline-6.12}, b: {}}",
    "behaviour mainline-6.18": "hosts: {a: {behaviour: mainline-6.18}, b: {}}",
    "behaviour mainline-7.3": "hosts: {a: {behaviour: mainline-7.3}, b: {}}",
    "behaviour oot": "hosts: {a: {behaviour: oot}, b: {}}",
    "behaviour.mptcp_version": "hosts: {a: {behaviour: {mptcp_version: 0}}, b: {}}",
    "behaviour.failed_after": "hosts: {a: {behaviour: {failed_after: first_rto}}, b: {}}",
    "behaviour.reinjection": "hosts: {a: {behaviour: {reinjection: on_close}}, b: {}}",
    "behaviour.reinject_whole_queue": "hosts: {a: {behaviour: {reinject_whole_queue: false}}, b: {}}",
    "behaviour.subflow_order": "hosts: {a: {behaviour: {subflow_order: newest_first}}, b: {}}",
    "behaviour.timers": "hosts: {a: {behaviour: {timers: exact}}, b: {}}",
}


def test_lists_of_back_ends_below_them_name_them_all() -> None:
    """Reports, metrics and bundles know back-ends by name only, because back-ends import what is
    below them.
    """
    able = {one.name for one in all_on_any_machine() if {c.feature: c.available for c in one.probe()}.get(OWN_CLASS)}
    assert set(verdict.BACKENDS) == set(BACKENDS)
    assert set(SUPPLIERS) == set(BACKENDS)
    assert set(WITH_CLASSES) == able


def experiment_with(lines: str) -> Experiment:
    return Experiment.model_validate(parse(HEAD).plain() | parse(lines).plain())


def used_by(value: object) -> set[str]:
    """Returns the features that the given values of a description use, by what
    their fields name.
    """
    if isinstance(value, dict):
        return {one for below in value.values() for one in used_by(below)}
    if isinstance(value, list):
        return {one for below in value for one in used_by(below)}
    found: set[str] = set()
    for name in value.model_fields_set if isinstance(value, Model) else ():
        given, model = getattr(value, name), type(value)
        by_value = uses_by_value(model, name)
        unwritten = [used for word, used in by_value.items() if not isinstance(given, str) and word == "quantiles"]
        found |= {*uses(model, name)}
        found |= {
            one for used in [by_value.get(given, []) if isinstance(given, str) else [], *unwritten] for one in used
        }
        found |= used_by(given)
    return found


@pytest.mark.parametrize("feature", [one for one in features() if lacking(one)])
def test_a_field_names_the_feature_for_which_back_ends_refuse_it(feature: str) -> None:
    assert feature in USERS, "a description that uses it"
    experiment = experiment_with(USERS[feature])
    assert feature in used_by(experiment)
    resolved = resolve(experiment).data
    # An event is named by its number, a time by its unit.
    word = feature.partition(" ")[2] or feature.rpartition(".")[2]
    for backend in all_on_any_machine():
        choice = first_choices(resolved, [Offer.of(backend)])
        missing = [*choice.missing, *backend.check(choice.experiment)]
        refused = [feature_of(place) for place, _ in missing]
        assert any(word in one for one in refused) == (backend.name in lacking(feature)), (backend.name, refused)


def test_schema_and_reference_say_which_back_ends_lack_a_field() -> None:
    properties = json_schema()["$defs"]["Host"]["properties"]
    assert properties["one_at_a_time"]["description"].endswith("as a phone does. Not on `kernel`.")
    assert properties["stack"]["description"].endswith("`kernel`: not on `sim`. `userspace`: not on `sim`, `kernel`.")
    assert "not on" not in properties["checksum"]["description"].lower()
