"""The finished runs in a folder: which there are, what is said of each, and their files.

Nothing outside the folder is read, and no link is followed, because whoever may write into the
folder could let a link lead anywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from mptcplab import callers
from mptcplab.errors import MptcplabError
from mptcplab.results import Bundle, BundleError
from mptcplab.results.bundle import EXPERIMENT, RUN, SCHEMA
from mptcplab.results.lock import is_held

Json = dict[str, Any]

#: The schemas of all versions begin with this.
ANY_VERSION = SCHEMA.rpartition("/")[0]
#: The folder of live runs, with a folder for each.
LIVE = "live"
#: The file that holds the address of a live run while its page is served. Only its user can read
#: it.
ADDRESS = "live-page"


class NotThere(MptcplabError):
    """A path that a viewer asked for is not that of a run in the folder."""


@dataclass(frozen=True)
class _Seen:
    """What was said of a bundle whose record had this time and size."""

    stamp: tuple[int, int]
    entry: Json


class Shelf:
    """The runs in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._seen: dict[str, _Seen] = {}

    def entries(self) -> list[Json]:
        """Returns what is said of each run, in the order of their paths. Runs of one experiment
        have the changes of the newest, as in other lists, because an older run may have come to the
        same experiment by other changes.
        """
        found = {place.relative_to(self.root).as_posix(): place for place in self._places()}
        self._seen = {name: seen for name, seen in self._seen.items() if name in found}
        entries = (self._entry(name, place) for name, place in sorted(found.items()))
        told = [entry for entry in entries if entry is not None]
        changes = {entry["digest"]: entry["changes"] for entry in sorted(told, key=lambda one: one["started"] or "")}
        return [entry | {"changes": changes[entry["digest"]]} for entry in told]

    def bundle(self, name: str) -> Bundle:
        """Returns a run that can be shown. Raises NotThere for a path that leads elsewhere, and
        BundleError for a run that is not finished.
        """
        bundle = Bundle.open(self.place(name))
        if bundle.in_progress:
            raise BundleError(f"{name}: is being written")
        return bundle

    def place(self, name: str) -> Path:
        """Returns the directory of a run. Raises NotThere if its path leaves the folder, or if
        there is a link on it or in it.
        """
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name:
            raise NotThere(f"{name!r}: is not a run in this folder")
        place = self.root
        for part in parts:
            place /= part
            if place.is_symlink():
                raise NotThere(f"{name}: leads through a link, and links are not followed")
        if not (place / RUN).is_file() or not (place / EXPERIMENT).is_file():
            raise NotThere(f"{name}: is not a run in this folder")
        linked = next((path for path in _inside(place) if path.is_symlink()), None)
        if linked is not None:
            raise NotThere(f"{name}: {linked.name} is a link, and links are not followed")
        return place

    def packed(self, names: list[str]) -> IO[bytes]:
        """Returns a ZIP file of runs, at its start. Raises as `bundle`."""
        places = [self.bundle(name).path for name in names]
        file = tempfile.TemporaryFile()  # noqa: SIM115  (the answer closes it)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for place in places:
                for path in _inside(place):
                    if path.is_file() and path.name != ".lock":
                        archive.write(path, path.relative_to(self.root))
        file.seek(0)
        return file

    def delete(self, names: list[str]) -> None:
        """Removes runs, and the folders that are empty then. Raises NotThere, or BundleError for a
        run that is being written; nothing is removed then.
        """
        places = [self.place(name) for name in names]
        for name, place in zip(names, places, strict=True):
            if is_held(place):
                raise BundleError(f"{name}: is being written")
        for place in places:
            shutil.rmtree(place)
            for above in place.parents:
                if above == self.root or any(above.iterdir()):
                    break
                above.rmdir()

    def _places(self) -> Iterator[Path]:
        for directory, folders, names in os.walk(self.root, followlinks=False):
            if RUN in names and EXPERIMENT in names:
                yield Path(directory)
                folders.clear()

    def _entry(self, name: str, place: Path) -> Json | None:
        """Returns what is said of a run, None for a record of another program."""
        try:
            self.place(name)
            status = (place / RUN).stat()
        except NotThere as error:
            return _untold(name, "damaged", str(error).partition(": ")[2])
        except OSError:
            return None
        stamp = status.st_mtime_ns, status.st_size
        seen = self._seen.get(name)
        if seen is None or seen.stamp != stamp:
            entry = _told(name, place)
            if entry is None:
                return None
            seen = self._seen[name] = _Seen(stamp, entry)
        if seen.entry["status"] != "unfinished":
            return seen.entry
        if is_held(place):
            why = "is being written"
            return seen.entry | {"status": "running", "why": why, "live": self._address(name)}
        return seen.entry | {"why": "was interrupted; mptcplab clean removes it"}

    def _address(self, name: str) -> str | None:
        """Returns the address of the page of a live run, if this user started it."""
        parts = PurePosixPath(name).parts
        if len(parts) < 2 or parts[0] != LIVE:
            return None
        return read_address(self.root / LIVE / parts[1])


def _told(name: str, place: Path) -> Json | None:
    try:
        record = json.loads((place / RUN).read_text(encoding="utf-8"))
        schema = str(record.get("schema"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return _untold(name, "damaged", f"{RUN} cannot be read")
    if not schema.startswith(f"{ANY_VERSION}/"):
        return None
    if schema != SCHEMA:
        return _untold(name, "foreign", f"is of another version: {schema}; this version reads {SCHEMA}")
    try:
        bundle = Bundle.open(place)
        resolved = json.loads((place / EXPERIMENT).read_text(encoding="utf-8"))
        origins = resolved["origins"].values()
        record = bundle.record
        return {
            "id": name,
            "experiment": record["experiment"],
            "digest": record["digest"],
            "title": resolved["title"] or "",
            "changes": list(dict.fromkeys(o.removeprefix("--set ") for o in origins if o.startswith("--set "))),
            "backend": record["backend"],
            "seed": record["seed"],
            "status": record["status"],
            "why": record["why"],
            "started": record["started"],
            "held": sum(bool(verdict["held"]) for verdict in record["expectations"]),
            "expectations": len(record["expectations"]),
            "live": None,
        }
    except (BundleError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = str(error).rpartition(f"{RUN}: ")[2] if isinstance(error, BundleError) else "its files cannot be read"
        return _untold(name, "damaged", why)


def _untold(name: str, status: str, why: str) -> Json:
    """What is said of a run whose record cannot be used."""
    experiment = PurePosixPath(name).parent.as_posix()
    nothing: Json = {"digest": None, "title": "", "changes": [], "backend": "", "seed": None}
    nothing |= {"started": None, "live": None}
    return {"id": name, "experiment": experiment, **nothing, "status": status, "why": why, "held": 0, "expectations": 0}


def _inside(place: Path) -> Iterator[Path]:
    """Yields everything in a directory, without entering links."""
    for directory, folders, names in os.walk(place, followlinks=False):
        yield from (Path(directory, name) for name in (*folders, *names))


def write_address(directory: Path, address: str) -> Path:
    """Stores the address of a live run's page, which has its token, for this user alone. Returns
    the file.
    """
    callers.make_directory(directory)
    file = directory / ADDRESS
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
        opened.write(address)
    callers.give(file)
    return file


def read_address(directory: Path) -> str | None:
    """Returns the address that `write_address` has stored, None if another user may have written
    it.
    """
    try:
        descriptor = os.open(directory / ADDRESS, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as opened:
        status = os.fstat(descriptor)
        is_ours = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        address = opened.read(300)
    is_safe = stat.S_ISREG(status.st_mode) and is_ours and address.startswith("http://127.0.0.1:")
    return address if is_safe else None
