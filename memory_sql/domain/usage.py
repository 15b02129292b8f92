"""The cost of model calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of model calls. Tokens are as the provider counts them; None if it doesn't say.

    `model` is empty until one has answered.
    """

    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_seconds: float = 0.0
    calls: int = 1

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            other.model or self.model,
            _total(self.input_tokens, other.input_tokens),
            _total(self.output_tokens, other.output_tokens),
            self.latency_seconds + other.latency_seconds,
            self.calls + other.calls,
        )


NO_CALL = Usage(model="none", input_tokens=0, output_tokens=0, calls=0)
"""The usage if no model was called."""


def _total(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)
