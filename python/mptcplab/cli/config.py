"""Files with defaults of options: `mptcplab.toml` in the working directory, and one for the user.

Options of the command line come first, then environment variables, then the file in the working
directory, then that of the user. A file cannot allow the code of descriptions, choose a program as
back-end, or change a description.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptcplab.backends import BACKENDS
from mptcplab.cli.options import listed_names
from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    #: The options of each command: the name of the parameter by that of the option.
    Commands = Mapping[str, Mapping[str, str]]

HERE = Path("mptcplab.toml")
#: Keys outside of tables are for the commands that run experiments, as far as these have the
#: option.
COMMON = ("out", "jobs", "on", "seed", "repeat", "quiet", "verbose")
RUNNING = ("run", "compare", "sweep", "reproduce", "bench-algorithm", "report-card")
#: Commands whose argument is the directory for results.
OF_RESULTS = ("check", "clean")
#: Options that only a command line may have.
NEVER = ("allow-programs", "root-programs", "set", "help")


def of_user() -> Path:
    """Returns the user's file."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "mptcplab" / "config.toml"


@dataclass
class Config:
    """The defaults from all files."""

    files: list[Path] = field(default_factory=list)
    #: For each command the values by the name of their parameter.
    defaults: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: The place of each of these values.
    places: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def read(cls, commands: Callable[[], Commands]) -> Config:
        """Reads the files that exist, and needs the commands only then. Raises UsageError for a key
        or value that is not allowed.
        """
        config = cls()
        if files := [file for file in (of_user(), HERE) if file.is_file()]:
            known = commands()
            for file in files:
                config._add(file, known)
        return config

    def _add(self, file: Path, commands: Commands) -> None:
        import tomllib

        self.files.append(file)
        try:
            text = file.read_text(encoding="utf-8")
            document = tomllib.loads(text)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot be read: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{file}: is not TOML: {error}") from error
        for key, value in document.items():
            if isinstance(value, dict):
                place = _place(file, text, None, key)
                options = commands[_known(place, "command", key, commands)]
                for option, default in value.items():
                    place = _place(file, text, key, option)
                    _known(place, "option", option, [name for name in options if name not in NEVER])
                    self._set(place, key, options[option], default)
            else:
                place = _place(file, text, None, key)
                _known(place, "key", key, [*COMMON, *(f"[{command}]" for command in commands)])
                for command in (one for one in RUNNING if key in commands[one] and _applies(one, key, value)):
                    self._set(place, command, commands[command][key], value)
                for command in OF_RESULTS if key == "out" else ():
                    self._set(place, command, "directory", value)

    def _set(self, place: str, command: str, parameter: str, value: Any) -> None:
        if parameter == "on" and not all(name in BACKENDS for name in listed_names(str(value))):
            raise UsageError(f"{place}: found {value!r}; allowed: {', '.join(BACKENDS)}")
        self.defaults.setdefault(command, {})[parameter] = value
        self.places[command, parameter] = place


def _applies(command: str, key: str, value: Any) -> bool:
    """Returns whether a value for all commands can be one of this command. `bench-algorithm`
    compares in the simulator, with several seeds.
    """
    if command != "bench-algorithm":
        return True
    return value not in BACKENDS or value == "sim" if key == "on" else key != "repeat" or value != 1


def _known(place: str, kind: str, key: str, known: Iterable[str]) -> str:
    known = list(known)
    if key not in known:
        near = get_close_matches(key, known, n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise UsageError(f"{place}: unknown {kind} {key!r}{hint}; allowed: {', '.join(known)}")
    return key


def _place(file: Path, text: str, table: str | None, key: str) -> str:
    """Returns file, line and key. The line is that of the first such key in the table."""
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"\s*\[\s*\"?([\w-]+)\"?\s*\]", line):
            inside = head[1]
            if table is None and inside == key:
                return f"{file}:{number}"
        elif inside == table and re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
            return f"{file}:{number}: {key}"
    return f"{file}: {key}"
