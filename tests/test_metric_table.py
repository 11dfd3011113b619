"""Tests that the metric table is complete, consistent with the evaluation, and has valid names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_run import made_run
from mptcplab.results import METRICS, Absent, Evaluation, metric_reference, metrics_of, named_in_papers

PAPER_NAMES = json.loads((Path(__file__).parent / "data" / "metric_names_in_papers.json").read_text())


@pytest.mark.parametrize("name", PAPER_NAMES)
def test_every_metric_that_the_papers_name_is_in_the_table(name: str) -> None:
    assert named_in_papers(name) is not None


def test_a_name_that_no_paper_uses_is_unknown() -> None:
    assert named_in_papers("speed") is None


def test_every_metric_of_every_entity_evaluates_to_a_number_or_a_reason() -> None:
    evaluation = Evaluation(made_run())
    for path, entity in evaluation.entities.items():
        for metric in metrics_of(entity.kind):
            value = evaluation.value(path, metric.name)
            assert isinstance(value, Absent | float | int), (path, metric.name)
            if "sim" in metric.awaits:
                assert isinstance(value, Absent)
                assert metric.awaits["sim"] in value.why


def test_the_reference_has_a_row_for_each_metric() -> None:
    rows = [line for line in metric_reference().splitlines() if line.startswith("| `")]
    assert len(rows) == len(METRICS)
    assert all(row.count(" | ") == 4 for row in rows)
