"""Tests models made in Python: they get the same checks and messages as those in a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import mptcplab
import pytest
from mptcplab.errors import SpecError
from mptcplab.experiment import Event, Experiment, Flow, Link, Queue, members
from mptcplab.experiment.base import Model

ENDS = ("client.wlan0", "server.eth0")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Link(between=ENDS, rate="10mb"),
            "Link.rate: '10mb' has the unknown unit 'mb', did you mean 10mbit?; allowed: a rate",
        ),
        (lambda: Link(between=ENDS, rte="1mbit"), "Link.rte: unknown field 'rte', did you mean 'rate'?; allowed:"),
        (lambda: Link(), "Link.between: is missing"),
        (lambda: Link(between=ENDS, delay={"forward": "3"}), "Link.delay.forward: '3' has no unit; allowed:"),
        (lambda: Link(between=ENDS, queue=Queue(limit="0p")), "Queue.limit: '0p' holds nothing; allowed:"),
        (lambda: Flow(from_="a", to="b", cc="lai"), "Flow.cc: unknown congestion control 'lai', did you mean 'lia'?"),
        (lambda: Event(at="1s"), "Event: an event needs exactly one of these, found none; allowed: down, up, set"),
        (
            lambda: Experiment(name="x", links={"wifi": {"between": ["a.x", "b.y"], "rate": 3}}),
            "links.wifi.rate: 3 has no unit; allowed:",
        ),
    ],
)
def test_a_wrong_value_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(SpecError) as error:
        make()
    assert str(error.value).startswith(message)


def test_a_tuple_is_a_list() -> None:
    assert Link(between=ENDS).between == list(ENDS)


def test_the_package_offers_its_names_lazily() -> None:
    assert mptcplab.members is members
    assert {"Experiment", "load", "members", "resolve"} <= set(dir(mptcplab))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mptcplab.nothing  # noqa: B018
    code = "import sys, mptcplab; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def models(model: type[Model]) -> Iterator[type[Model]]:
    for one in model.__subclasses__():
        yield one
        yield from models(one)


def defaults() -> Iterator[Model]:
    """All defaults that are models or lists of models."""
    for model in models(Model):
        for field in model.model_fields.values():
            given = field.default if isinstance(field.default, list) else [field.default]
            yield from (value for value in given if isinstance(value, Model))


def test_defaults_are_what_a_description_that_writes_them_has() -> None:
    found = list(defaults())
    assert len(found) > 8
    for value in found:
        assert type(value).model_validate(value.dumped()) == value
