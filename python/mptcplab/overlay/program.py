"""The program of a site on another machine, as bytes: the modules that it consists of, in an archive
that the Python there imports from memory. Nothing is installed there.
"""

from __future__ import annotations

import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
#: The modules of mptcplab that the program imports, which use only Python's library.
MODULES = (
    "errors",
    "iproute",
    *(
        f"overlay/{name}"
        for name in [
            *("__init__", "addresses", "children", "client", "elsewhere", "entries", "failure", "guardian"),
            *("membership", "messages", "namespaces", "open_vswitch", "passages", "site"),
        ]
    ),
)


@cache
def archive() -> bytes:
    """Returns the program, the same bytes each time."""
    found = BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as file:
        # The package itself imports much that the program does not need.
        file.writestr(zipfile.ZipInfo("mptcplab/__init__.py"), "")
        for name in MODULES:
            file.writestr(zipfile.ZipInfo(f"mptcplab/{name}.py"), (_PACKAGE / f"{name}.py").read_bytes())
        file.writestr(
            zipfile.ZipInfo("__main__.py"),
            "import sys\nfrom mptcplab.overlay.elsewhere import main\nsys.exit(main())\n",
        )
    return found.getvalue()
