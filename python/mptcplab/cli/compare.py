"""``mptcplab compare``: shows several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli import completion
from mptcplab.cli.options import (
    Allow_programs,
    As_json,
    Export,
    Format,
    Jobs,
    Listed,
    Newest,
    On_each,
    Out,
    Quiet,
    Repeat,
    Root_programs,
    Seed,
    SeveralValues,
    Size,
    Style,
    Table,
    Verbose,
    html_only,
    is_given,
    rights,
)

if TYPE_CHECKING:
    from mptcplab.cli.bundles import Selection
    from mptcplab.experiment import Member
    from mptcplab.families import Json
    from mptcplab.recorded import Recorded
    from mptcplab.results import Bundle

EXAMPLE = (
    "Example: mptcplab compare examples/two-paths-mptcp.yaml "
    "--set flows.download.scheduler=min_rtt,redundant --repeat 10"
)


def command(
    context: typer.Context,
    what: Annotated[
        list[str],
        typer.Argument(
            autocompletion=completion.specs, help="Directories of bundles, or SPECs to run; the first is the reference."
        ),
    ],
    on: On_each = "sim",
    settings: SeveralValues = None,
    seed: Seed = 1,
    repeat: Repeat = 1,
    out: Out = Path("results"),
    jobs: Jobs = None,
    native: Annotated[
        bool,
        typer.Option(
            "--native",
            help="Of preference lists, use the first choice of each back-end, not the first that all have.",
        ),
    ] = False,
    band: Annotated[
        float, typer.Option(min=0, max=1, help="Back-ends are equivalent if means differ by at most this fraction.")
    ] = 0.05,
    newest: Newest = False,
    listed: Listed = False,
    report: Annotated[Path, typer.Option(help="File of the page.", callback=html_only)] = Path("comparison.html"),
    export: Export = None,
    formats: Format = None,
    size: Size = None,
    style: Style = None,
    table: Table = None,
    allow_programs: Allow_programs = False,
    root_programs: Root_programs = False,
    as_json: As_json = False,
    _quiet: Quiet = False,
    _verbose: Verbose = False,
) -> None:
    """Compare runs: print medians and ratios, and write a page.

    SPECs are run first, in turns; each combination of the values of --set KEY=V1,V2 is an arm. The
    page has overlays. With several back-ends it says how far they agree. Without SPECs, --seed,
    --set and --on select among the bundles of the directories.
    """
    from mptcplab.cli.bundles import Selection, print_bundles
    from mptcplab.cli.exporting import Publishing, print_grid
    from mptcplab.cli.specs import overrides

    asked = Publishing.of(export, formats, size, style, table, as_json=as_json, has_page=True)
    runs_specs = any(not Path(word).is_dir() for word in what)
    selection = Selection(
        seed if is_given(context, "seed") and not runs_specs else None,
        {} if runs_specs else overrides(settings),
        tuple(on.split(",")) if is_given(context, "on") and not runs_specs else (),
        newest,
    )
    if listed:
        print_bundles(_selected(what, selection))
        return
    with rights(allow=allow_programs, root=root_programs):
        members, bundles = _bundles(what, selection, on.split(","), settings, seed, repeat, out, jobs, native=native)

    from mptcplab.cli.console import escape
    from mptcplab.cli.output import print_json, print_line, print_remark, print_table, write_text
    from mptcplab.report.agreement import metrics_grid, notes, shares_grid
    from mptcplab.report.comparison import (
        MOST_FLOWS,
        arms_of,
        by_metric,
        comparison_drawings,
        comparison_page,
        flows_of,
        outages_of,
        table_of,
    )
    from mptcplab.report.members import members_grids
    from mptcplab.results import summary
    from mptcplab.results.agreement import agreement

    agreed = agreement(bundles, band)
    families = members_grids(_over_families(members, bundles), bundles)
    write_text(report, asked.dressed(comparison_page(bundles, agreed, families)))
    if asked.exporter is not None:
        asked.write_figures(comparison_drawings(bundles), bundles)
    if as_json:
        print_json(summary(bundles) | ({"agreement": agreed} if agreed else {}))
        return
    arms = arms_of(bundles)
    flows = flows_of(arms)
    if asked.form:
        print_grid(table_of(arms, flows), asked.form)
        return
    shown = [
        by_metric(table_of(arms)),
        outages_of(arms, intervals=False),
        *(table for _, table in families),
        *((metrics_grid(agreed), shares_grid(agreed)) if agreed else ()),
    ]
    for table_shown in shown:
        if table_shown is None:
            continue
        rows = [[escape(cell) for cell in row] for row in table_shown.rows]
        print_table(table_shown.heads, rows, right=table_shown.numeric)
        print_line("")
    if len(flows) > MOST_FLOWS:
        print_remark(f"and {len(flows) - MOST_FLOWS} more flows, which --json and --table list")
    for note in notes(agreed) if agreed else ():
        print_remark(note)
    print_remark(f"wrote {report}")


def _bundles(
    what: list[str],
    selection: Selection,
    backends: list[str],
    settings: list[str] | None,
    seed: int,
    repeat: int,
    out: Path,
    jobs: int | None,
    *,
    native: bool,
) -> tuple[list[Member | Recorded], list[Bundle]]:
    """Returns the experiments of the SPECs, and their bundles after those of the directories. Runs
    that are not done are run.
    """
    from mptcplab import families
    from mptcplab.cli.progress import progress
    from mptcplab.cli.specs import overrides
    from mptcplab.runner import execute, plan_on
    from mptcplab.sweep import arms_by_value, split_settings

    specs = [word for word in what if not Path(word).is_dir()]
    members = arms_by_value(specs, split_settings(overrides(settings))) if specs else []
    resolved = [member.resolve() for member in members]
    families.check(list(zip(members, resolved, strict=True)))
    experiments = [one.data for one in resolved]
    here = _selected(what, selection)
    work = plan_on(backends if experiments else [], experiments, seed=seed, repeat=repeat, out=out, native=native)
    with progress(work) as observer:
        done = execute(work, observer, workers=jobs)
    return members, [*here, *done]


def _over_families(members: list[Member | Recorded], bundles: list[Bundle]) -> dict[str, list[Json]]:
    """Returns the metrics over the families of the SPECs by back-end; none if a member has several
    variants.
    """
    from mptcplab import families

    names = [member.name for member in members]
    if len(set(names)) < len(names):
        return {}
    of_members = [bundle for bundle in bundles if bundle.record["experiment"] in names]
    backends = dict.fromkeys(bundle.record["backend"] for bundle in of_members)
    return {
        backend: families.evaluate(members, [one for one in of_members if one.record["backend"] == backend])
        for backend in backends
    }


def _selected(what: list[str], selection: Selection) -> list[Bundle]:
    """Returns the selected bundles of the directories, each once."""
    from mptcplab.cli.bundles import bundles_under
    from mptcplab.report.comparison import in_order

    directories = [Path(word) for word in what if Path(word).is_dir()]
    found = [
        bundle
        for directory in directories
        for bundle in in_order(selection.among(bundles_under([directory]), directory))
    ]
    return list({bundle.path.resolve(): bundle for bundle in found}.values())
