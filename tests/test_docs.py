"""The documentation is true: descriptions load and run, the tutorial works, links and command lines lead somewhere.

A fenced ``yaml`` block is a whole description if it has a name. ``title=FILE`` after the language writes the block to that file, beside the other
blocks of its page; ``yaml fragment`` marks the few that are only a part. In the tutorial, ``sh exit=1`` says how a command ends.
"""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from mptcplab.backends import backend
from mptcplab.cli import app
from mptcplab.errors import MptcplabError
from mptcplab.experiment import members

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
TUTORIAL = ROOT / "docs" / "tutorial.md"
DESCRIPTIONS = sorted(EXAMPLES.glob("*.yaml"))
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
MOST_FRAGMENTS = 3

FENCE = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"(?<!`)`(mptcplab [^`\n]+)`(?!`)")
MARKDOWN_LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SHELL_OPERATORS = {"|", "||", "&&", ";", ">", ">>", "<"}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    info: str
    text: str

    @property
    def title(self) -> str | None:
        """The file that the block is, if it says so."""
        match = re.search(r"title=(\S+)", self.info)
        return match[1] if match else None

    @property
    def exit_status(self) -> int:
        """How the commands of the block end."""
        match = re.search(r"exit=(\d+)", self.info)
        return int(match[1]) if match else 0

    @property
    def is_description(self) -> bool:
        return self.language == "yaml" and re.search(r"^name:", self.text, re.MULTILINE) is not None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match[2], match[3], re.sub(f"^{match[1]}", "", match[4], flags=re.MULTILINE))
        for match in FENCE.finditer(text)
    ]


ALL_BLOCKS = [block for page in TEXTS for block in blocks(page)]
DOCUMENTED = [block for block in ALL_BLOCKS if block.is_description]


def place(block: Block) -> str:
    return block.place


def run(arguments: list[str]) -> tuple[int, str]:
    """Exit status and text of a command line, as the program would end."""
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, MptcplabError):
        return result.exception.exit_status, str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def write_page_files(block: Block, directory: Path) -> Path:
    """Writes the files of a block's page and then the block itself, whose path it gives."""
    for other in blocks(block.page):
        if other.title and not other.is_description:
            (directory / other.title).write_text(other.text, encoding="utf-8")
    path = directory / (block.title or "documented.yaml")
    path.write_text(block.text, encoding="utf-8")
    return path


def assert_runs_as_expected(description: Path, out: Path) -> None:
    """Every member that the simulator can run does, and its expectations hold."""
    simulator = backend("sim")
    for member in members(description):
        if simulator.check(member.resolve().data):
            pytest.skip("the simulator cannot run this yet")
    status, output = run(["run", str(description), "--out", str(out), "--json"])
    assert status == 0, output


@pytest.mark.parametrize("block", DOCUMENTED, ids=place)
def test_documented_description_resolves(block: Block, tmp_path: Path) -> None:
    for member in members(write_page_files(block, tmp_path)):
        assert member.resolve().data["schema"] == "mptcplab/experiment/1"


@pytest.mark.parametrize("block", [block for block in DOCUMENTED if "expect:" in block.text], ids=place)
def test_documented_description_keeps_its_expectations(block: Block, tmp_path: Path) -> None:
    assert_runs_as_expected(write_page_files(block, tmp_path), tmp_path / "results")


def test_documentation_shows_whole_descriptions() -> None:
    parts = [block.place for block in ALL_BLOCKS if block.language == "yaml" and not block.is_description and not block.title]
    unmarked = [block.place for block in ALL_BLOCKS if block.place in parts and "fragment" not in block.info]
    assert not unmarked, "yaml blocks that are neither a description nor marked as fragment"
    assert len(parts) <= MOST_FRAGMENTS


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=lambda path: path.stem)
def test_example_keeps_its_expectations(description: Path, tmp_path: Path) -> None:
    assert all(member.resolve().data["expect"] for member in members(description)), "an example ends in an assertion"
    assert_runs_as_expected(description, tmp_path)


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=lambda path: path.stem)
def test_example_says_what_it_shows_and_how_to_run_it(description: Path) -> None:
    head = description.read_text(encoding="utf-8").split("name:")[0]
    assert head.startswith("# ")
    assert f"mptcplab run examples/{description.name}" in head


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


def test_tutorial_works_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "tutorial"}
    for block in blocks(TUTORIAL):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            for arguments in command_lines(block.text):
                status, output = run(arguments)
                assert status == block.exit_status, f"{block.place}: {output}"
        elif block.language == "python":
            exec(compile(block.text, block.place, "exec"), names)


def command_lines(text: str) -> Iterator[list[str]]:
    """The arguments of every ``mptcplab`` in lines of shell, whose operators stand between spaces."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True) if "mptcplab" in line else []
        while words:
            end = next((index for index, word in enumerate(words) if word in SHELL_OPERATORS), len(words))
            if words[0].rpartition("/")[2] == "mptcplab":
                yield words[1:end]
            words = words[end + 1 :]


def documented_commands() -> list[tuple[str, list[str]]]:
    found = [(block.place, arguments) for block in ALL_BLOCKS if block.language == "sh" for arguments in command_lines(block.text)]
    for page in TEXTS:
        for match in INLINE_CODE.finditer(page.read_text(encoding="utf-8")):
            found += [(str(page.relative_to(ROOT)), arguments) for arguments in command_lines(match[1])]
    for example in [*DESCRIPTIONS, *SCRIPTS]:
        comments = [line.removeprefix("#").strip() for line in example.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
        found += [(example.name, arguments) for arguments in command_lines("\n".join(comments))]
    return found


@pytest.mark.parametrize(("where", "arguments"), documented_commands(), ids=lambda value: " ".join(value) if isinstance(value, list) else value)
def test_documented_command_line_exists(where: str, arguments: list[str]) -> None:
    program = typer.main.get_group(app)
    is_command = not arguments[0].startswith("-")
    assert not is_command or arguments[0] in program.commands, where
    options = {word.partition("=")[0] for word in arguments if word.startswith("-")}
    assert options <= options_of(program.commands[arguments[0]] if is_command else program), where


def options_of(command: Any) -> set[str]:
    return {"-h", "--help"}.union(*((*parameter.opts, *parameter.secondary_opts) for parameter in command.params))


@pytest.mark.parametrize("page", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_resolve(page: Path) -> None:
    text = re.sub(FENCE, "", page.read_text(encoding="utf-8"))
    for target in MARKDOWN_LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(linked), f"{page.name} links to {target}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs") for page in PAGES]
    missing = [str(page) for page in pages if page.parts[0] not in ("README.md", "decisions", "reference") and f"({page.as_posix()})" not in index]
    assert not missing
