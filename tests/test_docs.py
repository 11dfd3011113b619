"""Tests the documentation and the examples: descriptions load and run, expectations hold, and links
have targets.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from documentation import (
    ALL_BLOCKS,
    DESCRIPTIONS,
    DOCUMENTED,
    EXAMPLES,
    PAGES,
    REGRESSION,
    ROOT,
    SCRIPTS,
    WITH_LINKS,
    Block,
    anchors,
    links,
    write_with_page,
)
from jsonschema import Draft202012Validator
from mptcplab.backends import backend
from mptcplab.catalogue import entry_of
from mptcplab.catalogue_index import PAPERS
from mptcplab.document import parse
from mptcplab.experiment import Experiment, json_schema, members
from mptcplab.results import Evaluation, RunData, Samples, Table, Units, check, evaluate

SEED = 1
MOST_FRAGMENTS = 3


def place(block: Block) -> str:
    return block.place


def stem(path: Path) -> str:
    return path.stem


def broken_expectations(description: Path, directory: Path) -> list[str]:
    """Returns the expectations that do not hold in the members that the simulator can run."""
    simulator = backend("sim")
    broken = []
    for number, member in enumerate(members(description)):
        resolved = member.resolve().data
        check(resolved["expect"], resolved)
        if simulator.check(resolved):
            continue
        out = directory / str(number)
        out.mkdir()
        run = simulator.start(resolved, SEED, out)
        for _ in run.samples():
            pass
        result = run.result()
        tables = (Table.read(out / f"{name}.parquet") for name in ("samples", "units"))
        data = RunData(resolved, result, Samples(next(tables)), Units(next(tables)))
        verdicts = evaluate(resolved["expect"], Evaluation(data))
        broken += [f"{member.name}: {verdict.text}: {verdict.why}" for verdict in verdicts if verdict.held is False]
    return broken


@pytest.mark.parametrize("block", DOCUMENTED, ids=place)
def test_documented_description_is_accepted_and_keeps_its_expectations(block: Block, tmp_path: Path) -> None:
    assert broken_expectations(write_with_page(block, tmp_path), tmp_path) == []


def test_descriptions_fit_the_schema_that_editors_use() -> None:
    validator = Draft202012Validator(json_schema())
    files = [*DESCRIPTIONS, *PAPERS.glob("*/*.yaml")]
    texts = {block.place: block.text for block in DOCUMENTED} | {
        path.name: path.read_text(encoding="utf-8") for path in files
    }
    assert [where for where, text in texts.items() if not validator.is_valid(parse(text).plain())] == []


def test_documentation_shows_whole_descriptions() -> None:
    parts = [block for block in ALL_BLOCKS if block.language == "yaml" and not block.is_description and not block.title]
    assert [block.place for block in parts if "fragment" not in block.info] == []
    assert len(parts) <= MOST_FRAGMENTS


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=stem)
def test_example_keeps_its_expectations(description: Path, tmp_path: Path) -> None:
    assert broken_expectations(description, tmp_path) == []


@pytest.mark.soak
@pytest.mark.parametrize(("subflows", "least", "most"), [(1, 0.44, 0.54), (8, 0.78, 0.95)])
def test_a_fat_tree_of_128_hosts_carries_what_docs_simulator_says(
    subflows: int, least: float, most: float, tmp_path: Path
) -> None:
    tree = Experiment.from_yaml(EXAMPLES / "fat-tree.yaml").override(
        {
            "parameters.subflows": [subflows],
            "topology.fattree.k": 8,
            "flows.all.hosts": ["h[1-128]"],
            "expect": [
                f"flows.all.goodput_bps {sign} {part * 128 * 94.06e6}" for sign, part in ((">", least), ("<", most))
            ],
        }
    )
    description = tmp_path / "fat-tree-128.yaml"
    description.write_text(tree.to_yaml(), encoding="utf-8")
    assert broken_expectations(description, tmp_path) == []


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=stem)
def test_example_runs_and_ends_in_assertions(description: Path) -> None:
    for member in members(description):
        assert member.resolve().data["expect"]
        assert entry_of(member)["missing"] == []


@pytest.mark.parametrize("description", REGRESSION, ids=stem)
def test_expectations_for_kernels_hold_in_the_simulator(description: Path, tmp_path: Path) -> None:
    assert broken_expectations(description, tmp_path) == []


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=stem)
def test_example_says_what_it_shows_and_how_to_run_it(description: Path) -> None:
    head = description.read_text(encoding="utf-8").split("\nname:")[0]
    assert head.startswith("# ")
    assert f"mptcplab run {description.relative_to(ROOT)}" in head


@pytest.mark.parametrize("script", SCRIPTS, ids=stem)
def test_script_runs(script: Path) -> None:
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("page", WITH_LINKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_resolve(page: Path) -> None:
    for target in links(page):
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    folders_with_their_own = ("decisions", "reference")
    pages = [page.relative_to(ROOT / "docs") for page in PAGES]
    listed = [
        page.as_posix() for page in pages if page.parts[0] not in folders_with_their_own and page.name != "README.md"
    ]
    assert [page for page in listed if f"({page})" not in index] == []


def test_every_example_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    paths = [path.relative_to(ROOT).as_posix() for path in DESCRIPTIONS]
    assert [path for path in paths if f"(../{path})" not in index] == []
