"""The runs of a contest or of a report card that are not done, as lines."""

from __future__ import annotations

from collections.abc import Sequence

from mptcplab.results.entities import Json

#: The number of runs whose reason is told, because an algorithm that fails may fail in all.
MOST_TOLD = 5


def not_done_lines(runs: Sequence[Json]) -> list[str]:
    """Returns a line for each of the first runs, and one for the number of the others."""
    lines = [f"{run['status']}: {run['experiment']}, seed {run['seed']}: {run['why']}" for run in runs[:MOST_TOLD]]
    more = len(runs) - MOST_TOLD
    if more > 0:
        lines.append(f"{more} more {'run is' if more == 1 else 'runs are'} not done; --json lists all of them")
    return lines
