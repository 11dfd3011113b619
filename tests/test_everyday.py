"""Tests what makes everyday use short: selecting bundles, files with defaults, completion, how much
is printed, and whose files results are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
from command_line import PROGRAM, SHORT, environment, is_refused, mptcplab
from mptcplab import plots
from mptcplab.cli import application, options
from mptcplab.own_mptcp import OwnMptcp
from mptcplab.plots import SIZES, STYLES
from mptcplab.report.grid_forms import FORMS


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with three bundles: two seeds as described, and then one with a change."""
    directory = tmp_path_factory.mktemp("several")
    (directory / "short.yaml").write_text(SHORT)
    for arguments in (["--repeat", "2"], ["--set", "links.wifi.loss=5%"]):
        assert mptcplab("run", "short.yaml", *arguments, cwd=directory).status == 0
    return directory


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "short.yaml").write_text(SHORT)
    return tmp_path


# ---- selecting bundles ----


def test_of_several_bundles_the_newest_is_reported_and_named(several: Path) -> None:
    ended = mptcplab("report", "results/short", "--no-simulate", cwd=several)
    (newest,) = (several / "results").glob("short/sim-*/report.html")
    assert ended.status == 0
    assert ended.err == (
        f"{newest.parent.relative_to(several)}: the newest of 3 bundles; --list shows all, --seed --set --on choose\n"
    )
    listed = mptcplab("report", "results/short", "--list", "--set", "links.wifi.loss='5%'", cwd=several)
    assert str(newest.parent.relative_to(several)) in listed.out, "the same YAML in another spelling selects, too"
    newest.unlink()


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [("--seed 1", ["none", "links.wifi.loss=5%"]), ("--seed 2", ["none"]), ("--on sim --seed 2", ["none"])],
)
def test_a_selection_is_listed_by_both_commands(several: Path, arguments: str, changes: list[str]) -> None:
    for command in ("report", "compare"):
        ended = mptcplab(command, "results/short", "--list", *arguments.split(), cwd=several)
        heads, *rows = ended.out.splitlines()
        assert {"seed", "age", "directory"} <= set(heads.split())
        assert len(rows) == len(changes)
        assert len(changes) == 1 or sorted(row.split()[0] for row in rows) == sorted(changes)


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an older run that came to the description by a change to the default."""
    directory = tmp_path_factory.mktemp("renamed")
    (directory / "short.yaml").write_text(SHORT)
    for change in ("flows.*.transport=udp", "links.*.rate=5mbit"):
        assert mptcplab("run", "short.yaml", "--set", change, cwd=directory).status == 0
    return directory


@pytest.mark.parametrize(
    ("change", "arms"),
    [
        ("links.wifi.loss=0,1%", ["loss=0", "loss=1%"]),
        ("links.*.rate=5mbit,8mbit", ["rate=5mbit", "rate=8mbit"]),
    ],
)
def test_arms_have_the_names_of_what_is_asked_now(renamed: Path, desk: Path, change: str, arms: list[str]) -> None:
    shutil.copytree(renamed / "results", desk / "results")
    ended = mptcplab("compare", "short.yaml", "--set", change, "--table", "csv", cwd=desk)
    assert list(dict.fromkeys(line.split(",")[2] for line in ended.out.splitlines()[1:])) == arms


@pytest.mark.parametrize(
    ("setting", "count"),
    [
        ("links.wifi.rate=5mbit", 1),
        ("links.wifi.rate=5000kbit,8mbit", 1),
        ("links.*.rate=5mbit,8mbit", 1),
        ("links.wifi.rate=2mbit", 1),
        ("links.wifi.loss=0.01", 2),
        ("flows.call.transport=udp", 2),
    ],
)
def test_a_selection_is_of_values_not_of_texts(renamed: Path, setting: str, count: int) -> None:
    ended = mptcplab("report", "results", "--list", "--set", setting, cwd=renamed)
    assert len(ended.out.splitlines()) == 1 + count, ended.out + ended.err


def test_an_empty_selection_shows_what_there_is(several: Path) -> None:
    for command in ("report", "compare"):
        ended = mptcplab(command, "results/short", "--seed", "99", cwd=several)
        words = ["results/short: none of 3 bundles has --seed 99; allowed: one of", "links.wifi.loss=5%"]
        assert is_refused(ended, 2, *words)
        assert len(ended.err.splitlines()) == 5


def test_a_list_has_one_name_for_equal_experiments(renamed: Path, desk: Path) -> None:
    shutil.copytree(renamed / "results", desk / "results")
    assert mptcplab("run", "short.yaml", "--repeat", "2", cwd=desk).status == 0
    _, *rows = mptcplab("compare", "results", "--list", cwd=desk).out.splitlines()
    assert [row.split()[0] for row in rows] == ["none", "links.*.rate=5mbit", "none"]


def test_a_comparison_takes_only_what_is_selected(several: Path, tmp_path: Path) -> None:
    page = str(tmp_path / "page.html")
    ended = mptcplab("compare", "results/short", "--seed", "1", "--json", "--report", page, cwd=several)
    assert {run["seed"] for run in ended.document["runs"]} == {1}


# ---- whose files ----


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_under_sudo_results_belong_to_the_caller(desk: Path) -> None:
    sudo = {"SUDO_UID": "12345", "SUDO_GID": "23456"}
    (desk / "kept").mkdir()
    assert mptcplab("run", "short.yaml", "--out", "kept/new", cwd=desk, **sudo).status == 0
    assert mptcplab("report", "kept/new", "--export", "figures", cwd=desk, **sudo).status == 0
    made = [*(desk / "kept" / "new").rglob("*"), desk / "kept" / "new", *(desk / "figures").rglob("*")]
    assert len(made) > 10
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(12345, 23456)}
    assert (desk / "kept").stat().st_uid == 0, "what was there before is left alone"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_no_file_behind_a_link_is_given_away(desk: Path) -> None:
    secret = desk / "secret"
    secret.write_text("of root")
    sudo = {"SUDO_UID": "12345", "SUDO_GID": "23456"}
    assert mptcplab("run", "short.yaml", cwd=desk).status == 0
    (bundle,) = (desk / "results" / "short").iterdir()
    (bundle / "linked").symlink_to(secret)
    os.link(secret, bundle / "hard")
    assert mptcplab("run", "short.yaml", "--fresh", cwd=desk, **sudo).status == 0
    assert ((bundle / "run.json").stat().st_uid, secret.stat().st_uid) == (12345, 0)


# ---- how much is printed ----


def test_quiet_leaves_only_what_went_wrong(desk: Path) -> None:
    ended = mptcplab("run", "short.yaml", "-q", cwd=desk)
    assert (ended.status, ended.out, ended.err) == (0, "", "")
    ended = mptcplab("run", "short.yaml", "-q", "--set", "expect=[flows.call.goodput_bps > 1e9]", cwd=desk)
    assert (ended.status, ended.err, len(ended.out.splitlines())) == (1, "", 1)
    assert ended.out.startswith("not held flows.call.goodput_bps > 1e9")
    assert mptcplab("run", "short.yaml", "-q", "--json", cwd=desk).document["runs"]
    assert is_refused(mptcplab("run", "short.yaml", "-q", "-v", cwd=desk), 2, "--quiet and --verbose: found both")


def test_verbose_has_a_line_for_each_run(desk: Path) -> None:
    ended = mptcplab("run", "short.yaml", "-v", "--repeat", "2", cwd=desk)
    lines = sorted(ended.err.splitlines())
    assert [line.partition(": done in ")[0] for line in lines] == [f"short, sim, seed {seed}" for seed in (1, 2)]


# ---- files with defaults ----


def test_defaults_come_from_files_and_options_come_first(desk: Path) -> None:
    home = desk / "home"
    (home / "mptcplab").mkdir(parents=True)
    (home / "mptcplab" / "config.toml").write_text('out = "of-user"\nrepeat = 3\n')
    (desk / "mptcplab.toml").write_text("[run]\nrepeat = 2\n")
    changes = {"XDG_CONFIG_HOME": str(home)}
    assert len(mptcplab("run", "short.yaml", "--json", cwd=desk, **changes).document["runs"]) == 2
    ended = mptcplab("run", "short.yaml", "--json", "--repeat", "1", cwd=desk, **changes)
    assert [run["bundle"].split("/")[0] for run in ended.document["runs"]] == ["of-user"]
    assert mptcplab("check", cwd=desk, **changes).out.endswith("2 of 2 runs done, with correct checksums\n")
    ended = mptcplab("check", cwd=desk, MPTCPLAB_OUT="elsewhere", **changes)
    assert is_refused(ended, 2, "elsewhere: there is no such directory")
    told = mptcplab("doctor", "-v", cwd=desk, **changes).out
    assert f"{home}/mptcplab/config.toml, mptcplab.toml" in told


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        ('[run]\nstyle = "ieee"\nformat = "pdf"\nsize = "text"\n', ""),
        ('[run]\nstyle = "projector"\n', ""),
        ("quiet = true\n", "-v"),
        ("[run]\nverbose = true\n", "-q"),
        ("[run]\njson = true\n", "--table csv"),
        ('[run]\ntable = "csv"\n', "--json"),
    ],
)
def test_a_default_gives_way_to_the_command_line(desk: Path, content: str, arguments: str) -> None:
    expected = mptcplab("run", "short.yaml", "--fresh", *arguments.split(), cwd=desk)
    (desk / "mptcplab.toml").write_text(content)
    ended = mptcplab("run", "short.yaml", *arguments.split(), cwd=desk)
    assert (ended.status, ended.out[:20]) == (0, expected.out[:20])


def test_a_default_for_all_commands_is_none_for_those_that_cannot_have_it(desk: Path) -> None:
    (desk / "mptcplab.toml").write_text('on = "kernel"\nrepeat = 1\n')
    assert is_refused(mptcplab("bench-algorithm", "lai", cwd=desk), 2, "lai")
    (desk / "mptcplab.toml").write_text('[bench-algorithm]\non = "kernel"\n')
    assert is_refused(mptcplab("bench-algorithm", "lia", cwd=desk), 2, "--on kernel: algorithms are compared in")


def test_a_default_selects_no_bundles(several: Path, tmp_path: Path) -> None:
    (tmp_path / "mptcplab.toml").write_text('on = "kernel"\nseed = 9\n')
    shutil.copytree(several / "results", tmp_path / "results")
    assert len(mptcplab("compare", "results", "--list", cwd=tmp_path).out.splitlines()) == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "\nreapeat = 2\n",
            "mptcplab.toml:2: reapeat: unknown key 'reapeat', did you mean repeat?; allowed: out, jobs",
        ),
        ("[rnu]\nseed = 2\n", "mptcplab.toml:1: unknown command 'rnu', did you mean run?"),
        ("[run]\nsede = 2\n", "mptcplab.toml:2: sede: unknown option 'sede', did you mean seed?"),
        ('[run]\nrepeat = "x"\n', "mptcplab.toml:2: repeat: invalid value for '--repeat'"),
        ('[run]\nset = ["duration=1s"]\n', "mptcplab.toml:2: set: unknown option 'set'"),
        ("[run]\nallow-programs = true\n", "unknown option 'allow-programs'"),
        ('on = "./simulator"\n', "mptcplab.toml:1: on: found './simulator'; allowed: sim, userspace, kernel"),
        ("repeat: 2\n", "mptcplab.toml: is not TOML: "),
    ],
)
def test_a_wrong_default_is_refused_with_its_place(desk: Path, content: str, words: str) -> None:
    (desk / "mptcplab.toml").write_text(content)
    assert is_refused(mptcplab("run", "short.yaml", cwd=desk), 2, words)


# ---- completion ----


def completed(words: str, cwd: Path) -> list[str]:
    """Returns what bash is offered for the last word of a command line."""
    line = f"mptcplab {words}"
    steering = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_MPTCPLAB_COMPLETE": "complete_bash"}
    ended = subprocess.run([PROGRAM], cwd=cwd, env=environment(**steering), capture_output=True, text=True, check=True)
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("run al", ["alenazi2019"]),
        ("show alenazi2019/fig9/n", [f"alenazi2019/fig9/n{n}" for n in range(1, 8)]),
        ("run sh", ["short.yaml"]),
        ("run short.yaml --on k", ["kernel"]),
        ("compare short.yaml --on sim,s", ["sim,ssh://"]),
        ("compare short.yaml --on sim,k", ["sim,kernel"]),
        ("run short.yaml --set li", ["links."]),
        ("run short.yaml --set links.wifi.de", ["links.wifi.delay="]),
        ("run short.yaml --set events.", ["events.back.", "events.cut."]),
    ],
)
def test_shells_complete(desk: Path, words: str, offered: list[str]) -> None:
    assert completed(words, desk) == offered


#: Calls the function of the script as bash does at the end of a line.
PRESS_TAB = """
compopt() { echo nospace; }
source /dev/stdin <<< "$SCRIPT"
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:' COMP_POINT=${#COMP_LINE}
_mptcplab_completion "$PROGRAM"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "inserted"),
    [
        ("run short.yaml --set li", ["nospace", "links."]),
        ("run short.yaml --set=li", ["nospace", "links."]),
        ("run short.yaml --set links.wifi.de", ["nospace", "links.wifi.delay="]),
        ("run short.yaml --set=links.wifi.de", ["nospace", "links.wifi.delay="]),
        ("run short.yaml --set links.wifi.reorder=t", ["true"]),
        ("run short.yaml --set=flows.call.cc=wv", ["wvegas", "wvegas-oot"]),
        ("run short.yaml --set flows.call.transport=", ["udp", "tcp", "mptcp"]),
        ("compare short.yaml --set flows.call.scheduler=min_rtt,red", ["min_rtt,redundant"]),
        ("run short.yaml --set duration=", [""]),
        ("run short.yaml --on q", ["nospace", "qemu:"]),
        ("run short.yaml --on=ke", ["kernel"]),
        ("sweep short.yaml --table m", ["markdown"]),
        ("sweep short.yaml --table=", ["latex", "markdown", "csv"]),
        ("report results --format png,p", ["png,pdf", "png,pgf"]),
        ("exer", ["exercise"]),
    ],
)
def test_bash_goes_on_after_names_that_continue(desk: Path, words: str, inserted: list[str]) -> None:
    undetected = environment(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    shown = [PROGRAM, "--show-completion", "bash"]
    script = subprocess.run(shown, env=undetected, capture_output=True, text=True, check=True).stdout
    env = environment(SCRIPT=script, PROGRAM=str(PROGRAM), COMP_LINE=f"mptcplab {words}")
    pressed = ["bash", "--norc", "-c", PRESS_TAB]
    ended = subprocess.run(pressed, cwd=desk, env=env, capture_output=True, text=True, check=True)
    assert (ended.stdout.splitlines(), ended.stderr) == (inserted, "")


def test_options_complete_to_all_that_they_take() -> None:
    assert options.FORMATS == plots.FORMATS
    (command,) = typer.main.get_group(application(["sweep"])).commands.values()
    forms = {option.opts[0]: option.metavar for option in command.params}
    assert forms["--table"] == "|".join(FORMS)
    assert forms["--size"] == "|".join(SIZES)
    assert forms["--style"] == "|".join(STYLES)


# ---- this machine's own MPTCP ----


@pytest.mark.skipif(OwnMptcp.read() is None, reason="the kernel has no MPTCP")
def test_who_manages_the_machines_mptcp_is_found(tmp_path: Path) -> None:
    before = OwnMptcp.read(tmp_path)
    assert before is not None
    file = tmp_path / "etc" / "sysctl.d" / "90-mptcp.conf"
    file.parent.mkdir(parents=True)
    file.write_text("# comment\nnet.mptcp.enabled = 1\n")
    own = OwnMptcp.read(tmp_path)
    assert own is not None
    assert own.sysctls["enabled"] in ("0", "1")
    assert own.managers == [*before.managers, str(file)]
