"""Tests programs of users in the hosts: iperf3, commands as flows, and programs that events
execute.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import PROGRAM, environment, is_refused, mptcplab
from measured import TWO_LINKS, Inject, Json, Measured, driven, measured, program_unless_busy
from mptcplab.backends import Run, Tick
from mptcplab.results import find
from traces import descendants_named

pytestmark = pytest.mark.kernel

IPERF3 = (
    TWO_LINKS
    + """
flows: {load: {from: client, to: server, transport: mptcp, app: {iperf3: {args: [--time, "2"]}}}}
duration: 4s
"""
)


def programs(found: Measured, **of: str) -> list[Json]:
    results: list[Json] = found.record["result"]["programs"]
    return [program for program in results if all(program[name] == value for name, value in of.items())]


def test_iperf3_speaks_mptcp_over_both_links(tmp_path: Path) -> None:
    found = measured(IPERF3, tmp_path)
    assert found.flow("load")["bytes"] > 100_000
    [client] = programs(found, flow="load", host="client")
    assert (client["exit_status"], client["measured"] is not None) == (0, True)
    assert {subflow["link"] for subflow in found.subflows("load")} == {"one", "two"}


def test_programs_are_in_their_host_and_nowhere_else(tmp_path: Path) -> None:
    found = measured(
        TWO_LINKS
        + """
flows:
  bulk: {from: client, to: server, transport: tcp, app: bulk}
  look: {from: client, to: server, transport: tcp, app: {command: [sh, -c, "ls /sys/class/net; ls -d /proc/[0-9]* | wc -l; sleep 1"]}}
events:
  - {id: route, at: 300ms, exec: client, argv: [ip, route, get, 10.1.1.2, from, 10.1.1.1]}
  - {id: fail, at: 300ms, exec: server, argv: [sh, -c, "echo went wrong >&2; exit 7"]}
  - {id: taken, at: 300ms, exec: server, argv: [python3, -c, "import socket; socket.create_server(('10.1.1.2', 5001))"]}
duration: 2s
""",
        tmp_path,
    )
    [look] = programs(found, flow="look")
    *interfaces, processes = look["stdout"].split()
    assert {"eth1", "eth2"} <= set(interfaces) <= {"lo", "eth1", "eth2", "sit0", "tunl0"}
    assert int(processes) < 10
    [route] = programs(found, event="route")
    assert "dev eth1" in route["stdout"]
    [fail] = programs(found, event="fail")
    assert (fail["host"], fail["exit_status"], fail["stderr"]) == ("server", 7, "went wrong\n")
    # A flow's port is in use, and another program that wants it gets an error.
    [taken] = programs(found, event="taken")
    assert taken["exit_status"] == 1
    assert "Address already in use" in taken["stderr"]


def test_a_program_that_is_missing_is_named_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "iperf3.yaml").write_text(IPERF3)
    (tmp_path / "empty").mkdir()
    ended = mptcplab("run", "iperf3.yaml", "--on", "kernel", cwd=tmp_path, PATH=str(tmp_path / "empty"))
    assert is_refused(ended, 3, "iperf3", "apt install iperf3")
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(not shutil.which("iperf3"), reason="needs iperf3")
def test_a_program_that_dies_is_told(tmp_path: Path) -> None:
    (tmp_path / "iperf3.yaml").write_text(IPERF3.replace('"2"', '"20"').replace("duration: 4s", "duration: 30s"))
    command = [str(PROGRAM), "run", "iperf3.yaml", "--on", "kernel"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        for _ in range(300):
            if len(running := descendants_named("iperf3")) >= 2:
                break
            time.sleep(0.1)
        time.sleep(0.5)
        os.kill(max(running), signal.SIGKILL)
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
        process.communicate()
    assert "Traceback" not in err
    [bundle] = find(tmp_path)
    told = [flow["error"] for flow in bundle.record["result"]["flows"]]
    assert (process.returncode, bundle.status) == (4, "failed"), (out, err, told)
    assert "iperf3" in bundle.record["why"]


def test_of_a_command_its_sockets_tell_the_bytes(tmp_path: Path) -> None:
    sink = "import socket; c = socket.create_server(('10.1.1.2', 7000)).accept()[0]\\nwhile c.recv(65536): pass"
    source = (
        "import socket, time; time.sleep(1); s = socket.create_connection(('10.1.1.2', 7000)); "
        "s.sendall(bytes(100000)); time.sleep(1)"
    )
    found = measured(
        TWO_LINKS
        + f"""
flows: {{send: {{from: client, to: server, transport: tcp, app: {{command: [python3, -c, "{source}"]}}}}}}
events: [{{id: sink, at: 0s, exec: server, argv: [python3, -c, "{sink}"]}}]
duration: 5s
""",
        tmp_path,
    )
    assert found.flow("send")["bytes"] == 100_000
    sent = found.data.samples.series("flows.send", "bytes_sent")
    assert sent is not None
    assert sent.last() == 100_000
    # The sink is not a program of the flow, so what it received is unknown.
    assert found.data.samples.series("flows.send", "bytes_received") is None


def test_injected_programs_bear_the_ids_of_their_events(tmp_path: Path) -> None:
    text = TWO_LINKS + "flows: {bulk: {from: client, to: server, app: bulk}}\nduration: 1s\n"
    injected: list[Json] = []

    def at_tick(_run: Run, _tick: Tick, inject: Inject) -> None:
        if not injected:
            injected.extend(inject(f"exec: client, argv: [echo, {word}]") for word in ("one", "two"))

    _, result = driven(text, tmp_path, at_tick)
    assert [event["id"] for event in injected] == ["injected.1", "injected.2"]
    said = {program["event"]: program["stdout"] for program in result["programs"]}
    assert said == {"injected.1": "one\n", "injected.2": "two\n"}


@pytest.mark.parametrize(("rights", "said"), [([], ["65534", "1"]), (["--root-programs"], ["0", "0"])])
def test_under_sudo_programs_of_a_description_are_its_callers(
    tmp_path: Path, rights: list[str], said: list[str]
) -> None:
    (tmp_path / "own.yaml").write_text(
        TWO_LINKS
        + """
flows: {load: {from: client, to: server, transport: tcp, cc: cubic, app: {iperf3: {args: [--time, "1"]}}}}
events:
  - {id: look, at: 300ms, exec: client, argv: [sh, -c, "id -u; grep NoNewPrivs /proc/self/status | cut -f2"]}
duration: 2s
"""
    )
    caller = {"SUDO_UID": "65534", "SUDO_GID": "65534"}
    ended = program_unless_busy("run", "own.yaml", "--on", "kernel", "--json", *rights, cwd=tmp_path, **caller)
    assert ended.status == 0, ended
    (bundle,) = find(tmp_path)
    result = bundle.record["result"]
    [look] = [program for program in result["programs"] if program["event"] == "look"]
    assert look["stdout"].split() == said
    # Independent of whether the kernel allows its congestion control to all users.
    assert (result["flows"][0]["error"], result["flows"][0]["bytes"] > 100_000) == (None, True)
