"""``mptcplab doctor``: reports what this machine can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptcplab.doctor import Finding

EXAMPLE = "Example: mptcplab doctor"
MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]note[/]", "problem": "[red]problem[/]"}


def command(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """Report what this machine can do, and what it lacks."""
    from mptcplab import doctor
    from mptcplab.cli.output import print_json

    findings = doctor.examine()
    if as_json:
        print_json(doctor.as_json(findings))
    else:
        _print(findings)
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(3)


def _print(findings: Sequence[Finding]) -> None:
    from rich.markup import escape

    from mptcplab.cli.output import RESULTS

    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        remedy = f"; {finding.remedy}" if finding.remedy else ""
        found = escape(f"{finding.found}{remedy}")
        RESULTS.print(f"{finding.subject:<{width}}  {MARKS[finding.state]}  {found}", soft_wrap=True)
