"""Which models of access networks were compared with published measurements, and which runs are
only illustrative.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mptcplab.results.entities import Json

#: The checks of each model against published numbers that it was not fitted to, by their names in
#: docs/internals/media.
INDEPENDENT_CHECKS: Mapping[str, tuple[str, ...]] = {
    "wifi": ("W1", "W3", "W4", "W5", "W6", "W7"),
    "cellular": ("C2",),
    "leo": ("L2", "L2", "L3"),
    "cable": (),
}
#: A model with fewer checks is illustrative.
LEAST_CHECKS = 2
_NAMES = {"wifi": "Wi-Fi", "cellular": "cellular links", "leo": "satellite links", "cable": "cable modems"}
#: The origin of a value of an illustrative profile.
_OF_PROFILE = re.compile(r"profile (\S+), illustrative \(")


def is_illustrative(kind: str) -> bool:
    """Returns whether the model of a kind of access network has too few independent checks."""
    return len(INDEPENDENT_CHECKS[kind]) < LEAST_CHECKS


def illustrative_parts(resolved: Json) -> list[str]:
    """Returns what makes the results of an experiment illustrative, in words:
    models and profiles.
    """
    kinds = dict.fromkeys(access["kind"] for access in resolved.get("access", ()))
    models = [f"the model of {_NAMES[kind]}" for kind in kinds if is_illustrative(kind)]
    origins = (_OF_PROFILE.match(origin) for origin in resolved["origins"].values())
    profiles = dict.fromkeys(found[1] for found in origins if found)
    return models + [f"the profile {name}" for name in profiles]


def illustrative_told(resolved: Json) -> str | None:
    """Returns a sentence on the illustrative parts of an experiment, or None."""
    parts = illustrative_parts(resolved)
    if not parts:
        return None
    those = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    verb, it = ("were", "they were") if len(parts) > 1 else ("was", "it was")
    return f"{those} {verb} compared with fewer than two published measurements that {it} not fitted to"
