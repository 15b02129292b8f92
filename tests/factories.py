"""Conversations for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

MONDAY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Clock:
    """Stands still until it is told to go on."""

    now = MONDAY

    def __call__(self) -> datetime:
        return self.now

    def goes_on(self, **by: float) -> None:
        self.now += timedelta(**by)


def message(
    text: str = "The harbour opens at seven.", *, n: int = 1, role: str = "user", **more: Any
) -> dict[str, Any]:
    return {"id": f"m{n}", "role": role, "content": text, "created_at": MONDAY + timedelta(minutes=n), **more}


def conversation(count: int, *, first: int = 1, saying: str = "", **more: Any) -> list[dict[str, Any]]:
    """Turns of a user and the assistant, one a minute. None of them is a signal. `saying`: what the user says first."""
    said = [f"Turn {n} about the boats." for n in range(first, first + count)]
    return [
        message(f"{text} {saying}".strip() if n == first else text, n=n, role="user" if n % 2 else "assistant", **more)
        for n, text in enumerate(said, first)
    ]
