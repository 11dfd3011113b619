"""``mptcplab doctor``: what this machine can do."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLE = "Example: mptcplab doctor"
MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]note[/]", "problem": "[red]problem[/]"}


def command(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """Say what this machine can do, or how it could."""
    from mptcplab import doctor
    from mptcplab.cli.output import print_json, print_table

    findings = doctor.examine()
    if as_json:
        print_json(doctor.as_json(findings))
    else:
        rows = [(finding.subject, MARKS[finding.state], finding.found, finding.remedy) for finding in findings]
        print_table(("", "", "found", "remedy"), rows)
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(3)
