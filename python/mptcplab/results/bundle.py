"""The bundle of a run: a directory that holds what was asked, what happened, where, and checksums of it all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from mptcplab.errors import MptcplabError
from mptcplab.results.entities import Json
from mptcplab.results.environment import environment
from mptcplab.results.run_data import RunData
from mptcplab.results.tables import Samples, Table, Units

SCHEMA = "mptcplab/run/1"
RUN, EXPERIMENT, SAMPLES, UNITS = "run.json", "experiment.json", "samples", "units"

Status = Literal["unfinished", "done", "invalid", "failed"]


class BundleError(MptcplabError):
    """A bundle is missing, foreign, unfinished or damaged, or cannot be written."""


def digest(resolved: Json) -> str:
    """SHA-256 in hex of a resolved experiment without its origins, however it was written."""
    asked = {key: value for key, value in resolved.items() if key != "origins"}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def bundle_path(out: Path, resolved: Json, backend: str, seed: int) -> Path:
    """Where the bundle of a run lies under an output directory. Raises BundleError for a name that leads out of it."""
    parts = resolved["name"].split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise BundleError(f"{resolved['name']!r} cannot be a directory: a name has no empty part, no . and no ..")
    return out.joinpath(*parts, f"{backend}-{digest(resolved)[:8]}-seed{seed}")


class BundleWriter:
    """A run being recorded. Its run.json says ``unfinished`` until ``finish`` replaces it at once."""

    def __init__(self, path: Path, record: Json) -> None:
        self.path = path
        self._record = record

    @classmethod
    def create(
        cls, out: Path, resolved: Json, *, backend: str, seed: int, repeat: int, fresh: bool = False
    ) -> BundleWriter:
        """Start a bundle; what an earlier, unfinished attempt left there is removed, with ``fresh`` also a done one.

        Raises BundleError if the disk is full or not writable, or if a done bundle is there already.
        """
        path = bundle_path(out, resolved, backend, seed)
        if not fresh and (path / RUN).exists() and Bundle.open(path).record["status"] == "done":
            raise BundleError(f"{path}: holds a done run; use it or choose another output directory")
        record = _first_record(resolved, backend, seed, repeat)
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name in (RUN, EXPERIMENT, *(f"{t}.{end}" for t in (SAMPLES, UNITS) for end in ("arrows", "parquet"))):
                (path / name).unlink(missing_ok=True)
        except OSError as error:
            raise BundleError(f"{path}: cannot be written: {error.strerror}") from error
        writer = cls(path, record)
        _write(path / EXPERIMENT, resolved)
        _write(path / RUN, record)
        return writer

    def finish(self, status: Status, **fields: Any) -> Bundle:
        """Record the end: status and further fields of run.json, and the checksum of every file. Raises BundleError."""
        files = sorted(file for file in self.path.rglob("*") if file.is_file() and file.name != RUN)
        try:
            sums = {str(file.relative_to(self.path)): _checksum(file, sync=True) for file in files}
        except OSError as error:
            raise BundleError(f"{self.path}: cannot be read back: {error.strerror}") from error
        unknown = set(fields) - set(self._record)
        if unknown:
            raise BundleError(f"run.json has no field {', '.join(sorted(unknown))}; it has {', '.join(self._record)}")
        record = self._record | fields | {"status": status, "sha256": sums}
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

    def verify(self) -> None:
        """Compare all checksums. Raises BundleError that names each file that is missing or differs."""
        if not self.record["sha256"]:
            raise BundleError(f"{self.path}: the run did not finish; there are no checksums to compare")
        damaged = []
        for name, expected in self.record["sha256"].items():
            file = self.path / name
            if not file.is_file():
                damaged.append(f"{name} is missing")
            elif _checksum(file) != expected:
                damaged.append(f"{name} was changed")
        if damaged:
            raise BundleError(f"{self.path}: damaged: {'; '.join(damaged)}")

    def load(self) -> RunData:
        """The data of a run that came to an end, verified. Raises BundleError if it did not or is damaged."""
        if self.record["result"] is None:
            raise BundleError(f"{self.path}: the run was cut off; run it again, or read its .arrows tables as they are")
        self.verify()
        return read_data(self.path, self.resolved, self.record["result"])


def read_data(path: Path, resolved: Json, result: Json) -> RunData:
    """The data of a run from the tables in its directory. Raises TableError if one cannot be read."""
    samples, units = (Table.read(path / f"{name}.parquet") for name in (SAMPLES, UNITS))
    return RunData(resolved, result, Samples(samples), Units(units))


def find(out: Path) -> Iterator[Bundle]:
    """The bundles at or under a directory, in order of their paths. Raises BundleError if there is no directory."""
    out = Path(out)
    if not out.is_dir():
        raise BundleError(f"{out}: there is no such directory")
    for file in sorted(out.rglob(RUN)):
        if _read(file).get("schema") == SCHEMA:
            yield Bundle.open(file.parent)


def done_bundles(out: Path, resolved: Json, backend: str, seeds: list[int]) -> dict[int, Bundle]:
    """The seeds of an experiment that need not run again, with their bundles."""
    found = {}
    for seed in seeds:
        path = bundle_path(out, resolved, backend, seed)
        if (path / RUN).is_file():
            bundle = Bundle.open(path)
            if bundle.status == "done":
                found[seed] = bundle
    return found


def _first_record(resolved: Json, backend: str, seed: int, repeat: int) -> Json:
    return {
        "schema": SCHEMA,
        "status": "unfinished",
        "why": None,
        "experiment": resolved["name"],
        "digest": digest(resolved),
        "backend": backend,
        "seed": seed,
        "repeat": repeat,
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        **environment(),
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


def _write(path: Path, document: Json) -> None:
    """Replace a JSON file at once: after a crash it is the old one or the new one. Raises BundleError."""
    temporary = path.with_suffix(".new")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BundleError(f"{path}: cannot be written: {error.strerror}") from error


def _sync(path: Path) -> None:
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


def _checksum(path: Path, *, sync: bool = False) -> str:
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()
