"""Hooks of MkDocs: navigation from the index, and pages of the files that pages link to outside
docs/.

``docs/README.md`` lists every page, and its headings and tables are the navigation. A page of the
site has the place that its file has below docs/. Files elsewhere in the repository have theirs
below ``repository/``: a page of Markdown as it is, a text as a block of code, a directory as a list
of its files. Links therefore work on a forge and on the site.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NOTEBOOKS = ROOT / "examples" / "notebooks"
OUTSIDE = PurePosixPath("repository")

FENCE = re.compile(r"^( *)(```+)(\w*)([^\n`]*)\n.*?^\1\2$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
RELATIVE_HREF = re.compile(r'href="(\.\.?/[^"#]+)(#[^"]*)?"')
HEADING_OR_ROW = re.compile(r"^(#{2,3}) (.+)$|^\| \[([^\]]+)\]\(([^)]+)\) \|", re.MULTILINE)
# The files and directories that pages of the site are made from, by their place in it.
SOURCES: dict[str, Path] = {}
LANGUAGES = {".rs": "rust", ".py": "python", ".yaml": "yaml", ".toml": "toml", ".json": "json", ".c": "c"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Takes the navigation from the index of the documentation."""
    config.nav = list(navigation((DOCS / "README.md").read_text(encoding="utf-8")))
    return config


def navigation(index: str) -> Iterator[dict[str, Any]]:
    """Yields the index, the tutorial, the sections of the index with their pages, and the
    notebooks.
    """
    yield {"Start": ["README.md", {"Tutorial": "tutorial.md"}]}
    sections: dict[str, list[dict[str, Any]]] = {}
    current: list[dict[str, Any]] = []
    for match in HEADING_OR_ROW.finditer(index):
        level, heading, title, target = match.groups()
        if level == "##":
            current = sections.setdefault(heading, [])
            section = current
        elif level == "###":
            current = []
            section.append({heading: current})
        elif not target.startswith(("#", "http")):
            path = (DOCS / target).resolve()
            current.append({title[0].upper() + title[1:] if path.suffix == ".md" else title: place(path)})
    for heading, pages in sections.items():
        yield {heading: pages}
    if NOTEBOOKS.is_dir():
        yield {"Notebooks": [place(path) for path in sorted(NOTEBOOKS.glob("*.ipynb"))]}


@event_priority(100)
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files outside docs/ that pages link to, directories within it, and the notebooks."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File(place(path), str(NOTEBOOKS.parent), config.site_dir, config.use_directory_urls))
    waiting = sorted(DOCS.rglob("*.md"))
    SOURCES.update({place(page): page for page in waiting})
    while waiting:
        source = waiting.pop()
        for target in linked(source):
            if files.get_file_from_path(place(target)) is None:
                files.append(File.generated(config, place(target), content=text_of(target)))
                SOURCES[place(target)] = target
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Points links at the pages of the site, and leaves of a fence's info string what the site
    understands.
    """
    source = SOURCES.get(page.file.src_uri)
    if source is None:
        return markdown
    folder = source if source.is_dir() else source.parent
    here = posixpath.dirname(page.file.src_uri)

    def on_site(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        if not target.exists():
            return match[0]
        return f"{match[1]}{posixpath.relpath(place(target), here)}{match[3] or ''}{match[4]}"

    pieces, end = [], 0
    for fence in FENCE.finditer(markdown):
        pieces += [LINK.sub(on_site, markdown[end : fence.start()]), understood(fence)]
        end = fence.end()
    return "".join([*pieces, LINK.sub(on_site, markdown[end:])])


def on_page_content(html: str, page: Page, files: Files, **_: Any) -> str:
    """Points the links of notebooks at the pages of the site: the plugin for notebooks leaves them
    as they are.
    """
    if not page.file.src_uri.endswith(".ipynb"):
        return html

    def on_site(match: re.Match[str]) -> str:
        linked_file = files.get_file_from_path(place((NOTEBOOKS / match[1]).resolve()))
        anchor = match[2] or ""
        return f'href="{linked_file.url_relative_to(page.file)}{anchor}"' if linked_file else match[0]

    return RELATIVE_HREF.sub(on_site, html)


def understood(fence: re.Match[str]) -> str:
    """Returns a fenced block whose info string has a quoted title and nothing else besides the
    language.
    """
    title = re.search(r"title=(\S+)", fence[4])
    opening = f"{fence[1]}{fence[2]}{fence[3]}"
    info = f' title="{title[1]}"' if title else ""
    return opening + info + fence[0][len(opening) + len(fence[4]) :]


def linked(source: Path) -> Iterator[Path]:
    """Yields what a page links to, and the files of a directory."""
    if source.is_dir():
        yield from filter(is_readable, sorted(source.iterdir()))
    elif source.suffix == ".md":
        names = (name for _, name, _, _ in LINK.findall(FENCE.sub("", source.read_text(encoding="utf-8"))))
        yield from (target for name in names if (target := (source.parent / name).resolve()).exists())


def is_readable(path: Path) -> bool:
    """Returns whether the site can show a file or directory."""
    if path.is_dir():
        return path.name != "target" and not path.name.startswith(("_", "."))
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def place(path: Path) -> str:
    """Returns the place of a file in the sources of the site."""
    if path.parent == NOTEBOOKS and path.suffix == ".ipynb":
        return f"notebooks/{path.name}"
    if path.is_relative_to(DOCS):
        within = PurePosixPath(path.relative_to(DOCS).as_posix())
        shown_as_it_is = path.is_file()
    else:
        within = OUTSIDE / path.relative_to(ROOT).as_posix()
        shown_as_it_is = path.suffix == ".md"
    if path.is_dir():
        return str(within / "README.md")
    return str(within if shown_as_it_is else within.with_name(within.name + ".md"))


def text_of(path: Path) -> str:
    """Returns the Markdown of a file or directory that has no page below docs/."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        readme = path / "README.md"
        if readme.is_file():
            return readme.read_text(encoding="utf-8")
        rows = "".join(f"- [{title_of(child)}]({child.name})\n" for child in linked(path))
        return f"# {name}\n\n{rows}"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    # The pages that link to it say what it holds, and a search should find these.
    head = f"---\nsearch: {{exclude: true}}\n---\n# {name}\n\n"
    return f"{head}````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"


def title_of(path: Path) -> str:
    """Returns the heading of a page, or the name of another file."""
    heading = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE) if path.suffix == ".md" else None
    return heading[1] if heading else path.name
