"""``mptcplab traces``: lists, shows and converts traces of links."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptcplab.cli import completion
from mptcplab.cli.options import As_json, Export, Format
from mptcplab.errors import SpecError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mptcplab.plots import Exporter
    from mptcplab.traces.library import Found
    from mptcplab.traces.statistics import Statistics

EXAMPLE = "Example: mptcplab traces convert lte-driving-down lte-driving.down"
MISSING = "-"


class Action(StrEnum):
    """Action of the command."""

    list = "list"
    show = "show"
    convert = "convert"


#: How many names each action takes, and what they are.
NAMES = {
    Action.list: (range(2), "[FOLDER]"),
    Action.show: (range(1, 2), "TRACE"),
    Action.convert: (range(2, 3), "TRACE FILE"),
}
#: The options that not every action uses, and those that do.
USED_BY: dict[str, tuple[Action, ...]] = {
    "columns": (Action.show, Action.convert),
    "to": (Action.convert,),
    "every": (Action.convert,),
    "source": (Action.convert,),
    "licence": (Action.convert,),
    "export": (Action.show,),
    "forms": (Action.show,),
}


def command(
    context: typer.Context,
    action: Annotated[Action, typer.Argument(help="What to do.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="list: a folder; show: a trace; convert: a trace and the file to write.",
            autocompletion=completion.traces,
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="A column of a CSV file and its unit; may be given again.", metavar="rate=DL_bitrate kbit"),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Format to write; default by the file.", metavar="csv|mahimahi|rates|intervals|cellreplay"),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            help="Length of the intervals over which opportunities are averaged to rates; default 100ms.",
            metavar="100ms",
        ),
    ] = None,
    source: Annotated[str | None, typer.Option(help="Where the trace is from, if no file says so.")] = None,
    licence: Annotated[str | None, typer.Option(help="Its licence, if no file says so.")] = None,
    export: Export = None,
    forms: Format = None,
    as_json: As_json = False,
) -> None:
    """List, show or convert traces of links.

    A trace is a file, a synthetic trace of mptcplab, or the name of one in the folder
    MPTCPLAB_TRACES.
    """
    given = names or []
    allowed, form = NAMES[action]
    if len(given) not in allowed:
        raise UsageError(f"traces {action}: found {len(given)} names; allowed: {form}")
    _check_use(context, action)
    if action is Action.list:
        _list(given, as_json=as_json)
        return
    found = _found(given[0], _columns(columns or []))
    if action is Action.show:
        _show(found, export, forms, as_json=as_json)
    else:
        _convert(found, Path(given[1]), to, every, {"source": source, "licence": licence}, as_json=as_json)


def _check_use(context: typer.Context, action: Action) -> None:
    """Refuses options that an action would ignore."""
    for parameter in context.command.params:
        users = USED_BY.get(parameter.name or "")
        if users and action not in users and context.params[parameter.name or ""]:
            allowed = " or ".join(f"traces {one}" for one in users)
            raise UsageError(f"traces {action}: found {parameter.opts[0]}, which it does not use; allowed: {allowed}")


def _columns(given: list[str]) -> dict[str, str]:
    """Returns the columns of `--columns rate=NAME UNIT`."""
    pairs = [one.partition("=") for one in given]
    for kind, equals, name in pairs:
        if not (kind and equals and name):
            raise UsageError(
                f"--columns {kind}{equals}: found no name; allowed: KIND=NAME UNIT, as in rate=DL_bitrate kbit"
            )
    found = {kind.strip(): name.strip() for kind, _, name in pairs}
    if len(found) < len(pairs):
        raise UsageError(f"--columns: found two for one of {', '.join(found)}; allowed: one for each kind")
    return found


def _found(name: str, columns: Mapping[str, str]) -> Found:
    from mptcplab.traces import library

    path = library.resolved(name)
    trace, kind = library.load(path, columns)
    return library.Found(name, path, kind, trace)


def _list(given: list[str], *, as_json: bool) -> None:
    from mptcplab.cli.output import print_json, print_note, print_remark, print_table
    from mptcplab.traces import library
    from mptcplab.traces.statistics import statistics

    place = Path(given[0]).expanduser() if given else None
    if place is not None and not place.is_dir():
        raise UsageError(f"{place}: there is no such folder; allowed: a folder with traces")
    rows: list[tuple[Found, Statistics]] = []
    left_out: list[SpecError] = []
    for one in library.all_traces(place):
        if isinstance(one, SpecError):
            left_out.append(one)
        else:
            rows.append((one, statistics(one.trace)))
    if left_out:
        print_note(f"{len(left_out)} file{'s' * (len(left_out) != 1)} left out: {left_out[0]}")
    if as_json:
        print_json({"schema": "mptcplab/traces/1", "traces": [_document(one, numbers) for one, numbers in rows]})
        return
    from mptcplab.cli.console import escape

    cells = [
        [
            escape(one.name),
            one.kind,
            f"{numbers.length_s:.0f}",
            _rate(numbers.mean_rate_bps),
            escape(one.trace.origin.licence or MISSING),
            escape(one.trace.origin.source or MISSING),
        ]
        for one, numbers in rows
    ]
    print_table(["trace", "format", "length (s)", "mean (Mbit/s)", "licence", "source"], cells, right=[2, 3])
    if place is None and library.folder() is None:
        print_remark(f"{library.VARIABLE}=FOLDER mptcplab traces list also shows measured traces of that folder")


def _document(one: Found, numbers: Statistics) -> dict[str, Any]:
    from dataclasses import asdict

    origin = one.trace.origin
    return {
        "name": one.name,
        "file": str(one.path),
        "format": one.kind,
        **asdict(numbers),
        "source": origin.source,
        "licence": origin.licence,
    }


def _rate(rate_bps: float | None) -> str:
    return MISSING if rate_bps is None else f"{rate_bps / 1e6:.3g}"


def _show(found: Found, export: Path | None, forms: str | None, *, as_json: bool) -> None:
    from mptcplab.cli.exporting import exporter_of
    from mptcplab.cli.output import print_json, print_outline, print_remark
    from mptcplab.traces.statistics import statistics

    exporter = exporter_of(export, forms, None, None)
    written = _pictures(found, exporter) if exporter is not None else []
    numbers = statistics(found.trace)
    if as_json:
        document = {"schema": "mptcplab/trace/1", **_document(found, numbers)}
        print_json({**document, "pictures": [str(path) for path in written]})
        return
    print_outline(_outline(found, numbers))
    for path in written:
        print_remark(f"wrote {path}")
    if not written:
        print_remark("--export DIR draws it")


def _outline(found: Found, numbers: Statistics) -> list[tuple[str, str]]:
    from mptcplab.cli.console import escape

    origin = found.trace.origin
    rows = [
        ("trace", f"{escape(found.name)}, {numbers.length_s:.6g} s, format {found.kind}"),
        ("source", escape(origin.source or MISSING)),
        ("licence", escape(origin.licence or MISSING)),
    ]
    if numbers.rate_bps is not None:
        rows.append(
            (
                "rate",
                f"mean {_rate(numbers.mean_rate_bps)} Mbit/s; in 100 ms {_quantiles(numbers.rate_bps, 1e-6, 'Mbit/s')}",
            )
        )
    if numbers.longest_outage_s is not None:
        rows.append(("outage", f"longest {numbers.longest_outage_s:.3g} s"))
    if numbers.delay_s is not None:
        rows.append(("delay", f"one way {_quantiles(numbers.delay_s, 1e3, 'ms')}"))
    if numbers.mean_loss is not None:
        rows.append(("loss", f"mean {100 * numbers.mean_loss:.3g} %"))
    return rows


def _quantiles(values: Mapping[str, float], factor: float, unit: str) -> str:
    return ", ".join(f"{name} {value * factor:.3g}" for name, value in values.items()) + f" {unit}"


def _pictures(found: Found, exporter: Exporter) -> list[Path]:
    from mptcplab.plots.trace import drawing_of

    return exporter.write([drawing_of(found.path.name, found.trace)])


def _nanoseconds(every: str) -> int:
    from mptcplab.units import Duration, QuantityError

    try:
        every_ns = int(Duration(every))
    except QuantityError as error:
        raise UsageError(f"--every {every}: {error}") from None
    if every_ns < 1_000_000:
        raise UsageError(f"--every {every}: is too short; allowed: at least 1ms")
    return every_ns


def _convert(
    found: Found, output: Path, to: str | None, every: str | None, given: Mapping[str, str | None], *, as_json: bool
) -> None:
    from dataclasses import replace

    from mptcplab.cli.output import print_json, print_line, print_note, write_text
    from mptcplab.traces import origins
    from mptcplab.traces.conversion import convert, format_for
    from mptcplab.traces.model import Origin

    every_ns = None if every is None else _nanoseconds(every)
    named = Origin(**{key: origins.line(text, f"--{key}") for key, text in given.items() if text is not None})
    known = found.trace.origin
    trace = replace(found.trace, origin=Origin(known.source or named.source, known.licence or named.licence))
    converted = convert(trace, output, format_for(output, to), every_ns)
    for path, text in converted.contents.items():
        write_text(path, text)
    files = [str(path) for path in converted.contents]
    if as_json:
        print_json(
            {
                "schema": "mptcplab/converted-trace/1",
                "files": files,
                "left_out": list(converted.left_out),
                "added": list(converted.added),
            }
        )
        return
    print_line(f"wrote {', '.join(files)}")
    if converted.left_out:
        print_note(f"left out, because the format has none: {', '.join(converted.left_out)}")
    if converted.added:
        print_note(f"added: {', '.join(converted.added)}")
