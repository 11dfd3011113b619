"""Tests user-defined algorithms in Python: the arguments and results of their hooks, and their
failures.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from command_line import mptcplab
from mptcplab import run
from mptcplab.errors import SpecError, Unsupported
from mptcplab.experiment import Experiment
from mptcplab.results import Bundle, summary

DESCRIPTION = """\
name: own
hosts: {client: {}, server: {}}
links:
  wifi: {between: [client.wlan0, server.eth0], rate: 10mbit, rtt: 20ms, queue: 1bdp}
  lte: {between: [client.wwan0, server.eth1], rate: 5mbit, rtt: 60ms, queue: 1bdp}
flows:
  bulk: {from: client, to: server, ALGORITHMS}
duration: 3s
"""
RENO = """\
from mptcplab.hooks import Change

class Reno:
    def acked(self, context, acked):
        this = context.this
        if not acked.is_window_limited:
            return None
        slow = this.cwnd_bytes < this.ssthresh_bytes
        return Change(cwnd_bytes=this.cwnd_bytes + acked.bytes * (1 if slow else this.mss_bytes / this.cwnd_bytes))

    def congestion(self, context, congestion):
        return Change(ssthresh_bytes=context.this.cwnd_bytes / 2)
"""
MIN_RTT = """\
from mptcplab.hooks import Assign

class MinRtt:
    def next(self, view):
        free = [one for one in view.subflows if one.is_available and one.has_window]
        if view.reason not in ("new_data", "reinject") or not free:
            return None
        best = min(free, key=lambda one: one.srtt_ns)
        return Assign(best.id, min(best.mss_bytes, view.head.len))
"""


def described(folder: Path, field: str, choice: str, source: str, **changes: object) -> Experiment:
    """Returns the description above with a file `own.py` beside it."""
    (folder / "own.py").write_text(source)
    file = folder / "own.yaml"
    given = {"path_manager": "full_mesh", field: choice}
    algorithms = ", ".join(f"{name}: {value}" for name, value in given.items())
    file.write_text(DESCRIPTION.replace("ALGORITHMS", algorithms))
    experiment = Experiment.from_yaml(file)
    return experiment.override(changes) if changes else experiment


def ran(folder: Path, field: str, name: str, source: str, **changes: object) -> Bundle:
    [bundle] = run(described(folder, field, f"./own.py:{name}", source, **changes), out=folder / "results")
    return bundle


# ---- effects ----


def test_a_control_of_ones_own_that_is_reno_does_what_reno_does(tmp_path: Path) -> None:
    own = ran(tmp_path, "cc", "Reno", RENO)
    [reno] = run(described(tmp_path, "cc", "reno", RENO), out=tmp_path / "results")
    assert own.record["trace_hash"] == reno.record["trace_hash"]


def test_two_runs_of_a_scheduler_are_one(tmp_path: Path) -> None:
    first, second = (ran(tmp_path / name, "scheduler", "MinRtt", MIN_RTT) for name in made(tmp_path, "a", "b"))
    assert first.record["trace_hash"] == second.record["trace_hash"]
    assert first.record["metrics"]["flows.bulk"]["ceiling_ratio"] > 0.8


def made(folder: Path, *names: str) -> tuple[str, ...]:
    for name in names:
        (folder / name).mkdir()
    return names


def test_a_path_manager_hears_of_events_and_opens_and_closes(tmp_path: Path) -> None:
    source = """\
from mptcplab.hooks import CloseSubflow, Established, OpenSubflow, SubflowEstablished

class OneSecond:
    def __init__(self, connection):
        self.connection, self.at, self.subflow = connection, None, None

    def handle(self, now_ns, event):
        if isinstance(event, SubflowEstablished):
            self.subflow, self.at = event.subflow, now_ns + 1_000_000_000
        if not isinstance(event, Established) or self.connection.role == "acceptor":
            return []
        pair = self.connection.pairs[-1]
        return [OpenSubflow(pair.local, 2, (pair.remote, self.connection.initial.remote[1]))]

    def poll_timeout(self):
        return self.at if self.connection.role == "opener" else None

    def handle_timeout(self, now_ns):
        self.at = None
        return [CloseSubflow(self.subflow)]
"""
    flow = ran(tmp_path, "path_manager", "OneSecond", source).record["flows"][0]
    first, second = flow["subflows"]
    assert (first["link"], second["link"], first["closed_s"]) == ("wifi", "lte", None)
    assert 1 < second["closed_s"] - second["opened_s"] < 1.5


def test_parameters_are_arguments_of_the_class(tmp_path: Path) -> None:
    source = """\
from mptcplab.hooks import Change

class Fixed:
    def __init__(self, packets):
        self.packets = packets

    def acked(self, context, acked):
        return Change(cwnd_bytes=self.packets * context.this.mss_bytes)

    congestion = acked
"""
    (few, many) = (
        run(described(tmp_path, "cc", f"{{./own.py:Fixed: {{packets: {n}}}}}", source), out=tmp_path / "r")[0]
        for n in (2, 8)
    )
    rates = [bundle.record["metrics"]["flows.bulk"]["goodput_bps"] for bundle in (few, many)]
    assert rates[1] > 2 * rates[0]


# ---- records in the bundle ----


def test_the_bundle_has_the_file_and_says_that_it_is_user_code(tmp_path: Path) -> None:
    bundle = ran(tmp_path, "cc", "Reno", RENO)
    digest = hashlib.sha256(RENO.encode()).hexdigest()
    assert bundle.record["user_code"] == [{"name": "./own.py:Reno", "file": "code/own.py", "sha256": digest}]
    assert (bundle.path / "code" / "own.py").read_text() == RENO
    assert bundle.record["sha256"]["code/own.py"] == digest
    bundle.verify()
    assert summary([bundle])["runs"][0]["user_code"] == bundle.record["user_code"]


def test_a_changed_file_is_another_experiment(tmp_path: Path) -> None:
    before = ran(tmp_path, "cc", "Reno", RENO)
    after = ran(tmp_path, "cc", "Reno", RENO + "# other\n")
    assert before.path != after.path


def test_a_bundle_runs_again_without_the_file(tmp_path: Path) -> None:
    bundle = ran(tmp_path, "cc", "Reno", RENO)
    (tmp_path / "own.py").unlink()
    again = mptcplab("run", bundle.path / "experiment.json", "--out", "again", "--json", cwd=tmp_path)
    document = json.loads(again.out)
    assert document["runs"][0]["trace_hash"] == bundle.record["trace_hash"]


def test_the_command_line_says_user_code(tmp_path: Path) -> None:
    described(tmp_path, "cc", "reno", RENO)
    told = mptcplab("run", "own.yaml", "--set", "flows.bulk.cc=./own.py:Reno", cwd=tmp_path).out
    assert "user code ./own.py:Reno (SHA-256 " in told


def test_what_a_class_prints_goes_to_standard_error(tmp_path: Path) -> None:
    described(
        tmp_path, "cc", "./own.py:Reno", RENO.replace("this = context.this", "this = context.this; print('here')", 1)
    )
    ended = mptcplab("run", "own.yaml", "--json", cwd=tmp_path)
    assert json.loads(ended.out)["runs"][0]["status"] == "done"
    assert "here" in ended.err


# ---- refusals before a run ----

REFUSED = {
    "a file that is not there": ("./none.py:Reno", RENO, "./none.py cannot be read: No such file or directory"),
    "no class": ("./own.py", RENO, "found './own.py'; allowed: ./FILE.py:CLASS"),
    "another class": ("./own.py:Remo", RENO, "flows.bulk.cc: ./own.py:Remo: the file has no class Remo; allowed: Reno"),
    "no hook": ("./own.py:Reno", "class Reno:\n    acked = print\n", "the class has no method congestion"),
    "a hook without its arguments": (
        "./own.py:Reno",
        RENO.replace("def congestion(self, context, congestion)", "def congestion(self, context)"),
        "flows.bulk.cc: ./own.py:Reno: found the hook congestion(self, context);"
        " allowed: congestion(self, context, congestion)",
    ),
    "an optional hook without its arguments": (
        "./own.py:Reno",
        f"{RENO}\n    def pacing_rate(self):\n        return None\n",
        "found the hook pacing_rate(self); allowed: pacing_rate(self, context)",
    ),
    "broken": ("./own.py:Reno", "x = 1\nclass Reno\n", "./own.py, line 2: SyntaxError: expected ':'"),
    "an error": ("./own.py:Reno", "x = 1\ny = 1 / 0\n", "./own.py, line 2: ZeroDivisionError: division by zero"),
    "a parameter": ("{./own.py:Reno: {gain: 2}}", RENO, "got an unexpected keyword argument 'gain'; allowed: Reno()"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_class_that_cannot_be_used_is_refused(what: str, tmp_path: Path) -> None:
    choice, source, expected = REFUSED[what]
    with pytest.raises(SpecError) as refused:
        run(described(tmp_path, "cc", choice, source), out=tmp_path / "results")
    assert expected in str(refused.value)
    assert not (tmp_path / "results").exists()


def test_the_kernel_refuses_classes() -> None:
    pytest.importorskip("mptcplab._core")
    from mptcplab.backends import backend
    from mptcplab.backends.preferences import Offer

    offer = Offer.of(backend("kernel"))
    why = "the kernel cannot run Python classes: use --on sim, or --on userspace for flows that the engine sends"
    assert offer.why_not("cc ./own.py:Reno") == why


# ---- failures ----

ACKED = "def acked(self, context, acked):"
QUIET = "def congestion(self, context, congestion): pass"
FAILING = {
    "an exception": (
        "cc",
        f"class Own:\n    {QUIET}\n    {ACKED}\n        1 / (2 - len(context.windows))\n",
        ["./own.py:Own, acked:", "1 / (2 - len(context.windows))", "ZeroDivisionError: division by zero"],
    ),
    "no number": (
        "cc",
        f"from mptcplab.hooks import Change\nclass Own:\n    {QUIET}\n    {ACKED}\n        return Change(float('nan'))\n",
        ["acked: cwnd_bytes is nan, allowed is a number from 0 to"],
    ),
    "another type": (
        "cc",
        f"class Own:\n    {QUIET}\n    {ACKED}\n        return 12\n",
        ["acked: the answer is 12, allowed are None and Change(..)"],
    ),
    "no such subflow": (
        "scheduler",
        "from mptcplab.hooks import Assign\nclass Own:\n    def next(self, view): return Assign(7, 100)\n",
        ["next: unknown subflow 7, allowed are the ids 0"],
    ),
    "too much": (
        "scheduler",
        "from mptcplab.hooks import Assign\nclass Own:\n    def next(self, view): return Assign(0, view.head.len + 1)\n",
        ["next: bytes is ", "allowed is a whole number from 1 to "],
    ),
    "for ever at one instant": (
        "scheduler",
        "from mptcplab.hooks import Penalize\nclass Own:\n    def next(self, view): return Penalize(view.subflows[0].id)\n",
        ["next: called 100000 times at one instant", "reason new_data, head ", "the answer was Penalize(subflow=0)"],
    ),
    "another host's address": (
        "path_manager",
        "from mptcplab.hooks import OpenSubflow\nclass Own:\n    def __init__(self, connection): pass\n"
        "    def handle(self, now_ns, event): return [OpenSubflow('10.9.9.9', 1, ('10.1.1.2', 5001))]\n",
        ["handle: the address is '10.9.9.9', allowed are this host's 10.1."],
    ),
    "an exception when made": (
        "path_manager",
        "class Own:\n    def __init__(self, connection): connection.pear\n    def handle(self, now_ns, event): pass\n",
        ["__init__:", "has no attribute 'pear'"],
    ),
    "never sending": (
        "scheduler",
        "class Own:\n    def next(self, view): return None\n",
        [
            "flow bulk stands still: with ./own.py:Own nothing has arrived for 2.1 s of simulated time",
            "of the scheduler, the last call was at ",
            ": reason ",
            "; subflow 0: is_usable, is_available, has_window, room_bytes ",
            "the answer was None",
        ],
    ),
}


@pytest.mark.parametrize("what", FAILING)
def test_what_goes_wrong_ends_the_run_with_the_reason_and_the_time(what: str, tmp_path: Path) -> None:
    field, source, expected = FAILING[what]
    bundle = ran(tmp_path, field, "Own", source)
    why = bundle.record["why"]
    assert bundle.status == "failed"
    assert why.startswith("at ")
    assert " s of simulated time: " in why
    for text in expected:
        assert text in why
    assert bundle.load().samples.entities("flows.")


def test_an_outage_is_no_standstill(tmp_path: Path) -> None:
    cut = [{"at": "1s", "down": "wifi"}, {"at": "1s", "down": "lte"}, {"at": "5s", "up": "wifi"}]
    bundle = ran(tmp_path, "scheduler", "MinRtt", MIN_RTT, events=cut, duration="12s")
    assert bundle.status == "done"
    assert bundle.record["metrics"]["flows.bulk"]["bytes_received"] > 0


HANGING = {
    "a loop": "\n        while True: pass",
    "a loop that catches": "\n        while True:\n            try:\n                x = 1\n            except Exception:\n                pass",
}


@pytest.mark.parametrize("what", HANGING)
def test_a_hook_that_never_ends_ends_the_run(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mptcplab.backends.user_code.PATIENCE_S", 0.5)
    source = f"class Own:\n    def next(self, view): {HANGING[what]}\n"
    bundle = ran(tmp_path, "scheduler", "Own", source)
    assert bundle.status == "failed"
    assert "simulated time has stood still for 0.5 s of real time" in bundle.record["why"]
    assert 'File "./own.py", line' in bundle.record["why"]


def test_a_hook_that_cannot_be_interrupted_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mptcplab.backends.user_code.PATIENCE_S", 0.3)
    monkeypatch.setattr("mptcplab.backends.user_code.GRACE_S", 0.3)
    bundle = ran(tmp_path, "scheduler", "Own", "import time\nclass Own:\n    def next(self, view): time.sleep(5)\n")
    assert bundle.status == "failed"
    assert "cannot be stopped" in bundle.record["why"]
    assert "time.sleep(5)" in bundle.record["why"]


def test_it_is_refused_by_the_other_back_end(tmp_path: Path) -> None:
    from mptcplab.backends.preferences import Offer, first_choices

    experiment = json.loads(json.dumps(_resolved(described(tmp_path, "cc", "[./own.py:Reno, cubic]", RENO))))
    offer = Offer("kernel", {"transport mptcp": None, "own class": "no classes here", "cc cubic": None})
    choice = first_choices(experiment, [offer])
    assert choice.substitutions[0]["why"] == "no classes here"
    with pytest.raises(Unsupported):
        raise Unsupported("kernel", choice.missing)


def _resolved(experiment: Experiment) -> object:
    from mptcplab.experiment import resolve

    return resolve(experiment).data
