"""Files that a failed write leaves behind, as on a full disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def removed_if_unfinished(path: Path) -> Iterator[None]:
    """Removes a new file if the block cannot write all of it. Half a file would pass for a whole
    one.
    """
    is_new = not os.path.lexists(path)
    try:
        yield
    except OSError:
        if is_new:
            with suppress(OSError):
                path.unlink()
        raise
