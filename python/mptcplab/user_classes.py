"""Classes of a user's own, each in a file that a description names: loads them, and checks that
they can be used.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from mptcplab import algorithms, callers, consent
from mptcplab.errors import MptcplabError, NotAllowed, SpecError

Base = TypeVar("Base")

#: Prefix of the names of modules made from files.
MODULE = "user_code_"


class Shipped(Mapping[str, type[Base]]):
    """The classes of a package by their names in descriptions. The module of a class is loaded when
    the class is first used, because most descriptions name none of them.
    """

    def __init__(self, package: str, **classes: str) -> None:
        """Takes the class of each name as `MODULE.CLASS`, below the package."""
        self._package = package
        self._classes = classes

    def __getitem__(self, name: str) -> type[Base]:
        module, _, class_name = self._classes[name].partition(".")
        found: type[Base] = getattr(import_module(f"{self._package}.{module}"), class_name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __contains__(self, name: object) -> bool:
        return name in self._classes


def module_of(file: str, source: str) -> ModuleType:
    """Makes the module of a file. Each run gets a new one, so runs do not share state."""
    module = ModuleType(f"{MODULE}{hashlib.sha256(source.encode()).hexdigest()[:16]}")
    module.__file__ = file
    # Standard output is for results.
    vars(module)["print"] = partial(print, file=sys.stderr)
    # Tracebacks show the source lines even if the file has changed or moved.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    sys.modules[module.__name__] = module  # dataclasses look up their module
    try:
        exec(compile(source, file, "exec"), module.__dict__)
    except Exception as error:
        raise SpecError(told(error, file), allowed="a Python file that can be imported") from error
    return module


def told(error: Exception, file: str) -> str:
    """Returns what an exception says, with the line of the file where it occurred."""
    lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if entry.filename == file]
    line, text = (
        (error.lineno, error.msg) if isinstance(error, SyntaxError) else (lines[-1] if lines else None, str(error))
    )
    place = f"{file}, line {line}" if line else file
    return f"{place}: {type(error).__name__}: {text}"


def class_of(module: ModuleType, name: str, place: str) -> type:
    """Returns the class of a module. Raises SpecError with `place` if there is none."""
    found = getattr(module, name, None)
    if not inspect.isclass(found):
        own = [
            key for key, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__
        ]
        raise SpecError(f"{place}: the file has no class {name}", allowed=", ".join(own) or "a class in the file")
    return found


def check_parameters(found: type, parameters: Mapping[str, Any], place: str, *first: object) -> None:
    """Checks that an object can be made with these parameters, and with `first` before them."""
    signature = inspect.signature(found)
    try:
        signature.bind(*first, **parameters)
    except TypeError as error:
        raise SpecError(f"{place}: {error}", allowed=f"{found.__name__}{signature}") from error


def class_named(
    name: str, table: Mapping[str, type[Base]], base: type[Base], code: Sequence[Mapping[str, str]], place: str
) -> tuple[type[Base], str | None]:
    """Returns the class of a name in a table, or of `./FILE.py:CLASS`, with the file of the latter.

    `code` has the text of each file, as `user_code` of a resolved experiment. Raises SpecError for
    a class that cannot be used, NotAllowed for code that the user has not allowed, or that would
    run as root.
    """
    if name in table:
        return table[name], None
    file, _, class_name = name.rpartition(":")
    entry = next((entry for entry in code if entry["file"] == file and algorithms.file_of(name) == file), None)
    if entry is None:
        raise SpecError(f"{place}: unknown name {name!r}", allowed=f"{', '.join(table)}, ./FILE.py:CLASS")
    consent.settle([{"user_code": [entry]}], in_real_time=False)
    if callers.caller() is not None:
        raise NotAllowed(f"{place}: {name} would run as root; --root-programs lets it")
    found = class_of(module_of(file, entry["source"]), class_name, f"{place}: {name}")
    if not issubclass(found, base):
        allowed = f"a class that inherits from {base.__module__.rpartition('.')[0]}.{base.__name__}"
        raise SpecError(f"{place}: {name} inherits from something else", allowed=allowed)
    return found, file


@contextmanager
def reporting(place: str, file: str | None) -> Iterator[None]:
    """Converts an exception of a class in `file` to SpecError. The exceptions of other classes
    pass.
    """
    try:
        yield
    except MptcplabError:
        raise
    except Exception as error:
        if file is None:
            raise
        raise SpecError(f"{place}: {told(error, file)}") from error
