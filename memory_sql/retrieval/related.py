"""What a scope's text holds that new observations may concern: what a step shows its model beside them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain, zip_longest

from memory_sql.db import Session
from memory_sql.db.queries import related as queries
from memory_sql.domain.query import Query
from memory_sql.domain.scopes import AbsorbedObservation
from memory_sql.languages.words import fold, words_in
from memory_sql.retrieval.query import MAX_TERMS, parse

MOST = 20
MOST_QUERIES = 8  # one look-up of the index each


async def related(
    session: Session, agent_id: str, scope_id: int, texts: Sequence[str], whose: str, language: str, now: datetime
) -> list[AbsorbedObservation]:
    """At most `MOST` active observations of the scope's text that share words with these, in the order of their times.

    `whose`: the name of the scope's owner, which says nothing there, since it stands everywhere.
    """
    asked = [query_of(group, scope_id, whose, language, now) for group in grouped(texts)]
    found = await queries.related(session, agent_id, asked, now, MOST)
    return sorted(found, key=lambda item: (item.observed_at, item.seq))


def grouped(texts: Sequence[str]) -> list[Sequence[str]]:
    """As many groups as are asked for at once, neighbours together: what was said together is about the same."""
    size = -(-len(texts) // MOST_QUERIES) or 1
    return [texts[n : n + size] for n in range(0, len(texts), size)]


def query_of(texts: Sequence[str], scope_id: int, whose: str, language: str, now: datetime) -> Query:
    """For what any of the texts says, each in turn giving a word."""
    parsed = [parse(text, now, UTC, language, operators=False) for text in texts]
    name = {fold(word) for word in words_in(whose)}
    said = [[term for term in query.terms if fold(term.text) not in name] for query in parsed]
    terms = [term for term in chain(*zip_longest(*said)) if term is not None]
    return Query(
        terms=tuple(dict.fromkeys(terms))[:MAX_TERMS],
        scope=scope_id,
        absorbed=True,
        language=language,
    )
