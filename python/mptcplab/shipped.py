"""Where the examples are that come with mptcplab."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parents[1]
#: The examples of the package, or those of the checkout that it is run from.
EXAMPLES = (_CHECKOUT if (_CHECKOUT / "pyproject.toml").is_file() else _PACKAGE) / "examples"
