"""New descriptions, as commented copies of shipped ones: what ``mptcplab new`` writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mptcplab import catalogue
from mptcplab.algorithms import nearest
from mptcplab.document import Node, Source, read
from mptcplab.errors import SpecError, UsageError, first_few
from mptcplab.experiment import Member
from mptcplab.experiment.family import combinations
from mptcplab.shipped import EXAMPLES
from mptcplab.starts.commented import commented

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The examples with which experiments usually begin, in the order of the list.
TEMPLATES = (
    *("two-paths-mptcp", "second-path", "commute", "handover", "captured-outage", "sequence-of-failures"),
    *("shared-bottleneck", "disjoint-paths", "fat-tree", "middlebox", "own-algorithms"),
)
#: The fields that introduce a description.
_FIRST = ("name", "title", "description", "notes")
#: What separates a file from the name of a class in it.
_CLASS = ":"


def example_names() -> list[str]:
    """Returns the names of all examples."""
    return sorted(file.stem for file in EXAMPLES.glob("*.yaml"))


def templates() -> list[tuple[str, str]]:
    """Returns name and title of each template."""
    described = ((name, read(EXAMPLES / f"{name}.yaml").child("title")) for name in TEMPLATES)
    return [(name, str(title.value) if title else "") for name, title in described]


@dataclass(frozen=True)
class Start:
    """A description to copy, and what its first lines say."""

    description: Node
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, spec: str) -> Start:
        """Returns the one description that `spec` names: an example, a file, or an experiment or
        a family of the catalogue.

        Raises SpecError or UsageError for none, for several, and for a part of a family.
        """
        file = EXAMPLES / f"{spec}.yaml"
        if spec in example_names():
            return cls(_of_file(spec, list(catalogue.find(str(file)))), _remarks(file))
        try:
            found = catalogue.find(spec)
        except SpecError as error:
            if error.where.file is not None:
                raise
            near = nearest(spec, example_names())
            problem = f"no example is called that, did you mean {near}?" if near else error.problem
            raise UsageError(f"--from {spec}: {problem}; allowed: a template or an example, {_SPEC}") from None
        path = Path(spec).expanduser()
        return cls(_of_file(spec, found), _remarks(path) if path.is_file() else ())

    def named(self, name: str) -> Node:
        """Returns the description under a new name, which comes first. Members of a family keep the
        end of theirs.
        """
        fields = self.description.mapping
        text = str(fields["name"].value)
        end = text[text.index("$") :] if "$" in text else ""
        kept = text.removesuffix(end).rpartition("/")[2] + end if end else ""
        renamed = {**fields, "name": Node(f"{name}/{kept}" if kept else name, fields["name"].source)}
        first = {key: renamed[key] for key in _FIRST if key in renamed}
        return Node(first | renamed, self.description.source)

    def text(self, file: Path, command: str) -> str:
        """Returns the content of a file: YAML under the file's name, with comments. `command` is
        what wrote it.
        """
        shown = f"`mptcplab show {file.name}` shows every value, also the defaults."
        head = [*self.remarks, f"Written by `{command}`.", shown]
        return "".join(f"# {line}".rstrip() + "\n" for line in head) + "\n" + commented(self.named(file.stem))

    def files(self) -> Iterator[tuple[Path, PurePosixPath]]:
        """Yields each file that the description refers to, and its path relative to the
        description.
        """
        yield from dict.fromkeys(_files_in(self.description))


_SPEC = "a .yaml file, or a name from `mptcplab list`"


def _of_file(spec: str, found: Sequence[object]) -> Node:
    """Returns the description of the only experiment, or of the only family, of a SPEC."""
    members = [one for one in found if isinstance(one, Member)]
    if not members:
        raise UsageError(f"--from {spec}: is a resolved experiment, which has no comments; allowed: {_SPEC}")
    families = list(dict.fromkeys(member.family for member in members))
    if len(families) > 1:
        raise UsageError(f"--from {spec}: has {len(families)} families; allowed: one of {first_few(families, most=8)}")
    first, whole = members[0], len(combinations(members[0].template))
    if len(members) == whole:
        return first.template
    if len(members) == 1:
        return first.alone()
    told = f"names {len(members)} of the {whole} experiments of {first.family}"
    raise UsageError(f"--from {spec}: {told}; allowed: one of them, or all")


def _remarks(file: Path) -> tuple[str, ...]:
    """Returns the comment at the beginning of a file, without the commands in it."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# ") or line.lstrip("# ").startswith("mptcplab "):
            break
        lines.append(line.removeprefix("# "))
    return (*lines, "") if lines else ()


def _files_in(node: Node) -> Iterator[tuple[Path, PurePosixPath]]:
    """Yields the files that texts and names of algorithms in a description name."""
    texts: list[tuple[str, Source]] = [(key, child.key or child.source) for key, child in node.mapping.items()]
    if isinstance(node.value, str):
        texts.append((node.value, node.source))
    for text, source in texts:
        name = PurePosixPath(text.partition(_CLASS)[0])
        if source.file is not None and name.suffix and not name.is_absolute():
            file = Path(source.file).parent / name
            if file.is_file():
                yield file, name
    for child in node.value if isinstance(node.value, list) else node.mapping.values():
        yield from _files_in(child)
