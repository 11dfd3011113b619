"""``mptcplab bisect-step``: judges a kernel for ``git bisect run``."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli.options import (
    OUT_VARIABLE,
    Allow_programs,
    As_json,
    On,
    Quiet,
    Root_programs,
    Settings,
    Spec,
    rights,
)

if TYPE_CHECKING:
    from mptcplab.bisection import Judgement
    from mptcplab.results import Bundle
    from mptcplab.results.entities import Json

EXAMPLE = (
    "Example: mptcplab bisect-step examples/regression/stale.yaml --on qemu:arch/x86/boot/bzImage "
    "--metric flows.upload.goodput_bps --good results/good"
)
#: The exit statuses that git-bisect(1) takes for a verdict.
GOOD, BAD, NOT_JUDGED = 0, 1, 125


def command(
    spec: Spec,
    metric: Annotated[
        str,
        typer.Option(metavar="ENTITY.METRIC", help="What is compared, as in an expectation: flows.bulk.goodput_bps."),
    ],
    good: Annotated[Path, typer.Option(metavar="DIR", help="Bundles of SPEC on the good kernel, one for each seed.")],
    on: On = "sim",
    settings: Settings = None,
    repeat: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="Pairs of runs; default: one for each bundle of --good.")
    ] = None,
    error_rate: Annotated[
        float,
        typer.Option(min=1e-6, max=0.2, help="Largest probability of calling a bad kernel good, or a good one bad."),
    ] = 0.05,
    band: Annotated[
        float, typer.Option(min=0.001, max=1, help="A kernel is good if the mean ratio differs from 1 by at most this.")
    ] = 0.1,
    out: Annotated[
        Path,
        typer.Option(
            file_okay=False, envvar=OUT_VARIABLE, metavar="DIR", help="Directory for steps, a directory each."
        ),
    ] = Path("bisect"),
    allow_programs: Allow_programs = False,
    root_programs: Root_programs = False,
    as_json: As_json = False,
    _quiet: Quiet = False,
) -> None:
    """Judge a kernel by a metric, for git bisect run.

    Runs SPEC on it with the seeds of the good bundles, and compares the pairs. Exit status 0: good;
    1: bad; 125: it cannot be judged; 128 and more end the bisection, for example 128 for wrong
    usage, or for a machine that cannot be reached.
    """
    from mptcplab.bisection import CannotJudge, good_runs, judged, require_place, runs_like
    from mptcplab.cli.bundles import bundles_under
    from mptcplab.cli.specs import resolved
    from mptcplab.errors import UsageError
    from mptcplab.results import check_metric

    experiments = [one.data for one in resolved([spec], settings)[1]]
    if len(experiments) > 1:
        names = ", ".join(one["name"] for one in experiments[:4])
        raise UsageError(f"{spec}: has {len(experiments)} experiments; allowed: one of them, as {names}")
    check_metric(metric, experiments[0], "--metric")
    require_place(on)
    reference = good_runs(bundles_under([good]), experiments[0], good, repeat)
    expected = _values_of_good(reference, metric, good)
    try:
        with rights(allow=allow_programs, root=root_programs):
            bundles = runs_like(reference, on, _new_step(out))
        judgement = judged(_values(bundles, metric), expected, band, error_rate)
    except CannotJudge as cannot:
        _tell({"verdict": "not judged", "why": str(cannot)}, f"not judged: {cannot}", as_json=as_json)
        raise typer.Exit(NOT_JUDGED) from None
    _tell_judgement(judgement, metric, bundles, reference[0].record["backend"], error_rate, as_json=as_json)
    raise typer.Exit({"good": GOOD, "bad": BAD}.get(judgement.verdict, NOT_JUDGED))


def _values_of_good(bundles: list[Bundle], metric: str, place: Path) -> list[float]:
    from mptcplab.bisection import CannotJudge
    from mptcplab.errors import UsageError

    try:
        return _values(bundles, metric)
    except CannotJudge as cannot:
        raise UsageError(f"--good {place}: {cannot}; allowed: a metric that every good run has") from None


def _values(bundles: list[Bundle], metric: str) -> list[float]:
    """Returns the metric of each run. Raises CannotJudge if one does not have it."""
    from mptcplab.bisection import CannotJudge, value_of
    from mptcplab.results import Absent

    values = []
    for bundle in bundles:
        value = value_of(bundle, metric)
        if isinstance(value, Absent):
            raise CannotJudge(f"seed {bundle.record['seed']} has no {metric}: {value.why}")
        values.append(value)
    return values


def _new_step(out: Path) -> Path:
    """Returns a directory that does not exist yet. Runs of an earlier step are not used again,
    because kernels of different commits may have the same release.
    """
    steps = (out / f"step-{number:03}" for number in count(1))
    return next(step for step in steps if not step.exists())


def _tell_judgement(
    judgement: Judgement, metric: str, bundles: list[Bundle], good: str, error_rate: float, *, as_json: bool
) -> None:
    low, high = judgement.interval
    least, most = judgement.allowed
    relation = "times that of" if judgement.method == "ratio" else "more than that of"
    judged_on = bundles[0].record["backend"]
    good = "the good runs" if good == judged_on else good
    line = (
        f"{judgement.verdict}: {metric} on {judged_on} is {judgement.estimate:.4g} {relation} {good} "
        f"({low:.4g} to {high:.4g}; good is {least:.4g} to {most:.4g}; {len(bundles)} pairs, error rate {error_rate:g})"
    )
    document: Json = {
        "verdict": judgement.verdict,
        "metric": metric,
        "method": judgement.method,
        "estimate": judgement.estimate,
        "interval": list(judgement.interval),
        "allowed": list(judgement.allowed),
        "pairs": len(bundles),
        "error_rate": error_rate,
        "bundles": [str(bundle.path) for bundle in bundles],
    }
    _tell(document, line, as_json=as_json)


def _tell(document: Json, line: str, *, as_json: bool) -> None:
    from mptcplab.cli.output import print_json, print_line

    if as_json:
        print_json({"schema": "mptcplab/bisection/1", **document})
    else:
        print_line(line)
