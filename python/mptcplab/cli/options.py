"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from mptcplab.backends import BACKENDS, backend
from mptcplab.cli import completion
from mptcplab.errors import UsageError

#: The environment variable with the directory for results.
OUT_VARIABLE = "MPTCPLAB_OUT"
#: The forms of figures, as in `plots`, which a key press does not wait for.
FORMATS = ("pdf", "pgf", "svg", "png", "csv")


def html_only(parameter: typer.CallbackParam, page: Path | None) -> Path | None:
    """Refuses a page whose name does not end in .html, before anything runs."""
    if page is not None and page.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{parameter.opts[0]} {page}: the page is HTML; allowed: a name that ends in .html")
    return page


def listed_names(text: str) -> list[str]:
    """Returns the names in a list with commas, without the blanks around them."""
    return [name.strip() for name in text.split(",")]


def made_ready(context: typer.Context, names: str) -> str:
    """Readies the back-ends before the command imports more, because only a process with one thread
    can enter a user namespace, and some modules start threads.
    """
    if not context.resilient_parsing:
        for name in BACKENDS.keys() & listed_names(names):
            backend(name).ready()
    return ",".join(listed_names(names))


def _is_default_of_file(context: typer.Context, parameter: typer.CallbackParam) -> bool:
    """Returns whether a value comes from a file with defaults. It gives way to the command line."""
    source = context.get_parameter_source(str(parameter.name))
    return source is not None and source.name == "DEFAULT_MAP"


def _gives_way(context: typer.Context, parameter: typer.CallbackParam, others: str) -> bool:
    """Returns whether a default of a file gives way to an option of the command line, which is read
    first.
    """
    return _is_default_of_file(context, parameter) and is_given(context, others)


def _for_export(context: typer.Context, parameter: typer.CallbackParam, value: str | None) -> str | None:
    """Drops what a file says of the form of figures where none are written."""
    has_page = "is_live" not in _names_of(context) or context.params.get("is_live")
    is_of_page = has_page and parameter.name == "style" and value == "projector"
    is_used = context.params.get("export") is not None or is_of_page
    return value if is_used or not _is_default_of_file(context, parameter) else None


def _names_of(context: typer.Context) -> set[str | None]:
    return {parameter.name for parameter in context.command.params}


def _unless_json(context: typer.Context, parameter: typer.CallbackParam, form: str | None) -> str | None:
    return None if _gives_way(context, parameter, "as_json") else form


def _unless_table(context: typer.Context, parameter: typer.CallbackParam, wanted: bool) -> bool:
    return wanted and not _gives_way(context, parameter, "table")


def _quieten(context: typer.Context, parameter: typer.CallbackParam, wanted: bool) -> None:
    if wanted and not _gives_way(context, parameter, "_verbose"):
        from mptcplab.cli.output import be_quiet

        be_quiet()


def _tell_more(context: typer.Context, parameter: typer.CallbackParam, wanted: bool) -> None:
    if wanted and not _gives_way(context, parameter, "_quiet"):
        from mptcplab.cli.output import be_verbose

        be_verbose()


def one_of(option: str, meaning: str, values: str, **more: Any) -> Any:
    """Returns an option that takes one of `values`, written as ``a|b``."""
    return typer.Option(
        option, help=meaning, metavar=values, autocompletion=completion.one_of(values.split("|")), **more
    )


def _on(meaning: str, form: str) -> Any:
    return typer.Option("--on", autocompletion=completion.backends, help=meaning, metavar=form, callback=made_ready)


def _set(meaning: str, form: str) -> Any:
    return typer.Option("--set", autocompletion=completion.settings, help=meaning, metavar=form)


As_json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.", callback=_unless_table)
]
_SPEC = typer.Argument(
    autocompletion=completion.specs, metavar="SPEC", help="A .yaml file, or a name or prefix from `mptcplab list`."
)
Spec: TypeAlias = Annotated[str, _SPEC]
Specs: TypeAlias = Annotated[list[str], _SPEC]
On: TypeAlias = Annotated[
    str,
    _on(
        "Back-end, another machine, or the path of your own simulator. `show SPEC` names what each lacks.",
        "|".join((*BACKENDS, "PLACE", "PROGRAM")),
    ),
]
On_own: TypeAlias = Annotated[str, _on("The simulator, or the path of your own one.", "sim|PROGRAM")]
On_each: TypeAlias = Annotated[str, _on("Back-ends, separated by commas, so none can contain one.", "sim,kernel")]
Settings: TypeAlias = Annotated[
    list[str] | None, _set("Change a value of the description; may be given again.", "KEY=VALUE")
]
SeveralValues: TypeAlias = Annotated[
    list[str] | None,
    _set("Change a value of the description, or run each of several values; may be given again.", "KEY=V1,V2"),
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, max=2**63 - 1, metavar="N", help="Seed of the first repetition.")]
Repeat: TypeAlias = Annotated[int, typer.Option(min=1, metavar="N", help="Repetitions, each with the next seed.")]
Out: TypeAlias = Annotated[
    Path, typer.Option(file_okay=False, envvar=OUT_VARIABLE, metavar="DIR", help="Directory for results.")
]
Jobs: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1, envvar="MPTCPLAB_JOBS", metavar="N", help="Runs at a time; default one per core, in real time one."
    ),
]
Allow_programs: TypeAlias = Annotated[
    bool, typer.Option("--allow-programs", help="Run programs and classes of the description without asking.")
]
Root_programs: TypeAlias = Annotated[
    bool, typer.Option("--root-programs", help="Under sudo, run them as root and not as its caller.")
]
Export: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--export", file_okay=False, help="Also write every figure, its caption and the references into this directory."
    ),
]
Format: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        autocompletion=completion.some_of(FORMATS),
        help="Forms that --export writes; default png,svg,csv.",
        metavar="pdf,pgf,..",
        callback=_for_export,
    ),
]
Size: TypeAlias = Annotated[
    str | None,
    one_of("--size", "Width of what --export writes; default as on pages.", "column|text|slide", callback=_for_export),
]
Style: TypeAlias = Annotated[
    str | None,
    one_of(
        "--style",
        "Fonts and widths of a publisher for --export; projector is for pages, too.",
        "plain|ieee|acm|projector",
        callback=_for_export,
    ),
]
Table: TypeAlias = Annotated[
    str | None,
    one_of("--table", "Print the table in this form and nothing else.", "latex|markdown|csv", callback=_unless_json),
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Print only what went wrong.", callback=_quieten)]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print a line for each run as it ends.", callback=_tell_more)
]
Newest: TypeAlias = Annotated[
    bool, typer.Option("--newest", help="Of bundles with the same changes, back-end and seed, use only the newest.")
]
Listed: TypeAlias = Annotated[bool, typer.Option("--list", help="Only list the bundles found.")]
Fresh: TypeAlias = Annotated[bool, typer.Option("--fresh", help="Run again what is already done.")]


def is_given(context: typer.Context, option: str) -> bool:
    """Returns whether the command line has the option, so that its value is not a default."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


@contextmanager
def rights(*, allow: bool, root: bool = False) -> Iterator[None]:
    """What a description may run inside: what is allowed, was allowed before, or is at the terminal
    now.
    """
    from mptcplab import callers, consent

    if root:
        callers.keep_root()
    with consent.policy("allow" if allow else "ask"):
        yield
