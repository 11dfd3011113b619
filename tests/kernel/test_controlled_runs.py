"""Tests whole runs with controlled switches: what is killed, injected or started anew while they
go on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from command_line import PROGRAM, environment, mptcplab
from mptcplab.backends import backend
from mptcplab.experiment import load, parse_actions
from mptcplab.results import Bundle, find
from mptcplab.runner import Job, Nobody, execute, plan
from mptcplab.web.live import LivePage
from mptcplab.web.watching import Watched, Watching, watched
from starlette.testclient import TestClient
from traces import Traces, left_since

if TYPE_CHECKING:
    from httpx import Response
    from mptcplab.backends import Run, Tick

pytestmark = pytest.mark.kernel

NOBODY = "65534"
#: Datagrams from a to b over s1-s2; the way over s3 is free.
DESCRIPTION = """
name: triangle
hosts: {{a: {{}}, b: {{}}}}
nodes: {{s1: {{kind: openflow}}, s2: {{kind: openflow}}, s3: {{kind: openflow}}}}
links:
  a-s1: {{between: [a.eth0, s1], rate: 100mbit}}
  b-s2: {{between: [b.eth0, s2], rate: 100mbit}}
  s1-s2: {{between: [s1, s2], rate: 10mbit, delay: 1ms}}
  s1-s3: {{between: [s1, s3], rate: 10mbit, delay: 1ms}}
  s3-s2: {{between: [s3, s2], rate: 10mbit, delay: 1ms}}
control: {{policy: shortest{control}}}
flows: {{call: {{from: a, to: b, transport: udp, app: {{cbr: {{rate: 1mbit, size: 500}}}}}}}}
measure: {{every: 20ms, control: 100ms}}
duration: {duration}
"""


@pytest.fixture
def desk() -> Iterator[Path]:
    """A directory with a short name, because the names of sockets may have 107 bytes."""
    with TemporaryDirectory(dir="/tmp") as place:
        (Path(place) / "temporary").mkdir()
        yield Path(place)


def describe(desk: Path, duration: str, control: str = "") -> Path:
    file = desk / "triangle.yaml"
    file.write_text(DESCRIPTION.format(duration=duration, control=control))
    return file


def start(desk: Path, out: str = "results", **variables: str) -> subprocess.Popen[str]:
    command = [str(PROGRAM), "run", "triangle.yaml", "--on", "kernel", "--out", out, "--allow-programs"]
    env = environment(TMPDIR=str(desk / "temporary"), **variables)
    return subprocess.Popen(command, cwd=desk, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_measuring(desk: Path, out: str = "results") -> None:
    for _ in range(3000):
        if any(file.stat().st_size > 5_000 for file in (desk / out).rglob("samples.csv")):
            return
        time.sleep(0.01)
    raise TimeoutError("no samples")


def program_of(desk: Path, words: str) -> int:
    """Returns the process of a run of ``desk`` that has these words in its command line."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if words in line and str(desk / "temporary") in line:
            return int(entry.name)
    raise LookupError(words)


def only_bundle(desk: Path, out: str = "results") -> Bundle:
    [bundle] = find(desk / out)
    return bundle


def test_a_killed_run_leaves_nothing_and_the_run_beside_it_does_not_notice(
    desk: Path, started: list[subprocess.Popen[str]]
) -> None:
    before = Traces.now()
    describe(desk, "4s")
    started += [start(desk, out) for out in ("killed", "other")]
    killed, other = started
    for out in ("killed", "other"):
        wait_until_measuring(desk, out)
    killed.kill()
    killed.communicate()
    out, err = other.communicate(timeout=60)
    assert other.returncode == 0, out + err
    assert only_bundle(desk, "other").record["metrics"]["flows.call"]["loss_ratio"] < 0.01
    assert left_since(before) == {}
    [directory] = (desk / "temporary").iterdir()
    # The next run removes the directory of the one that was killed.
    describe(desk, "100ms")
    started.append(start(desk, "next"))
    started[-1].communicate(timeout=60)
    assert not directory.exists()
    assert list((desk / "temporary").iterdir()) == []


def test_traffic_outlives_a_killed_controller_and_takes_a_new_one(
    desk: Path, started: list[subprocess.Popen[str]]
) -> None:
    describe(desk, "15s")
    run = start(desk)
    started.append(run)
    wait_until_measuring(desk)
    controller, switches = (program_of(desk, words) for words in ("mptcplab.controller", "ovs-vswitchd"))
    experiment = Path(f"/proc/{controller}/cmdline").read_bytes().split(b"\0")[-2].decode()
    os.kill(controller, signal.SIGKILL)
    again = subprocess.Popen(
        ["nsenter", "--net", "--target", str(switches), sys.executable, "-m", "mptcplab.controller", experiment],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    started.append(again)
    assert again.stdout is not None
    said = (json.loads(line) for line in again.stdout)
    assert next(line for line in said if line["said"] == "ready")["switches"] == 3
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, out + err
    record = only_bundle(desk).record
    assert record["result"]["control"]["controller"]["signal"] == signal.SIGKILL
    assert record["metrics"]["flows.call"]["loss_ratio"] < 0.01


def test_a_killed_switch_daemon_ends_the_run_with_its_name(desk: Path, started: list[subprocess.Popen[str]]) -> None:
    describe(desk, "60s")
    run = start(desk)
    started.append(run)
    wait_until_measuring(desk)
    os.kill(program_of(desk, "ovs-vswitchd"), signal.SIGKILL)
    out, err = run.communicate(timeout=30)
    assert run.returncode == 4, out + err
    assert "Open vSwitch ended with signal: 9" in out
    assert list((desk / "temporary").iterdir()) == []


def test_a_controller_has_the_rights_of_the_user_who_called_sudo(
    desk: Path, started: list[subprocess.Popen[str]]
) -> None:
    script = "echo user `id -u`, `grep CapEff /proc/self/status` >&2; exit 3"
    describe(desk, "1s", f', command: [sh, -c, "{script}"]')
    desk.chmod(0o755)
    run = start(desk, SUDO_UID=NOBODY, SUDO_GID=NOBODY, SUDO_USER="nobody")
    started.append(run)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 4, out + err
    assert f"user {NOBODY}, CapEff: 0000000000000000" in " ".join(out.split())


def test_rates_beyond_what_open_vswitch_forwards_are_refused_with_their_sum(desk: Path) -> None:
    describe(desk, "1s")
    faster = ["--set", "links.*.rate=4gbit", "--set", "flows.call.transport=tcp", "--set", "flows.call.app=bulk"]
    ended = mptcplab("run", "triangle.yaml", "--on", "kernel", *faster, cwd=desk)
    assert ended.status == 3
    [line] = ended.err.splitlines()
    # The packets of the path arrive at two switches.
    assert "up to 8.00 Gbit/s in 666667 packets a second, summed over all hops" in line


def test_outages_and_reroutes_can_be_injected_and_are_seen_at_once(tmp_path: Path) -> None:
    resolved = load(describe(tmp_path, "2s"))[0].resolve()
    # As all callers do; it also reads what this kernel can do, which would delay the first
    # injection.
    assert backend("kernel").check(resolved.data) == []
    run = backend("kernel").start(resolved.data, seed=1, directory=tmp_path)
    texts = {
        500: "outage: s1-s2, for: 200ms, by: drop_rule",
        1000: "reroute: call, path: 1, over: [s1, s3, s2]",
        1200: "outage: s1-s2, for: 300ms, by: port_down",
    }
    seen = {}
    for tick in run.samples():
        for at_ms in [at for at in texts if tick.time_ns >= at * 1_000_000]:
            for after_ns, action in parse_actions(texts.pop(at_ms), resolved):
                run.inject_later(action, after_ns)
            seen[at_ms] = tick.values
        seen[2000] = tick.values
    result = run.result()
    assert [event["action"]["kind"] for event in result["events"]] == [
        "link_down",
        "link_up",
        "reroute",
        "link_down",
        "link_up",
    ]
    assert seen[1000]["switches.s1"]["lookups"] > 0
    assert seen[1000]["switches.s3"]["received_packets"] < 20
    # 250 datagrams a second for the last second.
    assert seen[2000]["switches.s3"]["received_packets"] > 150
    lost = seen[2000]["flows.call"]["packets_sent"] - seen[2000]["flows.call"]["packets_received"]
    # Half of what the outage takes, because a busy machine admits its beginning late; the rest has
    # another way.
    assert 25 <= lost < 80


class Viewer(Watching):
    """An observer of a run, and a viewer that presses buttons of its page at times of the run."""

    def __init__(self, run: Watched, pressed: Mapping[float, Mapping[str, object]]) -> None:
        super().__init__(run)
        self._pressed = dict(sorted(pressed.items()))
        self._page = TestClient(LivePage(run, None).app())
        self._pressing = ThreadPoolExecutor()
        self.answers: list[Future[Response]] = []

    def advanced(self, job: Job, run: Run, tick: Tick) -> None:
        while self._pressed and tick.time_ns / 1e9 >= next(iter(self._pressed)):
            words = self._pressed.pop(next(iter(self._pressed)))
            self.answers.append(self._pressing.submit(self._page.post, "/actions", json=words))
        super().advanced(job, run, tick)


def watched_run(file: Path, out: Path, pressed: Mapping[float, Mapping[str, object]]) -> tuple[Bundle, list[Response]]:
    """Runs a description on the kernel while a viewer presses buttons. Returns the bundle and the
    answers.
    """
    [job] = plan([load(file)[0].resolve().data], "kernel", seed=1, repeat=1, out=out)
    viewer = Viewer(watched(job, None), pressed)
    [bundle] = execute([job], viewer)
    return bundle, [answer.result() for answer in viewer.answers]


def carried(bundle: Bundle, link: str, from_s: float, to_s: float) -> float:
    """Returns the bytes that a link carried forward between the first and the last sample of a span."""
    series = bundle.load().samples.series(f"links.{link}.forward", "wire_bytes")
    first = series.times_s.searchsorted(from_s)
    last = series.times_s.searchsorted(to_s, side="right") - 1
    return float(series.values[last] - series.values[first])


#: What 1 Mbit/s of payload is at least, in bytes a second. A busy machine sends less.
LEAST = 60_000


def test_a_viewer_sends_a_path_over_other_open_vswitches(desk: Path) -> None:
    reroute = {"reroute": "call", "path": 1, "over": ["s1", "s3", "s2"]}
    bundle, [answer] = watched_run(describe(desk, "2s"), desk / "out", {0.5: reroute})
    assert answer.status_code == 200, answer.text
    [event] = bundle.record["result"]["events"]
    assert (event["injected"], event["action"]["kind"]) == (True, "reroute")
    moved_s = event["actual_ns"] / 1e9
    assert carried(bundle, "s1-s3", 0, moved_s) == 0
    assert carried(bundle, "s1-s3", moved_s + 0.1, 1.9) > LEAST * (1.8 - moved_s)
    assert carried(bundle, "s1-s2", moved_s + 0.1, 1.9) == 0
    [reaction] = bundle.record["result"]["control"]["controller"]["reactions"]
    assert reaction["cause"] == event["id"]


OUTAGE = {"outage": "s1-s2", "for": "600ms", "by": "port_down"}


def causes(bundle: Bundle) -> list[str]:
    """Returns what the controller reacted to."""
    return [reaction["cause"] for reaction in bundle.record["result"]["control"]["controller"]["reactions"]]


def test_open_vswitches_recover_from_what_a_viewer_cuts_by_the_strategy_of_the_time(desk: Path) -> None:
    file = describe(desk, "2500ms")
    file.write_text(f"{file.read_text()}\nevents: [{{id: change, at: 1s, recovery: ip_reactive}}]\nvary: none\n")
    bundle, answers = watched_run(file, desk / "out", {0.5: OUTAGE, 1.5: OUTAGE})
    assert [answer.status_code for answer in answers] == [200, 200]
    assert causes(bundle) == ["s1-s2", "change.1", "s1-s2", "s1-s2", "s1-s2"]
    assert carried(bundle, "s1-s3", 0, 0.99) == 0, "without recovery, the path stays"
    assert carried(bundle, "s1-s3", 1.05, 1.1) > 0, "the new strategy moves the path of the link that is down"
    assert carried(bundle, "s1-s3", 1.35, 1.5) == 0, "it is back after the repair"
    assert carried(bundle, "s1-s3", 1.6, 2.1) > LEAST * 0.5, "the new strategy recovers from the next failure"


def test_a_viewer_chooses_the_strategy_by_which_open_vswitches_recover(desk: Path) -> None:
    chosen = {0.3: {"recovery": "ip_reactive"}, 0.4: {"recovery": "ip_reactive"}, 1.5: {"recovery": "none"}}
    bundle, answers = watched_run(describe(desk, "3s"), desk / "out", {**chosen, 0.5: OUTAGE, 1.6: OUTAGE})
    assert [answer.status_code for answer in answers] == [200, 409, 200, 200, 200]
    assert answers[1].json()["why"] == "action: the network already recovers with ip_reactive"
    changes = [event["id"] for event in bundle.record["result"]["events"] if event["action"]["kind"] == "set_recovery"]
    assert causes(bundle) == [changes[0], "s1-s2", "s1-s2", changes[1], "s1-s2", "s1-s2"]
    assert carried(bundle, "s1-s3", 0.6, 1.0) > LEAST * 0.4, "the chosen strategy recovers from the failure"
    assert carried(bundle, "s1-s3", 1.3, 2.9) == 0, "the last one does nothing"


@pytest.mark.parametrize("strategy", ["ip_reactive", "ip_preinstalled", "none"])
def test_a_strategy_that_an_event_chooses_leads_packets_as_in_the_simulator(desk: Path, strategy: str) -> None:
    first = "none" if strategy != "none" else "ip_reactive"
    file = describe(desk, "2s", f", recovery: {first}")
    change = f"{{id: change, at: 400ms, recovery: {strategy}}}"
    outage = "{id: cut, at: 700ms, outage: s1-s2, for: 600ms, by: port_down}"
    file.write_text(f"{file.read_text()}\nevents: [{change}, {outage}]\nvary: none\n")
    used = {}
    for name in ("kernel", "sim"):
        [job] = plan([load(file)[0].resolve().data], name, seed=1, repeat=1, out=desk / name)
        [bundle] = execute([job], Nobody())
        # Before the change, before the failure, while it lasts, and after the repair.
        periods = [(0.1, 0.35), (0.45, 0.65), (0.85, 1.25), (1.5, 1.9)]
        used[name] = [
            [link for link in ("s1-s2", "s1-s3", "s3-s2") if carried(bundle, link, *period) > LEAST * 0.1]
            for period in periods
        ]
    around = ["s1-s3", "s3-s2"] if strategy != "none" else []
    assert used["sim"] == [["s1-s2"], ["s1-s2"], around, ["s1-s2"]]
    assert used["kernel"] == used["sim"]


def test_a_controller_of_the_user_takes_no_other_strategy(desk: Path) -> None:
    describe(desk, "1s", ", command: [sleep, '1']")
    change = ["--set", "events=[{id: change, at: 400ms, recovery: ip_reactive}]"]
    ended = mptcplab("run", "triangle.yaml", "--on", "kernel", "--allow-programs", *change, cwd=desk)
    assert ended.status == 3
    [line] = ended.err.splitlines()
    assert "set_recovery" in line
    assert "a controller of your own takes no commands: leave `control.command` out" in line
