"""Tests the agreement of back-ends: intervals compared with the library's own tests, verdicts, and
tables.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from documentation import ROOT
from mptcplab.metrics import (
    difference_of_means,
    difference_of_pairs,
    holm,
    paired_ratio_outside,
    ratio_of_means,
    ratio_of_pairs,
    ratio_outside,
    standing_apart,
)
from mptcplab.report.agreement import metrics_grid, notes, shares_grid
from mptcplab.results import Bundle
from mptcplab.results.agreement import adjust, agreement, compared_difference, compared_ratio
from scipy import stats

Json = dict[str, Any]


def bundle(
    backend: str,
    seed: int,
    goodput: float,
    wifi: int = 50,
    experiment: str = "e",
    windows: tuple[float, ...] = (),
    **metrics: float,
) -> Bundle:
    carried = [("wifi", wifi), ("lte", 60 - wifi), ("lte", 40)]
    subflows = [{"id": number, "link": link, "bytes": bytes_} for number, (link, bytes_) in enumerate(carried)]
    record: Json = {
        "status": "done",
        "experiment": experiment,
        "digest": experiment,
        "backend": backend,
        "seed": seed,
        "flows": [{"id": "bulk", "subflows": subflows}],
        "metrics": {"flows.bulk": {"goodput_bps": goodput, "loss_ratio": 0.0, **metrics}},
    }
    for number, cwnd in enumerate(windows):
        record["metrics"][f"flows.bulk.subflows.{number}"] = {"cwnd_bytes": cwnd}
    return Bundle(Path("made"), record)


def runs(backend: str, goodputs: list[float], **options: Any) -> list[Bundle]:
    return [bundle(backend, seed, goodput, **options) for seed, goodput in enumerate(goodputs, 1)]


def only_metric(sim: list[float], kernel: list[float], band: float = 0.05) -> Json:
    found = agreement([*runs("sim", sim), *runs("kernel", kernel)], band)
    assert found is not None
    [entry] = found["metrics"]
    return dict(entry)


def test_the_ends_of_the_ratio_are_where_one_sided_tests_reject() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(10, 0.5, 12), rng.normal(11, 0.8, 9)
    found = ratio_of_means(first, second)
    assert found is not None
    ratio, (low, high) = found
    assert ratio == pytest.approx(first.mean() / second.mean())
    for end, side in ((low, "greater"), (high, "less")):
        test = stats.ttest_ind(first, end * second, equal_var=False, alternative=side)
        assert test.pvalue == pytest.approx(0.05, abs=0.001)


def test_a_ratio_without_spread_is_sharp_and_one_to_nothing_does_not_exist() -> None:
    assert ratio_of_means([2, 2], [4, 4]) == (0.5, (0.5, 0.5))
    assert ratio_of_means([2, 2], [0, 0]) is None
    assert ratio_of_means([2, 2.1], [-1, 1.2]) is None
    assert ratio_of_means([2], [4, 4]) is None
    assert difference_of_means([0.5, 0.5], [0.25, 0.25]) == (0.25, (0.25, 0.25))
    assert difference_of_means([0.5], [0.25, 0.3]) is None


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, "equivalent"), (0.97, "equivalent"), (0.95, "undecided"), (0.8, "different"), (1.2, "different")],
)
def test_the_verdict_is_that_of_the_interval_and_the_band(factor: float, verdict: str) -> None:
    kernel = [10.0, 9.9, 10.1, 10.05, 9.9, 10.05]
    entry = only_metric([factor * goodput for goodput in reversed(kernel)], kernel)
    assert (entry["verdict"], entry["provisional"]) == (verdict, False)
    assert entry["ratio"] == pytest.approx(factor)
    assert entry["self_ci90"][0] < 1 < entry["self_ci90"][1]


def test_a_wider_band_forgives_more() -> None:
    kernel = [10.0, 9.9, 10.1, 10.05, 9.9, 10.05]
    sim = [0.9 * goodput for goodput in kernel]
    assert only_metric(sim, kernel)["verdict"] == "different"
    assert only_metric(sim, kernel, band=0.15)["verdict"] == "equivalent"


def test_few_runs_make_a_provisional_verdict_and_one_makes_none() -> None:
    entry = only_metric([10, 10.1], [10, 10.1])
    assert (entry["provisional"], entry["self_ci90"]) == (True, None)
    alone = only_metric([10], [10, 11])
    assert (alone["verdict"], alone["ci90"], alone["why"]) == ("undecided", None, "needs two done runs on either side")


def test_windows_are_compared_link_by_link() -> None:
    several = [*runs("sim", [9, 9], windows=(3e4, 1e4, 3e4)), *runs("kernel", [9, 9], windows=(3e4, 2e4, 3e4))]
    found = agreement(several, 0.05)
    assert found is not None
    goodput, wifi, lte = found["metrics"]
    assert "link" not in goodput
    assert (wifi["link"], wifi["metric"], wifi["ratio"], wifi["verdict"]) == ("wifi", "cwnd_bytes", 1, "equivalent")
    assert (lte["link"], lte["mean"], lte["ratio"], lte["verdict"]) == ("lte", 2e4, pytest.approx(0.8), "different")
    assert [row[0] for row in metrics_grid(found).rows] == ["bulk", "bulk, wifi", "bulk, lte"]
    schema = json.loads((ROOT / "docs" / "schemas" / "summary.json").read_text(encoding="utf-8"))
    document = {"schema": "mptcplab/summary/1", "runs": [], "aggregates": [], "agreement": found}
    jsonschema.validate(document, schema)


def test_shares_of_links_are_compared_in_points() -> None:
    several = [*runs("sim", [9] * 6, wifi=40), *runs("kernel", [9] * 6, wifi=50), *runs("sim", [9], experiment="other")]
    found = agreement(several, 0.05)
    assert found is not None
    wifi, lte = found["shares"]
    assert (wifi["link"], wifi["mean"], wifi["reference_mean"]) == ("wifi", pytest.approx(0.4), pytest.approx(0.5))
    assert (lte["link"], lte["difference"], lte["verdict"]) == ("lte", pytest.approx(0.1), "different")
    assert next(row[:8] for row in shares_grid(found).rows) == [
        "bulk", "wifi", "sim", "40.0 %", "50.0 %", "-10.0", "-10.0 to -10.0", "0.0 to 0.0",
    ]  # fmt: skip
    assert [row[-1] for row in metrics_grid(found).rows] == ["equivalent"]
    schema = (ROOT / "docs" / "schemas" / "summary.json").read_text(encoding="utf-8")
    document = {"schema": "mptcplab/summary/1", "runs": [], "aggregates": [], "agreement": found}
    jsonschema.validate(document, json.loads(schema))


def test_the_interval_of_pairs_is_students_on_log_ratios() -> None:
    rng = np.random.default_rng(2)
    common = rng.normal(0, 0.3, 8)
    first, second = np.exp(common + rng.normal(0, 0.02, 8)), np.exp(common + rng.normal(0.03, 0.02, 8))
    logs = np.log(first / second)
    low, high = stats.t.interval(0.9, 7, loc=logs.mean(), scale=stats.sem(logs))
    found = ratio_of_pairs(first, second)
    assert found == (
        pytest.approx(np.exp(logs.mean())),
        (pytest.approx(np.exp(low)), pytest.approx(np.exp(high))),
    )
    assert ratio_of_pairs([1, 0], [1, 1]) is None
    assert ratio_of_pairs([1], [1]) is None
    less = difference_of_pairs(first, second)
    assert less is not None
    assert less[1] == pytest.approx(
        stats.t.interval(0.9, 7, loc=(first - second).mean(), scale=stats.sem(first - second))
    )


def test_probabilities_of_a_difference_are_those_of_the_librarys_tests() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(11.5, 0.5, 8), rng.normal(10, 0.8, 8)
    expected = stats.ttest_ind(first, 1.05 * second, equal_var=False, alternative="greater").pvalue
    assert ratio_outside(first, second, (0.95, 1.05)) == pytest.approx(expected)
    expected = stats.ttest_1samp(np.log(first / second), np.log(1.05), alternative="greater").pvalue
    assert paired_ratio_outside(first, second, (0.95, 1.05)) == pytest.approx(expected)
    assert paired_ratio_outside(first, first, (0.95, 1.05)) == 1
    assert paired_ratio_outside([4, 4], [2, 2], (0.95, 1.05)) == 0


def test_many_probabilities_are_adjusted_as_holm_does() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_what_is_different_only_by_itself_is_undecided_among_many() -> None:
    kernel = dict(enumerate([10.0, 9.9, 10.1, 10.05, 9.9, 10.05]))
    barely = {seed: 1.055 * value for seed, value in zip(kernel, reversed(kernel.values()), strict=True)}
    alone, among = compared_ratio(barely, kernel, 0.05), compared_ratio(barely, kernel, 0.05)
    alike = [compared_ratio(kernel, kernel, 0.05) for _ in range(199)]
    assert adjust([alone]) == 1
    assert alone["verdict"] == "different"
    assert adjust([among, *alike]) == 200
    assert (among["verdict"], among["why"]) == ("undecided", "different by itself, not as one of 200 comparisons")


def test_pairs_are_made_where_one_side_has_all_seeds_of_the_other() -> None:
    losses = [0.5, 1.0, 2.0, 0.7, 1.4, 0.9]
    kernel = dict(enumerate(losses, 1))
    sim = {seed: 1.01 * value for seed, value in kernel.items()} | dict.fromkeys(range(7, 31), 9.0)
    paired = compared_ratio(sim, kernel, 0.05)
    assert (paired["method"], paired["n"], paired["verdict"]) == ("pairs", 6, "equivalent")
    elsewhere = compared_ratio({seed + 3: value for seed, value in kernel.items()}, kernel, 0.05)
    assert (elsewhere["method"], elsewhere["verdict"]) == ("means", "undecided")
    assert compared_ratio({1: 0.0, 2: 1.0}, {1: 1.0, 2: 1.0}, 0.05)["method"] == "means"
    assert compared_difference({1: 0.2, 2: 0.4}, {1: 0.1, 2: 0.3}, 0.05)["difference"] == pytest.approx(0.1)


def test_a_collapse_is_named_and_nothing_is_equivalent_with_it() -> None:
    kernel = [10.0, 9.9, 10.1, 10.05, 9.9, 10.05, 3.0]
    found = agreement([*runs("sim", [10.0] * 6 + [3.1]), *runs("kernel", kernel)], 0.05)
    assert found is not None
    assert found["metrics"][0]["apart"] == []
    found = agreement([*runs("sim", [10.0] * 7), *runs("kernel", kernel)], 0.5)
    assert found is not None
    [entry] = found["metrics"]
    assert [(one["side"], one["seed"]) for one in entry["apart"]] == [("pair", 7)]
    assert entry["verdict"] == "undecided"
    assert "In 1 of 3 rows, a run is an outlier" in " ".join(notes(found))
    assert metrics_grid(found).rows[0][-1] == "undecided; apart: seed 7"
    assert "10.5 bit/s" not in metrics_grid(found).rows[0][4]
    assert metrics_grid(found).rows[0][6] == "9 bit/s (3 to 10.1 bit/s)"


def test_of_normal_runs_hardly_one_stands_apart() -> None:
    rng = np.random.default_rng(4)
    for n in (5, 6, 10, 20):
        flagged = sum(bool(standing_apart(rng.normal(10, 1, n), 0)) for _ in range(400))
        assert flagged / 400 < 0.14, n
    assert standing_apart([10, 10.1, 9.9, 10, 3], 0.5) == [4]
    assert standing_apart([10, 10, 10, 10, 10.2], 0.5) == []


@pytest.mark.parametrize(
    ("common", "own", "n"), [(0.1, 0.02, 5), (0.1, 0.02, 10), (0, 0.02, 6), (0, 0.1, 10), (0, 0.5, 10)]
)
def test_the_interval_of_pairs_holds_the_truth_as_often_as_it_says(common: float, own: float, n: int) -> None:
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(400):
        shared = rng.normal(0, common, n)
        first, second = (np.exp(shared + rng.normal(0, own, n)) for _ in range(2))
        found = ratio_of_pairs(first, second)
        assert found is not None
        held += found[1][0] <= 1 <= found[1][1]
    # Three standard errors of 400 trials about 0.9.
    assert 0.855 < held / 400 < 0.945


def test_equal_sides_are_called_equivalent_and_others_different() -> None:
    rng = np.random.default_rng(7)
    verdicts = {truth: [0, 0] for truth in (1.0, 1.05, 1.1)}
    for truth, counts in verdicts.items():
        for _ in range(200):
            shared = rng.normal(0, 0.1, 10)
            first, second = (dict(enumerate(np.exp(shared + rng.normal(0, 0.02, 10)).tolist())) for _ in range(2))
            verdict = compared_ratio({seed: truth * value for seed, value in first.items()}, second, 0.05)["verdict"]
            counts[0] += verdict == "equivalent"
            counts[1] += verdict == "different"
    assert verdicts[1.0][0] > 180
    assert verdicts[1.0][1] == 0
    assert max(verdicts[1.05]) < 22
    assert verdicts[1.1] == [0, 200]


def test_without_a_second_back_end_there_is_nothing_to_agree() -> None:
    assert agreement(runs("sim", [1, 2]), 0.05) is None
    assert agreement([*runs("sim", [1, 2]), *runs("kernel", [1, 2], experiment="other")], 0.05) is None
