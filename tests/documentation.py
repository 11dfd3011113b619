"""Parses the pages of the documentation: fenced blocks, command lines, links.

A fenced ``yaml`` block is a whole description if it has a name. ``title=FILE`` after the language
writes the block to that file, beside the other blocks of its page. ``fragment`` marks a block that
is only part of a description. In ``sh`` blocks, ``exit=1`` is the exit status of the commands, and
``needs=kernel`` says that the kernel back-end runs them. In ``python`` blocks, ``needs=PACKAGE``
names a package that must be installed besides mptcplab.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
WITH_LINKS = [*TEXTS, ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PATHS_UNDER_CONTROL = ROOT / "docs" / "guide" / "sdn.md"
RESULTS = ROOT / "docs" / "guide" / "results.md"
FROM_PYTHON = ROOT / "docs" / "guide" / "python.md"
SWEEPING = ROOT / "docs" / "guide" / "sweeping.md"
REGRESSION = sorted((EXAMPLES / "regression").glob("*.yaml"))
DESCRIPTIONS = [*sorted(EXAMPLES.glob("*.yaml")), *REGRESSION]
SCRIPTS = sorted(EXAMPLES.glob("*.py"))

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
        """The file name of the block, if it has one."""
        match = re.search(r"title=(\S+)", self.info)
        return match[1] if match else None

    @property
    def needs(self) -> str | None:
        """The back-end that the commands run on, or a package that is no dependency of mptcplab and
        that Python imports.
        """
        match = re.search(r"needs=(\w+)", self.info)
        return match[1] if match else None

    @property
    def exit_status(self) -> int:
        """The exit status of the block's commands."""
        match = re.search(r"exit=(\d+)", self.info)
        return int(match[1]) if match else 0

    @property
    def is_description(self) -> bool:
        """Whether the block is a whole description."""
        return self.language == "yaml" and re.search(r"^name:", self.text, re.MULTILINE) is not None

    @property
    def place(self) -> str:
        """The page and line of the block."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [_block(page, text, match) for match in FENCE.finditer(text)]


def _block(page: Path, text: str, match: re.Match[str]) -> Block:
    line = text.count("\n", 0, match.start()) + 1
    return Block(page, line, match[2], match[3], re.sub(f"^{match[1]}", "", match[4], flags=re.MULTILINE))


ALL_BLOCKS = [block for page in TEXTS for block in blocks(page)]
DOCUMENTED = [block for block in ALL_BLOCKS if block.is_description]


def write_with_page(block: Block, directory: Path) -> Path:
    """Writes the files of a block's page and then the block itself, beside the examples. Returns
    its path.
    """
    (directory / "examples").symlink_to(EXAMPLES)
    for other in blocks(block.page):
        if other.title and not other.is_description:
            (directory / other.title).write_text(other.text, encoding="utf-8")
    path = directory / (block.title or "documented.yaml")
    path.write_text(block.text, encoding="utf-8")
    return path


def command_lines(text: str) -> Iterator[list[str]]:
    """Yields the arguments of every ``mptcplab`` in lines of shell, except behind ``sudo``, because
    a test may run them. Operators must stand between spaces.
    """
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True) if "mptcplab" in line else []
        while words:
            end = next((index for index, word in enumerate(words) if word in SHELL_OPERATORS), len(words))
            if words[0].rpartition("/")[2] == "mptcplab":
                yield words[1:end]
            words = words[end + 1 :]


def documented_commands() -> Iterator[tuple[str, list[str]]]:
    """Yields every command line of pages and examples, with its place, also
    those behind ``sudo``.
    """
    for block in ALL_BLOCKS:
        if block.language in ("sh", "console"):
            yield from ((block.place, arguments) for arguments in command_lines(_without_sudo(block.text)))
    for page in TEXTS:
        for match in INLINE_CODE.finditer(_without_sudo(page.read_text(encoding="utf-8"))):
            yield from ((page.name, arguments) for arguments in command_lines(match[1]))
    for example in DESCRIPTIONS:
        lines = example.read_text(encoding="utf-8").splitlines()
        comments = "\n".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
        yield from ((example.name, arguments) for arguments in command_lines(_without_sudo(comments)))


def _without_sudo(text: str) -> str:
    return text.replace("sudo mptcplab", "mptcplab")


def links(page: Path) -> list[str]:
    """Returns the targets of a page's links within the repository."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [target for target in MARKDOWN_LINK.findall(text) if "://" not in target]


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as forges generate them."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
