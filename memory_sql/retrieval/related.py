"""What a scope's text holds that new observations may concern: what a step shows its model beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain, zip_longest
from operator import attrgetter

from memory_sql.db import Session
from memory_sql.db.queries import related as queries
from memory_sql.db.repositories.scopes import ScopeState
from memory_sql.domain.query import Query
from memory_sql.domain.scopes import AbsorbedObservation, PendingObservation
from memory_sql.languages.words import fold, words_in
from memory_sql.retrieval.query import MAX_TERMS, parse

MOST = 20
NEAREST, MOST_NEAR = 3, 40  # in meaning, to each new one; and to all together
MOST_QUERIES = 8  # one look-up of the index each


async def related(
    session: Session, agent_id: str, scope: ScopeState, inputs: Sequence[PendingObservation], now: datetime
) -> list[AbsorbedObservation]:
    """Active observations of the scope's text that these may concern, in the order of their times.

    At most `MOST` that share words with them, and `MOST_NEAR` that lie nearest to them in meaning: who moved to Oslo no
    longer lives in Lyon, in whatever language. The name of the scope's owner says nothing there: it stands everywhere. And at
    most `MOST` that were said again since the first of these: to the text that one isn't the last word. And of what it holds
    as many plans as have ended since it was written, the last ones.
    """
    texts, whose = [item.content for item in inputs], scope.display_name or scope.ref.owner_id or ""
    asked = queries_of(texts, scope.scope_id, whose, scope.language, now)
    place, seqs = (scope.agent_key, scope.scope_id), [item.seq for item in inputs]
    by_words = queries.asked_as(agent_id, asked, MOST, now)
    near, again = (NEAREST, MOST_NEAR), (min(item.observed_at for item in inputs), MOST)
    found = await queries.related_or_near(session, by_words, place, seqs, scope.done_seq, near, again)
    return sorted({item.seq: item for item in found}.values(), key=_IN_ORDER)


async def holding(
    session: Session, agent_id: str, scope: ScopeState, words: str, now: datetime
) -> list[AbsorbedObservation]:
    """Active observations of the scope's text that share words with these, best first; at most `MOST`."""
    asked = queries_of([words], scope.scope_id, "", scope.language, now)
    return [item for _, item in await queries.related(session, agent_id, asked, now, MOST)]


async def found(session: Session, agent_id: str, asked: Sequence[Query], now: datetime) -> dict[int, list[str]]:
    """What the queries find, by scope."""
    return by_scope(await queries.related(session, agent_id, asked, now, MOST))


def by_scope(found: Iterable[tuple[int, AbsorbedObservation]]) -> dict[int, list[str]]:
    """The texts of each scope, in the order of their times."""
    texts = defaultdict[int, list[str]](list)
    for scope_id, item in sorted(found, key=lambda one: _IN_ORDER(one[1])):
        texts[scope_id].append(item.content)
    return texts


def queries_of(texts: Sequence[str], scope_id: int, whose: str, language: str, now: datetime) -> list[Query]:
    return [query_of(group, scope_id, whose, language, now) for group in grouped(texts)]


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
    return Query(terms=tuple(dict.fromkeys(terms))[:MAX_TERMS], scope=scope_id, absorbed=True)


_IN_ORDER = attrgetter("observed_at", "seq")
