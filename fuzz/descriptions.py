"""Descriptions and trace files changed at random: each is refused by an error of ours, or passes the compiled core.

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
from mptcplab.errors import MptcplabError, of_core
from mptcplab.experiment import members

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
TRACE = "1\n2\n3\n5\n8\n13\n"
WITH_TRACE = """
name: traced
hosts: {a: {}, b: {}}
links: {wire: {between: [a.eth0, b.eth0], trace: ./trace, delay: 1ms}}
flows: {f: {from: a, to: b}}
duration: 1s
"""


def corpus() -> list[str]:
    """The examples, and one that reads a trace."""
    files = sorted((HOUSE / "examples").glob("*.yaml"))
    return [WITH_TRACE, *(file.read_text(encoding="utf-8") for file in files)]


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
    (folder / "trace").write_text(trace, encoding="utf-8")
    file = folder / "changed.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        for member in members(file)[:MOST_MEMBERS]:
            resolved = member.resolve()
            with of_core("the simulator"):
                _core.check(json.dumps(resolved.data))
    except MptcplabError as error:
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
            trace = changed(draw, TRACE, [TRACE]) if text.find("trace") >= 0 else TRACE
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
