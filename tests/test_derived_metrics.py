"""Tests derived metrics with a run whose true values are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_run import END_S, counters, direction, event, made_run, resolved, result, samples_table, total, units_table
from mptcplab import metrics
from mptcplab.errors import SpecError
from mptcplab.results import Absent, Evaluation, RunData, Samples, Units, check, recoveries


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return Evaluation(made_run())


def number(evaluation: Evaluation, path: str, metric: str) -> float:
    value = evaluation.value(path, metric)
    assert not isinstance(value, Absent), value.why
    return value


@pytest.mark.parametrize(
    ("path", "metric", "expected"),
    [
        ("flows.bulk", "goodput_bps", (7.2 * 10 + 3.6 * 10.1 + 7.2 * 9.5) * 1e6 / END_S),
        ("flows.bulk", "aggregation_benefit", (5.892 - 3.7) / 3.7),
        ("flows.voice", "ceiling_ratio", 1 / 3.7),
        ("flows.voice", "fair_share_ratio", 1 / (3.7 / 2)),
        ("flows.voice", "delay_p50_s", 0.022),
        ("flows.voice", "reorder_extent", 1),
        ("flows.voice", "n_reordering", 1),
        ("events.cut", "recovery_s", 0.4),
        ("events.cut", "full_rate_s", 10.3),
        ("events.cut", "shortfall_s", 1),
        ("flows.bulk", "recovery_s", 0.4),
        ("flows.bulk", "full_rate_s", 10.3),
        ("events.cut", "outage_actual_s", 10),
        ("events.cut.flows.bulk", "gap_s", 0.5),
        ("events.cut.flows.bulk", "mean_during_bps", 3.456e6),
        ("events.cut.flows.bulk", "min_during_bps", 2.16e6),
        ("events.cut", "unaffected_fraction", 0.48),
        ("events.cut", "full_recovery", 1),
        ("events.back", "recovery_s", 0.3),
        ("links.wifi.forward", "dropped_packets", 46),
        ("links.wifi.forward", "utilisation", 3.6 * 1.04 * 19.6 / (4 * END_S)),
        ("run", "jain_index", 6.892**2 / (2 * (5.892**2 + 1))),
    ],
)
def test_value(evaluation: Evaluation, path: str, metric: str, expected: float) -> None:
    assert number(evaluation, path, metric) == pytest.approx(expected, rel=1e-6)


def test_outage_is_measured_to_a_probe_interval(evaluation: Evaluation) -> None:
    assert number(evaluation, "events.cut", "outage_measured_s") == pytest.approx(10, abs=0.1)


def test_rules_and_reactions_of_switches_give_the_outage_by_barriers_and_the_detection() -> None:
    run = made_run()
    actions = {e["id"]: e["action"] for e in run.resolved["events"]}
    at_ns = {e["id"]: e["at_ns"] for e in run.resolved["events"]}
    ends = [("cut", True, 200_000, 600_000), ("back", False, 100_000, 200_000)]
    rules = [
        {"event": e, "link": "wifi", "added": a, "sent_ns": at_ns[e] + s, "answered_ns": at_ns[e] + t}
        for e, a, s, t in ends
    ]
    seen_ns = at_ns["cut"] + 4_000_000
    cause = actions["cut"].get("link") or "cut"
    reaction = {"cause": cause, "detected_ns": seen_ns, "installed_ns": seen_ns + 2_000_000, "flows": []}
    early = reaction | {"detected_ns": 1, "installed_ns": 2}
    control = {"rules": rules, "controller": {"reactions": [early, reaction]}}
    evaluation = Evaluation(replace(run, backend="kernel", result=run.result | {"control": control}))
    assert number(evaluation, "events.cut", "outage_barrier_s") == pytest.approx(10 - 0.00025)
    assert number(evaluation, "events.cut", "outage_barrier_error_s") == pytest.approx(0.00025)
    assert number(evaluation, "events.cut", "detection_s") == pytest.approx(0.004)
    assert number(evaluation, "events.cut", "route_install_s") == pytest.approx(0.002)
    without = Evaluation(replace(run, backend="kernel", result=run.result | {"control": None}))
    assert "no rule" in str(without.value("events.cut", "outage_barrier_s"))


def test_the_one_lost_datagram_is_the_loss_ratio(evaluation: Evaluation) -> None:
    assert number(evaluation, "flows.voice", "loss_ratio") == pytest.approx(1 / 2990, rel=1e-3)


@pytest.mark.parametrize(
    ("path", "metric", "why"),
    [
        ("flows.bulk", "fct_s", "not finite"),
        ("flows.bulk", "loss_ratio", "reliable"),
        ("flows.bulk", "jitter_s2", "fewer than two"),
        ("flows.bulk", "reordering_ratio", "a stream is delivered in order"),
        ("flows.bulk", "reorder_extent", "a stream is delivered in order"),
        ("flows.bulk", "n_reordering", "a stream is delivered in order"),
        ("flows.bulk", "hol_delay_p99_s", "mptcplab pcap"),
        ("flows.voice", "aggregation_benefit", "one path"),
        ("flows.voice", "subflows_alive", "no connection"),
        ("flows.bulk", "throughput_bps", "series"),
        ("events.back", "outage_actual_s", "takes nothing down"),
        ("probes.client.wwan0-server.eth1", "rtt_p50_s", "answered"),
        ("interfaces.client.wwan0", "sent_packets", "no samples"),
    ],
)
def test_what_does_not_exist_says_why(evaluation: Evaluation, path: str, metric: str, why: str) -> None:
    value = evaluation.value(path, metric)
    assert isinstance(value, Absent)
    assert why in value.why


def test_recoveries_are_from_failure_and_repair_to_both_targets() -> None:
    found = {(r.event, r.since, r.of): r.seconds for r in recoveries(made_run(), "bulk")}
    assert found == {
        ("cut", "failure", "before"): pytest.approx(10.3),
        ("cut", "failure", "remaining_capacity"): pytest.approx(0.4),
        ("cut", "repair", "before"): pytest.approx(0.3),
        ("cut", "repair", "remaining_capacity"): pytest.approx(0.3),
    }


def test_a_burst_before_a_failure_does_not_raise_the_target_above_the_ceiling() -> None:
    released = [
        (entity, metric, t, values + np.where(t > 9.5, 2e6, 0))
        if metric == "bytes_in_order"
        else (entity, metric, t, values)
        for entity, metric, t, values in counters()
        if entity == "flows.bulk"
    ]
    experiment = resolved()
    experiment["flows"][0]["ceiling_bps"] = 7_200_000
    burst = RunData(experiment, result(experiment), Samples(samples_table(released)), Units(units_table()))
    evaluation = Evaluation(burst)
    before = number(evaluation, "events.cut.flows.bulk", "mean_before_bps")
    assert before > experiment["flows"][0]["ceiling_bps"]
    assert number(evaluation, "events.cut.flows.bulk", "full_recovery") == 1
    assert number(evaluation, "events.cut.flows.bulk", "full_rate_s") == pytest.approx(10.4, abs=0.2)


def test_metrics_that_were_renamed_say_how_they_are_called_now() -> None:
    experiment = resolved(expect=["events.cut.recovery_before_s < 20"])
    with pytest.raises(SpecError, match=r"cut\.yaml:21.*recovery_before_s is called full_rate_s now"):
        check(experiment["expect"], experiment)


def test_links_without_a_rate_have_recoveries() -> None:
    experiment = resolved()
    for flow in experiment["flows"]:
        flow["ceiling_bps"] = None
    with np.errstate(invalid="raise"):
        found = recoveries(made_run(experiment), "bulk")
    assert {(r.event, r.since): r.seconds for r in found if r.of == "before"}["cut", "failure"] == pytest.approx(10.3)


def test_a_flow_that_loses_its_only_path_has_no_remaining_capacity() -> None:
    cut = event("cut", 10, {"kind": "link_down", "link": "lte", "by": "cut"})
    run = made_run(resolved(events=[cut]))
    found = {(r.event, r.of): r.seconds for r in recoveries(run, "voice")}
    assert found["cut", "remaining_capacity"] == Absent("no path of the flow was left")


@pytest.mark.parametrize(("rate_bps", "since"), [(2_000_000, "failure"), (8_000_000, "repair")])
def test_a_change_of_rate_is_a_failure_or_a_repair_by_its_capacity(rate_bps: int, since: str) -> None:
    changed = direction(rate_bps)
    action = {"kind": "set_link", "link": "wifi", "forward": changed, "backward": changed}
    found = recoveries(made_run(resolved(events=[event("set", 10, action)])), "bulk")
    assert {r.since for r in found} == {since}


def test_a_group_is_the_sum_of_its_flows() -> None:
    experiment = resolved()
    for flow in experiment["flows"]:
        flow["group"] = "all"
    grouped = Evaluation(made_run(experiment))
    assert number(grouped, "flows.all", "goodput_bps") == number(grouped, "run", "goodput_bps")
    assert number(grouped, "flows.all", "jain_index") == number(grouped, "run", "jain_index")
    assert isinstance(grouped.value("flows.all", "jitter_s2"), Absent)


def test_a_compound_event_covers_its_members() -> None:
    experiment = resolved()
    for member in experiment["events"]:
        member["parent"] = "blink"
    blink = Evaluation(made_run(experiment))
    assert number(blink, "events.blink", "asked_s") == 10
    assert number(blink, "events.blink", "outage_actual_s") == 10
    assert number(blink, "events.blink", "recovery_s") == pytest.approx(0.4)


def test_a_handover_is_split_into_waiting_joining_and_the_first_data() -> None:
    def at(name: str, at_s: float, kind: str, interface: str) -> dict[str, Any]:
        return event(name, at_s, {"kind": kind, "interface": interface}, "handover")

    experiment = resolved(
        events=[at("off", 10, "interface_down", "client.wlan0"), at("on", 13.5, "address_add", "client.wwan0")]
    )
    told = result(experiment)
    subflow = {"id": 1, "local": "10.1.2.1:4000", "remote": "10.1.2.2:5001", "interface": "client.wwan0", "bytes": 1}
    told["flows"][0]["subflows"] = [{**subflow, "opened_ns": 13_900_000_000}]
    run = RunData(experiment, told, Samples(samples_table(list(counters()))), Units(units_table()))
    found = Evaluation(run)
    assert number(found, "events.handover.flows.bulk", "handover_usable_s") == pytest.approx(3.5)
    assert number(found, "events.handover.flows.bulk", "handover_join_s") == pytest.approx(0.4)
    later = run.deliveries_s("bulk")
    expected = later[later > 13.9][0] - 13.9
    assert number(found, "events.handover.flows.bulk", "handover_first_data_s") == pytest.approx(expected)
    told["flows"][0]["subflows"] = []
    run = RunData(experiment, told, Samples(samples_table(list(counters()))), Units(units_table()))
    assert isinstance(Evaluation(run).value("events.handover.flows.bulk", "handover_join_s"), Absent)


def test_a_finite_flow_has_a_completion_time() -> None:
    experiment = resolved()
    experiment["flows"][0]["app"]["bytes"] = 22_095_000
    ended = result(experiment)
    ended["flows"][0]["end_ns"] = 25_000_000_000
    run = RunData(experiment, ended, Samples(samples_table(list(counters()))), Units(units_table()))
    assert number(Evaluation(run), "flows.bulk", "fct_s") == 25
    assert number(Evaluation(run), "run", "flows_completed") == 1


@given(st.lists(st.floats(0.001, 1e9), min_size=1, max_size=40))
def test_jain_index_lies_between_one_nth_and_one(shares: list[float]) -> None:
    index = metrics.jain_index(shares)
    assert index is not None
    assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9


@pytest.mark.parametrize("gap_ns", [8_000_000, 18_666_666.67, 1_234_567.5])
def test_what_comes_at_a_constant_rate_has_no_jitter(gap_ns: float) -> None:
    arrivals_s = np.rint(np.arange(2000) * gap_ns) / 1e9
    delays_s = (arrivals_s + 0.0301) - arrivals_s
    assert metrics.interarrival_variance(arrivals_s) == 0
    assert metrics.delay_variance(delays_s) == 0
    assert metrics.rfc3550_jitter(delays_s) == 0
    assert metrics.rfc3550_jitter_constant_gap(arrivals_s) == 0


def test_jitter_of_microseconds_is_no_rounding(evaluation: Evaluation) -> None:
    arrivals_s = np.arange(2000) * 0.008 + np.where(np.arange(2000) % 2, 1e-6, 0)
    assert metrics.interarrival_variance(arrivals_s) == pytest.approx(1e-12, rel=1e-3)
    assert number(evaluation, "flows.voice", "jitter_s") > 0


@given(st.permutations(range(12)))
def test_reordering_agrees_with_its_definition(arrivals: list[int]) -> None:
    late = [i for i, s in enumerate(arrivals) if any(earlier > s for earlier in arrivals[:i])]
    found = metrics.reordered(arrivals)
    assert [r.index for r in found] == late
    for r in found:
        assert r.extent == r.index - min(j for j in range(r.index) if arrivals[j] > r.sequence)
    assert sum(metrics.reorder_density(arrivals).values()) == pytest.approx(1)


def test_binned_rate_covers_only_whole_bins() -> None:
    starts, rates = metrics.binned_rate([0, 10], [0, 1000], 0, 3.5, 1)
    assert starts.tolist() == [0, 1, 2]
    assert rates == pytest.approx([800, 800, 800])


def test_silence_until_the_end_counts() -> None:
    assert metrics.longest_silence(np.array([0.0, 1.0, 9.0]), 1.5, 1) == 8


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30))
def test_the_median_is_that_of_numpy(values: list[float]) -> None:
    assert metrics.median(values) == np.median(values)


def test_samples_are_shared_and_cannot_be_changed() -> None:
    samples = made_run().samples
    kept = samples.kept(lambda entity, metric: entity.startswith("flows.") and metric == "bytes_in_order")
    flow = kept.entities()[0]
    assert kept.metrics(flow) == ["bytes_in_order"]
    assert len(kept.entities()) < len(samples.entities())
    series = kept.series(flow, "bytes_in_order")
    assert series is samples.series(flow, "bytes_in_order")
    assert series is not None
    with pytest.raises(ValueError, match="read-only"):
        series.values[0] = 1.0


@pytest.mark.parametrize(
    ("n", "low", "high"), [(5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (12, 3, 10), (20, 6, 15)]
)
def test_median_interval_uses_the_published_ranks(n: int, low: int, high: int) -> None:
    assert metrics.median_interval(range(1, n + 1)) == ((n + 1) / 2, low, high)


def test_crossover_interpolates_between_neighbours() -> None:
    assert metrics.crossover([1, 2, 4], [0, 0, 4], [1, 1, 1]) == (2.5, (2, 4))
    assert metrics.crossover([1, 2], [0, 0], [1, 1]) is None


def test_an_outage_that_a_full_queue_hides_at_first_is_still_one() -> None:
    silent = (12.6, 14.0)
    cut = event("cut", 9.5, {"kind": "interface_down", "interface": "client.wlan0"})
    experiment = resolved(events=[cut])
    t = np.round(np.arange(0, END_S + 0.05, 0.1), 6)
    rate = np.where((t[:-1] >= silent[0] - 1e-6) & (t[:-1] < silent[1] - 1e-6), 0.0, 3.7e6)
    delivered = [("flows.bulk", "bytes_in_order", t, total(rate))]
    run = RunData(experiment, result(experiment), Samples(samples_table(delivered)), Units(units_table()))
    found = {r.of: r.seconds for r in recoveries(run, "bulk")}
    assert found["remaining_capacity"] == pytest.approx(silent[1] - 9.5 - 0.1, abs=0.11)


def test_the_target_follows_what_the_network_can_carry() -> None:
    wifi = event("wifi", 10, {"kind": "interface_down", "interface": "client.wlan0"})
    slower = direction(1_000_000)
    lte = event("lte", 10.2, {"kind": "set_link", "link": "lte", "forward": slower, "backward": slower})
    experiment = resolved(events=[wifi, lte])
    t = np.round(np.arange(0, END_S + 0.05, 0.1), 6)
    delivered = [("flows.bulk", "bytes_in_order", t, total(np.where(t[:-1] < 10.2 - 1e-6, 7.2e6, 0.9e6)))]
    run = RunData(experiment, result(experiment), Samples(samples_table(delivered)), Units(units_table()))
    assert number(Evaluation(run), "events.wifi", "recovery_s") == 0
    assert number(Evaluation(run), "flows.bulk", "recovery_s") == 0
    assert isinstance(Evaluation(run).value("events.wifi", "full_rate_s"), Absent)


def test_what_comes_back_soon_does_not_raise_the_target_of_the_failure() -> None:
    cut = event("cut", 10, {"kind": "interface_down", "interface": "client.wlan0"})
    back = event("back", 13, {"kind": "interface_up", "interface": "client.wlan0"})
    experiment = resolved(events=[cut, back])
    t = np.round(np.arange(0, END_S + 0.05, 0.1), 6)
    rate = np.where(t[:-1] < 10 - 1e-6, 7.2e6, np.where((t[:-1] >= 13 - 1e-6) & (t[:-1] < 20), 5e6, 3.7e6))
    delivered = [("flows.bulk", "bytes_in_order", t, total(rate))]
    run = RunData(experiment, result(experiment), Samples(samples_table(delivered)), Units(units_table()))
    assert number(Evaluation(run), "events.cut", "recovery_s") == 0
    assert isinstance(Evaluation(run).value("events.back", "recovery_s"), Absent)


def test_a_run_that_ends_too_early_to_show_recovery_is_not_called_unrecovered() -> None:
    events = [event(f"cut{at}", at, {"kind": "interface_down", "interface": "client.wlan0"}) for at in (10, END_S - 2)]
    experiment = resolved(events=events)
    t = np.round(np.arange(0, END_S + 0.05, 0.1), 6)
    delivered = [("flows.bulk", "bytes_in_order", t, total(np.where(t[:-1] < 10 - 1e-6, 7.2e6, 0.1e6)))]
    run = RunData(experiment, result(experiment), Samples(samples_table(delivered)), Units(units_table()))
    early, late = (Evaluation(run).value(f"events.{one['id']}", "full_rate_s") for one in events)
    assert isinstance(early, Absent)
    assert early.why.startswith("the flow did not hold")
    assert late == Absent("the flow ran for 2 s after the event; recovery takes at least 3 s to see")


def test_flows_that_an_event_does_not_concern_do_not_spoil_its_recovery() -> None:
    slower = direction(2_000_000)
    change = event("slower", 10, {"kind": "set_link", "link": "wifi", "forward": slower, "backward": slower})
    changed = Evaluation(made_run(resolved(events=[change])))
    assert number(changed, "events.slower", "recovery_s") == pytest.approx(9.9)
    assert isinstance(changed.value("events.slower.flows.voice", "recovery_s"), Absent)
    assert number(changed, "events.slower.flows.voice", "gap_s") < 0.1


def test_a_sample_that_is_no_number_gives_no_value() -> None:
    t = np.array([0.0, 1.0])
    broken = samples_table([*counters(), ("interfaces.client.wwan0", "up", t, np.array([1.0, np.nan]))])
    run = RunData(resolved(), result(resolved()), Samples(broken), Units(units_table()))
    assert Evaluation(run).value("interfaces.client.wwan0", "up") == Absent("it is not a finite number")


def test_units_are_late_against_the_start_up_delay_of_the_player() -> None:
    lateness = metrics.lateness([0.5, 1.0, 4.0, 4.0], 1.0)
    assert lateness.tolist() == [0.5, 0.0, 2.0, 1.0]
    assert [metrics.late_ratio(lateness, startup_s) for startup_s in (0.0, 1.0, 2.0)] == [0.75, 0.25, 0.0]
    assert metrics.late_ratio([], 1.0) is None
