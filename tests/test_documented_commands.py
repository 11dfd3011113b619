"""Tests that the documented commands work: command lines are valid, and the tutorial runs from
start to end.
"""

from __future__ import annotations

import itertools
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from documentation import (
    EXAMPLES,
    FROM_PYTHON,
    PATHS_UNDER_CONTROL,
    RESULTS,
    ROOT,
    SWEEPING,
    TUTORIAL,
    Block,
    blocks,
    command_lines,
    documented_commands,
)
from mptcplab.catalogue import entry_of
from mptcplab.cli import application
from mptcplab.cli.specs import resolved
from mptcplab.errors import MptcplabError
from typer.testing import CliRunner


def run(arguments: list[str]) -> tuple[int, str]:
    """Runs a command line and returns its exit status and its text."""
    result = CliRunner().invoke(application(), arguments)
    if isinstance(result.exception, MptcplabError):
        return result.exception.exit_status, str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def options_of(command: Any) -> set[str]:
    return {"-h", "--help"}.union(*((*parameter.opts, *parameter.secondary_opts) for parameter in command.params))


@pytest.mark.parametrize(
    ("where", "arguments"),
    list(documented_commands()),
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_documented_command_line_exists(where: str, arguments: list[str]) -> None:
    program: Any = typer.main.get_command(application())
    is_command = not arguments[0].startswith("-")
    assert not is_command or arguments[0] in program.commands, where
    # The words after -- are another program's.
    ours = list(itertools.takewhile(lambda word: word != "--", arguments))
    options = {word.partition("=")[0] for word in ours if word.startswith("-")}
    assert options <= options_of(program.commands[arguments[0]] if is_command else program), where


def with_back_ends() -> list[tuple[str, str, list[str], list[str]]]:
    """Returns place, SPEC, settings and back-ends of documented runs of examples and of the
    catalogue.
    """
    found = []
    for where, words in documented_commands():
        options = [(word, words[index + 1]) for index, word in enumerate(words[:-1])]
        back_ends = {name for option, value in options if option == "--on" for name in value.split(",")}
        if words[0] in ("run", "compare") and back_ends & {"kernel", "userspace"}:
            settings = [value for option, value in options if option == "--set"]
            spec = ROOT / words[1] if words[1].startswith("examples/") else words[1]
            if words[1].startswith("examples/") or (not words[1].endswith(".yaml") and words[1] != "SPEC"):
                found.append((where, str(spec), settings, sorted(back_ends)))
    return found


@pytest.mark.parametrize(
    ("where", "spec", "settings", "back_ends"),
    with_back_ends(),
    ids=lambda value: str(value).removeprefix(f"{ROOT}/"),
)
def test_no_back_end_refuses_a_documented_run(where: str, spec: str, settings: list[str], back_ends: list[str]) -> None:
    members, _ = resolved([spec], settings)
    refused = {
        member.name: entry["waits"] for member in members if not {*back_ends} <= {*(entry := entry_of(member))["on"]}
    }
    assert not refused, where


@pytest.mark.parametrize("page", [TUTORIAL, FROM_PYTHON, PATHS_UNDER_CONTROL], ids=lambda page: page.stem)
def test_page_works_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    names: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh" and not block.needs:
            for arguments in command_lines(block.text):
                status, output = run(arguments)
                assert status == block.exit_status, f"{block.place}: {output}"
        elif block.language == "python" and (block.needs is None or find_spec(block.needs)):
            exec(compile(block.text, block.place, "exec"), names)


@pytest.mark.parametrize(
    ("block", "made_by"),
    [
        (block, made_by)
        for page, made_by in (
            (RESULTS, ["run", EXAMPLES / "failing-link.yaml"]),
            (SWEEPING, ["sweep", EXAMPLES / "second-path.yaml", "--set", "links.lte.delay=10ms,40ms"]),
        )
        for block in blocks(page)
        if block.language == "python"
    ],
    ids=lambda value: value.place if isinstance(value, Block) else None,
)
def test_results_are_read_as_documented(
    block: Block, made_by: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if block.needs:
        pytest.importorskip(block.needs)
    monkeypatch.chdir(tmp_path)
    assert run([str(word) for word in made_by])[0] == 0
    exec(compile(block.text, block.place, "exec"), {})
