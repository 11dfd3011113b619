"""``mptcplab doctor``: reports what this machine can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli.options import As_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptcplab.doctor import Finding

EXAMPLE = "Example: mptcplab doctor"
MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]note[/]", "problem": "[red]problem[/]"}


def command(
    context: typer.Context,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Also list what each back-end can and cannot do, what the kernel allows, and all settings.",
        ),
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            help="Report the kernel of this machine (kernel) or another machine, as in ssh://HOST or qemu:6.12.",
            metavar="PLACE",
        ),
    ] = None,
    as_json: As_json = False,
) -> None:
    """Report what this machine can do, and what mends it.

    Also reports the state of the machine's own MPTCP, which experiments neither use nor change.
    """
    from mptcplab import doctor
    from mptcplab.cli.output import print_json

    findings, environment = (doctor.examine(tries_kernel=verbose), None) if on is None else doctor.examine_elsewhere(on)
    if as_json:
        print_json(doctor.as_json(findings, environment))
    elif verbose:
        _print_all([*findings, _files_in_force(context)])
    else:
        _print(findings)
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(3)


def _files_in_force(context: typer.Context) -> Finding:
    """Returns the files with defaults of options that commands here read."""
    from mptcplab.cli.config import HERE, of_user
    from mptcplab.doctor import Finding

    files = ", ".join(map(str, context.obj.files))
    return Finding(
        "defaults", "ok", f"from {files}" if files else f"of mptcplab: neither {HERE} nor {of_user()} exists"
    )


def _print(findings: Sequence[Finding]) -> None:
    """Prints a line for each finding, and below it its remedy. Findings that differ only in their
    subject share one.
    """
    from mptcplab.cli.output import print_remark

    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.state, finding.found, finding.remedy), []).append(finding)
    rows = [_as_one(several) for several in alike.values()]
    width = max(len(finding.subject) for finding in rows)
    for finding in rows:
        _print_line(f"{finding.subject:<{width}}", finding)
    print_remark("mptcplab doctor -v shows all details")


def _as_one(findings: Sequence[Finding]) -> Finding:
    """Returns alike findings of several back-ends as one, which names them."""
    from dataclasses import replace

    if len(findings) == 1:
        return findings[0]
    names = ", ".join(finding.subject.removeprefix("back-end ") for finding in findings)
    return replace(findings[0], subject="back-ends", found=f"{names}: {findings[0].found}")


def _print_all(findings: Sequence[Finding]) -> None:
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import RESULTS

    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        _print_line(f"{finding.subject:<{width}}", finding, is_whole=True)
        for detail in finding.details:
            RESULTS.print(f"  {escape(detail)}", soft_wrap=True)


def _print_line(title: str, finding: Finding, *, is_whole: bool = False) -> None:
    """Prints what was found and its remedy. Unless `is_whole`, what was found takes one line of the
    terminal.
    """
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import RESULTS

    line = f"{title}  {MARKS[finding.state]}  {escape(finding.found)}"
    RESULTS.print(line, **({"soft_wrap": True} if is_whole else {"overflow": "ellipsis", "no_wrap": True}))
    if finding.remedy:
        RESULTS.print(f"  [bold]mend:[/] {escape(finding.remedy)}", soft_wrap=True)
