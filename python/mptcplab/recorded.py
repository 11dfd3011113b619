"""Reads the experiment of a bundle, ``experiment.json``, to run it again in
place of a description.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mptcplab.errors import SpecError, Where
from mptcplab.experiment import Resolved
from mptcplab.resolved_versions import VERSIONS, upgraded

if TYPE_CHECKING:
    from pathlib import Path

    from mptcplab.experiment import FamilyMetric


class Recorded:
    """A resolved experiment from a file, with the attributes of a member of a description."""

    reference = None
    why_no_reference = "it is run without its family"

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self.name: str = data["name"]
        self.family = self.name
        self.family_metrics: list[FamilyMetric] = []
        self.title: str = data["title"] or ""

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """Reads the experiment of a file. Raises SpecError if its schema is of another kind."""
        from mptcplab import _core  # the compiled part loads only when a file is read

        where = Where(str(path))
        try:
            text = path.read_text(encoding="utf-8")
            data = json.loads(text)
        except OSError as error:
            raise SpecError(f"cannot be read: {error.strerror}", where) from error
        except (ValueError, RecursionError) as error:
            raise SpecError(f"is not JSON: {error}", where, allowed="an experiment.json, or a .yaml file") from error
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema not in VERSIONS:
            versions = ", ".join(repr(version) for version in VERSIONS)
            allowed = f"{versions}, as the experiment.json of a bundle has; descriptions are .yaml files"
            raise SpecError(f"found the schema {schema!r}", where, allowed=allowed)
        try:
            data = upgraded(data)
            _core.check(json.dumps(data))
        except KeyError as error:
            raise SpecError(f"has no {error}, which {schema} requires", where) from error
        except (TypeError, AttributeError) as error:
            raise SpecError(f"is not of the form {schema}: {error}", where) from error
        except ValueError as error:
            raise SpecError(str(error), where) from error
        return cls(data)

    def resolve(self) -> Resolved:
        """Returns the resolved form. The description that it came from is not known."""
        return Resolved(self._data, {})
