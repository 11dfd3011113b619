"""The bundle of a run: a directory that holds what was asked, what happened, where, and checksums of it all."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import Any, Literal

from mptcplab import algorithms
from mptcplab.errors import MptcplabError, SpecError
from mptcplab.results.entities import Json
from mptcplab.results.environment import environment
from mptcplab.results.lock import Lock, is_held
from mptcplab.results.run_data import RunData
from mptcplab.results.table import SUPPLIERS
from mptcplab.results.tables import Keep, Samples, Table, Units

SCHEMA = "mptcplab/run/1"
RUN, EXPERIMENT, SAMPLES, UNITS = "run.json", "experiment.json", "samples", "units"
#: The files that every run writes beside its record.
WRITTEN = (EXPERIMENT, *(f"{table}.{end}" for table in (SAMPLES, UNITS) for end in ("arrows", "parquet")))
#: Folders of what only some runs write: captures of packets, what programs printed, files of a user's own algorithms.
FOLDERS = ("captures", "programs", CODE := "code")
LONGEST_NAME_BYTES = 255
#: The field of run.json that holds its own checksum.
OWN_SUM = "record_sha256"

Status = Literal["unfinished", "done", "invalid", "failed"]
#: A bundle on its way to another disk: content by name of the file.
Packed = dict[str, bytes]

#: What run.json says of a run that has not ended.
NOTHING_YET: Json = {
    "status": "unfinished",
    "why": None,
    "wall_s": None,
    "trace_hash": None,
    "substitutions": [],
    "events": [],
    "flows": [],
    "result": None,
    "metrics": {},
    "absent": {},
    "expectations": [],
    "sha256": {},
}
#: What every run.json has.
FIELDS = ("experiment", "digest", "backend", "seed", "repeat", "started", "versions", "machine", *NOTHING_YET)


class BundleError(MptcplabError):
    """A bundle is missing, foreign, unfinished or damaged, or cannot be written."""


class BundleHeld(BundleError):
    """Another process is writing the bundle."""


class BundleDone(BundleError):
    """The bundle holds a done run."""


def digest(resolved: Json) -> str:
    """SHA-256 in hex of a resolved experiment without its origins, however it was written."""
    asked = {key: value for key, value in resolved.items() if key != "origins"}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def own_checksum(record: Json) -> str:
    """SHA-256 in hex of a record without this checksum itself: of its JSON with sorted keys and no spaces."""
    told = {key: value for key, value in record.items() if key != OWN_SUM}
    as_read = json.loads(json.dumps(told, allow_nan=False))
    return hashlib.sha256(json.dumps(as_read, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def bundle_path(out: Path, resolved: Json, backend: str, seed: int, substitute: Json | None = None) -> Path:
    """Where the bundle of a run lies under an output directory. Raises SpecError for a name that leads out of it.

    ``substitute``: the experiment that ran, where the back-end did not have all first choices.
    """
    parts = resolved["name"].split("/")
    if any(part in ("", ".", "..") or "\0" in part or len(part.encode()) > LONGEST_NAME_BYTES for part in parts):
        raise SpecError(
            f"the name {resolved['name']!r} cannot be a directory",
            allowed=f"parts of 1 to {LONGEST_NAME_BYTES} bytes between slashes, none of them . or ..",
        )
    used = "" if substitute is None else f"-{digest(substitute)[:8]}"
    return out.joinpath(*parts, f"{backend}-{digest(resolved)[:8]}{used}-seed{seed}")


class BundleWriter:
    """A run being recorded. Its run.json says ``unfinished`` until ``finish`` replaces it at once.

    As a context manager it holds the directory against other processes until the end of the block.
    """

    def __init__(self, path: Path, record: Json, lock: Lock) -> None:
        self.path = path
        self._record = record
        self._lock = lock

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        self._lock.release()

    @classmethod
    def create(
        cls,
        out: Path,
        resolved: Json,
        *,
        backend: str,
        seed: int,
        repeat: int,
        fresh: bool = False,
        substitute: Json | None = None,
    ) -> BundleWriter:
        """Start a bundle; what an earlier, unfinished attempt left there is removed, with ``fresh`` also a done one.

        Raises BundleError if the disk is full or not writable, if somebody else is writing it, or if it is done.
        """
        path = bundle_path(out, resolved, backend, seed, substitute)
        record = _first_record(resolved, backend, seed, repeat)
        record["user_code"] = _user_code(substitute or resolved)
        lock = _locked(path)
        try:
            _clear(path, even_done=fresh)
            _write(path / EXPERIMENT, resolved)
            _write_user_code(path, resolved)
            _write(path / RUN, record)
        except BundleError:
            lock.release()
            raise
        return cls(path, record, lock)

    @property
    def machine(self) -> Json:
        """What is known of the machine."""
        machine: Json = self._record["machine"]
        return machine

    def finish(self, status: Status, **fields: Any) -> Bundle:
        """Record the end: status, further fields of run.json, and the checksum of each file. Raises BundleError."""
        try:
            sums = {name: _synced_checksum(self.path / name) for name in _written(self.path)}
        except OSError as error:
            raise BundleError(f"{self.path}: cannot be read back: {error.strerror}") from error
        unknown = set(fields) - set(self._record)
        if unknown:
            raise BundleError(f"run.json has no field {', '.join(sorted(unknown))}; it has {', '.join(self._record)}")
        record = self._record | fields | {"status": status, "sha256": sums}
        record[OWN_SUM] = own_checksum(record)
        _write(self.path / RUN, record)
        return Bundle(self.path, record)


class Bundle:
    """A bundle on disk."""

    def __init__(self, path: Path, record: Json) -> None:
        self.path = path
        self.record = record

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """Read a bundle's record, of whatever status. Raises BundleError if there is none of ours."""
        path = Path(path)
        if not path.is_dir():
            raise BundleError(f"{path}: {'is not a directory' if path.exists() else 'there is no such directory'}")
        if not (path / RUN).is_file():
            raise BundleError(f"{path}: not a bundle: it has no {RUN}")
        record = _read(path / RUN)
        if record.get("schema") != SCHEMA:
            raise BundleError(f"{path / RUN}: its schema is {record.get('schema')!r}; this version reads {SCHEMA!r}")
        lacking = [field for field in FIELDS if field not in record]
        if lacking:
            raise BundleError(f"{path / RUN}: damaged: it has no {', '.join(lacking)}")
        return cls(path, record)

    @cached_property
    def resolved(self) -> Json:
        """The resolved experiment. Raises BundleError if it is not the one that ran."""
        resolved = _read(self.path / EXPERIMENT)
        if digest(resolved) != self.record["digest"]:
            raise BundleError(f"{self.path / EXPERIMENT}: is not the experiment that ran: its digest differs")
        return resolved

    @property
    def status(self) -> Status:
        """How the run ended."""
        status: Status = self.record["status"]
        return status

    @property
    def in_progress(self) -> bool:
        """Whether a process is writing it now."""
        return is_held(self.path)

    def verify(self) -> None:
        """Compare all checksums. Raises BundleError that names each file that is missing or differs."""
        if not self.record["sha256"]:
            raise BundleError(f"{self.path}: the run did not finish; there are no checksums to compare")
        # A bundle of an earlier version has no checksum of its record.
        own = self.record.get(OWN_SUM)
        damaged = [f"{RUN} was changed"] if own is not None and own != own_checksum(self.record) else []
        for name, expected in self.record["sha256"].items():
            file = self.path / name
            if not file.is_file():
                damaged.append(f"{name} is missing")
            elif _checksum(file) != expected:
                damaged.append(f"{name} was changed")
        if damaged:
            raise BundleError(f"{self.path}: damaged: {'; '.join(damaged)}")

    def packed(self) -> Packed:
        """The content of all its files by name, for another disk."""
        return {name: (self.path / name).read_bytes() for name in (*_written(self.path), RUN)}

    @classmethod
    def unpack(cls, out: Path, files: Packed, resolved: Json, substitute: Json | None = None) -> Bundle:
        """Put a packed bundle into its place under ``out``, instead of what is there, whole or not at all.

        ``resolved`` and ``substitute`` as for ``bundle_path``. Raises BundleError if it is another run's, if it was
        changed on the way, or if it cannot be written.
        """
        record = json.loads(files[RUN])
        path = bundle_path(out, resolved, record["backend"], record["seed"], substitute)
        if record["digest"] != digest(resolved) or set(files) != {RUN, *record["sha256"]}:
            raise BundleError(f"{path}: what came back is not the bundle of this run")
        bundle = cls(path, record)
        with held(path):
            _clear(path, even_done=True)
            for name, content in files.items():
                if name != RUN:
                    _write_bytes(path / name, content)
            bundle.verify()
            _write(path / RUN, record)
        return bundle

    def load(self, keep: Keep | None = None) -> RunData:
        """The data of a run that came to an end, verified; with ``keep`` no samples but those that it wants.

        Raises BundleError if the run did not come to an end or is damaged.
        """
        if self.record["result"] is None and self.status == "failed":
            raise BundleError(f"{self.path}: the run failed: {self.record['why']}")
        if self.record["result"] is None:
            raise BundleError(f"{self.path}: the run was cut off; run it again, or read its .arrows tables as they are")
        self.verify()
        return read_data(self.path, self.resolved, self.record["result"], self.record["backend"], keep)


def read_data(path: Path, resolved: Json, result: Json, backend: str, keep: Keep | None = None) -> RunData:
    """The data of a run from the tables in its directory, as ``load``. Raises TableError if one cannot be read."""
    samples, units = (Table.read(path / f"{name}.parquet") for name in (SAMPLES, UNITS))
    # A simulator of a user's own supplies what ours does.
    supplier = backend if backend in SUPPLIERS else "sim"
    return RunData(resolved, result, Samples(samples, keep), Units(units), supplier)


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a directory, made if it is not there, against other processes. Raises BundleError if somebody has it."""
    lock = _locked(directory)
    try:
        yield
    finally:
        lock.release()


def find(out: Path) -> Iterator[Bundle]:
    """The bundles at or under a directory, in order of their paths; a run.json of other programs is passed over.

    Raises BundleError if there is no such directory and for a damaged bundle.
    """
    out = Path(out)
    if not out.is_dir():
        raise BundleError(f"{out}: {'is not a directory' if out.exists() else 'there is no such directory'}")
    for file in sorted(out.rglob(RUN)):
        if (file.parent / EXPERIMENT).is_file() and _read(file).get("schema") == SCHEMA:
            yield Bundle.open(file.parent)


def done_bundles(
    out: Path, resolved: Json, backend: str, seeds: list[int], substitute: Json | None = None
) -> dict[int, Bundle]:
    """The seeds of an experiment that need not run again, with their bundles."""
    found = {}
    for seed in seeds:
        path = bundle_path(out, resolved, backend, seed, substitute)
        if (path / RUN).is_file():
            bundle = Bundle.open(path)
            if bundle.status == "done":
                found[seed] = bundle
    return found


def done_beside(bundle: Bundle, resolved: Json) -> list[Bundle]:
    """The done runs of an experiment in the output directory that a bundle lies in: same back-end, same seed.

    Several, latest first, if it ran with different choices from its lists; none beside a bundle that was moved out of
    its place. Raises BundleError for a damaged one.
    """
    here = bundle.path.resolve()
    depth = len(bundle.record["experiment"].split("/"))
    out = here.parents[min(depth, len(here.parents) - 1)]
    if here.parent != out / bundle.record["experiment"]:
        return []
    place = bundle_path(out, resolved, bundle.record["backend"], bundle.record["seed"])
    stem, _, seed = place.name.rpartition("-")
    found = [Bundle.open(path) for path in place.parent.glob(f"{escape(stem)}*-{seed}") if (path / RUN).is_file()]
    done = [one for one in found if one.status == "done"]
    return sorted(done, key=lambda one: str(one.record["started"]), reverse=True)


def changes_of(bundle: Bundle) -> list[str]:
    """What ``--set`` changed of the description."""
    origins = bundle.resolved["origins"].values()
    return list(dict.fromkeys(o.removeprefix("--set ") for o in origins if o.startswith("--set ")))


def _locked(path: Path) -> Lock:
    try:
        path.mkdir(parents=True, exist_ok=True)
        return Lock(path)
    except BlockingIOError as error:
        raise BundleHeld(f"{path}: another process is running this; wait for it, or choose another --out") from error
    except OSError as error:
        raise BundleError(f"{path}: cannot be written: {error.strerror}") from error


def _clear(path: Path, *, even_done: bool) -> None:
    """Remove what an earlier attempt left."""
    if not even_done and (path / RUN).exists() and Bundle.open(path).status == "done":
        raise BundleDone(f"{path}: holds a done run; use it or choose another output directory")
    try:
        for name in (RUN, *_written(path)):
            (path / name).unlink(missing_ok=True)
    except OSError as error:
        raise BundleError(f"{path}: cannot be written: {error.strerror}") from error


def _written(path: Path) -> list[str]:
    """The files in a bundle that are a run's, relative and with slashes."""
    in_folders = sorted(file for folder in FOLDERS for file in (path / folder).rglob("*") if file.is_file())
    always = [name for name in WRITTEN if (path / name).exists()]
    return [*always, *(file.relative_to(path).as_posix() for file in in_folders)]


def _first_record(resolved: Json, backend: str, seed: int, repeat: int) -> Json:
    return {
        "schema": SCHEMA,
        "experiment": resolved["name"],
        "digest": digest(resolved),
        "backend": backend,
        "seed": seed,
        "repeat": repeat,
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "user_code": [],
        **environment(),
        **NOTHING_YET,
    }


def _user_code(resolved: Json) -> list[Json]:
    """The algorithms of a user's own that flows use: each with its copy in the bundle, if it is in a file."""
    named = [
        choice if isinstance(choice, str) else choice["name"]
        for flow in resolved["flows"]
        for field in ("cc", "scheduler", "path_manager")
        for choice in flow[field][:1]
    ]
    files = {code["file"]: _content(code) for code in resolved.get("user_code", ())}
    copies = _copies(resolved)
    found = []
    for name in dict.fromkeys(name for name in named if algorithms.is_users(name)):
        file = algorithms.file_of(name)
        digest = hashlib.sha256(files[file]).hexdigest() if file in files else None
        found.append({"name": name, "file": copies.get(file or ""), "sha256": digest})
    return found


def _content(code: Json) -> bytes:
    """What a file of user code holds."""
    source: str = code["source"]
    return b64decode(source) if algorithms.is_object(code["file"]) else source.encode()


def _copies(resolved: Json) -> dict[str, str]:
    """Where the bundle has each file of user code; of two with one name the second gets a folder of its own."""
    copies: dict[str, str] = {}
    for number, code in enumerate(resolved.get("user_code", ())):
        name = f"{CODE}/{Path(code['file']).name}"
        copies[code["file"]] = name if name not in copies.values() else f"{CODE}/{number}/{Path(code['file']).name}"
    return copies


def _write_user_code(path: Path, resolved: Json) -> None:
    copies = _copies(resolved)
    for code in resolved.get("user_code", ()):
        copy = path / copies[code["file"]]
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(_content(code))
        except OSError as error:
            raise BundleError(f"{copy}: cannot be written: {error.strerror}") from error


def _a_line_each(document: Json) -> str:
    """A JSON object with a line for each key: indented all through, writing it takes as long as a tenth of the run."""
    lines = (f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _write(path: Path, document: Json) -> None:
    """Replace a JSON file at once: after a crash it is the old one or the new one. Raises BundleError."""
    temporary = path.with_suffix(".new")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(_a_line_each(document))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BundleError(f"{path}: cannot be written: {error.strerror}") from error


def _write_bytes(path: Path, content: bytes) -> None:
    """Write a file to the disk. Raises BundleError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BundleError(f"{path}: cannot be written: {error.strerror}") from error


def _sync(path: Path) -> None:
    if sys.platform == "win32":
        return  # a directory cannot be opened there
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> Json:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BundleError(f"{path}: is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BundleError(f"{path}: holds a {type(document).__name__}, not an object")
    return document


def _synced_checksum(path: Path) -> str:
    with path.open("r+b") as file:  # some systems sync only what may be written
        os.fsync(file.fileno())
    return _checksum(path)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
