"""Signals that have another meaning for a while."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def on_signals(actions: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Inside, these signals do this and nothing else."""
    before = {number: signal.signal(number, lambda *_, do=do: do()) for number, do in actions.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
