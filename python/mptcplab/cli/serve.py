"""``mptcplab serve``: shows finished runs on a page of this machine, and starts runs from it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli.live import PORT, require_server, tell_address, until_interrupted
from mptcplab.cli.options import OUT_VARIABLE, Allow_programs, Quiet

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = "Example: mptcplab serve results"

#: The folder beside the bundles whose lock the server of a results folder holds.
SERVED = ".served"


def command(
    results: Annotated[Path, typer.Argument(envvar=OUT_VARIABLE, help="Directory of results.")] = Path("results"),
    offer: Annotated[
        list[Path] | None,
        typer.Option(help="A description that the page offers to run; may be given again.", metavar="SPEC"),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 is any free one.")] = PORT,
    allow_programs: Allow_programs = False,
    _quiet: Quiet = False,
) -> None:
    """Show finished runs on a page of this machine.

    The page finds, compares, downloads and deletes runs, and starts runs that it shows live, until
    Ctrl-C.
    Descriptions with programs or classes of their own start only with --allow-programs.
    """
    require_server()
    from mptcplab.cli.output import print_note
    from mptcplab.errors import UsageError
    from mptcplab.shipped import EXAMPLES
    from mptcplab.web.finished import ResultsPage
    from mptcplab.web.offers import Offers
    from mptcplab.web.serving import Server
    from mptcplab.web.shelf import Shelf
    from mptcplab.web.started import Launcher

    if not results.is_dir():
        problem = "is not a directory" if results.exists() else "there is no such directory"
        raise UsageError(f"{results}: {problem}; allowed: a directory with bundles, such as results/ of `mptcplab run`")
    offers = Offers(offer or [], sorted(EXAMPLES.glob("*.yaml")))
    launcher = Launcher(results, offers, allow_programs)
    with _only_server(results) as is_only:
        if not is_only:
            print_note(f"another mptcplab serve shows {results} too")
        with Server(ResultsPage(Shelf(results), launcher, offers).app(), port) as server:
            tell_address("results", server, port)
            until_interrupted()
            going_on = [run for run in launcher.runs if run.goes_on]
            if going_on:
                print_note(f"{len(going_on)} {'run ends' if len(going_on) == 1 else 'runs end'} unfinished")
            for run in going_on:
                run.end()


@contextmanager
def _only_server(results: Path) -> Iterator[bool]:
    """Yields whether no other server shows the folder. A folder that is not writable is shown, too."""
    from mptcplab.results.lock import Lock

    place = results / SERVED
    try:
        place.mkdir(exist_ok=True)
        lock = Lock(place)
    except BlockingIOError:
        yield False
        return
    except OSError:
        yield True
        return
    try:
        yield True
    finally:
        lock.release()
