"""Tests claims of a paper: the table, verdicts from samples, and the command
that reproduces them.
"""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from command_line import mptcplab
from jsonschema import Draft202012Validator
from mptcplab.algorithms import CC
from mptcplab.catalogue import catalogue, find
from mptcplab.cli import application
from mptcplab.errors import MptcplabError, SpecError, UsageError
from mptcplab.metrics import rank_correlation
from mptcplab.report.reproduction import agreement_sentences, index_page, reproduction_page, tables
from mptcplab.reproduction import (
    Arm,
    Cell,
    Observation,
    Outcome,
    Study,
    agreements,
    apart,
    document,
    load,
    papers,
    parts,
    rank,
    study,
    what,
    why,
)
from mptcplab.reproduction.claims import read
from mptcplab.reproduction.notation import Measure, Range
from mptcplab.reproduction.study import uses
from mptcplab.reproduction.verdict import judge
from mptcplab.results import RunData, Samples, Table, Units
from scipy.stats import spearmanr

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "summary.json").read_text(encoding="utf-8"))
PAPER = "alenazi2019"
ALENAZI = load(PAPER)
THEN = Arm("then", "sim")
SEEDS = range(1, 9)
#: Mbit/s before, during and after the failures of an experiment.
Rates = tuple[float, float, float]
World = Callable[[str, int], Rates]


def as_published(name: str, seed: int) -> Rates:
    """Returns what the paper says in section 4.4, with small differences between seeds."""
    figure, n = name.split("/")[0], int(name.partition("/n")[2][0])
    poor = figure in ("fig9", "fig11") and n > 1
    scatter = 0.01 * (seed % 3)
    return 7.2, 1.0 + scatter, (6.6 - 0.5 * n if poor else 7.2) + scatter


def the_opposite(name: str, seed: int) -> Rates:
    """Returns full recovery after failures at the client or both hosts, and none after failures at
    the server.
    """
    before, during, _ = as_published(name, seed)
    return before, during, 3.0 if name.startswith("fig10") else before


def observed(planned: Study, world: World) -> Outcome:
    """Returns the outcome of a study whose runs have the rates of ``world``."""
    observations = {
        key: [_observation(cell.experiment, world(cell.name, seed), seed) for seed in SEEDS]
        for key, cell in planned.cells.items()
    }
    return Outcome.of(planned, observations)


def _observation(experiment: dict[str, Any], rates: Rates, seed: int) -> Observation:
    before, during, after = (rate * 1e6 / 8 for rate in rates)
    seconds = np.arange(61)
    carried = np.interp(seconds, [0, 10, 40, 60], np.cumsum([0, 10 * before, 30 * during, 20 * after]))
    samples = _samples({("flows.bulk", "bytes_in_order"): carried})
    none = np.zeros(0, dtype=np.int64)
    units = Table(
        {"flow": (none, []), **dict.fromkeys(("unit", "bytes", "sent_ns", "received_ns", "delivered_ns"), none)}
    )
    result = {"end_ns": 60_000_000_000, "events": [], "flows": [{"id": "bulk", "start_ns": 0, "end_ns": None}]}
    return Observation(seed, "made", {}, {}, RunData(experiment, result, samples, Units(units)))


def kinds(outcome: Outcome) -> dict[str, str]:
    return {one.claim.id: one.kind for one in outcome.verdicts if one.arm == THEN}


# ---- The table -----------------------------------------------------------------------------------


@pytest.mark.parametrize("paper", papers())
def test_every_comparison_means_experiments_of_its_paper(paper: str) -> None:
    planned = study(load(paper), ["sim"], quick=True)
    for claim in planned.claims:
        for comparison in claim.compare:
            assert planned.experiments(comparison.above.on or "", THEN, ""), f"{claim.id}: {comparison.of}"


def test_published_values_are_in_the_table_and_nowhere_else() -> None:
    assert not any(member.experiment.published for member in catalogue(PAPER))
    code = Path(study.__code__.co_filename).parent
    assert not [file for file in code.glob("*.py") if "alenazi" in file.read_text() or "CL-" in file.read_text()]
    assert all(any(one.published for one in claim.compare) for claim in ALENAZI.claims if claim.untested is None)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('holds = ">= x"', "invalid range"),
        ('of = "mean_bps 9..3 @ a/b"', "the window is empty"),
        ("says = 3", "valid string"),
        ("", "says what its tolerance follows from"),
    ],
)
def test_a_wrong_table_is_told_with_its_place(tmp_path: Path, line: str, told: str) -> None:
    fields = {"says": 'says = "it is"', "of": 'of = "mean_bps @ a/b"', "holds": 'holds = ">= 1"'}
    fields |= {"tolerance": 'tolerance = "a count"'} | {(line.split() or ["tolerance"])[0]: line}
    table = tmp_path / "claims.toml"
    table.write_text(
        'id = "p"\ntitle = "t"\nsays = "s"\n[[claim]]\nid = "C1"\nfigure = "f"\nsource = "s"\n'
        f"{fields['says']}\n{fields['tolerance']}\ncompare = [{{{fields['of']}, {fields['holds']}}}]\n"
    )
    with pytest.raises(SpecError, match=f"claims.toml: claim.0.*{told}"):
        read(table)


# ---- Verdicts from samples -----------------------------------------------------------------------


def test_an_interval_decides_and_not_the_median() -> None:
    allowed = Range.parse(">= 0.95")
    assert judge([0.96] * 6, allowed).kind == "reproduced"
    assert judge([0.94] * 6, allowed).kind == "refuted"
    assert judge([0.94, *[0.99] * 5], allowed).kind == "undecided"
    assert judge([0.99], allowed).kind == "undecided"
    assert judge([0.99] * 3, allowed).provisional
    assert not judge([0.99] * 6, allowed).provisional


def test_a_share_of_runs_is_judged_by_its_interval() -> None:
    few, most = Range.parse("< 0.5"), Range.parse("> 0.5")
    assert judge([0.0] * 6, few, share=True).kind == "reproduced"
    assert judge([1.0] * 6, few, share=True).kind == "refuted"
    assert judge([1.0] * 6, most, share=True).kind == "reproduced"
    half = judge([0.0, 1.0] * 5, few, share=True)
    assert half.kind == "undecided"
    assert half.spread is not None
    # Wilson's interval of 5 of 10.
    assert (half.spread.low, half.spread.high) == pytest.approx((0.2366, 0.7634), abs=1e-4)


SONKOLY = load("sonkoly2014")


def all_to_all(planned: Study, seconds: Callable[[str, int], float]) -> Outcome:
    """Returns the outcome of a study of flows all-to-all with the times of ``seconds`` by transport
    and flow.
    """
    observations = {}
    for key, cell in planned.cells.items():
        flows = [flow["id"] for flow in cell.experiment["flows"] if flow["id"].startswith("bulk.")]
        transport = cell.name.rpartition("/")[2]
        times = {f"flows.{flow}": {"fct_s": seconds(transport, place)} for place, flow in enumerate(flows)}
        observations[key] = [
            replace(_observation(cell.experiment, (1.0, 1.0, 1.0), seed), metrics=times) for seed in SEEDS
        ]
    return Outcome.of(planned, observations)


def test_paired_flows_are_divided_one_by_one() -> None:
    planned = study(SONKOLY, ["sim"], only="CL-C4", quick=True)
    longer = all_to_all(planned, lambda transport, place: (place * 1.2 if transport == "mptcp" else place) + 0.5)
    assert kinds(longer)["CL-C4"] == "reproduced"
    shorter = all_to_all(planned, lambda transport, place: (place * 0.8 if transport == "mptcp" else place) + 0.5)
    assert kinds(shorter)["CL-C4"] == "refuted"
    (verdict,) = [one for one in longer.verdicts if one.arm == THEN]
    assert "over that of the same flow" in what(verdict.compared[0])


def test_bars_of_a_figure_need_a_quantity(tmp_path: Path) -> None:
    table = tmp_path / "claims.toml"
    table.write_text(
        'id = "p"\ntitle = "t"\nsays = "s"\nclaim = []\n'
        '[[figure]]\nid = "f"\ntitle = "t"\ndraw = ["bars"]\non = "f/*"\nlabel = "name"\n'
    )
    with pytest.raises(SpecError, match="'of' belongs to 'bars'"):
        read(table)


@pytest.mark.parametrize(
    ("text", "within", "beside"),
    [
        (">= 2", [2, 9], [1.9]),
        ("> 2", [2.1], [2]),
        ("< 2", [-5], [2]),
        ("== 9", [9], [8.9, 9.1]),
        ("1..3", [1, 3], [0, 4]),
    ],
)
def test_ranges_hold_their_ends_unless_open(text: str, within: list[float], beside: list[float]) -> None:
    found = Range.parse(text)
    assert all(found.holds_all(value, value) for value in within)
    assert not any(found.holds_all(value, value) for value in beside)
    assert all(any(out.holds_all(value, value) for out in found.outside) for value in beside)


def test_the_notation_of_measures() -> None:
    assert Measure.parse("mean_bps 20..50.5 @ fig9/n1") == Measure("mean_bps", (20, 50.5), "fig9/n1")
    assert Measure.parse("parameters.n") == Measure("parameters.n", None, None)


@pytest.mark.parametrize("seed", range(5))
def test_rank_correlation_is_spearmans(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 5, 9), rng.normal(size=9)
    assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None


#: Claims about the hosts where interfaces fail, and about the recovery.
SECTION_4_4 = ("CL-A14", "CL-A15", "CL-A17", "CL-A20", "CL-A21")


@pytest.mark.parametrize("claim", SECTION_4_4)
def test_altered_samples_give_the_opposite_verdict(claim: str) -> None:
    planned = study(ALENAZI, ["sim"], only=claim, quick=True)
    assert kinds(observed(planned, as_published))[claim] == "reproduced"
    altered = observed(planned, the_opposite)
    assert kinds(altered)[claim] == "refuted"
    (verdict,) = [one for one in altered.verdicts if one.arm == THEN and one.claim.id == claim]
    assert "published" in why(altered, verdict)


def test_agreement_counts_the_claims_that_two_back_ends_decide_and_names_each_other_one() -> None:
    planned = study(ALENAZI, ["sim"], quick=True)
    kernel = Arm("then", "kernel")
    claims = [one for one in planned.claims if one.id in SECTION_4_4]
    of_sim = {
        key: cell
        for key, cell in planned.cells.items()
        if cell.arm == THEN and any(uses(claim, cell.name) for claim in claims)
    }
    of_kernel = {(kernel, *key[1:]): replace(cell, arm=kernel) for key, cell in of_sim.items()}
    planned = replace(planned, arms=[THEN, kernel], cells=of_sim | of_kernel, claims=claims)
    published, altered = (observed(planned, world).observations for world in (as_published, the_opposite))
    # The runs of fig10 on the kernel are those of another world.
    mixed = {key: altered[key] if key[0] == kernel and "fig10" in key[2] else published[key] for key in published}

    (alike,) = agreements([Outcome.of(planned, published)])
    assert (alike.decided, len(alike.alike), alike.contrary) == (len(SECTION_4_4), len(SECTION_4_4), [])
    outcome = Outcome.of(planned, mixed)
    (found,) = agreements([outcome])
    others = [one.claim.id for one, _ in found.contrary]
    assert others == [one.id for one in claims if any("fig10" in (m.on or "") for c in one.compare for m in c.measures)]
    assert 0 < len(others) < len(SECTION_4_4)
    (sentence,) = agreement_sentences([outcome])
    assert sentence.endswith(f"not on {', '.join(others)}.")


@pytest.mark.parametrize("claim", ["CL-A20", "CL-A21"])
def test_permuted_labels_decide_nothing(claim: str) -> None:
    planned = study(ALENAZI, ["sim"], only=claim, quick=True)
    names = [cell.name for cell in planned.cells.values() if cell.arm == THEN]

    def permuted(name: str, seed: int) -> Rates:
        others = sorted(names)
        random.Random(seed).shuffle(others)
        return as_published(others[names.index(name)], seed)

    assert kinds(observed(planned, permuted))[claim] == "undecided"


def test_values_that_differ_by_less_than_5_percent_have_no_trend() -> None:
    def nearly_flat(name: str, seed: int) -> Rates:
        before, during, _ = as_published(name, seed)
        return before, during, before - 0.01 * int(name.partition("/n")[2])

    planned = study(ALENAZI, ["sim"], only="CL-A15", quick=True)
    assert kinds(observed(planned, nearly_flat))["CL-A15"] == "refuted"


def test_a_claim_whose_opposite_holds_with_another_assumption_depends_on_it() -> None:
    planned = study(ALENAZI, ["sim"], only="CL-A17")
    outcome = Outcome.of(
        planned,
        {
            key: [
                _observation(
                    cell.experiment,
                    (the_opposite if cell.variant == "the last failed returns first" else as_published)(
                        cell.name, seed
                    ),
                    seed,
                )
                for seed in SEEDS
            ]
            for key, cell in planned.cells.items()
        },
    )
    assert kinds(outcome) == {"CL-A17": "depends"}
    (verdict,) = [one for one in outcome.verdicts if one.arm == THEN]
    assert verdict.flipped == ["the last failed returns first"]
    assert {"the first returns after 10 s", "links of 8 Mbit/s"} <= set(verdict.tried)


def test_what_went_in_vain_is_told_with_what_arrived_beside_it() -> None:
    planned = study(ALENAZI, ["sim"], only="CL-A17", quick=True)
    dropped = {seed: 0 if seed % 2 else 600 for seed in SEEDS}
    observations = {
        key: [
            _with_subflow(_observation(cell.experiment, as_published(cell.name, seed), seed), dropped[seed])
            for seed in SEEDS
        ]
        for key, cell in planned.cells.items()
    }
    outcome = Outcome.of(planned, observations)
    (verdict,) = [one for one in outcome.verdicts if one.arm == THEN]
    arrived, drops = apart(outcome, verdict)
    assert "(1 to 7, n = 56) arrived in 45-60 s" in arrived
    assert drops.startswith("0 to 600 segments that TCP had acknowledged")
    thirds = "7 Mbit/s in the third of the runs with the fewest (up to 0), and 1 in the third with the most (from 600)"
    assert f"the rate was {thirds}" in drops


def _with_subflow(observation: Observation, dropped: int) -> Observation:
    """Returns the observation with one subflow, with arrivals at 7 Mbit/s, or 1 Mbit/s if segments
    were dropped.
    """
    run = observation.run
    arrived = np.arange(61) * (1 if dropped else 7) * 1e6 / 8
    in_order = run.in_order("bulk")
    assert in_order is not None
    samples = _samples(
        {("flows.bulk", "bytes_in_order"): in_order.values, ("flows.bulk.subflows.0", "bytes_received"): arrived}
    )
    subflow = {"id": 0, "local": "10.0.0.1:1", "remote": "10.0.0.2:2", "bytes": 0}
    result = run.result | {
        "flows": [flow | {"subflows": [subflow]} for flow in run.result["flows"]],
        "hosts": [{"id": "server", "counters": {"MPTcpExtNoDSSInWindow": dropped}}],
    }
    return replace(observation, run=replace(run, result=result, samples=samples))


def _samples(series: dict[tuple[str, str], Any]) -> Samples:
    """Returns samples with one value per second, by entity and metric."""
    number = np.repeat(np.arange(len(series), dtype=np.int32), 61)
    columns = {
        "time_ns": np.tile(np.arange(61) * 1_000_000_000, len(series)),
        "entity": (number, [entity for entity, _ in series]),
        "metric": (number, [metric for _, metric in series]),
        "value": np.concatenate(list(series.values())),
    }
    return Samples(Table(columns))


def test_combinations_are_ranked_by_their_mean_over_the_experiments() -> None:
    planned = study(ALENAZI, ["sim"], only="guidelines")
    (ranking,) = ALENAZI.rankings

    def goodput(cell: Cell, seed: int) -> float:
        best = {"OLIA, redundant, binder": 3e6, "LIA, lowest RTT, full_mesh": 2e6}
        return best.get(cell.variant, 1e6) * (2 if cell.name == "fig6/lia" else 1) + seed

    observations = {
        key: [_of_metrics(cell, seed, {"flows.bulk": {"goodput_bps": goodput(cell, seed)}}) for seed in SEEDS]
        for key, cell in planned.cells.items()
    }
    ranked = rank(observations, ranking, THEN)
    assert len(ranked) == 4 * 3 * 3
    assert [one.words for one in ranked[:2]] == [("OLIA", "redundant", "binder"), ("LIA", "lowest RTT", "full_mesh")]
    assert ranked[0].mean.median == pytest.approx(4e6, abs=10)
    assert [round(one.median, -6) for one in ranked[0].under] == [6e6, 3e6, 3e6]


def _of_metrics(cell: Cell, seed: int, metrics: dict[str, dict[str, float | None]]) -> Observation:
    return replace(_observation(cell.experiment, (1, 1, 1), seed), metrics=metrics)


# ---- The command ---------------------------------------------------------------------------------


def reproduce(out: Path, *options: str) -> Any:
    done = mptcplab("reproduce", PAPER, "--quick", "--json", *options, cwd=out)
    assert done.status == 0, done.err
    Draft202012Validator(SCHEMA).validate(done.document)
    return done.document


def test_with_seven_of_eight_down_one_link_is_left_and_what_is_done_is_not_run_again(tmp_path: Path) -> None:
    document = reproduce(tmp_path, "--only", "CL-A18", "--export", "export")
    (claim,) = document["claims"]
    assert claim["id"] == "CL-A18"
    assert claim["then"]["verdict"] == "reproduced"
    least = claim["then"]["compared"][0]
    assert 0.8e6 <= least["ci95"][0] <= least["ci95"][1] <= 1.1e6
    assert claim["today"]["verdict"] in ("reproduced", "refuted", "undecided")
    assert {run["status"] for run in document["runs"]} == {"done"}
    page = (tmp_path / document["page"]).read_text(encoding="utf-8")
    assert "failures at the server" in page
    assert {path.suffix for path in (tmp_path / "export").iterdir()} == {".png", ".svg", ".csv", ".txt", ".bib"}
    again = reproduce(tmp_path, "--only", "CL-A18")
    assert [run["wall_s"] for run in again["runs"]] == [run["wall_s"] for run in document["runs"]]
    assert again["claims"] == document["claims"]


def test_what_is_printed_is_a_line_for_each_claim_and_stack_and_says_no_more_than_it_knows(tmp_path: Path) -> None:
    done = mptcplab("reproduce", PAPER, "--quick", "--only", "CL-A10", cwd=tmp_path)
    assert done.status == 0, done.err
    claim, then, today, *tallies = done.out.splitlines()
    assert claim.startswith("CL-A10  Before the failure, all three schedulers")
    assert then.startswith("        then (sim): reproduced, provisional. fig8/min_rtt: longest pause 8-10 s 0.0")
    assert today.startswith(
        "        today (sim): cannot be run. fig8/redundant: a mainline kernel has no scheduler: redundant"
    )
    assert "undecided in fig8/min_rtt: longest pause 8-10 s" in today
    assert [one.partition(":")[0] for one in tallies] == ["then (sim)", "today (sim)", "report"]


def test_without_a_paper_those_with_claims_are_listed(tmp_path: Path) -> None:
    listed = mptcplab("reproduce", cwd=tmp_path)
    assert listed.status == 0
    for paper in papers():
        assert re.search(rf"^{paper} +{len(load(paper).claims)} +", listed.out, re.MULTILINE), paper
    document = mptcplab("reproduce", "--json", cwd=tmp_path).document
    assert [one["id"] for one in document["papers"]] == papers()


@pytest.mark.parametrize(
    ("paper", "only", "claims"),
    [
        ("barreira2014", "overhead", ["CL-D5"]),
        ("barreira2014", "W.1", ["CL-D20", "CL-D20b"]),
        ("barreira2014", "C.*", ["CL-D3", "CL-D4", "CL-D11", "CL-D16", "CL-D16b", "CL-D17"]),
        ("ghosh", "graph4/olia", ["CL-B7"]),
        ("ghosh", "cl-b5*", ["CL-B5", "CL-B5b"]),
    ],
)
def test_a_part_is_a_figure_an_experiment_or_a_claim_in_any_case_or_a_pattern(
    paper: str, only: str, claims: list[str]
) -> None:
    assert [claim.id for claim in parts(load(paper), only)[0]] == claims


@pytest.mark.parametrize(
    ("only", "told"),
    [
        ("", "--only: it is empty; allowed: a name or a pattern of goal1, CL-B1, "),
        ("cl-b77", "--only cl-b77: no claim of ghosh is about it; did you mean CL-B7?; allowed: "),
        ("graph4/oila", "did you mean graph4/olia?"),
        ("none", "or of an experiment (mptcplab list ghosh)"),
    ],
)
def test_a_part_that_a_paper_does_not_have_is_refused(only: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        parts(load("ghosh"), only)


def test_a_page_without_contradictions_and_assumptions_has_no_headings_for_them() -> None:
    planned = study(load("cited"), ["sim"], only="CL-K7", quick=True)
    page = reproduction_page(Outcome.of(planned, {}), [], [], "mptcplab reproduce cited")
    assert "Contradictions" not in page
    assert "Assumptions" not in page


def test_a_table_has_what_was_published_beside_both_stacks() -> None:
    planned = study(load("barreira2014"), ["sim"], only="table6.2", quick=True)
    observations = {
        key: [_of_metrics(cell, seed, {"flows.bulk": {"goodput_bps": 40e6 + seed * 1e6}}) for seed in SEEDS]
        for key, cell in planned.cells.items()
        if cell.arm == THEN
    }
    outcome = Outcome.of(planned, observations)
    written = json.loads(json.dumps(document(outcome)["tables"]))
    Draft202012Validator(SCHEMA | {"required": []}).validate({"tables": written})
    assert written[0]["rows"][0]["published"] == 37.6
    assert written[0]["rows"][0]["measured"]["today (sim)"] is None
    (table,) = tables(outcome)
    assert table.title.startswith("Table 6.2")
    assert table.grid.heads == ["experiment", "measured", "published", "then (sim)", "today (sim)"]
    published = {row[0]: row[2] for row in table.grid.rows}
    assert published["F.1/throughput"] == "37.6"
    assert [name[:3] for name in published] == ["F.1", "F.2", "F.3", "G.1", "G.2", "G.3"]
    assert {row[3] for row in table.grid.rows} == {"44.5 (41 to 48)"}
    assert {row[4] for row in table.grid.rows} == {""}
    assert {row[1] for row in table.grid.rows} == {"Goodput of bulk, Mbit/s"}


def test_a_table_has_the_total_of_the_links_that_the_paper_has() -> None:
    planned = study(load("barreira2014"), ["sim"], only="table6.1", quick=True)
    rates = {f"links.{link}.forward": {"wire_rate_bps": 50e6} for link in ("eth", "wifi", "eth0")}
    observations = {key: [_of_metrics(cell, 1, rates)] for key, cell in planned.cells.items()}
    (table,) = tables(Outcome.of(planned, observations))
    totals = {row[0]: row[2:4] for row in table.grid.rows if row[1] == "Total, Mbit/s"}
    assert totals == {"A.1": ["146", "100"], "B.1": ["196.2", ""]}  # B.1 has no value of eth1


def test_the_index_of_claims_has_each_with_both_verdicts() -> None:
    planned = study(ALENAZI, ["sim"], only="CL-A17", quick=True)
    page = index_page([(observed(planned, as_published), "alenazi2019/reproduction.html")], "mptcplab reproduce all")
    assert 'href="alenazi2019/reproduction.html"' in page
    assert len(re.findall("reproduced, provisional", page)) == 2


def test_anchors_of_throughput_and_delivery(tmp_path: Path) -> None:
    done = mptcplab("run", "alenazi2019/fig5/mptcp", "alenazi2019/fig7/min_rtt", "--json", cwd=tmp_path)
    eight, scheduled = (run["flows"][0] for run in done.document["runs"])
    assert 6.8e6 <= eight["goodput_bps"] <= 7.55e6
    assert scheduled["fct_s"] == pytest.approx(23, abs=3)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nobody2020"], "allowed: alenazi2019"),
        (["alenazi2018"], "did you mean alenazi2019?"),
        (["all", "--only", "fig9"], "goes with one paper; allowed: alenazi2019"),
        (["barreira2014", "--only", "table6.8"], "did you mean table6."),
        ([PAPER, "--only", "fig99"], "pattern of fig5, CL-A1"),
        ([PAPER, "--on", "moon"], "allowed: sim"),
    ],
)
def test_what_is_asked_wrongly_is_told_before_anything_runs(tmp_path: Path, words: list[str], told: str) -> None:
    done = mptcplab("reproduce", *words, cwd=tmp_path)
    assert done.status == 2
    assert told in done.err
    assert not list(tmp_path.iterdir())


# ---- The paper's needs
# ---------------------------------------------------------------------------------------------

#: Commands that have no SPEC of an experiment.
OF_NO_EXPERIMENT = ("join", "overlay", "routing")
REQUIREMENT = re.compile(r"\| ([A-D][0-9]+) \| ([^|]+) \| ([^|]+) \|")
COMMANDS: Any = typer.main.get_group(application()).commands


def needs(paper: str) -> list[tuple[str, str, str]]:
    """Returns the rows of what a paper needs: item, capability, and what shows it."""
    return REQUIREMENT.findall((ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8"))


#: Items that a paper needs, without those that are not essential to it.
ITEMS = {
    PAPER: [f"A{n}" for n in range(1, 45)],
    "ghosh": [f"B{n}" for n in range(1, 19)],
    "barreira2014": [f"D{n}" for n in (*range(1, 70), *range(71, 77), 82, 83) if n not in (4, 14, 15, 21, 50)],
    "sonkoly2014": [f"C{n}" for n in (*range(1, 20), *range(22, 34), *range(35, 51)) if n not in (3, 6, 16)],
}
NEEDS = [pytest.param(shown, id=item) for paper in ITEMS for item, _, shown in needs(paper)]


@pytest.mark.parametrize("paper", ITEMS)
def test_every_need_of_a_paper_has_its_row(paper: str) -> None:
    assert [item for item, _, _ in needs(paper)] == ITEMS[paper]


def ticked(shown: str) -> None:
    """Checks that a ticked need has existing commands and experiments that resolve, or a reason for
    its replacement.
    """
    commands = [shlex.split(code) for code in re.findall(r"`((?:sudo )?mptcplab [^`]+)`", shown)]
    assert commands
    assert "replaced by" not in shown or re.search(r"replaced by .+ because .+", shown)
    for words in commands:
        command, spec, *options = words[words.index("mptcplab") + 1 :]
        assert command in COMMANDS
        if command == "report-card":
            assert spec in CC.names
            continue
        if command in OF_NO_EXPERIMENT:
            assert all((ROOT / word).is_file() for word in words if word.endswith(".yaml"))
            continue
        settings = [value for option, value in pairwise(options) if option == "--set"]
        if command == "reproduce":
            only = options[options.index("--only") + 1] if "--only" in options else None
            table = load(spec)
            known = {one.id for one in (*table.claims, *table.rankings)} | {one.id for one in table.tables}
            assert only in {None, *known, *(claim.figure for claim in table.claims)}
        else:
            for member in find(spec.removeprefix("results/"), dict(one.split("=", 1) for one in settings)):
                assert member.resolve().data


@pytest.mark.parametrize("shown", NEEDS)
def test_a_need_is_ticked(shown: str) -> None:
    ticked(shown)


@pytest.mark.parametrize(
    "shown",
    [
        "figures",
        "`mptcplab demonstrate alenazi2019/fig5/mptcp`",
        "`mptcplab run alenazi2019/fig4`",
        "`mptcplab run alenazi2019/fig5/mptcp --set flows.bulk.cc=none`",
        "`mptcplab reproduce alenazi2019 --only fig4`",
        "replaced by `mptcplab run alenazi2019/fig5/mptcp`",
    ],
)
def test_what_does_not_show_a_need_is_not_taken_for_it(shown: str) -> None:
    with pytest.raises((AssertionError, MptcplabError)):
        ticked(shown)
