"""``mptcplab run``: runs experiments and prints their results."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mptcplab.cli.live import PORT, described, executed_live, require_server, speed_of
from mptcplab.cli.options import (
    Allow_programs,
    As_json,
    Export,
    Format,
    Fresh,
    Jobs,
    On,
    Out,
    Quiet,
    Repeat,
    Root_programs,
    Seed,
    Settings,
    Size,
    Specs,
    Style,
    Table,
    Verbose,
    rights,
)
from mptcplab.errors import UsageError
from mptcplab.web.pace import SPEEDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptcplab.experiment import Member, Resolved
    from mptcplab.families import Json
    from mptcplab.recorded import Recorded
    from mptcplab.results import Bundle

Live: TypeAlias = Annotated[bool, typer.Option("--live", help="Show the run on a page of this machine.")]
Speed: TypeAlias = Annotated[
    str, typer.Option(help="With --live: how fast simulated time passes.", metavar="|".join(SPEEDS))
]
Port: TypeAlias = Annotated[
    int, typer.Option(min=0, max=65535, help="With --live: port of the page; 0 is any free one.")
]

EXAMPLE = "Example: mptcplab run examples/failing-link.yaml --set links.wifi.loss=2% --repeat 10"


def command(
    context: typer.Context,
    spec: Specs,
    on: On = "sim",
    settings: Settings = None,
    seed: Seed = 1,
    repeat: Repeat = 1,
    out: Out = Path("results"),
    jobs: Jobs = None,
    fresh: Fresh = False,
    export: Export = None,
    formats: Format = None,
    size: Size = None,
    style: Style = None,
    table: Table = None,
    allow_programs: Allow_programs = False,
    root_programs: Root_programs = False,
    is_live: Live = False,
    speed: Speed = "1x",
    port: Port = PORT,
    as_json: As_json = False,
    _quiet: Quiet = False,
    _verbose: Verbose = False,
) -> None:
    """Run experiments. Runs that are already in --out are not repeated.

    With --live, a page of this machine shows a run while it goes on, and changes it; its bundle
    goes into a directory of its own. Exit status 1: an expectation did not hold.
    """
    from mptcplab.cli.exporting import Publishing, print_grid
    from mptcplab.cli.specs import resolved

    asked = Publishing.of(export, formats, size, style, table, as_json=as_json, has_page=is_live)
    multiple = speed_of(speed)
    for option in ("speed", "port"):
        source = context.get_parameter_source(option)
        if not is_live and source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"--{option}: has no effect without --live")
    if is_live:
        require_server()
        from mptcplab.web.running import place_of_live_runs

        out = place_of_live_runs(out)
    members, experiments = resolved(spec, settings)

    # Errors of the description come before the other modules are loaded, which takes time.
    from mptcplab import families
    from mptcplab.cli.output import print_json
    from mptcplab.cli.progress import progress
    from mptcplab.results import summary
    from mptcplab.runner import execute, plan

    families.check(list(zip(members, experiments, strict=True)))
    data = [experiment.data for experiment in experiments]
    with rights(allow=allow_programs, root=root_programs):
        work = plan(data, on, seed=seed, repeat=repeat, out=out, fresh=fresh)
    if is_live:
        bundles = [executed_live(work, described(members[0]), port=port, speed=multiple, style=asked.page_style)]
    else:
        with progress(work) as observer:
            bundles = execute(work, observer, workers=jobs)
    over_families = families.evaluate(members, bundles)
    if as_json:
        print_json(summary(bundles) | ({"families": over_families} if over_families else {}))
    elif asked.form:
        from mptcplab.cli.outcome import outcome_grid

        print_grid(outcome_grid(bundles), asked.form)
    else:
        _show(bundles, over_families, reused=sum(job.done is not None for job in work))
    if asked.exporter is not None:
        asked.write_runs(bundles)
    tell_stated_repetitions(list(zip(members, experiments, strict=True)), repeat)
    end_with_status_of(bundles)


def tell_stated_repetitions(work: Sequence[tuple[Member | Recorded, Resolved]], repeat: int) -> None:
    """Prints, on standard error, which experiments state (not assume) more repetitions than were
    run.
    """
    from mptcplab.cli.output import REMARKS
    from mptcplab.errors import first_few
    from mptcplab.experiment import Member

    stated = {
        member.name: times
        for member, resolved in work
        if isinstance(member, Member)
        and (times := member.experiment.repetitions or 0) > repeat
        and "assumed" not in resolved.origins.get("repetitions", "")
    }
    if stated:
        most, asked = max(stated.values()), "once" if repeat == 1 else f"{repeat} times"
        names = f"{first_few(list(stated))} {'was' if len(stated) == 1 else 'were'}"
        REMARKS.print(
            f"{names} run {asked}; the source states {most} repetitions: --repeat {most}",
            style="dim",
            markup=False,
            soft_wrap=True,
        )


def end_with_status_of(bundles: list[Bundle]) -> None:
    """Exits with 4 if a run failed or was invalid, and with 1 if an expectation did not hold."""
    if any(bundle.status != "done" for bundle in bundles):
        raise typer.Exit(4)
    if any(verdict["held"] is False for bundle in bundles for verdict in bundle.record["expectations"]):
        raise typer.Exit(1)


def _show(bundles: list[Bundle], over_families: list[Json], reused: int) -> None:
    from mptcplab.cli.outcome import (
        print_chart,
        print_expectations,
        print_fallbacks,
        print_family_metrics,
        print_flow_errors,
        print_illustrative,
        print_not_done,
        print_outcome,
        print_real_links,
        print_substitutions,
        print_user_code,
    )
    from mptcplab.cli.output import print_remark

    print_outcome(bundles)
    print_substitutions(bundles)
    print_user_code(bundles)
    print_illustrative(bundles)
    print_real_links(bundles)
    print_fallbacks(bundles)
    print_flow_errors(bundles)
    print_not_done(bundles)
    if len(bundles) == 1 and bundles[0].record["result"] is not None:
        print_chart(bundles[0])
    print_family_metrics(over_families, bundles)
    print_expectations(bundles)
    if reused:
        print_remark(f"done already: {reused} of {len(bundles)} (--fresh runs all again)")
    print_remark(f"report: mptcplab report {shlex.quote(str(bundles[0].path))}")
    arms = {bundle.path.parent for bundle in bundles}
    if len(arms) > 1:
        print_remark(f"side by side: mptcplab compare {shlex.quote(os.path.commonpath(arms))}")
