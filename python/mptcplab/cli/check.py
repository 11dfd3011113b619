"""``mptcplab check``: checks whether expectations held, for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptcplab.cli.options import OUT_VARIABLE, As_json, Quiet

EXAMPLE = "Example: mptcplab check results --junit expectations.xml"


def command(
    directory: Annotated[Path, typer.Argument(envvar=OUT_VARIABLE, help="Directory with bundles.")] = Path("results"),
    junit: Annotated[Path | None, typer.Option(help="Write the verdicts as JUnit XML into this file.")] = None,
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

    failures = known_failures.read(known) if known is not None else []
    found = bundles_under([directory])
    for bundle in found:
        if bundle.status == "done":
            bundle.verify()
    bundles = known_failures.set_aside(found, failures)
    done = [bundle for bundle in bundles if bundle.status == "done"]
    if junit is not None:
        write_text(junit, as_junit(bundles))
    if ktap is not None and str(ktap) != "-":
        write_text(ktap, as_ktap(bundles))
    if as_json:
        print_json(summary(bundles))
    elif ktap is not None and str(ktap) == "-":
        typer.echo(as_ktap(bundles), nl=False)
    else:
        print_not_done(bundles)
        print_expectations(done)
        print_line(f"{len(done)} of {len(bundles)} runs done, with correct checksums")
    end_with_status_of(bundles)
