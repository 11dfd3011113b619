"""Tests the error models: what fails, when, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from random import Random
from statistics import mean

import pytest
from mptcplab.error_models import ERROR_MODELS, Failure, error_model
from mptcplab.errors import SpecError

LINKS = ["uk-de", "uk-nl"]
GROUPS = {"tunnel": ["uk-de", "uk-nl"], "bridge": ["nl-de"]}
SECOND_NS = 1_000_000_000

#: Parameters of each model.
GIVEN: Mapping[str, dict[str, object]] = {
    "scheduled": {"at_ns": [10, 30], "for_ns": 5},
    "periodic": {"every_ns": 40, "for_ns": 5},
    "poisson": {"mtbf_ns": 60 * SECOND_NS, "mttr_ns": SECOND_NS},
    "flapping": {"at_ns": 10, "times": 3, "down_ns": 5, "up_ns": 20},
    "srlg": {"mtbf_ns": 60 * SECOND_NS, "mttr_ns": SECOND_NS},
}


def failures(name: str, duration_ns: int = 100, draw: int = 1, links: list[str] = LINKS) -> list[Failure]:
    return error_model(name, GIVEN[name]).failures(links, GROUPS, duration_ns, Random(draw))


def test_every_model_is_tested() -> None:
    assert set(GIVEN) == set(ERROR_MODELS)


@pytest.mark.parametrize(
    ("name", "begins"),
    [("scheduled", [10, 30]), ("periodic", [40, 80]), ("flapping", [10, 35, 60])],
)
def test_all_links_fail_at_the_given_times(name: str, begins: list[int]) -> None:
    assert failures(name) == [Failure(at_ns, 5, link) for at_ns in begins for link in LINKS]


@pytest.mark.parametrize("name", ["scheduled", "periodic", "flapping"])
def test_nothing_fails_after_the_end(name: str) -> None:
    assert failures(name, duration_ns=10) == []


@pytest.mark.parametrize("name", ["poisson", "srlg"])
def test_random_times_have_the_given_means_and_do_not_overlap(name: str) -> None:
    found = failures(name, duration_ns=100_000 * SECOND_NS)
    for of in ("uk-de", "uk-nl") if name == "poisson" else ("tunnel", "bridge"):
        own = [one for one in found if of in (one.link, one.group)]
        up = [later.at_ns - earlier.at_ns - earlier.for_ns for earlier, later in pairwise(own)]
        assert min(up) > 0
        assert mean(up) == pytest.approx(60 * SECOND_NS, rel=0.1)
        assert mean(one.for_ns for one in own) == pytest.approx(SECOND_NS, rel=0.1)
    assert found == sorted(found, key=lambda one: one.at_ns)


def test_a_draw_is_reproduced_and_another_draw_is_another_experiment() -> None:
    first, again, other = (failures("poisson", 600 * SECOND_NS, draw) for draw in (1, 1, 2))
    assert first == again != other


def test_a_new_link_changes_nothing_for_the_others() -> None:
    alone = failures("poisson", 600 * SECOND_NS)
    more = failures("poisson", 600 * SECOND_NS, links=["de-hr", *LINKS])
    assert alone == [one for one in more if one.link in LINKS]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("weather", {}, "errors: unknown name 'weather'; allowed: scheduled, periodic, poisson, flapping, srlg, ./FILE.py:CLASS"),
        ("periodic", {"every_ns": 5, "for_ns": 5}, "errors.periodic.for_ns: found 5; allowed: below every_ns, 5"),
        ("poisson", {"mtbf_ns": 0, "mttr_ns": 5}, "errors.poisson.mtbf_ns: found 0; allowed: a whole number above 0"),
        ("srlg", {"mtbf_ns": 1, "mttr_ns": 1.5}, "errors.srlg.mttr_ns: found 1.5; allowed: a whole number above 0"),
        ("scheduled", {"at_ns": [-1], "for_ns": 1}, "errors.scheduled.at_ns: found -1; allowed: whole numbers from 0"),
        (
            "scheduled",
            {"at_ns": [30, 10], "for_ns": 20},
            "errors.scheduled: the outage at 10 ns lasts until the next at 30 ns; allowed: for_ns below 20",
        ),
        (
            "flapping",
            {"at_ns": -1, "times": 1, "down_ns": 1, "up_ns": 1},
            "errors.flapping.at_ns: found -1; allowed: a whole number from 0",
        ),
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError) as refused:
        error_model(name, parameters)
    assert str(refused.value) == message


OWN = """\
from mptcplab.error_models import ErrorModel, Failure

class Mine(ErrorModel):
    def failures(self, links, groups, duration_ns, draws):
        return [ANSWER]
"""


def own(answer: str) -> list[Failure]:
    code = [{"file": "./mine.py", "source": OWN.replace("ANSWER", answer)}]
    return error_model("./mine.py:Mine", {}, code).failures(LINKS, GROUPS, 100, Random(1))


def test_a_class_of_the_user_answers_and_is_put_in_order() -> None:
    assert own('Failure(9, 1, group="tunnel"), Failure(3, 200, links[0])') == [
        Failure(3, 200, "uk-de"),
        Failure(9, 1, group="tunnel"),
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("5", "errors: ./mine.py:Mine: 5: found a int; allowed: a Failure"),
        ("Failure(1, 1)", "found both or none of link and group; allowed: one of them"),
        ('Failure(1, 1, "uk-fr")', "unknown link; allowed: uk-de, uk-nl"),
        ('Failure(1, 1, group="sea")', "unknown group; allowed: bridge, tunnel"),
        ("Failure(100, 1, links[0])", "found at_ns 100; allowed: a whole number below 100"),
        ("Failure(1, 0, links[0])", "found for_ns 0; allowed: a whole number above 0"),
        ("1 / 0", "errors: ./mine.py:Mine: ./mine.py, line 5: ZeroDivisionError: division by zero"),
    ],
)
def test_a_wrong_answer_is_refused(answer: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        own(answer)
    assert message in str(refused.value)
