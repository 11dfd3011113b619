"""Finds traces by name: measured ones in the folder that `MPTCPLAB_TRACES` names, synthetic ones in
mptcplab.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path, PurePosixPath

from mptcplab.errors import SpecError, Where
from mptcplab.traces import formats, origins
from mptcplab.traces.model import Origin, Trace

VARIABLE = "MPTCPLAB_TRACES"
SYNTHETIC = Path(__file__).parent / "synthetic"
#: Endings of the files of synthetic traces. Of a pair it is that of the first.
_ENDINGS = (".csv", "-delay-light-pdo")


class UnknownTrace(SpecError):
    """No trace has this name."""


@dataclass(frozen=True)
class Found:
    """A trace: its name, its file, the name of its format, and itself."""

    name: str
    path: Path
    kind: str
    trace: Trace


def folder() -> Path | None:
    """Returns the folder with measured traces; None if the variable names none."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else None


def measured(name: str) -> Path:
    """Returns the file of a measured trace. Raises UnknownTrace if there is none."""
    place = folder()
    if place is None:
        raise UnknownTrace(
            f"measured trace {name}: {VARIABLE} names no folder", allowed=f"{VARIABLE}=FOLDER, with measured traces"
        )
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts:
        raise UnknownTrace(f"measured trace {name} is outside of {place}", allowed="a name below that folder")
    path = place.joinpath(*parts)
    if not path.is_file():
        known = [str(other.relative_to(place)) for other in _files(place)]
        raise UnknownTrace(f"there is no measured trace {name}{_hint(name, known)}", allowed=f"a file in {place}")
    return path


def synthetic(name: str) -> Path:
    """Returns the file of a synthetic trace. Raises UnknownTrace if there is none."""
    known = synthetic_names()
    if name not in known:
        raise UnknownTrace(f"there is no synthetic trace '{name}'{_hint(name, known)}", allowed=", ".join(known))
    return _synthetic_files()[name]


def synthetic_names() -> list[str]:
    """Returns the names of the synthetic traces."""
    return sorted(_synthetic_files())


def _synthetic_files() -> dict[str, Path]:
    """Returns the files of synthetic traces by their names."""
    return {path.name.removesuffix(ending): path for ending in _ENDINGS for path in SYNTHETIC.glob(f"*{ending}")}


def names() -> list[str]:
    """Returns the names of the synthetic traces, and of all files in the folder
    with measured ones.
    """
    place = folder()
    measured_names = [str(path.relative_to(place)) for path in _files(place)] if place is not None else []
    return [*synthetic_names(), *measured_names]


def resolved(name: str) -> Path:
    """Returns the file that a command line names: a file, a synthetic trace or a measured one.
    Raises UnknownTrace for a name without a folder that is none of these.
    """
    if name in synthetic_names():
        return synthetic(name)
    path = Path(name).expanduser()
    place = folder()
    is_path = len(path.parts) != 1
    if path.is_absolute() or path.exists() or (is_path and place is None):
        return path
    if place is not None and (is_path or (place / path).is_file()):
        return measured(name)
    allowed = f"a file, or one of {', '.join(synthetic_names())}"
    raise UnknownTrace(f"there is no trace '{name}'{_hint(name, names())}", allowed=allowed)


def load(path: Path, columns: Mapping[str, str] | None = None) -> tuple[Trace, str]:
    """Reads a trace, and returns it with the name of its format. `columns` names those of a CSV
    file.

    Raises SpecError if the file, or the file beside it with its origin, is wrong, or if another
    format is given columns. Those of the file beside it may be for other traces of the folder.
    """
    said = origins.beside(path)
    named = dict(columns) if columns else said.columns
    try:
        status = path.stat()
    except OSError:
        # The reader tells why.
        return _read(path, (), said.origin)
    found = _again(path, status.st_mtime_ns, status.st_size, tuple(sorted(named.items())), said.origin)
    if columns and not formats.FORMATS[found[1]].has_columns:
        problem = f"format {found[1]} has no columns with names"
        raise SpecError(problem, Where(str(path)), allowed="columns with a CSV file")
    return found


@lru_cache(maxsize=32)
def _again(
    path: Path, _changed_ns: int, _bytes: int, columns: tuple[tuple[str, str], ...], origin: Origin
) -> tuple[Trace, str]:
    """Reads a file that has changed. Sweeps resolve an experiment many times."""
    return _read(path, columns, origin)


def _read(path: Path, columns: tuple[tuple[str, str], ...], origin: Origin) -> tuple[Trace, str]:
    trace, one = formats.read(path, dict(columns), origin)
    return trace, one.name


def all_traces(place: Path | None = None) -> Iterator[Found | SpecError]:
    """Yields the traces of a folder with those below it; without one, the synthetic and the
    measured ones. A file that is not read as a trace yields the reason.
    """
    if place is not None:
        yield from _in_folder(place)
        return
    for name in synthetic_names():
        trace, kind = load(synthetic(name))
        yield Found(name, synthetic(name), kind, trace)
    if (own := folder()) is not None:
        yield from _in_folder(own)


def _in_folder(place: Path) -> Iterator[Found | SpecError]:
    for path in _files(place):
        try:
            trace, kind = load(path)
        except SpecError as error:
            yield error
        else:
            yield Found(str(path.relative_to(place)), path, kind, trace)


def _files(place: Path) -> list[Path]:
    names = (path for path in place.rglob("*") if not path.name.startswith(".") and not origins.is_origin(path))
    # The second file of a pair is read with the first.
    return sorted(path for path in names if path.is_file() and not _has_pair(path))


def _has_pair(path: Path) -> bool:
    name = path.name
    return name.endswith("-pdo") and path.with_name(name.removesuffix("-pdo") + "-delay-light-pdo").is_file()


def _hint(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f", did you mean '{near[0]}'?" if near else ""
