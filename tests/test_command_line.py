"""Tests the command line through the program itself: messages, exit statuses,
documents, terminals.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from command_line import LONG, PROGRAM, SHORT, Ended, environment, is_refused, mptcplab
from documentation import EXAMPLES
from mptcplab.catalogue_index import PAPERS
from mptcplab.cli import COMMANDS

SUMMARY = json.loads((Path(__file__).parents[1] / "docs" / "schemas" / "summary.json").read_text())
ESCAPE = "\x1b"

LINK = "hosts: {a: {}, b: {}}\nlinks: {wire: {between: [a.eth0, b.eth0], rate: 1mbit, delay: 1ms}}\n"
UDP = "flows: {call: {from: a, to: b, transport: udp, app: {cbr: {rate: 100kbit, size: 100}}}}\n"
MIXED = f"""{LINK}name: mixed/$app
parameters:
  app: {{traffic: {{kind: {{cbr: {{rate: 100kbit, size: 100}}}}}}, program: {{kind: {{command: ["true"]}}}}}}
flows: {{load: {{from: a, to: b, transport: udp, app: $app.kind}}}}
duration: 1s
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A directory with a description."""
    (tmp_path / "short.yaml").write_text(SHORT)
    return tmp_path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the description and two repetitions of it in ``results``, which tests must
    not change.
    """
    directory = tmp_path_factory.mktemp("done")
    (directory / "short.yaml").write_text(SHORT)
    ended = mptcplab("run", "short.yaml", "--repeat", "2", cwd=directory)
    assert (ended.status, ended.err) == (0, "")
    return directory


def bundles(directory: Path) -> list[Path]:
    return sorted(file.parent for file in directory.rglob("run.json"))


def copied(done: Path, to: Path) -> Path:
    """Returns a copy of the first bundle, which tests can change."""
    return Path(shutil.copytree(bundles(done)[0], to / "bundle"))


def as_ordinary_user(*arguments: str, cwd: Path) -> Ended:
    """Runs the program without the rights of root. Its files are still those of this user."""
    as_user = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    command = [*as_user, PROGRAM, *arguments]
    ended = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


# ---- wrong usage and wrong input ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", ["Usage: mptcplab"]),
        ("nonsense", ["mptcplab: no such command 'nonsense'"]),
        ("rnu", ["mptcplab: no such command 'rnu'; did you mean 'run'?"]),
        ("short.yaml", ["no such command 'short.yaml'; did you mean `mptcplab run short.yaml`?"]),
        ("run", ["mptcplab: run: missing argument 'SPEC'; see mptcplab run --help"]),
        ("run short.yaml --nonsense", ["mptcplab: run: no such option: --nonsense"]),
        ("run nope.yaml", ["nope.yaml: there is no such file"]),
        ("run alenazi2019/fig77 --json", ["'alenazi2019/fig77'", "did you mean alenazi2019/fig7?"]),
        ("show shrt", ["no experiment and no file is called 'shrt'"]),
        ("run .", ["is a directory"]),
        ("run short.yaml --set links", ["--set links: not of the form KEY=VALUE"]),
        ("run short.yaml --set links.wifi.rate=", ["the value is missing", "links.wifi.rate=null for none"]),
        ("run short.yaml --speed 10x", ["--speed: has no effect without --live"]),
        ("run short.yaml --port 9000", ["--port: has no effect without --live"]),
        ("run short", ["called 'short'; did you mean short.yaml?"]),
        ("report results --style projektor", ["--style projektor: unknown; allowed: plain"]),
        ("run short.yaml --set links.wfi.delay=3ms", ["links.wfi.delay", "did you mean 'wifi'?"]),
        ("show short.yaml --set links.wifi.delay=3parsec", ["unknown unit 'parsec'", "30ms"]),
        ("run short.yaml --set duration=1s --set duration=2s", ["--set duration: given twice"]),
        ("run short.yaml --on nonsense", ["'nonsense'", "allowed: sim"]),
        ("run short.yaml --seed -1", ["--seed", "greater than or equal to 0, found '-1'"]),
        ("run short.yaml --repeat 0", ["--repeat"]),
        ("run short.yaml --jobs x", ["should be a valid integer, found 'x'; see"]),
        ("run short.yaml --out short.yaml", ["--out", "short.yaml"]),
        ("list nope.yaml --json", ["no such file"]),
        ("pcap missing.pcap", ["missing.pcap: No such file or directory\n"]),
        ("show short.yaml --set links.wifi.rate=10megabit", ["unknown unit 'megabit'", "12mbit"]),
        ("show short.yaml --set links.wifi.rate=-10mbit", ["'-10mbit' is negative"]),
        ("show short.yaml --set links.wifi.rate=10MB", ["counts bytes; did you mean 80mbit?"]),
        ("show short.yaml --set links.wifi.rate=10", ["10 has no unit"]),
        ("show short.yaml --set links.wifi.rate=99999999999999999999gbit", ["is more than"]),
        ("show short.yaml --set links.wifi.loss=110%", ["'110%' is not between 0 and 1"]),
        ("show short.yaml --set links.wifi.delay=10,5ms", ["did you mean 10.5ms"]),
        ("run short.yaml --set links.wifi.rate=2mbit,1mbit", ["'2mbit,1mbit' is not", "`compare` or `sweep`"]),
        ("show short.yaml --set links.wifi.rate=2mbit,1mbit", ["mptcplab: --set links.wifi.rate: '2mbit,1mbit'"]),
        ("show short.yaml --set links.wifi.queue=50", ["'50' has no unit, did you mean 50p"]),
        ("show short.yaml --set duration=0s", ["duration: the run takes no time"]),
        ("show short.yaml --set a.b=5mbit", ["unknown field 'a'"]),
        ("run short.yaml --set expect=[nonsense]", ["'nonsense' is not a comparison"]),
        ("run short.yaml --on kernal", ["unknown back-end 'kernal', did you mean 'kernel'?"]),
        ("run short.yaml --on sim,kernel", ["unknown back-end 'sim,kernel'", "several with `compare`"]),
        ("show short.yaml --set flows.call.cc=mine.py:Mine", ["'mine.py:Mine', did you mean './mine.py:Mine'?"]),
        ("bench-algorithm mine.py:Mine", ["'mine.py:Mine', did you mean './mine.py:Mine'?"]),
        ("bench-algorithm redundent", ["'redundent', did you mean 'redundant'?", "one of reno"]),
        ("show alenazi", ["no file is called 'alenazi'; did you mean alenazi2019?"]),
        ("compare short.yaml", ["at least two", "found 1 of one"]),
        ("compare short.yaml short.yaml --on sim,sim", ["at least two", "found 1 of one"]),
        ("check --ktap", ["--ktap"]),
        ("pcap short.yaml", ["short.yaml: not a capture file"]),
        ("pcap /dev/null", ["/dev/null: not a capture file"]),
        ("report nothing", ["nothing: there is no such directory"]),
        ("run short.yaml --quiet --verbose", ["found both; allowed: one of them"]),
    ],
)
def test_wrong_usage_is_one_message(desk: Path, arguments: str, words: list[str]) -> None:
    ended = mptcplab(*arguments.split(), cwd=desk)
    assert is_refused(ended, 2, *words)
    assert not arguments or len(ended.err.splitlines()) == 1


def test_the_help_has_every_command_in_a_whole_sentence(desk: Path) -> None:
    told = mptcplab("--help", cwd=desk).out
    lines = told.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(lines) == len(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("..") for line in lines), told


def test_python_runs_the_package(desk: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "mptcplab", "rnu"],
        cwd=desk,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (2, mptcplab("rnu", cwd=desk).err)


def test_a_misspelt_field_is_named_with_its_place(desk: Path) -> None:
    (desk / "wrong.yaml").write_text(SHORT.replace("delay:", "dely:"))
    assert is_refused(mptcplab("run", "wrong.yaml", cwd=desk), 2, "wrong.yaml:4:", "'dely'", "did you mean 'delay'?")


@pytest.mark.parametrize("name", ["../elsewhere", "/etc/elsewhere", "a/../../b", "n" * 300])
def test_a_name_leads_to_no_other_place(desk: Path, name: str) -> None:
    (desk / "out.yaml").write_text(SHORT.replace("name: short", f"name: {name}"))
    assert is_refused(mptcplab("run", "out.yaml", cwd=desk), 2, "out.yaml:2: name: '")
    assert [path.name for path in desk.iterdir() if path.is_dir()] == []


def test_what_a_back_end_cannot_do_names_the_remedy(desk: Path) -> None:
    ours = "hosts.phone.stack=userspace"
    ended = mptcplab("run", "short.yaml", "--set", ours, "--json", cwd=desk)
    assert is_refused(ended, 3, "hosts.phone.stack: userspace", "use --on userspace")


def test_what_a_back_end_cannot_do_has_its_line(desk: Path) -> None:
    (desk / "long.yaml").write_text(SHORT.replace("size: 1000", "size: 12000"))
    ended = mptcplab("run", "long.yaml", cwd=desk)
    assert is_refused(ended, 3, "cannot run short: long.yaml:5: flows.call.app.size_bytes: 12000 (with 28 bytes of")
    ended = mptcplab("run", "short.yaml", "--set", "flows.call.app.cbr.size=12000", cwd=desk)
    assert is_refused(ended, 3, "cannot run short: --set flows.call.app.cbr.size=12000: flows.call.app.size_bytes")


def test_a_name_may_have_letters_of_any_language(desk: Path) -> None:
    (desk / "named.yaml").write_text(SHORT.replace("name: short", "name: erste Übung ☃"))
    assert mptcplab("run", "named.yaml", cwd=desk).status == 0
    assert (desk / "results/erste_Übung_☃").is_dir()


def test_a_place_that_takes_no_results_is_named(desk: Path) -> None:
    ended = mptcplab("run", "short.yaml", "--out", "/proc/results", cwd=desk)
    assert is_refused(ended, 4, "/proc/results/short/", "cannot be written")


@pytest.mark.parametrize(
    "arguments",
    [
        "run short.yaml --out closed/results",
        "run closed/short.yaml",
        "list ./closed/short",
        "report closed/results",
        "compare closed/results",
        "check closed/results",
        "clean closed/results",
        "pcap closed/capture.pcapng",
        "traces show closed/trace",
    ],
)
def test_a_directory_that_must_not_be_entered_is_named(desk: Path, arguments: str) -> None:
    (desk / "closed").mkdir(mode=0)
    ended = as_ordinary_user(*arguments.split(), cwd=desk)
    assert is_refused(ended, 2, "mptcplab: ", "closed", "Permission denied; allowed: a place that you may enter")


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="needs tcpdump")
def test_following_an_interface_names_the_right_that_is_missing(desk: Path) -> None:
    assert is_refused(as_ordinary_user("pcap", "--follow", "lo", cwd=desk), 3, "lo: capturing needs", "sudo mptcplab")


def test_a_failed_run_is_one_line_that_begins_with_its_bundle(desk: Path) -> None:
    (desk / "mine.py").write_text("class Mine:\n    def next(self, view):\n        return 5\n")
    text = SHORT.replace("transport: udp", "transport: mptcp, scheduler: ./mine.py:Mine").replace("expect:", "# ")
    (desk / "failing.yaml").write_text(text)
    ended = mptcplab("run", "failing.yaml", "--allow-programs", cwd=desk)
    assert ended.status == 4
    assert re.search(
        r"^failed results/short/sim-\w+-seed1: at \S+ s of simulated time: ./mine.py:Mine, next: ", ended.out, re.M
    )


def test_a_run_within_one_sample_has_a_report_without_warnings(desk: Path) -> None:
    (desk / "brief.yaml").write_text(
        SHORT.replace("transport: udp, app: {cbr: {rate: 1mbit, size: 1000}}", "transport: mptcp")
        .replace("events:", "# events:")
        .replace("duration: 2s", "duration: 60ms\nvary: {start: 0s}")
        .replace("expect:", "# expect:")
    )
    assert mptcplab("run", "brief.yaml", cwd=desk).status == 0
    ended = mptcplab("report", "results/short", cwd=desk)
    assert (ended.status, ended.err) == (0, "")


def test_a_prefix_that_runs_in_part_is_refused_in_few_words(desk: Path) -> None:
    (desk / "mixed.yaml").write_text(MIXED)
    ended = mptcplab("run", "mixed.yaml", "--json", cwd=desk)
    assert is_refused(ended, 3, "cannot run mixed/program: mixed.yaml:", ": flows.load.app: command")
    many = MIXED.replace("parameters:", f"parameters:\n  n: {list(range(50))}")
    (desk / "many.yaml").write_text(many)
    ended = mptcplab("run", "many.yaml", cwd=desk)
    assert is_refused(ended, 3, "cannot run 50 of 100 experiments", "and 46 more", "app: command")
    assert len(ended.err) < 500
    assert not (desk / "results").exists()


def test_an_output_directory_that_cannot_be_one_is_named(desk: Path) -> None:
    ended = mptcplab("run", "short.yaml", "--out", "short.yaml/sub", "--json", cwd=desk)
    assert is_refused(ended, 4, "short.yaml/sub", "Not a directory")


def test_one_experiment_given_twice_runs_once(desk: Path) -> None:
    (desk / "same.yaml").write_text(f"# another file\n{SHORT}")
    ended = mptcplab("run", "short.yaml", "same.yaml", "short.yaml", "--json", cwd=desk)
    assert (ended.status, len(ended.document["runs"])) == (0, 1)


# ---- directories without a bundle, and damaged bundles ----


@pytest.mark.parametrize(
    ("command", "directory", "words"),
    [
        ("report", "missing", "missing: there is no such directory"),
        ("check", "missing", "missing: there is no such directory"),
        ("clean", "missing", "missing: there is no such directory"),
        ("compare", "missing", "no experiment and no file is called 'missing'"),
        ("check", "short.yaml", "short.yaml: is not a directory"),
        ("report", "foreign", "foreign: holds no bundle"),
        ("compare", "foreign", "foreign: holds no bundle"),
        ("check", "empty", "empty: holds no bundle; `mptcplab run SPEC --out empty` makes one"),
    ],
)
def test_directories_without_bundles(desk: Path, command: str, directory: str, words: str) -> None:
    (desk / "empty").mkdir()
    (desk / "foreign").mkdir()
    (desk / "foreign" / "run.json").write_text("not ours, and no JSON")
    assert is_refused(mptcplab(command, directory, cwd=desk), 2, words)


def test_what_others_left_is_not_cleaned(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"status": "unfinished"}')
    assert mptcplab("clean", ".", cwd=tmp_path) == Ended(0, ".: no unfinished runs\n", "")
    assert (tmp_path / "run.json").exists()


@pytest.mark.parametrize(
    ("command", "content", "words"),
    [
        ("report", "{", "run.json: damaged: is not JSON"),
        ("compare", '{"schema": "mptcplab/run/1"}', "run.json: damaged"),
        ("check", '{"schema": "mptcplab/run/1"}', "run.json: damaged"),
        ("clean", "{", "bundle to run it again"),
    ],
)
def test_a_damaged_record_is_named(done: Path, tmp_path: Path, command: str, content: str, words: str) -> None:
    (copied(done, tmp_path) / "run.json").write_text(content)
    assert is_refused(mptcplab(command, "bundle", cwd=tmp_path), 4, words)


@pytest.mark.parametrize("arguments", ["report bundle", "check bundle --json"])
def test_a_changed_table_is_named(done: Path, tmp_path: Path, arguments: str) -> None:
    (copied(done, tmp_path) / "units.parquet").write_bytes(b"PAR1")
    assert is_refused(mptcplab(*arguments.split(), cwd=tmp_path), 4, "units.parquet was changed")


def test_a_page_that_cannot_be_written_is_named(done: Path) -> None:
    ended = mptcplab("report", bundles(done)[0], "--out", "none/page.html", cwd=done)
    assert is_refused(ended, 2, "none/page.html: cannot be written: No such file or directory")


# ---- documents ----


def test_the_summary_is_one_document(done: Path) -> None:
    for arguments in (["run", "short.yaml", "--repeat", "2"], ["check", "results"]):
        ended = mptcplab(*arguments, "--json", cwd=done)
        assert (ended.status, ended.err) == (0, "")
        jsonschema.validate(ended.document, SUMMARY)
        assert [run["seed"] for run in ended.document["runs"]] == [1, 2]


def test_the_list_has_one_entry_per_experiment(desk: Path) -> None:
    (desk / "mixed.yaml").write_text(MIXED)
    ended = mptcplab("list", "mixed.yaml", "--json", cwd=desk)
    assert (ended.status, ended.err) == (0, "")
    waits = {"sim": ["app: command"]}
    assert ended.document == {
        "schema": "mptcplab/list/1",
        "experiments": [
            {"id": "mixed/traffic", "title": "", "on": ["sim", "userspace", "kernel"], "missing": [], "waits": {}},
            {"id": "mixed/program", "title": "", "on": ["userspace", "kernel"], "missing": [], "waits": waits},
        ],
    }
    told = mptcplab("list", "mixed.yaml", cwd=desk).out.splitlines()
    assert told[0].split() == ["mixed/traffic", "S", "U", "K"]
    assert told[1].split(maxsplit=4)[1:] == ["-", "U", "K", "(sim waits for app: command)"]
    assert told[2] == "runs on: S sim, U userspace, K kernel; - waits for a feature"


def test_a_resolved_experiment_is_one_document(desk: Path) -> None:
    ended = mptcplab("show", "short.yaml", "--resolved", "--set", "duration=3s", cwd=desk)
    assert (ended.status, ended.err) == (0, "")
    assert (ended.document["schema"], ended.document["duration_ns"]) == ("mptcplab/experiment/3", 3_000_000_000)


def test_the_catalogue_is_listed(desk: Path) -> None:
    ended = mptcplab("list", "alenazi2019", "--json", cwd=desk)
    assert (ended.status, ended.err) == (0, "")
    assert all(set(entry) == {"id", "title", "on", "missing", "waits"} for entry in ended.document["experiments"])
    assert len(ended.document["experiments"]) == 34 + 8  # eight of mptcplab's own separate what the paper mixes


def test_an_experiment_is_shown_with_its_back_ends_and_unbroken_names(desk: Path) -> None:
    (desk / "mixed.yaml").write_text(MIXED)
    shown = mptcplab("show", "mixed.yaml", cwd=desk, COLUMNS="80").out
    assert re.findall(r"^runs on .*", shown, re.M) == [
        "runs on sim, userspace, kernel",
        "runs on userspace, kernel; sim waits for app: command",
    ]
    assert shown.count("  behaviour.0.reinject_whole_queue  ") == 4


def test_delays_in_the_topology_have_their_largest_unit(desk: Path) -> None:
    told = [
        mptcplab("show", "short.yaml", "--set", f"links.wifi.delay={delay}", cwd=desk).out
        for delay in ("12500us", "1500ms", "0s", "900ns")
    ]
    assert [re.search(r"2mbit, (\S+),", text)[1] for text in told] == ["12.5ms", "1.5s", "0s", "900ns"]  # type: ignore[index]


def test_the_list_has_a_head_for_each_paper(desk: Path) -> None:
    told = mptcplab("list", cwd=desk).out.splitlines()
    papers = {entry.name for entry in PAPERS.iterdir() if entry.is_dir()}
    heads = [line for line in told if re.match(r"\w+: .*\(\d+ experiments\)$", line)]
    assert {line.partition(":")[0] for line in heads} == papers
    numbers = [int(line.split("(")[-1].split()[0]) for line in heads]
    assert sum(numbers) == len(told) - len(heads) - 1


def test_the_doctor_says_what_there_is(desk: Path) -> None:
    ended = mptcplab("doctor", "--json", cwd=desk)
    assert (ended.status, ended.err, ended.document["schema"]) == (0, "", "mptcplab/doctor/2")
    findings = ended.document["findings"]
    assert {"compiled part", "back-end sim", "own MPTCP"} <= {finding["subject"] for finding in findings}
    told = mptcplab("doctor", "-v", cwd=desk).out
    # The free space on the disk changes between calls.
    details = [line for finding in findings for line in finding["details"] if "GB free" not in line]
    assert all(line in told for line in [*details, *(finding["found"] for finding in findings)])
    assert all(finding["remedy"] in told for finding in findings)
    narrow = mptcplab("doctor", "-v", cwd=desk, COLUMNS="60").out
    assert all(finding["found"] in narrow for finding in findings)


def test_the_doctor_needs_ten_lines_of_a_narrow_terminal(desk: Path) -> None:
    lines = mptcplab("doctor", cwd=desk, COLUMNS="80").out.splitlines()
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 80


def test_an_expectation_that_does_not_hold_is_status_1(desk: Path) -> None:
    ended = mptcplab("run", "short.yaml", "--set", "expect=[flows.call.goodput_bps > 1e9]", "--json", cwd=desk)
    assert (ended.status, ended.err) == (1, "")
    assert ended.document["runs"][0]["expectations"] == [{"text": "flows.call.goodput_bps > 1e9", "held": False}]


# ---- seeds, repetitions, comparison ----


def test_repetitions_are_aggregated_and_repeat_exactly(desk: Path) -> None:
    first = mptcplab("run", "short.yaml", "--repeat", "6", "--jobs", "2", "--json", cwd=desk).document
    assert [(run["seed"], run["repeat"]) for run in first["runs"]] == [(n, n - 1) for n in range(1, 7)]
    goodputs = sorted(run["flows"][0]["goodput_bps"] for run in first["runs"])
    [goodput] = [a for a in first["aggregates"] if (a["flow"], a["metric"]) == ("call", "goodput_bps")]
    assert goodput["n"] == 6
    assert goodput["ci95"] == [goodputs[0], goodputs[-1]]
    assert goodputs[2] <= goodput["median"] <= goodputs[3]
    again = mptcplab("run", "short.yaml", "--repeat", "6", "--fresh", "--jobs", "1", "--json", cwd=desk).document
    hashes = [run["trace_hash"] for run in first["runs"]]
    assert hashes == [run["trace_hash"] for run in again["runs"]]
    assert len(set(hashes)) == 6
    table = mptcplab("run", "short.yaml", "--repeat", "6", cwd=desk).out
    assert re.search(r"short\s+call\s+6\s+\S+ kbit/s", table)
    assert "done already: 6 of 6" in table


def test_the_chart_of_a_run_stays_below_what_the_links_carry(desk: Path) -> None:
    """Delivery in order would reach several times their 28 Mbit/s when a gap is filled."""
    ended = mptcplab("run", str(EXAMPLES / "two-paths-mptcp.yaml"), cwd=desk)
    [peak_mbps] = re.findall(r"download .* peak (\S+) Mbit/s", ended.out)
    assert 25 < float(peak_mbps) < 30


def test_the_experiments_of_a_family_take_turns(desk: Path) -> None:
    (desk / "family.yaml").write_text(
        SHORT.replace("name: short", "name: turns/$rate\nparameters: {rate: [1mbit, 2mbit]}").replace(
            "2mbit, d", "$rate, d"
        )
    )
    ended = mptcplab("run", "family.yaml", "--repeat", "2", "--jobs", "1", "--json", cwd=desk)
    order = [(run["experiment"], run["seed"]) for run in ended.document["runs"]]
    assert order == [("turns/1mbit", 1), ("turns/2mbit", 1), ("turns/1mbit", 2), ("turns/2mbit", 2)]
    ended = mptcplab("compare", "family.yaml", "--repeat", "2", cwd=desk)
    assert ended.status == 0
    assert re.search(r"call: goodput\s+1mbit\s+2 .*\n\s+2mbit\s+2 ", ended.out)
    assert "Comparison of 2 arms" in (desk / "comparison.html").read_text()


@pytest.mark.parametrize("columns", [80, 60])
def test_tables_fit_the_terminal_and_break_no_word(columns: int, desk: Path) -> None:
    (desk / "family.yaml").write_text(
        SHORT.replace("name: short", "name: turns/$rate\nparameters: {rate: [1mbit, 2mbit]}").replace(
            "2mbit, d", "$rate, d"
        )
    )
    run = mptcplab("run", "family.yaml", "--repeat", "2", cwd=desk, COLUMNS=str(columns))
    compared = mptcplab("compare", "family.yaml", "--repeat", "2", cwd=desk, COLUMNS=str(columns))
    for ended in (run, compared):
        assert ended.status == 0, ended
        table = [line for line in ended.out.splitlines() if not line.startswith(("report:", "side by side:", "wrote"))]
        assert max(map(len, table)) <= columns
    words = set(run.out.split())
    assert {"experiment", "turns/1mbit", "turns/2mbit", "goodput", "median", "of", "delay"} <= words
    assert {"goodput", "jitter", "1mbit", "2mbit", "interval", "ratio", "longest", "silence"} <= set(
        compared.out.split()
    )


def test_a_paced_flow_is_measured_by_what_it_offered(done: Path) -> None:
    heads, values, *_ = mptcplab("run", "short.yaml", cwd=done).out.splitlines()
    assert "of offered" in heads
    assert "of ceiling" not in heads, "the call does not try to fill the link"
    assert re.search(r"short\s+call\s+\S+ kbit/s\s+0\.\d+\s", values)


def test_a_flow_that_had_no_time_is_told(desk: Path) -> None:
    # Seeds vary the start by some milliseconds.
    ended = mptcplab("run", "short.yaml", "--set", "flows.call.start=1999999us", "--set", "expect=[]", cwd=desk)
    assert "flow call the flow had no time to run: it starts at 2.0" in ended.out


def test_a_run_is_reproduced_from_its_bundle(done: Path, tmp_path: Path) -> None:
    bundle = copied(done, tmp_path)
    assert mptcplab("report", "bundle", cwd=tmp_path).status == 0
    [command] = re.findall(r"<pre tabindex=\"0\">(mptcplab run .*)</pre>", (bundle / "report.html").read_text())
    assert command.startswith("mptcplab run bundle/experiment.json --on sim --seed 1")
    ended = mptcplab(*command.split()[1:], "--json", cwd=tmp_path)
    record = json.loads((bundle / "run.json").read_text())
    assert ended.document["runs"][0]["trace_hash"] == record["trace_hash"]
    [again] = bundles(tmp_path / "reproduced")
    assert json.loads((again / "run.json").read_text())["digest"] == record["digest"]


def test_a_resolved_experiment_takes_no_settings_and_no_other_schema(done: Path, tmp_path: Path) -> None:
    experiment = copied(done, tmp_path) / "experiment.json"
    ended = mptcplab("run", experiment, "--set", "duration=1s", cwd=tmp_path)
    assert is_refused(ended, 2, "is resolved already, --set cannot change it")
    ended = mptcplab("run", experiment.with_name("run.json"), cwd=tmp_path)
    assert is_refused(ended, 2, "found the schema 'mptcplab/run/1'", "'mptcplab/experiment/1'")
    data = json.loads(experiment.read_text())
    experiment.write_text(json.dumps(data | {"surplus": 1}))
    assert is_refused(mptcplab("show", experiment, cwd=tmp_path), 2, "experiment.json", "surplus")
    experiment.write_text("{")
    assert is_refused(mptcplab("list", experiment, "--json", cwd=tmp_path), 2, "experiment.json: is not JSON")


def test_arms_are_named_by_what_differs(desk: Path) -> None:
    for delay in ("10ms", "40ms"):
        settings = ["--set", f"links.wifi.delay={delay}", "--set", "duration=3s"]
        assert mptcplab("run", "short.yaml", *settings, "--out", delay, cwd=desk).status == 0
    ended = mptcplab("compare", "40ms", "10ms", "40ms", "--report", "page.html", cwd=desk)
    assert ended.status == 0
    assert re.search(r"call: goodput\s+delay=40ms\s+1 .*\n\s+delay=10ms\s+1 ", ended.out)
    assert "Comparison of 2 arms" in (desk / "page.html").read_text()
    assert mptcplab("compare", "40ms", "10ms", "--json", cwd=desk).document["schema"] == "mptcplab/summary/1"


def test_compare_makes_an_arm_of_each_combination_of_values(desk: Path) -> None:
    setting = ("--set", "links.w*.rate=2mbit,1mbit", "--set", "duration=2s")
    ended = mptcplab("compare", "short.yaml", *setting, cwd=desk)
    assert ended.status == 0, ended.err
    assert [line.split()[0] for line in ended.out.splitlines()[2:4]] == ["rate=2mbit", "rate=1mbit"]
    document = mptcplab("compare", "short.yaml", *setting, "--json", cwd=desk).document
    # The link of 1 Mbit/s cannot carry a call of 1 Mbit/s with its headers.
    fast, slow = (run["flows"][0]["goodput_bps"] for run in document["runs"])
    assert slow < fast


def test_repetitions_of_one_experiment_are_one_arm(done: Path) -> None:
    assert is_refused(mptcplab("compare", "results", cwd=done), 2, "at least two", "found 2 of one")


@pytest.mark.slow
def test_a_report_does_not_damage_a_bundle_that_is_run_again(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done / "results", tmp_path / "results")
    bundle = bundles(tmp_path)[0]
    for arguments in (["report", bundle], ["run", done / "short.yaml", "--fresh"], ["report", bundle], ["check"]):
        assert mptcplab(*arguments, cwd=tmp_path).status == 0


# ---- verdicts for other programs ----


def test_verdicts_as_junit_and_ktap(desk: Path) -> None:
    counter = "hosts.server.MPTcpExtMPJoinSynRx > 0"
    expected = f"expect=[flows.call.goodput_bps > 1e5, flows.call.goodput_bps > 1e9, {counter}, {counter}]"
    ran = mptcplab("run", "short.yaml", "--set", expected, cwd=desk)
    assert f"not judged {counter} (" in ran.out
    mptcplab("run", "short.yaml", "--set", "expect=[]", cwd=desk)
    ended = mptcplab("check", "--junit", "junit.xml", "--ktap", "-", cwd=desk)
    assert (ended.status, ended.err) == (1, "")
    suites = ElementTree.parse(desk / "junit.xml").getroot()
    counts = {
        (s.get("tests"), s.get("failures"), s.get("errors"), len(s), len(s.findall(".//failure"))) for s in suites
    }
    assert counts == {("5", "1", "0", 5, 1), ("1", "0", "0", 1, 0)}
    skipped, _ = ElementTree.parse(desk / "junit.xml").getroot().iter("skipped")
    assert "back-end sim has no counters of a kernel" in str(skipped.get("message"))
    lines = ended.out.splitlines()
    assert lines[:2] == ["KTAP version 1", "1..2"]
    nested = lines.index("  KTAP version 1")
    assert lines[nested + 1 : nested + 3] == ["  1..4", "  ok 1 flows.call.goodput_bps > 1e5"]
    assert lines[nested + 3].startswith("  # flows.call.goodput_bps is ")
    assert lines[nested + 4] == "  not ok 2 flows.call.goodput_bps > 1e9"
    assert lines[nested + 5].startswith(
        f"  ok 3 {counter} (3) # SKIP hosts.server.MPTcpExtMPJoinSynRx is null: back-end sim"
    )
    assert re.fullmatch(r"not ok [12] short sim seed 1: expect=.*", lines[nested + 7])
    assert sum(bool(re.match(r"ok [12] short sim seed 1: expect=\[\]$", line)) for line in lines) == 1
    printed = mptcplab("check", "--junit", "-", cwd=desk)
    assert (printed.status, printed.out) == (1, (desk / "junit.xml").read_text())
    assert not (desk / "-").exists()
    refusal = "only one of --junit -, --ktap - and --json can use standard output"
    assert is_refused(mptcplab("check", "--ktap", "-", "--json", cwd=desk), 2, refusal)
    ended = mptcplab("check", "--ktap", "ktap.txt", "--json", cwd=desk)
    assert (desk / "ktap.txt").read_text().splitlines() == lines
    jsonschema.validate(ended.document, SUMMARY)


# ---- terminals ----


def on_a_terminal(*arguments: str | Path, cwd: Path, **changes: str) -> tuple[int, str]:
    """Runs a command on a terminal. Returns its exit status and both of its outputs."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, *map(str, arguments)], cwd=cwd, env=environment(TERM="xterm", **changes), stdout=slave, stderr=slave
    )
    os.close(slave)
    got = rest_of(master)
    return process.wait(timeout=60), got


def rest_of(master: int) -> str:
    """Reads from a terminal until its other end is closed, and closes it."""
    got = b""
    while True:
        try:
            got += os.read(master, 65536)
        except OSError:  # Linux reports the closed end this way
            os.close(master)
            return got.decode()


def test_no_control_codes_where_there_is_no_terminal(done: Path) -> None:
    for arguments in (["run", "short.yaml"], ["show", "short.yaml"], ["nonsense"]):
        ended = mptcplab(*arguments, cwd=done)
        assert ESCAPE not in ended.out + ended.err


def test_names_stay_whole_where_there_is_no_terminal(desk: Path) -> None:
    name = "a-long-name/" + "x" * 100
    (desk / "named.yaml").write_text(SHORT.replace("name: short", f"name: {name}\ntitle: {'word ' * 40}"))
    assert name in mptcplab("list", "named.yaml", cwd=desk).out.split()


@pytest.mark.parametrize("columns", [60, 200])
def test_tables_keep_to_the_width(done: Path, columns: int) -> None:
    ended = mptcplab("run", "short.yaml", COLUMNS=str(columns), cwd=done)
    table = ended.out.split("\n\n")[0]
    assert ended.status == 0
    assert max(map(len, table.splitlines())) <= columns


def test_a_terminal_gets_colours_unless_it_wants_none_and_no_bar_for_what_is_short(done: Path) -> None:
    status, coloured = on_a_terminal("run", "short.yaml", "--repeat", "2", "--out", "terminal", cwd=done)
    assert (status, f"{ESCAPE}[1m" in coloured) == (0, True)
    assert "0:00:" not in coloured
    _, plain = on_a_terminal("check", cwd=done, NO_COLOR="1")
    assert not re.search(rf"{ESCAPE}\[3\dm", plain)


@pytest.mark.slow
def test_a_long_run_shows_a_bar_with_the_time_left_once_somebody_waits(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    master, slave = pty.openpty()
    command = [PROGRAM, "run", "long.yaml", "--json"]
    env = environment(TERM="xterm", COLUMNS="100")
    begun = time.monotonic()
    process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    got = ""
    stopwatch = threading.Timer(30, process.kill)
    stopwatch.start()
    while "%" not in got:
        got += os.read(master, 65536).decode()
    waited_s = time.monotonic() - begun
    process.send_signal(signal.SIGINT)
    got += rest_of(master)
    stopwatch.cancel()
    assert process.wait(timeout=60) == 130
    assert waited_s > 2
    assert "mptcplab: interrupted" in got
    assert re.search(r"0/1 long .*\d+%.*(\d:\d\d:\d\d|-:--:--)", got)


@pytest.mark.parametrize("encoding", [{"PYTHONIOENCODING": "ascii"}, {"LANG": "C", "LC_ALL": "C"}])
def test_other_encodings_do_not_end_the_program(desk: Path, encoding: dict[str, str]) -> None:
    (desk / "short.yaml").write_text(SHORT.replace("name: short", "name: short\ntitle: Größe → ∞"))
    for command in ("run", "show"):
        assert mptcplab(command, "short.yaml", cwd=desk, **encoding).status == 0
    listed = mptcplab("list", "short.yaml", "--json", cwd=desk, **encoding).document
    assert listed["experiments"][0]["title"] == "Größe → ∞"
    (desk / "wrong.yaml").write_text("name: wrong\nGröße: 1\n")
    assert is_refused(mptcplab("run", "wrong.yaml", cwd=desk, **encoding), 2, "wrong.yaml")


# ---- startup ----


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['mptcplab', '--help']; from mptcplab.cli import main; main()"
    command = [sys.executable, "-X", "importtime", "-c", code]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    loaded = {line.split("|")[-1].strip().partition(".")[0] for line in ended.stderr.splitlines()}
    assert "typer" in loaded
    assert not loaded & {"numpy", "matplotlib", "networkx", "pydantic", "yaml", "jinja2", "rich"}


def test_a_run_loads_what_it_shows(desk: Path) -> None:
    code = (
        "import sys; from mptcplab.cli import main\n"
        "sys.argv = ['mptcplab', 'run', 'short.yaml']\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=desk, env=environment(), capture_output=True, text=True, check=True
    )
    loaded = set(ended.stderr.split())
    assert {"numpy", "mptcplab.report.quantities"} <= loaded
    unused = {"numpy.ma", "matplotlib", "networkx", "jinja2", "rich", "mptcplab.sweep", "mptcplab.reproduction"}
    assert not loaded & unused


def test_a_fault_of_the_program_is_no_failed_expectation(done: Path) -> None:
    code = "import sys, mptcplab.catalogue as c; c.listing = None; sys.argv = ['mptcplab', 'list']; from mptcplab.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], cwd=done, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (4, "")
    assert ended.stderr.splitlines()[-1].startswith("mptcplab: this is a fault of mptcplab")


@pytest.mark.parametrize(
    "command",
    ["list", "list --json", "run short.yaml", "run short.yaml --json", "show short.yaml", "check results --ktap -"],
)
def test_a_reader_that_has_gone_is_no_broken_expectation(done: Path, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [PROGRAM, *command.split()], cwd=done, env=environment(), stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["list", "list --json", "run short.yaml", "show short.yaml", "bisect-step --help"])
def test_a_full_disk_under_standard_output_is_one_line(done: Path, command: str) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [PROGRAM, *command.split()], cwd=done, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    # git takes a lower status than 128 for a verdict on the commit.
    assert ended.returncode == (128 if command.startswith("bisect-step") else 4)
    assert ended.stderr == "mptcplab: standard output: cannot be written: No space left on device\n"


def test_a_reader_of_the_first_line_gets_it(done: Path) -> None:
    ended = subprocess.run(
        ["bash", "-c", f"{PROGRAM} list | head -1; exit ${{PIPESTATUS[0]}}"],
        cwd=done, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode in (0, 141)
    assert (len(ended.stdout.splitlines()), ended.stderr) == (1, "")


def test_verdicts_have_names_of_their_own_whatever_was_set(desk: Path) -> None:
    for change in ([], ["--set", "links.wifi.loss=2%"], ["--set", "links.wifi.loss=3%"]):
        assert mptcplab("run", "short.yaml", *change, cwd=desk).status == 0
    report = mptcplab("check", "results", "--junit", "all.xml", "--ktap", "all.ktap", cwd=desk)
    assert report.status == 0
    suites = [suite.get("name") for suite in ElementTree.parse(desk / "all.xml").getroot()]
    assert len(suites) == len(set(suites)) > 2
    assert "short sim seed 1: links.wifi.loss=2%" in suites
    tests = [line.split(" ", 2)[2] for line in (desk / "all.ktap").read_text().splitlines() if line.startswith("ok ")]
    assert len(tests) == len(set(tests)) == len(suites)


@pytest.mark.parametrize("command", ["report results/short --out x.pdf", "compare results --report x.pdf"])
def test_a_page_is_not_written_under_the_name_of_another_format(done: Path, command: str) -> None:
    ended = mptcplab(*command.split(), cwd=done)
    assert is_refused(ended, 2, "x.pdf: the page is HTML; allowed: a name that ends in .html")
    assert not (done / "x.pdf").exists()


def test_repetitions_that_a_paper_states_are_told(desk: Path) -> None:
    (desk / "short.yaml").write_text(SHORT + "repetitions: 3\n")
    once = mptcplab("run", "short.yaml", cwd=desk)
    assert (once.status, once.err) == (0, "short was run once; the source states 3 repetitions: --repeat 3\n")
    assert mptcplab("run", "short.yaml", "--repeat", "3", cwd=desk).err == ""


def test_repetitions_that_are_only_assumed_are_not(desk: Path) -> None:
    assert mptcplab("run", "alenazi2019/fig3/full_mesh3", "--set", "repetitions=1", cwd=desk).err == ""
    assert mptcplab("run", "alenazi2019/fig5/tcp", "--set", "duration=12s", cwd=desk).err == ""
    stated = mptcplab("run", "barreira2014/A.1", "--set", "duration=2s", cwd=desk)
    assert stated.err == "barreira2014/A.1 was run once; the source states 10 repetitions: --repeat 10\n"


def test_what_the_core_refuses_has_its_place_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "unknown.yaml").write_text(
        """\
name: unknown
hosts: {client: {}, server: {}}
links:
  one: {between: [client.eth1, server.eth1], rate: 8mbit}
flows:
  bulk:
    from: client
    to: server
    path_manager: {kernel_endpoints: {endpoints: [{interface: client.wlan9, flags: [subflow]}]}}
"""
    )
    ended = mptcplab("run", "unknown.yaml", cwd=tmp_path)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == (
        'mptcplab: unknown.yaml:9: flows.bulk.path_manager.kernel_endpoints.endpoints: found "client.wlan9", allowed is '
        "one of the interfaces: client.eth1, server.eth1\n"
    )
