"""Tests bundles and the documents made from them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from made_run import made_run, resolved
from mptcplab.errors import SpecError, UsageError
from mptcplab.results import (
    Bundle,
    BundleError,
    BundleWriter,
    aggregates,
    argmax,
    bundle_path,
    crossover,
    digest,
    done_bundles,
    evaluated,
    find,
    ratio,
    spread,
    summary,
)

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "schemas" / "summary.json").read_text())


def started(out: Path, seed: int = 1, **changes: Any) -> BundleWriter:
    return BundleWriter.create(out, resolved(**changes), backend="sim", seed=seed, repeat=seed - 1)


def finished(out: Path, seed: int = 1, **changes: Any) -> Bundle:
    writer = started(out, seed, **changes)
    (writer.path / "samples.parquet").write_bytes(b"samples")
    (writer.path / "units.parquet").write_bytes(b"units")
    fields = evaluated(made_run(resolved(**changes), seed))
    return writer.finish("done", wall_s=0.2, trace_hash="00ff", **fields)


def test_a_bundle_says_unfinished_until_it_is_finished(tmp_path: Path) -> None:
    writer = started(tmp_path)
    unfinished = Bundle.open(writer.path)
    assert (unfinished.status, unfinished.record["seed"]) == ("unfinished", 1)
    with pytest.raises(BundleError, match="unfinished"):
        unfinished.load()
    with pytest.raises(BundleError, match="did not finish"):
        unfinished.verify()
    writer.finish("invalid", why="the link's rate was not met")
    assert Bundle.open(writer.path).record["why"] == "the link's rate was not met"


def test_a_finished_bundle_verifies_and_finds_changes(tmp_path: Path) -> None:
    bundle = finished(tmp_path)
    bundle.verify()
    (bundle.path / "units.parquet").unlink()
    (bundle.path / "samples.parquet").write_bytes(b"other")
    with pytest.raises(BundleError, match=r"samples\.parquet was changed; units\.parquet is missing"):
        Bundle.open(bundle.path).verify()


@pytest.mark.skipif(sys.platform != "linux", reason="names of open files are in /proc")
def test_a_run_syncs_its_record_and_the_directory_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    sync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda file: (synced.append(str(Path(f"/proc/self/fd/{file}").readlink())), sync(file))
    )
    bundle = finished(tmp_path)
    assert synced == [str(bundle.path / "run.new"), str(bundle.path)]


def test_a_changed_experiment_is_noticed_when_read(tmp_path: Path) -> None:
    bundle = finished(tmp_path)
    (bundle.path / "experiment.json").write_text(json.dumps(resolved(duration_ns=1)))
    with pytest.raises(BundleError, match="not the experiment that ran"):
        _ = Bundle.open(bundle.path).resolved


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "has no run.json"), ("{}", "schema is None"), ("{", "not JSON"), ("[]", "holds a list")],
)
def test_what_is_no_bundle_is_refused(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(BundleError, match=words):
        Bundle.open(tmp_path)


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such directory"):
        Bundle.open(tmp_path / "none")
    with pytest.raises(BundleError, match="no such directory"):
        list(find(tmp_path / "none"))


def test_the_digest_ignores_where_values_came_from() -> None:
    assert digest(resolved(origins={})) == digest(resolved())
    assert digest(resolved(duration_ns=1)) != digest(resolved())


@pytest.mark.parametrize("name", ["../x", "a//b", "/etc", "a/..", "n" * 256])
def test_a_name_cannot_lead_out_of_the_output_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match="cannot be a directory"):
        bundle_path(tmp_path, resolved(name=name), "sim", 1)


def test_only_done_seeds_are_reused(tmp_path: Path) -> None:
    finished(tmp_path, 1)
    started(tmp_path, 2)
    assert list(done_bundles(tmp_path, resolved(), "sim", [1, 2, 3])) == [1]
    assert started(tmp_path, 2).path.is_dir()
    with pytest.raises(BundleError, match="holds a done run"):
        started(tmp_path, 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_leaves_the_run_unfinished_and_readable(tmp_path: Path) -> None:
    writer = started(tmp_path)
    (writer.path / "run.new").symlink_to("/dev/full")
    with pytest.raises(BundleError, match="No space left"):
        writer.finish("done")
    assert Bundle.open(writer.path).status == "unfinished"


def test_the_record_names_what_the_result_depends_on(tmp_path: Path) -> None:
    record = finished(tmp_path).record
    assert set(record["versions"]) == {"mptcplab", "python", "commit"}
    assert record["kernel"]
    assert record["machine"]["cpus"] >= 1
    assert set(record["sha256"]) == {"experiment.json", "samples.parquet", "units.parquet"}


def test_an_unknown_field_of_the_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no field wal_s"):
        started(tmp_path).finish("done", wal_s=1)


def test_the_summary_follows_its_schema(tmp_path: Path) -> None:
    finished(tmp_path, 1)
    started(tmp_path, 2)
    document = json.loads(json.dumps(summary(find(tmp_path)), allow_nan=False))
    jsonschema.validate(document, SCHEMA)
    done, unfinished = document["runs"]
    assert done["flows"][0]["recovery"][1]["event"] == "cut"
    assert [e["held"] for e in done["expectations"]] == [True, True, False]
    assert unfinished["flows"] == []


def test_aggregates_are_over_done_runs_of_one_backend(tmp_path: Path) -> None:
    records = [finished(tmp_path, seed).record for seed in range(1, 8)]
    goodput = next(a for a in aggregates(records) if (a["flow"], a["metric"]) == ("bulk", "goodput_bps"))
    values = sorted(r["metrics"]["flows.bulk"]["goodput_bps"] for r in records)
    assert goodput["n"] == 7
    assert goodput["median"] == values[3]
    assert goodput["ci95"] == [values[0], values[6]]
    assert (goodput["range"], goodput["apart"]) == ([min(values), max(values)], [])
    mixed = aggregates([records[0], records[1] | {"backend": "kernel"}])
    assert {a["backend"] for a in mixed} == {"sim", "kernel"}
    assert all(a["n"] == 1 for a in mixed)


def test_family_metrics(tmp_path: Path) -> None:
    members = [[finished(tmp_path / str(n), s, parameters={"n": n}) for s in (1, 2)] for n in (1, 2)]
    paired = ratio(members[0], members[1], "flows.bulk", "goodput_bps")
    assert paired is not None
    assert (paired.n, paired.median) == (2, 1.0)
    best = argmax(members, "n", "flows.bulk", "goodput_bps")
    assert best is not None
    assert best[1] == spread(members[best[0] - 1], "flows.bulk", "goodput_bps")
    assert crossover(members, "n", ("flows.bulk", "goodput_bps"), ("flows.voice", "goodput_bps")) is None
    with pytest.raises(UsageError, match="no parameter 'm'; it has n"):
        argmax(members, "m", "flows.bulk", "goodput_bps")


def test_a_changed_number_in_the_record_is_found(tmp_path: Path) -> None:
    bundle = finished(tmp_path)
    Bundle.open(bundle.path).verify()
    record = json.loads((bundle.path / "run.json").read_text())
    record["metrics"]["flows.bulk"]["goodput_bps"] = 9e9
    (bundle.path / "run.json").write_text(json.dumps(record))
    with pytest.raises(BundleError, match=r"damaged: run\.json was changed"):
        Bundle.open(bundle.path).verify()


def test_a_record_that_is_only_written_otherwise_is_the_same(tmp_path: Path) -> None:
    bundle = finished(tmp_path)
    record = json.loads((bundle.path / "run.json").read_text())
    (bundle.path / "run.json").write_text(json.dumps(dict(reversed(record.items())), indent=3, ensure_ascii=False))
    Bundle.open(bundle.path).verify()


def test_a_record_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    bundle = finished(tmp_path)
    record = json.loads((bundle.path / "run.json").read_text())
    del record["record_sha256"]
    (bundle.path / "run.json").write_text(json.dumps(record))
    Bundle.open(bundle.path).verify()
