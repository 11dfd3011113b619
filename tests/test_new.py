"""Tests of ``mptcplab new``: a commented copy means what its origin means, and bad input gets one
line.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import is_refused, mptcplab
from mptcplab.catalogue import catalogue
from mptcplab.catalogue_index import PAPERS
from mptcplab.cli import completion
from mptcplab.document import parse
from mptcplab.experiment import Experiment, Member, members
from mptcplab.experiment.base import meaning
from mptcplab.experiment.flows import Flow
from mptcplab.experiment.links import LinkSettings
from mptcplab.shipped import EXAMPLES
from mptcplab.starts import TEMPLATES, Start, example_names

PAPER_NAMES = sorted(folder.name for folder in PAPERS.iterdir() if folder.is_dir())


def _resolved(member: Member, *differing: str) -> dict[str, Any]:
    """Returns the resolved form without what must differ in a copy."""
    left_out = {"name", "origins", *differing}
    return {key: value for key, value in member.resolve().data.items() if key not in left_out}


def _written(start: Start, folder: Path, name: str = "copy") -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(start.text(file, "mptcplab new"), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that examples refer to."""
    folder = tmp_path_factory.mktemp("copies")
    return Path(shutil.copytree(EXAMPLES, folder / "examples"))


@pytest.mark.parametrize("name", example_names())
def test_a_copy_of_an_example_resolves_to_the_same(name: str, copies: Path) -> None:
    copied, original = (members(file) for file in (_written(Start.of(name), copies), copies / f"{name}.yaml"))
    assert list(map(_resolved, copied)) == list(map(_resolved, original))


@pytest.mark.parametrize("paper", PAPER_NAMES)
def test_copies_of_published_experiments_resolve_to_the_same(paper: str, tmp_path: Path) -> None:
    published = catalogue(paper)
    shutil.copytree(PAPERS / paper, tmp_path, dirs_exist_ok=True)
    for family in dict.fromkeys(member.family for member in published):
        of_family = [member for member in published if member.family == family]
        for member in (of_family[0], of_family[-1]):
            (copy,) = members(_written(Start.of(member.name), tmp_path))
            of_family_only = () if len(of_family) == 1 else ("parameters",)
            assert _resolved(copy, *of_family_only) == _resolved(member, *of_family_only), member.name


def test_a_copy_of_a_family_has_its_members(tmp_path: Path) -> None:
    copied = members(_written(Start.of("alenazi2019/fig9"), tmp_path, "mine"))
    assert [member.name for member in copied] == [f"mine/n{n}" for n in range(1, 8)]
    original = [member for member in catalogue("alenazi2019") if member.family == "alenazi2019/fig9"]
    assert list(map(_resolved, copied)) == list(map(_resolved, original))


def test_a_field_has_the_sentence_of_its_model_where_it_first_occurs() -> None:
    text = Start.of("two-paths-mptcp").text(Path("copy.yaml"), "mptcplab new")
    flat = " ".join(line.strip().removeprefix("# ") for line in text.splitlines())
    for model, field in ((LinkSettings, "delay"), (Flow, "path_manager"), (Flow, "opened_by")):
        assert flat.count(meaning(model, field)) == 1, field
    assert "`full_mesh`: " in text
    assert all(len(line) <= 100 for line in text.splitlines() if line.lstrip().startswith("#"))


def test_without_an_origin_it_lists_the_templates(tmp_path: Path) -> None:
    ended = mptcplab("new", cwd=tmp_path)
    assert ended.status == 0
    assert [line.split()[0] for line in ended.out.splitlines()[:-1]] == list(TEMPLATES)
    assert not list(tmp_path.iterdir())


def test_it_writes_the_files_that_a_description_refers_to(tmp_path: Path) -> None:
    ended = mptcplab("new", "mine", "--from", "rate-trace", cwd=tmp_path)
    assert ended.status == 0, ended
    assert (tmp_path / "traces/commute.trace").is_file()
    assert mptcplab("show", "mine.yaml", "--resolved", cwd=tmp_path).document["name"] == "mine"


def test_it_refuses_to_write_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("kept")
    assert is_refused(mptcplab("new", "mine", "--from", "commute", cwd=tmp_path), 2, "mine.yaml: exists already")
    assert (tmp_path / "mine.yaml").read_text() == "kept"
    assert mptcplab("new", "mine", "--from", "commute", "--force", cwd=tmp_path).status == 0
    assert parse((tmp_path / "mine.yaml").read_text()).child("name") is not None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["x"], "--from is missing; allowed: two-paths-mptcp"),
        (["--from", "comute"], "did you mean commute?"),
        (["--from", "alenazi2019"], "has 8 families; allowed: one of alenazi2019/apart"),
        (["--from", "nothing.yaml"], "there is no such file"),
        (["a b", "--from", "commute"], "invalid name 'a b'; allowed: letters"),
        (["no/where", "--from", "rate-trace"], "no/where.yaml: cannot be written"),
    ],
)
def test_bad_input_gets_one_line_and_writes_nothing(arguments: list[str], told: str, tmp_path: Path) -> None:
    ended = mptcplab("new", *arguments, cwd=tmp_path)
    assert is_refused(ended, 2, told)
    assert len(ended.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_shell_completes_what_it_may_begin_with() -> None:
    assert completion.starts("two-p") == ["two-paths-mptcp"]
    assert "alenazi2019/fig9/n3" in completion.starts("alenazi2019/fig9")


def test_comments_of_the_author_at_the_beginning_are_kept(tmp_path: Path) -> None:
    experiment = Experiment.from_yaml(EXAMPLES / "commute.yaml")
    (tmp_path / "old.yaml").write_text(f"# Mine.\n{experiment.to_yaml()}")
    text = _written(Start.of(str(tmp_path / "old.yaml")), tmp_path).read_text()
    assert text.startswith("# Mine.\n#\n# Written by")
    assert yaml.safe_load(text)["duration"] == "20s"
