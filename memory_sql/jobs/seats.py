"""How many pieces of work run at once, of one worker or of the workers of several shards together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ASKING_SECONDS = 1.0  # for work that is due; a database that takes longer may be hanging


class Seats:
    """Who finds none is woken when one is free again, the one that has waited longest first."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting = deque[asyncio.Event]()

    def take(self, look: asyncio.Event) -> bool:
        """Whether there was one; else `look` is set once there may be."""
        if self._free > 0:
            self._free -= 1
            return True
        if look not in self._waiting:
            self._waiting.append(look)
        return False

    @contextmanager
    def asking(self) -> Iterator[Callable[[], None]]:
        """Of a seat that was taken, while its taker asks for work: given back at the end, unless `keep` was called.

        Whoever asks for long leaves it to others meanwhile: a shard that hangs must not keep the others from working.
        """
        is_kept = is_left = False

        def keep() -> None:
            nonlocal is_kept
            is_kept = True

        def leave() -> None:
            nonlocal is_left
            is_left = True
            self.give_back()

        leaving = asyncio.get_running_loop().call_later(ASKING_SECONDS, leave)
        try:
            yield keep
        finally:
            leaving.cancel()
            if is_kept and is_left:
                self._free -= 1
            elif not is_kept and not is_left:
                self.give_back()

    def give_back(self) -> None:
        """Wakes all who found none: each takes one or waits again, and what one of them leaves wakes the next."""
        self._free += 1
        while self._waiting:
            self._waiting.popleft().set()
