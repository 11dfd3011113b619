"""Files of figures, in the forms, sizes and styles that publishers ask for."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mptcplab.errors import MptcplabError
from mptcplab.plots.drawing import Drawing
from mptcplab.plots.look import PAGE, Look, style

FORMATS = ("pdf", "pgf", "svg", "png", "csv")
DEFAULT_FORMATS = ("png", "svg", "csv")
LATEX = ("xelatex", "lualatex", "pdflatex")
DOTS_PER_INCH = 200


@dataclass(frozen=True)
class Exporter:
    """Writes drawings into a directory in several forms and one look. It can be sent to other
    processes.
    """

    directory: Path
    formats: tuple[str, ...] = DEFAULT_FORMATS
    look: Look = PAGE

    def left_out(self) -> list[str]:
        """Returns a sentence for each form that this machine cannot write."""
        if "pgf" not in self.formats or latex() is not None:
            return []
        return [f"pgf: left out, because there is no LaTeX to measure text with; install one of {', '.join(LATEX)}"]

    @property
    def written(self) -> list[str]:
        """The forms that this machine can write."""
        return [ending for ending in self.formats if ending != "pgf" or latex() is not None]

    def write(self, drawings: Iterable[Drawing]) -> list[Path]:
        """Writes each drawing, and returns the paths. Raises MptcplabError if a file cannot be
        written.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            return [path for drawing in drawings for path in self._write(drawing)]
        except OSError as error:
            raise MptcplabError(f"{self.directory}: figures cannot be written: {error.strerror}") from error

    def _write(self, drawing: Drawing) -> Iterator[Path]:
        formats = self.written
        figure = drawing.painted(self.look) if set(formats) - {"csv"} else None
        for ending in formats:
            path = self.directory / f"{drawing.name}.{ending}"
            if figure is None or ending == "csv":
                drawing.write_csv(path)
            else:
                _save(figure, path, self.look)
            yield path


def export(drawings: Iterable[Drawing], directory: Path) -> list[Path]:
    """Writes each drawing as PNG, SVG and CSV, and returns the paths. Raises MptcplabError if that
    fails.
    """
    return Exporter(directory).write(drawings)


def latex() -> str | None:
    """Returns the LaTeX program of this machine."""
    return next((name for name in LATEX if shutil.which(name)), None)


def _save(figure: Any, path: Path, look: Look) -> None:
    import matplotlib as mpl

    # Without a date, the same figure is the same file.
    metadata: dict[str, Any] = {
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        ".svg": {"Date": None, "Creator": None},
    }
    options: dict[str, Any] = {"metadata": metadata[path.suffix]} if path.suffix in metadata else {}
    if path.suffix == ".png":
        options["facecolor"] = "white"
    save: Callable[..., None] = figure.savefig
    with style(look), mpl.rc_context({"pgf.texsystem": latex() or LATEX[0], "pgf.rcfonts": False}):
        save(path, dpi=DOTS_PER_INCH, **options)
