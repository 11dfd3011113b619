"""Tests what commands print into files and pipes, where there is no rich."""

from __future__ import annotations

import pytest
from mptcplab.cli.console import PlainConsole, escape, plain_table, without_markup
from rich.text import Text


@pytest.mark.parametrize("text", ["plain", "[red]", "flows[0] and [/]", r"\[a] \\[b] \c", "[[bold]] [1] []"])
def test_escaped_text_is_shown_as_it_is_with_and_without_rich(text: str) -> None:
    assert without_markup(escape(text)) == text
    assert Text.from_markup(escape(text)).plain == text


def test_markup_leaves_no_trace_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    console = PlainConsole("stdout")
    console.print(f"[red]failed[/] {escape('[x]')}", soft_wrap=True)
    console.print("[x]", style="dim", markup=False)
    assert capsys.readouterr().out == "failed [x]\n[x]\n"


def test_columns_of_a_table_are_aligned_in_a_file() -> None:
    lines = list(plain_table(("name", "rate"), [("漢字", "5"), ("a", "10.5")], [1]))
    assert lines == ["name  rate", "漢字     5", "a     10.5"]
