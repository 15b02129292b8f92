"""The names of shards. Pure."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

from memory_sql.domain.ids import host_id
from memory_sql.errors import InvalidIdError
from memory_sql.importers.mongo.documents import Shard
from memory_sql.languages.text import clean, one_line, shortened
from memory_sql.privacy.classify import mask

UNNAMED = "Unnamed shard"
_NAME_CHARACTERS = 200  # leaves room for a number


def names_of_shards(shards: Sequence[Shard]) -> dict[str, str]:
    """By key, a unique name that is a valid id.

    Of shards with the same name the oldest keeps it; others are numbered (A19).
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    last = Counter[str]()  # the last number used for each name
    for shard in shards:
        plain = name = _plain_name(shard.name)
        while name in taken:
            last[plain] = max(last[plain], 1) + 1
            name = f"{plain} {last[plain]}"
        taken.add(name)
        names[shard.key] = name
    return names


def odd_names(shards: Sequence[Shard]) -> int:
    """The number of shards without a unique valid name of their own (A19)."""
    names = names_of_shards(shards)
    return sum(names[shard.key] != shard.name for shard in shards)


def _plain_name(name: str | None) -> str:
    text = unicodedata.normalize("NFC", one_line(mask(clean(name or "")[0]).text))
    try:
        return host_id(shortened(text, _NAME_CHARACTERS), "shard_name")
    except InvalidIdError:
        return UNNAMED
