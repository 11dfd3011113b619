"""Tests the compiled core through its Python binding."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from completed import completed
from mptcplab import _core

GOLDEN = Path(__file__).parent.parent / "crates/simulator/tests/sim/golden.json"
MS = 1_000_000


@pytest.fixture
def experiment() -> dict[str, Any]:
    return completed(json.loads(GOLDEN.read_text(encoding="utf-8")))


def start(experiment: dict[str, Any], directory: Path, **options: Any) -> _core.Simulation:
    return _core.Simulation(json.dumps(experiment), 1, directory, **options)


def test_a_run_from_start_to_tables(experiment: dict[str, Any], tmp_path: Path) -> None:
    simulation = start(experiment, tmp_path)
    assert simulation.now_ns == 0
    assert not simulation.advance(100 * MS)
    assert simulation.now_ns == 100 * MS
    assert simulation.latest()["interfaces.client.eth0"]["up"] == 1.0
    assert simulation.advance(10**12)
    summary = json.loads(simulation.finish())
    assert summary["trace_hash"] == GOLDEN.with_suffix(".hash").read_text(encoding="utf-8").strip()
    assert [event["id"] for event in summary["events"]] == [event["id"] for event in experiment["events"]]
    assert summary["flows"][0]["path"] == {"local": "client.eth0", "remote": "server.eth0", "link": "wire"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["samples.parquet", "units.parquet"]


STREAMS = GOLDEN.with_name("golden-streams.json")


@pytest.mark.parametrize("line", STREAMS.with_suffix(".hashes").read_text(encoding="utf-8").splitlines())
def test_every_algorithm_has_the_trace_of_the_unoptimised_build(line: str, tmp_path: Path) -> None:
    kind, name, trace_hash = line.split()
    resolved = completed(json.loads(STREAMS.read_text(encoding="utf-8")))
    resolved["flows"][0][kind] = [{"name": name}] if kind == "path_manager" else [name]
    simulation = start(resolved, tmp_path)
    simulation.advance(10**12)
    assert json.loads(simulation.finish())["trace_hash"] == trace_hash


def test_columns_are_numpy_arrays(experiment: dict[str, Any], tmp_path: Path) -> None:
    simulation = start(experiment, tmp_path)
    simulation.advance(10**12)
    summary = json.loads(simulation.finish())
    samples = _core.read_table(tmp_path / "samples.parquet")
    assert list(samples) == ["time_ns", "entity", "metric", "value"]
    codes, words = samples["entity"]
    assert codes.dtype == np.int32
    assert samples["time_ns"].dtype == np.int64
    assert samples["value"].dtype == np.float64
    assert "flows.stream" in words
    last = samples["value"][(codes == words.index("flows.stream")) & (samples["time_ns"] == summary["end_ns"])]
    assert summary["flows"][0]["bytes"] in last
    units = _core.read_table(tmp_path / "units.parquet")
    assert list(units) == ["flow", "unit", "bytes", "sent_ns", "received_ns", "delivered_ns"]
    assert (units["received_ns"] > units["sent_ns"]).all()


def test_both_event_queues_agree(experiment: dict[str, Any], tmp_path: Path) -> None:
    hashes = set()
    for queue in ("calendar", "heap"):
        (tmp_path / queue).mkdir()
        simulation = start(experiment, tmp_path / queue, event_queue=queue)
        simulation.advance(10**12)
        hashes.add(json.loads(simulation.finish())["trace_hash"])
    assert len(hashes) == 1


def test_an_injected_event_is_recorded(experiment: dict[str, Any], tmp_path: Path) -> None:
    simulation = start(experiment, tmp_path)
    simulation.advance(50 * MS)
    action = {"kind": "interface_down", "interface": "phone.wlan0"}
    event = simulation.inject(json.dumps(action))
    assert json.loads(event) == {
        "id": "injected.1",
        "parent": None,
        "asked_ns": 50 * MS,
        "actual_ns": 50 * MS,
        "injected": True,
        "action": action,
    }
    simulation.advance(150 * MS)
    assert simulation.latest()["interfaces.phone.wlan0"]["up"] == 0.0
    assert json.loads(event) in json.loads(simulation.finish())["events"]


def test_a_cut_off_stream_gives_its_whole_rows(experiment: dict[str, Any], tmp_path: Path) -> None:
    experiment["measure"]["every_ns"] = MS // 20
    simulation = start(experiment, tmp_path)
    simulation.advance(10**12)
    stream = tmp_path / "samples.csv"
    written = stream.read_bytes()
    whole = len(_core.read_table(stream)["value"])
    stream.write_bytes(written[: len(written) * 2 // 3])
    cut = _core.read_table(stream)
    assert 0 < len(cut["value"]) < whole
    assert len({len(cut["value"]), len(cut["time_ns"]), len(cut["entity"][0])}) == 1


def test_what_is_missing_is_named(experiment: dict[str, Any], tmp_path: Path) -> None:
    assert _core.check(json.dumps(experiment)) == []
    experiment["hosts"][0]["stack"] = "kernel"
    [(feature, why)] = _core.check(json.dumps(experiment))
    assert feature == f"hosts.{experiment['hosts'][0]['id']}.stack: kernel"
    with pytest.raises(ValueError, match=why):
        start(experiment, tmp_path)


def test_capabilities_say_why_not(experiment: dict[str, Any]) -> None:
    capabilities = {feature: (available, why) for feature, available, why in _core.capabilities()}
    assert capabilities["transport udp"] == (True, "")
    assert all(available == (not why) for available, why in capabilities.values())
    experiment["hosts"][0]["stack"] = "userspace"
    [(_, why)] = _core.check(json.dumps(experiment))
    assert capabilities["stack userspace"] == (False, why)


def test_wrong_input_is_a_value_error(experiment: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a resolved experiment: EOF"):
        _core.check("{")
    with pytest.raises(ValueError, match='event_queue: found "stack"'):
        start(experiment, tmp_path, event_queue="stack")
    simulation = start(experiment, tmp_path)
    with pytest.raises(ValueError, match="not an action: unknown variant `explode`"):
        simulation.inject('{"kind": "explode"}')
    simulation.finish()
    with pytest.raises(ValueError, match="the run is finished"):
        simulation.advance(1)


def test_files_are_os_errors(experiment: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"missing/samples\.csv"):
        start(experiment, tmp_path / "missing")
    with pytest.raises(OSError, match=r"none\.parquet"):
        _core.read_table(tmp_path / "none.parquet")


FILLS_THE_DISK = """
import resource, sys
from mptcplab import _core
from mptcplab.behaviours import presets

resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, 4_000_000))
simulation = _core.Simulation(open(sys.argv[1]).read(), 1, sys.argv[2])
try:
    simulation.advance(10**12)
except OSError as error:
    print(error)
"""


def test_a_disk_that_fills_up_is_named_and_what_was_written_is_readable(
    experiment: dict[str, Any], tmp_path: Path
) -> None:
    experiment["measure"]["every_ns"] = MS // 20
    resolved = tmp_path / "resolved.json"
    resolved.write_text(json.dumps(experiment), encoding="utf-8")
    # A limit on the size of files replaces a full disk. It holds for a whole process, so another
    # one is started.
    command = [sys.executable, "-c", FILLS_THE_DISK, str(resolved), str(tmp_path)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert str(tmp_path / "samples.csv") in printed
    samples = _core.read_table(tmp_path / "samples.csv")
    assert len(samples["value"]) >= 65536
    assert samples["time_ns"][-1] > 0


def test_other_threads_go_on_while_a_run_advances(experiment: dict[str, Any], tmp_path: Path) -> None:
    simulation = start(experiment, tmp_path)
    ended = []
    thread = threading.Thread(target=lambda: ended.append(simulation.advance(10**12)))
    thread.start()
    thread.join(timeout=60)
    assert ended == [True]


def test_columns_are_written_as_parquet_whole_or_not_at_all(tmp_path: Path) -> None:
    columns = [("n", "int64", [1, None]), ("x", "float64", [0.5, 2]), ("word", "text", ["a", None])]
    _core.write_columns(tmp_path / "t.parquet", columns)
    table = pl.read_parquet(tmp_path / "t.parquet")
    assert table.schema == {"n": pl.Int64, "x": pl.Float64, "word": pl.String}
    assert table.rows() == [(1, 0.5, "a"), (None, 2.0, None)]
    with pytest.raises(ValueError, match=r"t2\.parquet"):
        _core.write_columns(tmp_path / "t2.parquet", [("n", "int64", [1]), ("m", "int64", [1, 2])])
    with pytest.raises(ValueError, match="allowed: int64, float64, text"):
        _core.write_columns(tmp_path / "t2.parquet", [("n", "int8", [1])])
    with pytest.raises(OSError, match=r"none/t\.parquet"):
        _core.write_columns(tmp_path / "none" / "t.parquet", columns)
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]
