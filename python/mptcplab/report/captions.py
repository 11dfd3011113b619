"""Captions of exported figures: what a figure shows, and what was run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mptcplab.errors import MptcplabError
from mptcplab.plots import Exporter
from mptcplab.report.citations import bibliography
from mptcplab.report.grid_forms import latex_text
from mptcplab.results import Bundle

CAPTIONS, FIGURES, REFERENCES = "captions.txt", "figures.tex", "references.bib"
#: More experiments than this are counted and not named.
MOST_NAMED = 4


class Captioned(Protocol):
    """A drawing, or the picture of one."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


def caption(figure: Captioned, bundles: Sequence[Bundle]) -> str:
    """Returns the title of a figure, remarks on it, and what was run."""
    return " ".join([f"{figure.title}.", *figure.notes, what_was_run(bundles)])


def what_was_run(bundles: Sequence[Bundle]) -> str:
    """``Run: two-paths-mptcp on sim, seeds 1 to 10; mptcplab 0.1.0.``"""
    records = [bundle.record for bundle in bundles]
    names = list(dict.fromkeys(record["experiment"] for record in records))
    backends = list(dict.fromkeys(record["backend"] for record in records))
    versions = list(dict.fromkeys(record["versions"]["mptcplab"] for record in records))
    told = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} experiments from {names[0]} to {names[-1]}"
    return f"Run: {told} on {' and '.join(backends)}, {_seeds(records)}; mptcplab {', '.join(versions)}."


def write_captions(figures: Sequence[Captioned], bundles: Sequence[Bundle], exporter: Exporter) -> list[Path]:
    """Writes the captions and the references of figures beside them, and for LaTeX also a file that
    includes them.

    Raises MptcplabError if a file cannot be written.
    """
    texts = {CAPTIONS: "".join(f"{figure.name}: {caption(figure, bundles)}\n\n" for figure in figures)}
    entries = bibliography(bundles)
    if entries:
        texts[REFERENCES] = f"{entries}\n"
    if {"pdf", "pgf"} & set(exporter.written):
        included = "pdf" if "pdf" in exporter.written else "pgf"
        texts[FIGURES] = "\n".join(_latex_figure(figure, bundles, included) for figure in figures)
    try:
        for name, text in texts.items():
            (exporter.directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise MptcplabError(f"{exporter.directory}: captions cannot be written: {error.strerror}") from error
    return [exporter.directory / name for name in texts]


def _latex_figure(figure: Captioned, bundles: Sequence[Bundle], included: str) -> str:
    inclusion = rf"\includegraphics{{{figure.name}}}" if included == "pdf" else rf"\input{{{figure.name}.pgf}}"
    return (
        f"\\begin{{figure}}\n  \\centering\n  {inclusion}\n"
        f"  \\caption{{{latex_text(caption(figure, bundles))}}}\n  \\label{{fig:{figure.name}}}\n\\end{{figure}}\n"
    )


def _seeds(records: Sequence[dict[str, object]]) -> str:
    seeds = sorted({int(str(record["seed"])) for record in records})
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seeds {', '.join(map(str, seeds))}"
