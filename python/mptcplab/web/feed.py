"""What viewers of a run are told: messages in order, which each viewer reads at its own speed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

#: A viewer that reads slowly gets at most so many messages at once.
MOST_AT_ONCE = 500


class Feed:
    """Messages from the thread of a run to any number of viewers in an event loop.

    Publishing never waits for viewers. A viewer that comes late, or reads slowly, gets all
    messages.
    """

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._lock = threading.Lock()
        self._viewers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @property
    def viewers(self) -> int:
        """The number of viewers that follow it now."""
        return len(self._viewers)

    def publish(self, message: dict[str, Any]) -> None:
        """Appends a message, which must be serializable as JSON."""
        text = json.dumps(message, separators=(",", ":"))
        with self._lock:
            self._messages.append(text)
            for news, loop in self._viewers.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(news.set)

    async def follow(self) -> AsyncIterator[str]:
        """Yields JSON lists of messages, from the first one on, without an end."""
        news = asyncio.Event()
        with self._lock:
            self._viewers[news] = asyncio.get_running_loop()
        try:
            read = 0
            while True:
                news.clear()
                found = self._messages[read : read + MOST_AT_ONCE]
                if found:
                    read += len(found)
                    yield f"[{','.join(found)}]"
                else:
                    await news.wait()
        finally:
            with self._lock:
                del self._viewers[news]
