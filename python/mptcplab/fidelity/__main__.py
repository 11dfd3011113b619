"""``make fidelity``: compares the simulator with recorded results of a kernel and, as root, with
this kernel.

python -m mptcplab.fidelity FOLDER: descriptions are in FOLDER/cases, bounds in FOLDER/bounds.toml,
what was recorded in FOLDER/recorded.json. Exit status 1: a measure misses its bound.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from mptcplab.errors import MptcplabError
from mptcplab.fidelity.bounds import Bounds
from mptcplab.fidelity.cases import Case, cases_of
from mptcplab.fidelity.judgement import Row, judged, misses
from mptcplab.fidelity.page import page
from mptcplab.fidelity.recorded import Recorded
from mptcplab.fidelity.runs import AT_ONCE, Wanted, on_this_kernel, simulated


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
    parser.add_argument("--kernel", action="store_true", help="run on this kernel, too (root)")
    parser.add_argument("--record", action="store_true", help="run on this kernel and put it on record (root)")
    parser.add_argument("--jobs", type=int, default=AT_ONCE, help=f"runs at a time on the kernel (default {AT_ONCE})")
    parser.add_argument("--out", type=Path, default=Path("results/fidelity"), help="where bundles go")
    parser.add_argument("--page", type=Path, help="the page to write, of all cases")
    return parser.parse_args(arguments)


def _carried_out(asked: Namespace) -> int:
    bounds, file = Bounds.read(asked.folder / "bounds.toml"), asked.folder / "recorded.json"
    cases = cases_of(asked.folder / "cases", asked.only)
    wanted = Wanted(cases, asked.seeds, asked.out)
    live = on_this_kernel(wanted, jobs=asked.jobs) if asked.kernel or asked.record else None
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
        of_live = judged(ours, live.cases, bounds, together=True)
        _tell(f"{live.release}, now", cases, of_live)
        failed |= bool(misses(of_live))
    return int(failed)


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
