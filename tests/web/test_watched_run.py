"""Tests of what viewers of a run are told, and of what they can change."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mptcplab.errors import SpecError
from mptcplab.experiment import Experiment, load, resolve
from mptcplab.results import Bundle
from mptcplab.runner import Job, execute, plan
from mptcplab.web.feed import MOST_AT_ONCE, Feed
from mptcplab.web.pace import UNLIMITED, Pace
from mptcplab.web.saved import saved_experiment
from mptcplab.web.watching import NotPossible, Watched, Watching, watched

EXAMPLES = Path(__file__).parents[2] / "examples"
Json = dict[str, Any]

TWO_PATHS = """
name: watched
hosts: {phone: {}, server: {}}
links:
  wifi: {between: [phone.wlan0, server.eth0], rate: 6mbit, delay: 10ms}
  lte: {between: [phone.wwan0, server.eth1], rate: 4mbit, delay: 30ms}
flows:
  download: {from: server, to: phone, opened_by: to, path_manager: full_mesh}
events:
  - {id: weak, at: 2s, set: wifi, loss: 2%}
  - {id: gap, at: 3s, outage: lte, for: 500ms}
  - {id: wave, at: 5s, sequence: {down: [phone.wlan0], every: 1s, then: restore}}
duration: 8s
"""


def everything(feed: Feed) -> list[Json]:
    """Returns all messages so far, as a viewer gets them."""

    async def read() -> list[Json]:
        found: list[Json] = []
        async for messages in feed.follow():
            found += json.loads(messages)
            if found[-1]["kind"] in ("end", "last"):
                return found
        return found

    return asyncio.run(asyncio.wait_for(read(), 10))


class Hands(Watching):
    """An observer that also asks for actions, from another thread, at times of the run."""

    def __init__(self, run: Watched, asked: Mapping[float, Mapping[str, object]]) -> None:
        super().__init__(run)
        self._run = run
        self._asked = dict(sorted(asked.items()))
        self.answers: list[Any] = []

    def advanced(self, job: Job, run: Any, tick: Any) -> None:
        while self._asked and tick.time_ns / 1e9 >= next(iter(self._asked)):
            words = self._asked.pop(next(iter(self._asked)))
            asking = threading.Thread(target=lambda words=words: self.answers.append(self._run.act(words)))
            asking.start()
            asking.join()
        super().advanced(job, run, tick)


def run_watched(
    text: str, out: Path, asked: Mapping[float, Mapping[str, object]] | None = None, pace: Pace | None = None
) -> tuple[Watched, Bundle, Hands]:
    description = out / "description.yaml"
    description.write_text(text)
    [member] = load(description)
    [job] = plan([member.resolve().data], "sim", seed=1, repeat=1, out=out)
    run = watched(job, pace or Pace(UNLIMITED))
    hands = Hands(run, asked or {})
    [bundle] = execute([job], hands)
    return run, bundle, hands


def test_the_page_is_told_what_the_bundle_holds(tmp_path: Path) -> None:
    run, bundle, _ = run_watched(TWO_PATHS, tmp_path)
    messages = everything(run.feed)
    kinds = [message["kind"] for message in messages]
    assert kinds[:2] == ["run", "pace"]
    assert kinds[-1] == "end"
    samples = bundle.load().samples
    told = [message for message in messages if message["kind"] == "sample"]
    assert told, "samples"
    for message in told:
        for entity, metrics in message["values"].items():
            for metric, value in metrics.items():
                series = samples.series(entity, metric)
                at = series.times_s.searchsorted(message["time_s"] - 1e-9)
                assert series.values[at] == value, (message["time_s"], entity, metric)
    events = [(message["id"], message["at_s"]) for message in messages if message["kind"] == "event"]
    assert events == [(event["id"], event["actual_ns"] / 1e9) for event in bundle.record["result"]["events"]]


@pytest.mark.parametrize(("speed", "every_s"), [(10.0, 0.1), (40.0, 0.4)])
def test_samples_of_a_run_at_a_pace_are_told_at_equal_distances(speed: float, every_s: float, tmp_path: Path) -> None:
    run, _, _ = run_watched(TWO_PATHS, tmp_path, pace=Pace(speed))
    times_s = [message["time_s"] for message in everything(run.feed) if message["kind"] == "sample"]
    assert times_s == pytest.approx([every_s * number for number in range(1, round(8 / every_s) + 1)])


def test_what_a_viewer_asks_for_becomes_an_event_of_the_bundle(tmp_path: Path) -> None:
    asked = {1.0: {"down": "wifi"}, 1.5: {"up": "wifi"}, 2.5: {"set": "lte", "rate": "2mbit"}}
    _, bundle, hands = run_watched(TWO_PATHS, tmp_path, asked)
    injected = [event for event in bundle.record["result"]["events"] if event["injected"]]
    assert [event["action"]["kind"] for event in injected] == ["link_down", "link_up", "set_link"]
    for event, at_s in zip(injected, asked, strict=True):
        assert 0 <= event["actual_ns"] / 1e9 - at_s < 0.011, "a tick of 10 ms later at most"
    assert [answer.result()[0] for answer in hands.answers] == injected


def test_a_change_of_a_link_keeps_earlier_ones(tmp_path: Path) -> None:
    asked = {1.0: {"set": "lte", "rate": "2mbit"}, 1.5: {"set": "lte", "loss": "3%"}, 2.5: {"set": "wifi", "delay": 0}}
    run, bundle, _ = run_watched(TWO_PATHS, tmp_path, asked)
    actions = [event["action"] for event in bundle.record["result"]["events"] if event["injected"]]
    found = [(one["forward"]["rate_bps"], one["backward"]["loss"]) for one in actions]
    assert found == [
        (2_000_000, {"kind": "none"}),
        (2_000_000, {"kind": "bernoulli", "probability": 0.03}),
        (6_000_000, {"kind": "bernoulli", "probability": 0.02}),
    ]
    description, happened = Experiment.from_yaml(TWO_PATHS), bundle.record["result"]["events"]
    saved = saved_experiment(description, run.job.choice.experiment, happened, run.done)
    again = [e["action"] for e in resolve(Experiment.from_yaml(saved)).data["events"] if e["id"].startswith("live")]
    assert again == actions


def test_an_outage_ends_by_itself_unless_somebody_restores_the_link(tmp_path: Path) -> None:
    asked = {1.0: {"outage": "wifi", "for": "400ms"}, 1.2: {"up": "wifi"}}
    run, bundle, _ = run_watched(TWO_PATHS, tmp_path, asked)
    injected = [event for event in bundle.record["result"]["events"] if event["injected"]]
    assert [event["action"]["kind"] for event in injected] == ["link_down", "link_up"]
    assert bundle.status == "done"
    description = Experiment.from_yaml(TWO_PATHS)
    saved = saved_experiment(description, run.job.choice.experiment, bundle.record["result"]["events"], run.done)
    again = resolve(Experiment.from_yaml(saved)).data["events"]
    assert [(e["action"]["kind"], e["at_ns"]) for e in again if e["action"].get("link") == "wifi"][:2] == [
        (e["action"]["kind"], e["asked_ns"]) for e in injected
    ]


@pytest.mark.parametrize(
    ("words", "error", "why"),
    [
        ({"down": "wlan"}, SpecError, "wlan"),
        ({"set": "wifi", "rate": "-1mbit"}, SpecError, "rate"),
        ({}, SpecError, "down"),
        ({"up": "wifi"}, NotPossible, "wifi"),
    ],
)
def test_an_action_that_cannot_be_is_refused_and_changes_nothing(
    words: Json, error: type[Exception], why: str, tmp_path: Path
) -> None:
    refusals: list[Exception] = []

    class Asking(Watching):
        has_asked = False

        def advanced(self, job: Job, run: Any, tick: Any) -> None:
            if not self.has_asked:
                self.has_asked = True
                try:
                    answer = watching.act(words)
                    super().advanced(job, run, tick)
                    answer.result(1)
                except (SpecError, NotPossible) as refused:
                    refusals.append(refused)
                return
            super().advanced(job, run, tick)

    experiment = resolve(Experiment.from_yaml(TWO_PATHS)).data
    [job] = plan([experiment], "sim", seed=1, repeat=1, out=tmp_path)
    watching = watched(job, Pace(UNLIMITED))
    [bundle] = execute([job], Asking(watching))
    assert [type(refused) for refused in refusals] == [error]
    assert why in str(refusals[0])
    assert not [event for event in bundle.record["result"]["events"] if event["injected"]]


def test_a_paused_run_stops_when_it_is_interrupted(tmp_path: Path) -> None:
    [job] = plan([resolve(Experiment.from_yaml(TWO_PATHS)).data], "sim", seed=1, repeat=1, out=tmp_path)
    run = watched(job, Pace())
    run.set_pace(lambda pace: pace.pause())
    with ThreadPoolExecutor() as pool:
        running = pool.submit(execute, [job], Watching(run), stop=run.stop)
        run.stop.reason = "interrupted"
        [bundle] = running.result(60)
    assert (bundle.status, bundle.record["why"]) == ("unfinished", "interrupted")
    assert bundle.record["result"]["end_ns"] < 1e9


def test_a_run_that_has_ended_refuses_actions(tmp_path: Path) -> None:
    run, _, _ = run_watched(TWO_PATHS, tmp_path)
    with pytest.raises(NotPossible, match="ended"):
        run.act({"down": "wifi"})


def test_the_saved_experiment_does_the_same_again(tmp_path: Path) -> None:
    asked = {1.0: {"down": "phone.wwan0"}, 1.7: {"up": "phone.wwan0"}, 4.2: {"outage": "wifi", "for": "300ms"}}
    run, bundle, _ = run_watched(TWO_PATHS, tmp_path, asked)
    happened = bundle.record["result"]["events"]
    saved = saved_experiment(Experiment.from_yaml(TWO_PATHS), run.job.choice.experiment, happened, run.done)
    again = tmp_path / "again"
    again.mkdir()
    _, second, _ = run_watched(saved, again)
    resolved = {event["id"]: event["action"] for event in second.resolved["events"]}
    repeated = [(resolved[event["id"]], event["asked_ns"]) for event in second.record["result"]["events"]]
    first = {event["id"]: event["action"] for event in bundle.resolved["events"]}
    # Injected events happen when they are asked for, described ones when they are due.
    assert repeated == [(event["action"] or first[event["id"]], event["asked_ns"]) for event in happened]
    assert second.record["result"]["flows"][0]["bytes"] == bundle.record["result"]["flows"][0]["bytes"]


RECOVERED = """
name: recovered
topology: {geant5: {attach: 1, rate: 8mbit, queue: 100p}}
control: {recovery: {none: {detect: 10ms}}}
flows: {bulk: {from: h-uk, to: h-de, transport: tcp}}
events:
  - {id: early, at: 500ms, outage: uk-de, for: 200ms}
  - {id: chosen, at: 1s, recovery: ip_preinstalled}
measure: {every: 20ms}
duration: 5s
"""


def test_another_strategy_recovers_the_network_from_then_on_and_again_when_it_is_saved(tmp_path: Path) -> None:
    asked = {
        1.5: {"recovery": "none"},
        2.0: {"outage": "uk-de", "for": "2s"},
        2.3: {"recovery": "ip_reactive"},
        3.5: {"outage": "uk-nl", "for": "2s"},
        3.7: {"up": "uk-de"},
    }
    run, bundle, _ = run_watched(RECOVERED, tmp_path, asked)
    events = [message for message in everything(run.feed) if message["kind"] == "event"]
    told = [one for one in events if one["action"]["kind"] == "set_recovery"]
    assert [(one["action"]["strategy"], one["is_by_hand"]) for one in told] == [
        ("ip_preinstalled", False),
        ("none", True),
        ("ip_reactive", True),
    ]
    samples = bundle.load().samples
    received = samples.series("flows.bulk", "bytes_received")

    def arrived(from_s: float, to_s: float) -> float:
        begin, end = received.times_s.searchsorted([from_s, to_s])
        return float(received.values[end] - received.values[begin])

    assert arrived(2.2, 2.3) == 0, "the path stays on the link that is down"
    assert arrived(2.3, 3.5) > 0, "the new strategy moves it at once"
    saved = saved_experiment(
        Experiment.from_yaml(RECOVERED), run.job.choice.experiment, bundle.record["result"]["events"], run.done
    )
    again = tmp_path / "again"
    again.mkdir()
    _, second, _ = run_watched(saved, again)
    assert second.record["result"]["flows"][0]["bytes"] == bundle.record["result"]["flows"][0]["bytes"]
    assert ways_over_time(second) == ways_over_time(bundle)


def test_the_strategy_that_recovers_the_network_already_is_refused(tmp_path: Path) -> None:
    asked = {0.3: {"recovery": "none"}, 1.5: {"recovery": "ip_preinstalled"}, 1.6: {"recovery": "ip_reactive"}}
    _, bundle, hands = run_watched(RECOVERED, tmp_path, asked)
    assert [str(answer.exception()) for answer in hands.answers[:2]] == [
        f"action: the network already recovers with {name}" for name in ("none", "ip_preinstalled")
    ]
    injected = [event["action"] for event in bundle.record["result"]["events"] if event["injected"]]
    assert injected[0] == {"kind": "set_recovery", "strategy": "ip_reactive"}
    assert [action["by"] for action in injected[1:]] == ["recovery"] * (len(injected) - 1)


def ways_over_time(bundle: Bundle) -> list[tuple[int, list[str]]]:
    """Returns when the path of the flow changed, and its links from then on."""
    described = {event["id"]: event["action"] for event in bundle.resolved["events"]}
    ways: list[tuple[int, list[str]]] = []
    for event in bundle.record["result"]["events"]:
        action = event["action"] or described[event["id"]]
        if action["kind"] == "reroute":
            way = [hop["link"] for hop in action["there"]]
            if not ways or ways[-1][1] != way:
                ways.append((event["asked_ns"], way))
    return ways


@pytest.mark.parametrize("name", ["commute.yaml", "sequence-of-failures.yaml", "handover.yaml", "outages.yaml"])
def test_every_kind_of_event_can_be_saved(name: str) -> None:
    [member, *_] = load(EXAMPLES / name)
    experiment = member.experiment
    resolved = resolve(experiment).data
    happened = [
        {"id": e["id"], "parent": e["parent"], "asked_ns": e["at_ns"], "actual_ns": e["at_ns"], "injected": False}
        for e in resolved["events"]
    ]
    saved = Experiment.from_yaml(saved_experiment(experiment, resolved, happened, []))
    again = resolve(saved).data
    assert [(e["at_ns"], e["action"]) for e in again["events"]] == [
        (e["at_ns"], e["action"]) for e in resolved["events"]
    ]


def test_a_late_viewer_gets_everything_from_the_start() -> None:
    feed = Feed()
    for number in range(2 * MOST_AT_ONCE + 7):
        feed.publish({"kind": "sample", "number": number})
    feed.publish({"kind": "last"})
    assert [message.get("number") for message in everything(feed)][:-1] == list(range(2 * MOST_AT_ONCE + 7))


def test_a_viewer_that_does_not_read_holds_up_nobody() -> None:
    feed = Feed()

    async def watch() -> int:
        slow = feed.follow()
        feed.publish({"kind": "sample"})
        await anext(slow)
        for _ in range(10_000):
            feed.publish({"kind": "sample"})
        feed.publish({"kind": "last"})
        found = 0
        async for messages in feed.follow():
            found += len(json.loads(messages))
            if '"last"' in messages:
                return found
        return found

    assert asyncio.run(asyncio.wait_for(watch(), 20)) == 10_002


def test_threads_publish_while_viewers_come_and_go() -> None:
    feed = Feed()
    told = 2_000

    def publish() -> None:
        for _ in range(told):
            feed.publish({"kind": "sample"})
        feed.publish({"kind": "last"})

    def viewers() -> Callable[[], int]:
        async def follow() -> int:
            found = 0
            async for messages in feed.follow():
                found += len(json.loads(messages))
                if '"last"' in messages:
                    break
            return found

        async def ten() -> list[int]:
            return list(await asyncio.gather(*(follow() for _ in range(10))))

        return lambda: sum(asyncio.run(asyncio.wait_for(ten(), 20)))

    thread = threading.Thread(target=publish)
    thread.start()
    assert viewers()() == 10 * (told + 1)
    thread.join()
    assert feed.viewers == 0
