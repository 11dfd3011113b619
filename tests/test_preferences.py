"""Tests preference lists: the choice of a back-end, its record, and refusals."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from made_run import made_run, resolved, result
from mptcplab import backends, runner
from mptcplab.backends import Capability, Tick
from mptcplab.backends.preferences import Offer, first_choices
from mptcplab.errors import Unsupported
from mptcplab.report.comparison import arms_of
from mptcplab.results import Bundle, digest

Json = dict[str, Any]
FEATURES = {
    "transport udp": "",
    "transport mptcp": "",
    "cc reno": "",
    "cc cubic": "",
    "cc lia": "not in this kernel",
    "scheduler kernel_default": "",
    "scheduler min_rtt": "the kernel has one scheduler",
    "path_manager kernel_endpoints": "",
    "path_manager full_mesh": "",
    "behaviour mainline": "",
    "behaviour oot": "it was the out-of-tree kernel's",
}


class MadeRun:
    """A run that ends at once."""

    state = "ended"

    def __init__(self, experiment: Mapping[str, Any], outcome: Json) -> None:
        self._result = result(dict(experiment)) | outcome
        self._result["flows"] = self._result["flows"][:0]

    def samples(self) -> Iterator[Tick]:
        yield Tick(0, dict)

    def stop(self, reason: str) -> None:
        raise AssertionError(reason)

    def result(self) -> Json:
        return self._result


class MadeBackend:
    """A back-end with some features that stores the experiments it was given."""

    in_real_time = False

    def __init__(self, name: str = "made", outcome: Json | None = None, **features: str) -> None:
        self.name = name
        self.features = FEATURES | {feature.replace("__", " "): why for feature, why in features.items()}
        self.given: list[Mapping[str, Any]] = []
        self.outcome = outcome or {}

    def ready(self) -> None:
        pass

    def probe(self) -> list[Capability]:
        return [Capability(feature, not why, why) for feature, why in self.features.items()]

    def check(self, experiment: Mapping[str, Any]) -> list[tuple[str, str]]:  # noqa: ARG002
        return []

    def start(self, experiment: Mapping[str, Any], seed: int, directory: Path) -> MadeRun:  # noqa: ARG002
        self.given.append(experiment)
        return MadeRun(experiment, self.outcome)


def asked(**changes: Any) -> Json:
    """Returns the experiment with lists. Each first choice is that of the papers' kernels."""
    experiment = resolved(expect=[])
    experiment["flows"][0] |= {
        "cc": ["lia", "reno"],
        "scheduler": ["min_rtt", "kernel_default"],
        "path_manager": [{"name": "full_mesh"}, {"name": "kernel_endpoints"}],
        **changes,
    }
    return experiment


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> MadeBackend:
    """A back-end called ``made``, registered with the runner."""
    found = MadeBackend()
    known = {"made": found, "other": MadeBackend("other", path_manager__full_mesh="needs two hands")}
    monkeypatch.setattr(runner, "backend", lambda name: known.get(name) or backends.backend(name))
    monkeypatch.setattr(runner, "read_data", lambda _path, experiment, _result, *_: made_run(experiment))
    return found


def test_the_first_choice_that_is_there_is_taken_and_the_others_are_recorded() -> None:
    experiment = asked()
    before = copy.deepcopy(experiment)
    choice = first_choices(experiment, [Offer.of(MadeBackend())])
    assert experiment == before
    flow = choice.experiment["flows"][0]
    assert (flow["cc"], flow["scheduler"], flow["path_manager"]) == (
        ["reno"],
        ["kernel_default"],
        [{"name": "full_mesh"}],
    )
    assert choice.substitutions == [
        {"where": "flows.bulk.cc", "asked": "lia", "used": "reno", "why": "not in this kernel"},
        {
            "where": "flows.bulk.scheduler",
            "asked": "min_rtt",
            "used": "kernel_default",
            "why": "the kernel has one scheduler",
        },
    ]
    assert choice.missing == []


def test_a_single_name_is_never_substituted() -> None:
    choice = first_choices(asked(cc=["lia"]), [Offer.of(MadeBackend())])
    assert ("flows.bulk.cc: lia", "not in this kernel") in choice.missing
    assert [entry["where"] for entry in choice.substitutions] == ["flows.bulk.scheduler"]


def test_of_a_list_without_anything_every_name_has_its_reason() -> None:
    choice = first_choices(asked(cc=["lia", "olia"]), [Offer.of(MadeBackend())])
    assert choice.missing == [
        ("flows.bulk.cc: lia", "not in this kernel"),
        ("flows.bulk.cc: olia", "the made back-end does not know it"),
    ]


def test_what_the_transport_has_no_use_for_is_not_looked_at() -> None:
    experiment = asked()
    experiment["flows"][1] |= {"cc": ["lia"], "scheduler": ["min_rtt"]}
    assert first_choices(experiment, [Offer.of(MadeBackend())]).missing == []
    without = MadeBackend(transport__mptcp="arrives with the engine")
    choice = first_choices(asked(cc=["lia"]), [Offer.of(without)])
    assert (choice.missing, choice.substitutions) == ([], [])


def test_several_back_ends_take_the_first_that_all_have() -> None:
    other = MadeBackend("other", path_manager__full_mesh="needs two hands")
    choice = first_choices(asked(), [Offer.of(MadeBackend()), Offer.of(other)])
    assert choice.experiment["flows"][0]["path_manager"] == [{"name": "kernel_endpoints"}]
    assert {"where": "flows.bulk.path_manager", "asked": "full_mesh", "used": "kernel_endpoints"}.items() <= (
        choice.substitutions[-1].items()
    )


class BothStacks(MadeBackend):
    """A back-end on which hosts called ``server`` have the kernel's stack."""

    def of_kernel_hosts(self) -> MadeBackend:
        return MadeBackend("kernel", path_manager__full_mesh="the kernel has endpoints")

    def kernel_hosts(self, experiment: Mapping[str, Any]) -> set[str]:
        return {host["id"] for host in experiment["hosts"]} & {"server"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("lia", "min_rtt", "kernel_endpoints")),
        ({"from": "server", "to": "client", "opened_by": "to"}, ("reno", "kernel_default", "kernel_endpoints")),
        ({"to": "client"}, ("lia", "min_rtt", "full_mesh")),
    ],
)
def test_where_hosts_differ_in_their_stack_that_of_who_has_the_say_counts(
    changes: Json, expected: tuple[str, str, str]
) -> None:
    both = BothStacks(cc__lia="", scheduler__min_rtt="")
    experiment = asked(**{"from": "client", "to": "server", "opened_by": "from"} | changes)
    flow = first_choices(experiment, [Offer.of(both)]).experiment["flows"][0]
    assert (flow["cc"][0], flow["scheduler"][0], flow["path_manager"][0]["name"]) == expected


def test_behaviour_of_who_only_receives_is_not_looked_for_in_its_stack() -> None:
    experiment = asked(**{"from": "client", "to": "server"})
    for host in experiment["hosts"]:
        host["behaviour"] = ["oot"]
    choice = first_choices(experiment, [Offer.of(BothStacks(behaviour__oot=""))])
    assert not [place for place, _ in choice.missing if "behaviour" in place]
    experiment["flows"][0] |= {"from": "server", "to": "client"}
    choice = first_choices(experiment, [Offer.of(BothStacks(behaviour__oot=""))])
    assert [place for place, _ in choice.missing if "behaviour" in place] == ["hosts.server.behaviour: oot"]


def test_the_bundle_holds_what_was_asked_and_the_back_end_gets_what_was_chosen(
    made: MadeBackend, tmp_path: Path
) -> None:
    experiment = asked()
    (bundle,) = runner.execute(
        runner.plan([experiment], "made", seed=1, repeat=1, out=tmp_path),
        runner.Nobody(),
    )
    assert made.given[0]["flows"][0]["cc"] == ["reno"]
    assert bundle.record["digest"] == digest(experiment)
    assert bundle.resolved == json.loads(json.dumps(experiment))
    assert [entry["used"] for entry in bundle.record["substitutions"]] == ["reno", "kernel_default"]
    (again,) = runner.plan([experiment], "made", seed=1, repeat=1, out=tmp_path)
    assert again.done is not None


def test_another_choice_has_a_bundle_of_its_own(made: MadeBackend, tmp_path: Path) -> None:
    def run(among: list[str]) -> Bundle:
        jobs = runner.plan([asked()], "made", seed=1, repeat=1, out=tmp_path, among=among)
        return runner.execute(jobs, runner.Nobody())[0]

    own, common = run([]), run(["made", "other"])
    assert own.path != common.path
    assert [given["flows"][0]["path_manager"][0]["name"] for given in made.given] == ["full_mesh", "kernel_endpoints"]
    first, second = arms_of([own, common])
    assert "flows.bulk.path_manager=kernel_endpoints" not in first
    assert "flows.bulk.path_manager=kernel_endpoints" in second


@pytest.mark.usefixtures("made")
def test_nothing_available_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"flows.bulk.cc: lia \(not in this kernel\); flows.bulk.cc: olia"):
        runner.plan([asked(cc=["lia", "olia"])], "made", seed=1, repeat=1, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", ["invalid", "failed"])
def test_a_run_that_its_back_end_does_not_vouch_for_says_so(made: MadeBackend, tmp_path: Path, status: str) -> None:
    made.outcome = {"status": status, "why": "a packet was 30 ms late"}
    jobs = runner.plan([asked()], "made", seed=1, repeat=1, out=tmp_path)
    (bundle,) = runner.execute(jobs, runner.Nobody())
    assert (bundle.status, bundle.record["why"]) == (status, "a packet was 30 ms late")
