"""``make fidelity``: compares the simulator with recorded results of a kernel and, as root, with
a kernel that runs the cases now.

python -m mptcplab.fidelity FOLDER: descriptions are in FOLDER/cases, bounds in FOLDER/bounds.toml,
what was recorded in FOLDER/recorded.json. Exit status 1: a measure misses its bound.

With --behaviour, hosts of the simulator have another preset than the one that the record is for. The
cases are then compared only with the kernel of --kernel, as in
`--behaviour mainline-7.3 --kernel qemu:7.3`.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from mptcplab.backends import ON_KERNEL
from mptcplab.behaviours import DEFAULT, presets
from mptcplab.errors import MptcplabError, UsageError
from mptcplab.fidelity.bounds import Bounds
from mptcplab.fidelity.cases import Case, cases_of
from mptcplab.fidelity.judgement import FEWEST, BySeed, Row, judged, misses
from mptcplab.fidelity.page import page
from mptcplab.fidelity.recorded import Recorded
from mptcplab.fidelity.runs import AT_ONCE, Wanted, on_kernel, simulated, with_behaviour


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs and judges the cases, prints the result, and returns the exit status."""
    asked = _asked(arguments)
    try:
        return _carried_out(asked)
    except MptcplabError as error:
        print(f"fidelity: {error}", file=sys.stderr)
        return 2


def _asked(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m mptcplab.fidelity", description=__doc__)
    parser.add_argument("folder", type=Path, help="with cases/*.yaml, bounds.toml and recorded.json")
    parser.add_argument("--only", help="cases whose name contains this or matches it, with commas")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 1 on (default 5)")
    parser.add_argument(
        "--kernel",
        nargs="?",
        const=ON_KERNEL,
        metavar="ON",
        help="run on this kernel, too (root), or on another one, for example qemu:7.3",
    )
    parser.add_argument("--behaviour", choices=presets(), help=f"of the simulated hosts, in place of {DEFAULT}")
    parser.add_argument("--record", action="store_true", help="run on this kernel and put it on record (root)")
    parser.add_argument("--jobs", type=int, default=AT_ONCE, help=f"runs at a time on the kernel (default {AT_ONCE})")
    parser.add_argument("--out", type=Path, default=Path("results/fidelity"), help="where bundles go")
    parser.add_argument("--page", type=Path, help="the page to write, of all cases")
    return parser.parse_args(arguments)


def _carried_out(asked: Namespace) -> int:
    if asked.behaviour is not None and (asked.record or not asked.kernel):
        raise UsageError(f"--behaviour {asked.behaviour}: the record is of {DEFAULT}; allowed: with --kernel alone")
    if asked.seeds < FEWEST:
        raise UsageError(f"--seeds {asked.seeds}: too few to compare; allowed: {FEWEST} or more")
    bounds, file = Bounds.read(asked.folder / "bounds.toml"), asked.folder / "recorded.json"
    cases = cases_of(asked.folder / "cases", asked.only)
    wanted = Wanted(cases, asked.seeds, asked.out)
    place = asked.kernel or (ON_KERNEL if asked.record else None)
    live = on_kernel(wanted, place, jobs=asked.jobs) if place else None
    if live is not None and asked.behaviour is not None:
        return _judged_live(simulated(with_behaviour(wanted, asked.behaviour)), live, cases, bounds)
    if live is not None and asked.record:
        (Recorded.read(file).joined(live) if file.exists() else live).write(file)
    recorded = Recorded.read(file)
    recorded.check(cases)
    ours = simulated(wanted)
    rows = judged(ours, recorded.cases, bounds, together=False)
    _tell(f"{recorded.release}, recorded {recorded.day}", cases, rows)
    failed = bool(misses(rows))
    if asked.page is not None and asked.only is None:
        asked.page.write_text(page(cases, rows, bounds, recorded), encoding="utf-8")
    if live is not None and not asked.record:
        failed |= bool(_judged_live(ours, live, cases, bounds))
    return int(failed)


def _judged_live(ours: Mapping[str, BySeed], live: Recorded, cases: Sequence[Case], bounds: Bounds) -> int:
    """Compares simulated runs with new ones on a kernel, and returns the exit status."""
    rows = judged(ours, live.cases, bounds, together=True)
    _tell(f"{live.release}, now", cases, rows)
    return int(bool(misses(rows)))


def _tell(kernel: str, cases: Sequence[Case], rows: Sequence[Row]) -> None:
    """Prints one line for all measures, and one for each measure outside its bound."""
    counts = {
        verdict: sum(row.verdict == verdict for row in rows) for verdict in dict.fromkeys(r.verdict for r in rows)
    }
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    print(f"simulator against {kernel}: {len(cases)} cases, {len(rows)} measures: {told}")
    for row in rows:
        if row.verdict in ("misses", "undecided", "exempt no longer"):
            low, high = row.allowed
            print(f"  {row.verdict}: {row.case} {row.measure} {row.apart:.3f} (allowed {low:g} to {high:g})")


if __name__ == "__main__":
    sys.exit(main())
