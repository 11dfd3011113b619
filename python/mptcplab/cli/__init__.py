"""The command line: one file per command. Converts errors to messages and exit statuses.

Exit status: 0 done; 1 an expectation did not hold; 2 wrong usage or description; 3 this machine or
back-end cannot do it; 4 a run failed or was invalid; 130 interrupted; 141 the reader of standard
output has closed it. ``proxy`` ends with the exit status of its command, and ``bisect-step`` with
that which git takes for a verdict.
"""

from __future__ import annotations

import gc
import re
import shlex
import signal
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer

from mptcplab.cli.closed_pipe import heed_closed_pipe
from mptcplab.errors import MptcplabError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import TextIOWrapper

INTERRUPTED = 130
USAGE, FAULT = 2, 4
#: git bisect run takes a lower status for a verdict on the commit, and ends with this one.
ENDS_BISECTION = 128
#: Objects made between two collections of garbage. With the default of 700, a tenth of a short
#: command's time is collections that find nothing, because modules and models stay until the end.
GARBAGE_OBJECTS = 100_000
#: The error of typer for any wrong option or argument. Its name is public only in some versions.
WrongUsage: type[Exception] = typer.BadParameter.__bases__[0]

#: The commands in the order of the help. Each has a module of its name.
COMMANDS = (
    *("run", "list", "examples", "new", "show", "report", "compare", "sweep", "serve"),
    *("reproduce", "bench-algorithm", "report-card", "check", "bisect-step", "exercise"),
    *("traces", "pcap", "cc", "proxy", "routing", "overlay", "join", "doctor", "clean"),
)


def application(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """Returns the command line with these commands."""
    app = typer.Typer(
        name="mptcplab",
        help="A laboratory for Multipath TCP: describe hosts, links, flows and failures; run, view and compare them.",
        epilog="Start here: mptcplab list; mptcplab show SPEC; mptcplab run SPEC; mptcplab report BUNDLE",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in commands:
        module = import_module(f"mptcplab.cli.{name.replace('-', '_')}")
        app.command(name, epilog=module.EXAMPLE)(module.command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"mptcplab {version('mptcplab')}")
        raise typer.Exit


def _print_notice(text: str) -> None:
    from mptcplab.cli.output import print_note

    print_note(text)


def _options(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""
    from mptcplab.cli.config import Config
    from mptcplab.notices import tell_to

    tell_to(_print_notice)
    context.obj = Config.read(_commands)
    context.default_map = context.obj.defaults


def _commands() -> dict[str, dict[str, str]]:
    """Returns the long options of all commands."""
    return {name: _long_options(one) for name, one in typer.main.get_group(application()).commands.items()}


def _long_options(command: Any) -> dict[str, str]:
    """Returns the name of the parameter of each long option, without the dashes."""
    return {
        text.removeprefix("--"): parameter.name
        for parameter in command.params
        for text in parameter.opts
        if text.startswith("--")
    }


def main() -> None:
    """Entry point of ``mptcplab``. An error of mptcplab becomes one message on standard error and
    an exit status.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows another, instead of ending the program with
        # an error.
        cast("TextIOWrapper", stream).reconfigure(errors="replace")
    heed_closed_pipe(_status(FAULT))
    gc.set_threshold(GARBAGE_OBJECTS)
    try:
        # All commands take a tenth of the time of a short one. Help, completion and wrong names
        # need them.
        asked = sys.argv[1:2]
        if asked and asked[0].endswith("-completion"):
            from mptcplab.cli import shell_scripts

            shell_scripts.offer()
        app = application(asked if asked and asked[0] in COMMANDS else COMMANDS)
        status = app(prog_name="mptcplab", standalone_mode=False)
    except MptcplabError as error:
        _end(str(error), error.exit_status)
    except WrongUsage as error:
        _end_wrong_usage(error)
    except (typer.Abort, KeyboardInterrupt):
        # KeyboardInterrupt: while the commands were being loaded.
        _end("interrupted", INTERRUPTED)
    except PermissionError as error:
        # Any command may be given a directory that its user may not enter, and any call may find
        # it.
        _end(f"{error.filename}: {error.strerror}; allowed: a place that you may enter", USAGE)
    except Exception:
        traceback.print_exc()
        _end("this is a fault of mptcplab, not of its input; please report it with the lines above", FAULT)
    finally:
        # The interpreter's last collections then skip what the end of the process frees, a fifth of
        # a short command.
        gc.freeze()
    if status == INTERRUPTED:
        # A second Ctrl-C must not turn the message into a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        continues = "; the same command without --fresh continues with the runs that are not done"
        _end(f"interrupted{continues if _has_fresh(asked) else ''}", INTERRUPTED)
    sys.stdout.flush()
    sys.exit(status if isinstance(status, int) else 0)


def _has_fresh(asked: list[str]) -> bool:
    """Returns whether a command continues with what is not done unless it has `--fresh`."""
    command = typer.main.get_group(application()).commands.get("".join(asked))
    return command is not None and "fresh" in _long_options(command)


def _end_wrong_usage(error: Any) -> NoReturn:
    """Ends with the message of a wrong option or argument, in the form of all other messages.
    Without arguments the message is the help.
    """
    message = error.format_message().rstrip(".")
    command = error.ctx.command_path if error.ctx else "mptcplab"
    if message.startswith("Usage:"):
        print(message, file=sys.stderr)
        sys.exit(error.exit_code)
    told = " ".join(message.split()).replace("Value error, ", "").replace(". Did", "; did")
    # Of pydantic, whose subject is the value that the message names already.
    told = re.sub(r"Input should be ([^,]+)(, unable to parse .*)?", r"should be \1", told)
    if command == "mptcplab" and (spec := _spec_without_command(told)):
        told = f"{told}; did you mean `mptcplab run {spec}`?"
    place = f"{_configured(error) or command.partition(' ')[2]}: ".removeprefix(": ")
    _end(f"{place}{told[0].lower()}{told[1:]}{_found(error, told)}; see {command} --help", error.exit_code)


def _found(error: Any, told: str) -> str:
    """Returns the value that was refused, for a message that does not contain it."""
    # Of pydantic, which the command line itself does not import, because that takes time.
    errors = getattr(error.__cause__, "errors", None)
    if errors is None:
        return ""
    found = errors()[0]["input"]
    return "" if str(found) in told else f", found '{found}'"


def _spec_without_command(told: str) -> str | None:
    """Returns the description that stands in place of a command."""
    found = re.fullmatch(r"No such command '(.+\.ya?ml)'", told)
    return shlex.quote(found[1]) if found else None


def _configured(error: Any) -> str | None:
    """Returns the place of a wrong value that a file with defaults has."""
    parameter = getattr(error, "param", None)
    config = error.ctx.find_root().obj if error.ctx else None
    if parameter is None or config is None or error.ctx.get_parameter_source(parameter.name).name != "DEFAULT_MAP":
        return None
    place: str | None = config.places.get((error.ctx.info_name, parameter.name))
    return place


def _end(message: str, status: int) -> NoReturn:
    print(f"mptcplab: {message}", file=sys.stderr)
    sys.exit(_status(status))


def _status(status: int) -> int:
    """Returns the exit status of a command that could not do its work."""
    return max(status, ENDS_BISECTION) if sys.argv[1:2] == ["bisect-step"] else status
