"""The behaviours of MPTCP implementations where RFC 8684 leaves them open, as the engine defines
them.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Literal

from mptcplab import _core

Behaviour = dict[str, Any]

#: The preset of hosts whose description names none.
DEFAULT: Literal["mainline"] = "mainline"


@cache
def presets() -> dict[str, Behaviour]:
    """Returns the presets by name. Each has all values of a behaviour in the resolved form."""
    return {preset["name"]: preset for preset in json.loads(_core.behaviours())}
