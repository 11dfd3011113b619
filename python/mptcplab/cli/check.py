"""``mptcplab check``: checks whether expectations held, for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptcplab.cli.options import OUT_VARIABLE, As_json, Quiet
from mptcplab.errors import UsageError

EXAMPLE = "Example: mptcplab check results --junit expectations.xml"


def command(
    directory: Annotated[Path, typer.Argument(envvar=OUT_VARIABLE, help="Directory with bundles.")] = Path("results"),
    junit: Annotated[
        Path | None, typer.Option(help="Write the verdicts as JUnit XML into this file; - for standard output.")
    ] = None,
    ktap: Annotated[
        Path | None, typer.Option(help="Write the verdicts as KTAP into this file; - for standard output.")
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="TOML with expectations that kernels are known not to meet, which are skipped."
        ),
    ] = None,
    as_json: As_json = False,
    _quiet: Quiet = False,
) -> None:
    """Check checksums, status and expectations.

    Exit status 1 if an expectation did not hold.
    """
    from mptcplab.cli import known_failures
    from mptcplab.cli.bundles import bundles_under
    from mptcplab.cli.outcome import print_expectations, print_not_done
    from mptcplab.cli.output import print_json, print_line, write_text
    from mptcplab.cli.run import end_with_status_of
    from mptcplab.cli.verdicts import as_junit, as_ktap
    from mptcplab.results import summary

    to_output = [str(file) == "-" for file in (junit, ktap)] + [as_json]
    if sum(to_output) > 1:
        raise UsageError("check: only one of --junit -, --ktap - and --json can use standard output")
    failures = known_failures.read(known) if known is not None else []
    found = bundles_under([directory])
    for bundle in found:
        if bundle.status == "done":
            bundle.verify()
    bundles = known_failures.set_aside(found, failures)
    done = [bundle for bundle in bundles if bundle.status == "done"]
    for file, written in ((junit, as_junit), (ktap, as_ktap)):
        if str(file) == "-":
            typer.echo(written(bundles), nl=False)
        elif file is not None:
            write_text(file, written(bundles))
    if as_json:
        print_json(summary(bundles))
    elif not any(to_output):
        print_not_done(bundles)
        print_expectations(done)
        print_line(f"{len(done)} of {len(bundles)} runs done, with correct checksums")
    end_with_status_of(bundles)
