"""Descriptions and trace files changed at random: each is refused by an error of ours, or passes
the compiled core.

Run as ``python fuzz/descriptions.py --seconds 60 --seed 1``. The same seed makes the same texts.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from mptcplab import _core
from mptcplab.errors import MptcplabError, UsageError, of_core
from mptcplab.experiment import members
from mptcplab.traces import library
from mptcplab.traces.conversion import convert
from mptcplab.traces.formats import FORMATS
from mptcplab.traces.statistics import statistics

HOUSE = Path(__file__).parents[1]
#: As far as one text may go; what multiplies is not what is looked for here.
MOST_MEMBERS = 3
MOST_CHANGES = 4
#: What is misread easily.
PIECES = (
    *(
        "0",
        "-1",
        "1e99",
        "nan",
        "inf",
        "null",
        "~",
        "true",
        "''",
        "[]",
        "{}",
        "&a",
        "*a",
        "!!python/name:os.system",
        "<<",
    ),
    *(
        "10mbit",
        "1ms",
        "0s",
        "99%",
        "-5%",
        "1bdp",
        "10p",
        "10,5ms",
        "h[1-9]",
        "${n}",
        "a.b.c",
        "\t",
        "\u0000",
        "\ufeff",
        "\U0001f310",
    ),
)
#: A trace in each format.
TRACES = (
    "1\n2\n3\n5\n8\n13\n",
    "# licence: CC0\n0 12\n0.5 0\n1.5 3.25\n",
    "1289406399 549692 59.851754 10.781778 248069 1008\n1289406400 550772 59.851864 10.781833 191698 1080\n",
    "time_s,until_s,rate_mbps,delay_ms,loss\n0,1,12,20,0\n1,2,0,30,0.5\n5,6,-,-,1\n",
    "Timestamp,rate_kbps,rtt_ms\n2019.12.16_13.40.04,72,40\n2019-12-16 13:40:05.5,80,-\n",
    "0 20 0 1 1 5\n500 25 0 3\n",
)
#: The name of the first file of a pair, and the second one.
LIGHT = "trace-delay-light-pdo"
HEAVY = "1\n2\n4\n1000\n"
WITH_TRACE = """
name: traced
hosts: {a: {}, b: {}}
links: {wire: {between: [a.eth0, b.eth0], trace: ./trace, delay: 1ms}}
flows: {f: {from: a, to: b}}
duration: 1s
"""
WITH_PAIR = WITH_TRACE.replace("./trace", f"{{file: ./{LIGHT}, start: drawn}}")


def corpus() -> list[str]:
    """The examples, and two that read a trace."""
    files = sorted((HOUSE / "examples").glob("*.yaml"))
    return [WITH_TRACE, WITH_PAIR, *(file.read_text(encoding="utf-8") for file in files)]


def changed(draw: random.Random, text: str, others: list[str]) -> str:
    """A text with some changes: characters, words, lines, parts of another."""
    for _ in range(draw.randint(1, MOST_CHANGES)):
        at = draw.randrange(len(text) + 1)
        end = min(len(text), at + draw.choice((0, 1, 1, 4, 20)))
        kind = draw.randrange(5)
        if kind == 0:
            text = text[:at] + draw.choice(PIECES) + text[end:]
        elif kind == 1:
            text = text[:at] + text[end:]
        elif kind == 2:
            lines = text.splitlines(keepends=True)
            draw.shuffle(lines) if draw.random() < 0.1 else lines.insert(
                draw.randrange(len(lines) + 1), draw.choice(lines or [""])
            )
            text = "".join(lines)
        elif kind == 3:
            other = draw.choice(others).splitlines(keepends=True)
            text = text[:at] + draw.choice(other or [""]) + text[at:]
        else:
            text = (
                text[:at]
                + chr(draw.choice((0, 9, 10, 32, 58, 91, 123, 0x2028, 0xD7FF, draw.randrange(32, 127))))
                + text[end:]
            )
    return text


def take(folder: Path, text: str, trace: str) -> None:
    """Read one, as far as it goes."""
    for name, content in (("trace", trace), (LIGHT, trace), ("trace-pdo", HEAVY)):
        (folder / name).write_text(content, encoding="utf-8")
    file = folder / "changed.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        convert_all(folder / "trace")
    except MptcplabError as error:
        refused(error)
    try:
        for member in members(file)[:MOST_MEMBERS]:
            resolved = member.resolve()
            with of_core("the simulator"):
                _core.check(json.dumps(resolved.data))
    except MptcplabError as error:
        refused(error)


def convert_all(path: Path) -> None:
    """Write a trace in every format."""
    trace, _ = library.load(path)
    statistics(trace)
    for one in FORMATS.values():
        try:
            convert(trace, path, one, 100_000_000)
        except UsageError as error:
            refused(error)


def refused(error: MptcplabError) -> None:
    """Check the message of an error."""
    if "\n" in str(error):
        raise AssertionError("an error of several lines") from error


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    draw = random.Random(given.seed)
    texts = corpus()
    end = time.monotonic() + given.seconds
    executions = 0
    with tempfile.TemporaryDirectory(prefix="mptcplab-fuzz-") as scratch:
        while time.monotonic() < end:
            text = changed(draw, draw.choice(texts), texts)
            trace = draw.choice(TRACES)
            trace = changed(draw, trace, list(TRACES)) if "trace" in text else trace
            try:
                take(Path(scratch), text, trace)
            except BaseException:
                traceback.print_exc()
                print(f"descriptions: a failure; the text was {text!r}, its trace {trace!r}", file=sys.stderr)
                return 1
            executions += 1
    print(f"descriptions: {executions} executions, no failure")
    return 0


if __name__ == "__main__":
    sys.exit(main())
