"""Tests the path from the simulator to bundle, summary and page, with the tables of the compiled
core.
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from made_run import CBR_BPS, S, event, resolved
from mptcplab.report.comparison import comparison_page
from mptcplab.report.run import run_page
from mptcplab.results import Bundle, BundleError, BundleWriter, RunData, Samples, Table, Units, evaluated, find, summary

core = pytest.importorskip("mptcplab._core")

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "schemas" / "summary.json").read_text())
CUT = {"kind": "link_down", "link": "lte", "by": "cut"}
RESTORED = CUT | {"kind": "link_up"}


def simulate(out: Path, seed: int = 1, name: str = "voice/cut") -> Bundle:
    """Runs a datagram flow on a link that is cut from 2 s to 4 s of 8 s."""
    experiment = resolved(name=name, duration_ns=8 * S, events=[event("cut", 2, CUT), event("back", 4, RESTORED)])
    experiment["flows"] = experiment["flows"][1:]
    experiment["expect"] = ["flows.voice.loss_ratio < 0.3", "events.cut.outage_measured_s > 1.9"]
    writer = BundleWriter.create(out, experiment, backend="sim", seed=seed, repeat=0)
    simulation = core.Simulation(json.dumps(experiment), seed, str(writer.path))
    while not simulation.advance(simulation.now_ns + S):
        pass
    result = json.loads(simulation.finish())
    samples, units = (Table.read(writer.path / f"{table}.parquet") for table in ("samples", "units"))
    fields = evaluated(RunData(experiment, result, Samples(samples), Units(units)))
    return writer.finish("done", wall_s=0.1, trace_hash=result["trace_hash"], **fields)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return simulate(tmp_path_factory.mktemp("out"))


def test_metrics_of_a_simulated_outage(bundle: Bundle) -> None:
    flow, cut = bundle.record["metrics"]["flows.voice"], bundle.record["metrics"]["events.cut"]
    assert flow["goodput_bps"] == pytest.approx(0.75 * CBR_BPS, rel=0.02)
    assert flow["loss_ratio"] == pytest.approx(0.25, abs=0.01)
    assert flow["reordering_ratio"] == 0
    assert flow["delay_p50_s"] == pytest.approx(0.02 + 1292 * 8 / 4e6, abs=1e-6)
    assert cut["gap_s"] == pytest.approx(2, abs=0.05)
    assert cut["outage_measured_s"] == pytest.approx(2, abs=0.11)
    assert cut["full_rate_s"] == pytest.approx(2, abs=0.15)
    assert cut["full_recovery"] == 1
    assert [verdict["held"] for verdict in bundle.record["expectations"]] == [True, True]


def test_every_metric_that_awaits_nothing_is_supplied_or_explained(bundle: Bundle) -> None:
    for path, values in bundle.record["metrics"].items():
        for name, value in values.items():
            assert (value is None) == (name in bundle.record["absent"][path]), (path, name)
    unexplained = {why for whys in bundle.record["absent"].values() for why in whys.values() if "gave no" in why}
    assert not unexplained


def test_the_bundle_reads_back_and_its_page_is_whole(bundle: Bundle) -> None:
    page = run_page(Bundle.open(bundle.path))
    assert "voice (udp) carried 7" in page
    assert page.count("<figure") == 7


def test_the_summary_gives_the_address_of_each_end(bundle: Bundle) -> None:
    document = summary(find(bundle.path))
    jsonschema.validate(document, SCHEMA)
    [subflow] = document["runs"][0]["flows"][0]["subflows"]
    assert (subflow["local"], subflow["remote"], subflow["link"]) == ("10.1.2.1", "10.1.2.2", "lte")


def test_two_experiments_compare(tmp_path: Path, bundle: Bundle) -> None:
    page = comparison_page([bundle, simulate(tmp_path, name="voice/other")])
    assert "Comparison of 2 arms" in page
    assert "voice · sim<" in page, "the page names what the arms have in common"


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    bundle = simulate(tmp_path)
    (bundle.path / "samples.parquet").write_bytes(b"PAR1")
    with pytest.raises(BundleError, match=r"samples\.parquet was changed"):
        bundle.load()
