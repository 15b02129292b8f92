"""The setting `shards`: several databases by name, over which the agents are spread."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic import SecretStr

NAME = re.compile("[a-z][a-z0-9_-]{0,39}")


def shards_of(given: object) -> dict[str, str]:
    """The URLs by name, in order: of a mapping, a JSON object, or `a=URL b=URL`. Raises `ValueError`, without a URL in it."""
    if isinstance(given, SecretStr):
        given = given.get_secret_value()
    pairs = _pairs(given) if isinstance(given, str) else list(given.items()) if isinstance(given, Mapping) else None
    if not pairs:
        raise ValueError('names no shards; write a=URL b=URL, or {"a": "URL", "b": "URL"}')
    named: dict[str, str] = {}
    for name, url in pairs:
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            raise ValueError("the name of a shard has 1 to 40 of a-z, 0-9, _ and -, and begins with a letter")
        if name in named:
            raise ValueError(f"{name} is named twice")
        text = url.get_secret_value() if isinstance(url, SecretStr) else url
        if not isinstance(text, str) or not text.strip() or len(text.split()) > 1:
            raise ValueError(f"{name} needs a URL: postgresql://user:password@host:5432/name")
        named[name] = text.strip()
    return named


def as_text(given: object) -> object:
    """One text for all ways to write it; what is none stays, for others to refuse."""
    return None if given is None else " ".join(f"{name}={url}" for name, url in shards_of(given).items())


def _pairs(text: str) -> list[tuple[object, object]]:
    if not text.lstrip().startswith("{"):
        return [_pair(word) for word in text.split()]
    try:
        return json.loads(text, object_pairs_hook=list) or []
    except (ValueError, RecursionError):
        raise ValueError("not a JSON object") from None


def _pair(word: str) -> tuple[object, object]:
    name, _, url = word.partition("=")
    return name, url
