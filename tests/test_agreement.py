"""Whether back-ends agree: intervals against the library's own tests, verdicts, tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from documentation import ROOT
from mptcplab.metrics import difference_of_means, ratio_of_means
from mptcplab.report import metrics_grid, shares_grid
from mptcplab.results import Bundle, agreement
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
    entry = only_metric([factor * goodput for goodput in kernel], kernel)
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


def test_without_a_second_back_end_there_is_nothing_to_agree() -> None:
    assert agreement(runs("sim", [1, 2]), 0.05) is None
    assert agreement([*runs("sim", [1, 2]), *runs("kernel", [1, 2], experiment="other")], 0.05) is None
