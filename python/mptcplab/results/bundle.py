"""The bundle of a run: a directory with the experiment, its results, the environment, and checksums
of all files.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import Any, Literal

from mptcplab import algorithms, callers, resolved_versions
from mptcplab.errors import MptcplabError, SpecError, Where
from mptcplab.results.entities import Json
from mptcplab.results.environment import environment
from mptcplab.results.lock import Lock, is_held
from mptcplab.results.run_data import RunData
from mptcplab.results.table import SUPPLIERS
from mptcplab.results.tables import Keep, Samples, Table, Units

SCHEMA = "mptcplab/run/1"
RUN, EXPERIMENT, SAMPLES, UNITS = "run.json", "experiment.json", "samples", "units"
#: The files that every run writes beside its record. An older version wrote .arrows, which its
#: interrupted runs still have.
WRITTEN = (EXPERIMENT, *(f"{table}.{end}" for table in (SAMPLES, UNITS) for end in ("csv", "parquet", "arrows")))
#: Folders that only some runs have: packet captures, output of programs, files of user code.
FOLDERS = ("captures", "programs", CODE := "code")
LONGEST_NAME_BYTES = 255
#: The field of run.json that holds its own checksum.
OWN_SUM = "record_sha256"

Status = Literal["unfinished", "done", "invalid", "failed"]
#: A bundle in transfer to another disk: the content of each file, by file name.
Packed = dict[str, bytes]

#: Fields of run.json before a run has ended.
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
#: Fields that every run.json has.
FIELDS = ("experiment", "digest", "backend", "seed", "repeat", "started", "versions", "machine", *NOTHING_YET)


class BundleError(MptcplabError):
    """A bundle is missing, foreign, unfinished or damaged, or cannot be written."""


class BundleHeld(BundleError):
    """Another process is writing the bundle."""


class BundleDone(BundleError):
    """The bundle holds a done run."""


def digest(resolved: Json) -> str:
    """Returns the SHA-256 in hex of a resolved experiment without its origins; the order of keys
    does not matter.

    It is that of the earliest version that can express the experiment, so bundles of earlier
    versions count as done.
    """
    told = resolved_versions.in_earliest_version(resolved)
    asked = {key: value for key, value in told.items() if key != "origins"}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def own_checksum(record: Json) -> str:
    """Returns the SHA-256 in hex of a record, as JSON with sorted keys and no spaces, without the
    checksum field.
    """
    told = {key: value for key, value in record.items() if key != OWN_SUM}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def bundle_path(out: Path, resolved: Json, backend: str, seed: int, substitute: Json | None = None) -> Path:
    """Returns the directory of a run's bundle under ``out``, as ``bundle_paths`` does for several
    seeds.
    """
    return bundle_paths(out, resolved, backend, [seed], substitute)[seed]


def bundle_paths(
    out: Path, resolved: Json, backend: str, seeds: Iterable[int], substitute: Json | None = None
) -> dict[int, Path]:
    """Returns the directories of bundles by their seeds. Raises SpecError if the name leads outside
    ``out``.

    ``substitute`` is the experiment that ran, if the back-end did not support all first choices.
    """
    return _paths(out, resolved, digest(resolved), backend, seeds, substitute)


def _paths(
    out: Path, resolved: Json, own_digest: str, backend: str, seeds: Iterable[int], substitute: Json | None
) -> dict[int, Path]:
    parts = resolved["name"].split("/")
    if any(part in ("", ".", "..") or "\0" in part or len(part.encode()) > LONGEST_NAME_BYTES for part in parts):
        raise SpecError(
            f"{resolved['name']!r} cannot be a directory",
            Where(file=resolved.get("origins", {}).get("name"), field="name"),
            allowed=f"parts of 1 to {LONGEST_NAME_BYTES} bytes between slashes, none of them . or ..",
        )
    used = "" if substitute is None else f"-{digest(substitute)[:8]}"
    stem = f"{backend}-{own_digest[:8]}{used}"
    return {seed: out.joinpath(*parts, f"{stem}-seed{seed}") for seed in seeds}


class BundleWriter:
    """Writes the bundle of a run. Its run.json has the status ``unfinished`` until ``finish``
    replaces it atomically.

    As a context manager, it locks the directory against other processes until the end of the block,
    and then gives the bundle to the caller of sudo.
    """

    def __init__(self, path: Path, record: Json, lock: Lock, *, synced: bool) -> None:
        self.path = path
        self._record = record
        self._lock = lock
        self._synced = synced

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        callers.give(self.path)
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
        synced: bool = True,
    ) -> BundleWriter:
        """Starts a bundle and removes the files of an earlier unfinished run, with ``fresh`` also
        those of a done run.

        Without ``synced``, the finished bundle may be lost with the power. Raises BundleError if
        the disk is full or not writable, if another process is writing the bundle, or if the bundle
        is done and ``fresh`` is not set.
        """
        own_digest = digest(resolved)
        path = _paths(out, resolved, own_digest, backend, [seed], substitute)[seed]
        record = _first_record(resolved, own_digest, backend, seed, repeat)
        record["user_code"] = _user_code(substitute or resolved)
        lock = _locked(path)
        try:
            _clear(path, even_done=fresh)
            _write(path / EXPERIMENT, resolved)
            _write_user_code(path, resolved)
            # Not synced, because a bundle that is lost with the power is run again.
            _write(path / RUN, record)
        except BundleError:
            lock.release()
            raise
        return cls(path, record, lock, synced=synced)

    @property
    def machine(self) -> Json:
        """The description of the machine in the record."""
        machine: Json = self._record["machine"]
        return machine

    @property
    def kernel(self) -> str:
        """The kernel in the record."""
        kernel: str = self._record["kernel"]
        return kernel

    def finish(self, status: Status, **fields: Any) -> Bundle:
        """Records the status, further fields of run.json, and the checksum of each file. Raises
        BundleError.
        """
        try:
            sums = {name: _checksum(self.path / name) for name in _written(self.path)}
        except OSError as error:
            raise BundleError(f"{self.path}: cannot be read back: {error.strerror}") from error
        unknown = set(fields) - set(self._record)
        if unknown:
            raise BundleError(f"run.json has no field {', '.join(sorted(unknown))}; it has {', '.join(self._record)}")
        record = self._record | fields | {"status": status, "sha256": sums}
        record[OWN_SUM] = own_checksum(record)
        _write(self.path / RUN, record, synced=self._synced)
        return Bundle(self.path, record)


class Bundle:
    """A bundle on disk."""

    def __init__(self, path: Path, record: Json) -> None:
        self.path = path
        self.record = record
        self._data: RunData | None = None
        self.asked: Json | None = None
        """The equal experiment that was asked for, if the bundle was found or made for one. Its
        origins may be others than those of the bundle, because an older run may have come to the
        same experiment by other changes.
        """

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """Reads the record of a bundle of any status. Raises BundleError if there is no bundle of
        this version.
        """
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
        """The resolved experiment. Raises BundleError if its digest is not the
        one in the record.
        """
        resolved = _read(self.path / EXPERIMENT)
        if digest(resolved) != self.record["digest"]:
            raise BundleError(f"{self.path / EXPERIMENT}: is not the experiment that ran: its digest differs")
        return resolved_versions.upgraded(resolved)

    @property
    def status(self) -> Status:
        """How the run ended."""
        status: Status = self.record["status"]
        return status

    @property
    def in_progress(self) -> bool:
        """Whether a process is writing the bundle now."""
        return is_held(self.path)

    def verify(self) -> None:
        """Compares all checksums. Raises BundleError, which names each file that is missing or
        differs.
        """
        if not self.record["sha256"]:
            raise BundleError(f"{self.path}: the run did not finish; there are no checksums to compare")
        files = {name: self.path / name for name in self.record["sha256"]}
        found = {name: _checksum(file) for name, file in files.items() if file.is_file()}
        _refuse_damaged(self.path, self.record, found)

    def packed(self) -> Packed:
        """Returns the content of all files by name, to transfer the bundle to another disk."""
        return {name: (self.path / name).read_bytes() for name in (*_written(self.path), RUN)}

    @classmethod
    def unpack(cls, out: Path, files: Packed, resolved: Json, substitute: Json | None = None) -> Bundle:
        """Replaces the bundle under ``out`` with a packed one. Writes run.json last, after all
        files are verified.

        ``resolved`` and ``substitute`` are those of ``bundle_path``. Raises BundleError if the
        bundle belongs to another run, if it was changed in transfer, or if it cannot be written.
        """
        record = json.loads(files[RUN])
        own_digest, seed = digest(resolved), record["seed"]
        path = _paths(out, resolved, own_digest, record["backend"], [seed], substitute)[seed]
        if record["digest"] != own_digest or set(files) != {RUN, *record["sha256"]}:
            raise BundleError(f"{path}: what came back is not the bundle of this run")
        _refuse_damaged(path, record, {name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
        with held(path):
            _clear(path, even_done=True)
            for name, content in files.items():
                if name != RUN:
                    _write_bytes(path / name, content)
            _replace(path / RUN, files[RUN], synced=True)
        return cls(path, record)

    def keep_loaded(self, data: RunData) -> None:
        """Keeps the data from which this process wrote the bundle, so that
        `load` need not read it.
        """
        self._data = data

    def load(self, keep: Keep | None = None) -> RunData:
        """Verifies a finished run and returns its data. With ``keep``, only the samples for which
        it returns True.

        Raises BundleError if the run did not finish or if the bundle is damaged.
        """
        if self.record["result"] is None and self.status == "failed":
            raise BundleError(f"{self.path}: the run failed: {self.record['why']}")
        if self.record["result"] is None:
            raise BundleError(f"{self.path}: the run was cut off; run it again, or read its .csv tables as they are")
        if self._data is not None and keep is None:
            return self._data
        self.verify()
        return read_data(self.path, self.resolved, self.record["result"], self.record["backend"], keep)


def read_data(path: Path, resolved: Json, result: Json, backend: str, keep: Keep | None = None) -> RunData:
    """Reads the data of a run from the tables in its directory, as ``load`` does. Raises
    TableError.
    """
    samples, units = (Table.read(path / f"{name}.parquet") for name in (SAMPLES, UNITS))
    # A back-end on another machine is called STACK@MACHINE.
    stack = backend.partition("@")[0]
    # A simulator of the user supplies the same metrics as the built-in one.
    supplier = stack if stack in SUPPLIERS else "sim"
    return RunData(resolved, result, Samples(samples, keep), Units(units), supplier, path)


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Locks a directory against other processes and creates it if needed. Raises BundleError if it
    is locked.
    """
    lock = _locked(directory)
    try:
        yield
    finally:
        callers.give(directory)
        lock.release()


def find(out: Path) -> Iterator[Bundle]:
    """Yields the bundles at or under a directory in order of their paths. Skips a run.json of other
    programs.

    Raises BundleError if the directory does not exist or if a bundle is damaged.
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
    """Returns the done bundles of an experiment by seed. These seeds need not run again."""
    found = {}
    for seed, path in bundle_paths(out, resolved, backend, seeds, substitute).items():
        if (path / RUN).is_file():
            bundle = Bundle.open(path)
            if bundle.status == "done":
                found[seed] = bundle
    return found


def done_beside(bundle: Bundle, resolved: Json) -> list[Bundle]:
    """Returns the done runs of an experiment with the back-end, seed and output directory of
    ``bundle``.

    There are several, latest first, if the experiment ran with different choices from its lists.
    There is none if the bundle was moved away from its output directory. Raises BundleError if one
    is damaged.
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
    """Returns the changes that ``--set`` made to the description, as asked now if the run was
    planned, else as stored.
    """
    origins = (bundle.asked or bundle.resolved)["origins"].values()
    return list(dict.fromkeys(o.removeprefix("--set ") for o in origins if o.startswith("--set ")))


def changes_by_digest(bundles: Iterable[Bundle]) -> dict[str, list[str]]:
    """Returns the changes of each experiment by its digest. Runs that came to it by different
    changes have those that were asked now, or else those of the newest run.
    """
    ordered = sorted(bundles, key=lambda bundle: (bundle.asked is not None, str(bundle.record["started"])))
    return {bundle.record["digest"]: changes_of(bundle) for bundle in ordered}


def _refuse_damaged(path: Path, record: Json, found: Mapping[str, str]) -> None:
    """Raises BundleError if the record or the checksums ``found`` of its files are not those of the
    record.
    """
    # Bundles of earlier versions have no checksum of the record.
    own = record.get(OWN_SUM)
    damaged = [f"{RUN} was changed"] if own is not None and own != own_checksum(record) else []
    for name, expected in record["sha256"].items():
        if name not in found:
            damaged.append(f"{name} is missing")
        elif found[name] != expected:
            damaged.append(f"{name} was changed")
    if damaged:
        raise BundleError(f"{path}: damaged: {'; '.join(damaged)}")


def _unwritable(path: Path, error: OSError) -> BundleError:
    why = f"{path}: cannot be written: {error.strerror}"
    name = callers.became()
    if name is None or not isinstance(error, PermissionError):
        return BundleError(why)
    rights = f"classes of a description run as {name}, who called sudo"
    return BundleError(f"{why}; {rights}: choose another --out, give the directory to {name}, or use --root-programs")


def _locked(path: Path) -> Lock:
    try:
        callers.make_directory(path)
        return Lock(path)
    except BlockingIOError as error:
        raise BundleHeld(f"{path}: another process is running this; wait for it, or choose another --out") from error
    except OSError as error:
        raise _unwritable(path, error) from error


def _clear(path: Path, *, even_done: bool) -> None:
    """Removes the files of an earlier run."""
    if not even_done and (path / RUN).exists() and Bundle.open(path).status == "done":
        raise BundleDone(f"{path}: holds a done run; use it or choose another output directory")
    try:
        for name in (RUN, *_written(path)):
            (path / name).unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def _written(path: Path) -> list[str]:
    """Returns the files of the run in a bundle, as relative paths with slashes."""
    in_folders = sorted(file for folder in FOLDERS for file in (path / folder).rglob("*") if file.is_file())
    always = [name for name in WRITTEN if (path / name).exists()]
    return [*always, *(file.relative_to(path).as_posix() for file in in_folders)]


def _first_record(resolved: Json, own_digest: str, backend: str, seed: int, repeat: int) -> Json:
    return {
        "schema": SCHEMA,
        "experiment": resolved["name"],
        "digest": own_digest,
        "backend": backend,
        "seed": seed,
        "repeat": repeat,
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "user_code": [],
        **environment(),
        **NOTHING_YET,
    }


def _user_code(resolved: Json) -> list[Json]:
    """Returns the user's algorithms that flows use, each with the path of its copy if it comes from
    a file.
    """
    named = [
        choice if isinstance(choice, str) else choice["name"]
        for flow in resolved["flows"]
        for field in ("cc", "scheduler", "path_manager")
        for choice in flow[field][:1]
    ]
    files = {code["file"]: _content(code) for code in resolved["user_code"]}
    copies = _copies(resolved)
    found = []
    for name in dict.fromkeys(name for name in named if algorithms.is_users(name)):
        file = algorithms.file_of(name)
        digest = hashlib.sha256(files[file]).hexdigest() if file in files else None
        found.append({"name": name, "file": copies.get(file or ""), "sha256": digest})
    return found


def _content(code: Json) -> bytes:
    """Returns the content of a file of user code."""
    source: str = code["source"]
    return b64decode(source) if algorithms.is_object(code["file"]) else source.encode()


def _copies(resolved: Json) -> dict[str, str]:
    """Returns the path in the bundle of each file of user code. If two share a name, the second
    gets its own folder.
    """
    copies: dict[str, str] = {}
    for number, code in enumerate(resolved["user_code"]):
        name = f"{CODE}/{Path(code['file']).name}"
        copies[code["file"]] = name if name not in copies.values() else f"{CODE}/{number}/{Path(code['file']).name}"
    return copies


def _write_user_code(path: Path, resolved: Json) -> None:
    copies = _copies(resolved)
    for code in resolved["user_code"]:
        copy = path / copies[code["file"]]
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(_content(code))
        except OSError as error:
            raise _unwritable(copy, error) from error


def _a_line_each(document: Json) -> str:
    """Formats a JSON object with one line for each key. Full indentation would take a tenth of the
    run's time.
    """
    lines = (f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _write(path: Path, document: Json, *, synced: bool = False) -> None:
    """Replaces a JSON file, as ``_replace`` does."""
    _replace(path, _a_line_each(document).encode(), synced=synced)


def _replace(path: Path, content: bytes, *, synced: bool) -> None:
    """Replaces a file atomically: after the end of the process it is the old or the new version.
    With ``synced``, that holds after a power failure too, and a run is not reported before its
    record is on the disk. Raises BundleError.
    """
    temporary = path.with_suffix(".new")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
        if synced:
            _sync(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def _write_bytes(path: Path, content: bytes) -> None:
    """Writes a file. Raises BundleError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise _unwritable(path, error) from error


def _sync(path: Path) -> None:
    if sys.platform == "win32":
        return  # directories cannot be opened on this system
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
        raise BundleError(f"{path}: damaged: is not JSON ({error}); remove {path.parent} to run it again") from error
    if not isinstance(document, dict):
        raise BundleError(f"{path}: holds a {type(document).__name__}, not an object")
    return document


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
