"""Tests that written descriptions read back as the same objects."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mptcplab.experiment import Experiment, json_schema, resolve
from mptcplab.units import Duration, Probability, QueueLimit, Rate, Size

rates = st.integers(1, 10**13).map(Rate)
durations = st.integers(0, 10**13).map(Duration)
sizes = st.integers(1, 10**12).map(Size)
queue_sizes = st.integers(70_000, 10**12).map(Size)
probabilities = st.floats(0, 1).map(Probability)
limits = st.one_of(
    st.integers(1, 10**6).map(lambda packets: QueueLimit(f"{packets}p")),
    queue_sizes.map(lambda size: QueueLimit(size)),
    st.decimals("0.01", 100, places=2).map(lambda products: QueueLimit(f"{products}bdp")),
)


@given(rates, durations, sizes, probabilities, limits)
def test_quantities_read_what_they_print(
    rate: Rate, duration: Duration, size: Size, probability: Probability, limit: QueueLimit
) -> None:
    assert Rate(str(rate)) == rate
    assert Duration(str(duration)) == duration
    assert Size(str(size)) == size
    assert Probability(str(probability)) == probability
    assert QueueLimit(str(limit)) == limit


def both_ways(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values | st.fixed_dictionaries({"forward": values, "backward": values})


links = st.fixed_dictionaries(
    {"rate": both_ways(rates)},
    optional={
        "delay": both_ways(durations),
        "jitter": both_ways(durations),
        "reorder": st.booleans(),
        "loss": both_ways(probabilities),
        "queue": limits | st.fixed_dictionaries({"limit": limits, "discipline": st.sampled_from(["codel", "pie"])}),
        "overhead": st.sampled_from(["ip", "frame", "ethernet"]) | st.integers(0, 100),
    },
)
texts = st.text(st.characters(codec="utf-8"), max_size=30)
experiments = st.fixed_dictionaries(
    {"name": st.from_regex(r"[a-z]{1,8}(/[a-z0-9.]{1,5})?", fullmatch=True), "links": st.lists(links, max_size=3)},
    optional={
        "title": texts.map(lambda text: text.replace("$", "$$")),
        "duration": st.integers(1, 10**12).map(Duration),
    },
)


def built(fields: dict[str, Any]) -> Experiment:
    named = {
        f"link{number}": {"between": [f"a.e{number}", f"b.e{number}"], **link}
        for number, link in enumerate(fields["links"])
    }
    return Experiment.model_validate({**fields, "hosts": {"a": {}, "b": {}}, "links": named})


@settings(max_examples=60, deadline=None)
@given(experiments)
def test_an_experiment_survives_yaml(fields: dict[str, Any]) -> None:
    experiment = built(fields)
    again = Experiment.from_yaml(experiment.to_yaml())
    assert again == experiment
    assert again.model_dump() == experiment.model_dump()
    assert resolve(again).data["links"] == resolve(experiment).data["links"]


def test_texts_that_look_like_something_else_stay_texts() -> None:
    for text in ("true", "1", "1.5", "null", "~", "", "yes", "0x1f", ".inf", "- a", "a: b", "#x", "1e3"):
        experiment = Experiment(name="x", title=text, hosts={"a": {}})  # type: ignore[dict-item]
        assert Experiment.from_yaml(experiment.to_yaml()).title == text


def test_a_filled_in_description_is_a_description(two_paths: Any) -> None:
    from mptcplab.experiment import members

    resolved = members(two_paths)[0].resolve()
    again = Experiment.model_validate({**resolved.description, "parameters": {}})
    assert resolve(again).data["links"] == resolved.data["links"]
    assert resolve(again).data["events"] == resolved.data["events"]


def test_the_schema_describes_every_field() -> None:
    schema = json_schema()
    parts = [part for whole in schema["$defs"].values() for part in (whole, *whole.get("anyOf", []))]
    fields = [field for part in (schema, *parts) for field in part.get("properties", {}).values()]
    assert len(fields) > 100
    assert all(field.get("description") for field in fields)


def test_the_schema_accepts_the_example(two_paths: Any) -> None:
    import jsonschema
    import yaml

    validator = jsonschema.Draft202012Validator(json_schema())
    example = yaml.safe_load(two_paths.read_text())
    assert not list(validator.iter_errors(example))
    example["links"]["wifi"]["delai"] = "3ms"
    assert list(validator.iter_errors(example))


@pytest.mark.parametrize(
    "text", ["10Mbit", "10mbps", "10Mbps", "10 Mbit/s", "10mbit/s", "10Mb/s", "10MBit", "10000Kbps"]
)
def test_rates_that_cannot_be_misread_are_read(text: str) -> None:
    assert Rate(text) == 10_000_000
    assert re.fullmatch(Rate.pattern, text)


def test_a_queue_of_bytes_is_written_with_its_unit() -> None:
    assert str(QueueLimit("3001B")) == "3001B"
    assert QueueLimit(str(QueueLimit("3001B"))) == QueueLimit(Size(3001))
