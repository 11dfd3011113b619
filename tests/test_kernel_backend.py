"""Tests the kernel back-end in Python with a synthetic compiled part, which needs neither root nor
Linux.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_kernel_run import kernel_result, made_kernel_run
from made_run import resolved
from mptcplab import doctor, runner
from mptcplab.backends import PRIVILEGES, backend, kernel
from mptcplab.catalogue import catalogue, entry_of
from mptcplab.errors import PrivilegeError, Unsupported
from mptcplab.results import Bundle, BundleError

Json = dict[str, Any]
S = 1_000_000_000
FEATURES = ("transport udp", "transport mptcp", "cc lia", "scheduler min_rtt", "path_manager full_mesh")
CAPABLE = [(feature, True, "") for feature in (*FEATURES, "behaviour mainline")]
DENIED = "needs root: use `sudo mptcplab run ..`"
FORBIDDEN = "a setting forbids user namespaces: as root: sysctl -w setting=1"


class MadeLive:
    """A compiled part whose runs take no time."""

    def __init__(self, **outcome: Any) -> None:
        self.outcome = outcome
        self.capabilities = list(CAPABLE)
        self.missing: list[tuple[str, str]] = []
        self.now_ns = 0
        self.steps: list[int] = []
        self.running = 0
        self.most_running = 0
        self.lock = threading.Lock()
        self.refuse_at: Callable[[int], bool] = lambda _: False

    def enter_user_namespace(self) -> None:
        raise PermissionError(FORBIDDEN)

    def live_capabilities(self, *, on_any_machine: bool, own_stack: bool) -> list[tuple[str, bool, str]]:  # noqa: ARG002
        return self.capabilities

    def live_check(
        self,
        text: str,
        *,
        on_any_machine: bool,  # noqa: ARG002
        own_stack: bool,  # noqa: ARG002
        classes: object,  # noqa: ARG002
    ) -> list[tuple[str, str]]:
        json.loads(text)
        return self.missing

    def LiveRun(  # noqa: N802
        self,
        text: str,
        seed: int,  # noqa: ARG002
        directory: str,
        classes: object,  # noqa: ARG002
        *,
        controller: list[str],  # noqa: ARG002
        machines: object,  # noqa: ARG002
    ) -> SimpleNamespace:
        with self.lock:
            self.running += 1
            self.most_running = max(self.running, self.most_running)
        experiment = json.loads(text)
        run = SimpleNamespace(now_ns=0, latest=dict)

        def advance(until_ns: int) -> bool:
            if self.refuse_at(until_ns):
                raise RuntimeError("the emulator's thread ended: No buffer space available")
            self.steps.append(until_ns - run.now_ns)
            run.now_ns = until_ns
            return bool(until_ns >= experiment["duration_ns"])

        def finish() -> str:
            with self.lock:
                self.running -= 1
            for folder in ("captures", "programs"):
                (Path(directory) / folder).mkdir()
                (Path(directory) / folder / "client.wlan0.pcapng").write_bytes(b"packets")
            return json.dumps(kernel_result(experiment, "recreated", **self.outcome))

        run.advance, run.finish = advance, finish
        return run


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> MadeLive:
    made = MadeLive()
    monkeypatch.setattr(kernel, "_core", made)

    def read(_path: Path, experiment: Json, result: Json, _backend: str) -> Any:
        data = made_kernel_run(experiment)
        data.result.update(result)
        return data

    monkeypatch.setattr(runner, "read_data", read)
    return made


def run(out: Path, *, repeat: int = 1, fresh: bool = False, observer: Any = None) -> list[Bundle]:
    jobs = runner.plan([resolved(expect=[])], "kernel", seed=1, repeat=repeat, out=out, fresh=fresh)
    return runner.execute(jobs, observer or runner.Nobody())


def test_a_run_ends_in_a_bundle_whose_checksums_cover_captures_and_programs(live: MadeLive, tmp_path: Path) -> None:
    (bundle,) = run(tmp_path)
    assert bundle.status == "done"
    assert set(live.steps) == {resolved()["measure"]["every_ns"]}
    assert {"captures/client.wlan0.pcapng", "programs/client.wlan0.pcapng"} <= set(bundle.record["sha256"])
    bundle.verify()
    (bundle.path / "captures" / "client.wlan0.pcapng").write_bytes(b"others")
    with pytest.raises(BundleError, match=r"captures/client\.wlan0\.pcapng was changed"):
        bundle.verify()


def test_what_an_earlier_attempt_captured_goes_with_it(live: MadeLive, tmp_path: Path) -> None:
    (bundle,) = run(tmp_path)
    stale = bundle.path / "captures" / "old.pcapng"
    stale.write_bytes(b"old")
    for folder in ("captures", "programs"):
        (bundle.path / folder / "client.wlan0.pcapng").rename(bundle.path / folder / "other")
    live.refuse_at = lambda _: True
    (again,) = run(tmp_path, fresh=True)
    assert again.status == "failed"
    assert [file for file in (bundle.path / "captures").rglob("*") if file.is_file()] == []


def test_runs_in_real_time_go_one_at_a_time(live: MadeLive, tmp_path: Path) -> None:
    assert [bundle.status for bundle in run(tmp_path, repeat=4)] == ["done"] * 4
    assert live.most_running == 1


@pytest.mark.parametrize("status", ["invalid", "failed"])
def test_the_compiled_parts_judgement_is_the_status(live: MadeLive, tmp_path: Path, status: str) -> None:
    live.outcome = {"status": status, "why": "packets were 30 ms late"}
    (bundle,) = run(tmp_path)
    assert (bundle.status, bundle.record["why"]) == (status, "packets were 30 ms late")
    assert bundle.record["metrics"]["flows.bulk"]["goodput_bps"] is not None


def test_a_machine_that_refuses_fails_the_run_and_not_the_others(live: MadeLive, tmp_path: Path) -> None:
    refused: list[int] = []

    def once(until_ns: int) -> bool:
        if until_ns > S and not refused:
            refused.append(until_ns)
            return True
        return False

    live.refuse_at = once
    first, second = run(tmp_path, repeat=2)
    assert (first.status, second.status) == ("failed", "done")
    assert "No buffer space" in first.record["why"]
    with pytest.raises(BundleError, match="the run failed: the emulator's thread ended"):
        first.load()


def test_a_stopped_run_is_unfinished(live: MadeLive, tmp_path: Path) -> None:
    made = backend("kernel").start(resolved(measure={"every_ns": 10 * S}), 1, tmp_path)
    ticks = made.samples()
    next(ticks)
    made.stop("interrupted")
    assert list(ticks) == []
    assert made.state == "stopped"
    assert live.steps == [kernel.HEED_STOP_NS]


@pytest.mark.parametrize("told_by", ["capabilities", "check"])
def test_without_root_nothing_is_created(live: MadeLive, tmp_path: Path, told_by: str) -> None:
    if told_by == "capabilities":
        live.capabilities.append((PRIVILEGES, False, DENIED))
    else:
        live.missing = [(PRIVILEGES, DENIED)]
    with pytest.raises(PrivilegeError, match="back-end kernel: needs root: use `sudo mptcplab run") as refused:
        run(tmp_path)
    assert refused.value.exit_status == 3
    assert list(tmp_path.iterdir()) == []


def test_elsewhere_than_on_linux_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel, "_core", SimpleNamespace())
    with pytest.raises(Unsupported, match=r"needs Linux 6\.1 or newer"):
        run(tmp_path)
    (finding,) = [finding for finding in doctor.examine(tmp_path) if finding.subject == "back-end kernel"]
    assert (finding.state, finding.found) == ("warning", kernel.ELSEWHERE)
    entry = entry_of(catalogue("alenazi2019")[0])
    assert (entry["on"], entry["missing"]) == (["sim"], [])


@pytest.mark.usefixtures("live")
def test_without_os_ken_switches_under_control_are_refused_unless_another_controller_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "find_spec", lambda _: None)
    ours, other = ({"command": command} for command in (None, ["./controller.py"]))
    assert backend("kernel").check(resolved(control=other)) == []
    needed = [("control", "the controller needs os-ken: pip install 'mptcplab[sdn]'")]
    assert backend("kernel").check(resolved(control=ours)) == needed


def test_what_is_missing_for_several_parts_is_said_once() -> None:
    error = Unsupported("kernel", [("nodes.a", "no switch"), ("nodes.b", "no switch"), ("flows.f", "no radio")])
    assert str(error) == "back-end kernel cannot run this: nodes.a, nodes.b (no switch); flows.f (no radio)"
    assert error.exit_status == 3


def test_the_doctor_shows_what_the_kernel_can_and_what_keeps_it(live: MadeLive, tmp_path: Path) -> None:
    live.capabilities += [("cc olia", False, "not in this kernel"), (PRIVILEGES, False, DENIED)]
    (finding,) = [finding for finding in doctor.examine(tmp_path) if finding.subject == "back-end kernel"]
    assert (finding.state, f"{finding.found}: {finding.remedy}") == ("warning", f"{DENIED}; without root: {FORBIDDEN}")
    told = "\n".join(finding.details)
    assert "can transport udp, mptcp" in told
    assert "not cc olia: not in this kernel" in told
    assert f"not privileges: {DENIED}" in told


@pytest.mark.parametrize(
    ("tried", "told"),
    [
        ((8, 8, 8), "at most 8 endpoints, 8 further subflows, 8 announcements (usually 2 and 0)"),
        ((255, 64, 64), "at least 255 endpoints, at most 64 further subflows, 64 announcements (usually 2 and 0)"),
    ],
)
def test_the_doctor_says_at_least_where_the_trial_ended(tried: tuple[int, int, int], told: str) -> None:
    limits = dict(zip(("endpoints", "subflows", "add_addr_accepted"), tried, strict=True))
    assert doctor.path_manager({**limits, "usual_limits": [2, 0], "flags": ["signal"]}).found == told


def test_a_doctor_without_an_agent_says_that_the_kernel_was_not_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MPTCPLAB_AGENT", str(tmp_path / "agent"))
    [finding] = [one for one in doctor.examine(tmp_path, tries_kernel=True) if one.subject == "path manager"]
    assert finding.state == "warning"
    assert "there is no agent" in finding.found
    assert doctor.path_manager(None).remedy == "use Linux 6.1 or newer with MPTCP"


@pytest.mark.usefixtures("live")
def test_of_the_kernels_behaviour_only_two_delays_can_be_chosen() -> None:
    experiment = resolved()
    experiment["hosts"][0]["behaviour"][0]["path_manager_delay_ns"] = S
    experiment["hosts"][0]["behaviour"][0]["stale_intervals"] = 2
    assert backend("kernel").check(experiment) == []
    experiment["hosts"][0]["behaviour"][0]["reinjection"] = "none"
    ((feature, why),) = backend("kernel").check(experiment)
    assert feature == "hosts.client.behaviour.reinjection: none"
    assert "the kernel has on_stale" in why
    experiment["hosts"][0]["behaviour"][0].update(reinjection="on_stale", timers="exact")
    ((feature, why),) = backend("kernel").check(experiment)
    assert feature == "hosts.client.behaviour.timers: exact"
    assert "the kernel has wheel" in why
    experiment["flows"] = experiment["flows"][1:]
    assert backend("kernel").check(experiment) == []
