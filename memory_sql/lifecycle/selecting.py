"""What a `Selection` asks for in words: parsed as a search parses it, but nothing of it may be passed over."""

from __future__ import annotations

from datetime import datetime

from memory_sql.config import Settings
from memory_sql.domain.query import Query
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError
from memory_sql.languages.dates import zone_of
from memory_sql.retrieval.query import MAX_CHARACTERS, MAX_TERMS, parse


def words_of(selection: Selection, settings: Settings, now: datetime) -> Query | None:
    """What the observations must hold, all of it; None: no words were given.

    Raises `InputError` for a query without a word or phrase to look for, which would choose all that it doesn't leave out,
    and for one of which a part wouldn't count.
    """
    if selection.query is None:
        return None
    query = parse(selection.query, now, zone_of(settings.time_zone), settings.language)
    if len(selection.query) > MAX_CHARACTERS or "too many words" in query.left_out.values():
        raise InputError(
            f"query: at most {MAX_TERMS} words and {MAX_CHARACTERS} characters, because every word has to match"
        )
    if not query.terms:
        raise InputError('query: pass at least one word or "phrase" to look for')
    return query
