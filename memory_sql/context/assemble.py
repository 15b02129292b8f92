"""What belongs into the prompt of a turn: load, decide, search, compose.

One reader where words suffice. Where vectors count as well, it is given back while the embedding model is asked, and the
search takes a second one. What is read here is counted in memory, and written by nobody's transaction.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from memory_sql.config import Settings
from memory_sql.context import digest as digests
from memory_sql.context.render import Static, render, static_of
from memory_sql.db import Session
from memory_sql.db.direct import Reader
from memory_sql.db.queries.digest_candidates import Found, Wanted, begin, find
from memory_sql.db.queries.search import Sought, search
from memory_sql.db.queries.static_layer import static_layer
from memory_sql.domain.asking import Turn, Who
from memory_sql.domain.query import Query
from memory_sql.domain.reading import Context, Digest, Surface
from memory_sql.languages.dates import zone_of
from memory_sql.retrieval.decide import should_retrieve
from memory_sql.retrieval.query import parse
from memory_sql.retrieval.search import Reads


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is looked for, and by which settings.

    `reason`: why single observations are retrieved, None: they aren't. `wanted`: what a digest begins with, if it has to be
    asked for. `top_k` and `keywords`: how many of the hits go into the XML and into the digest at most.
    """

    settings: Settings
    query: Query
    sought: Sought
    by_meaning: bool
    keywords: int
    top_k: int = 0
    reason: str | None = None
    wanted: Wanted | None = None


@dataclass(frozen=True, slots=True)
class _Result:
    """What was found, how long the database looked for it, and why words alone counted, where that wasn't meant."""

    found: Found
    seconds: float
    notice: str | None = None


async def context(reads: Reads, turn: Turn, session: Session | None = None) -> Context:
    """What `Memory.context` returns; counted."""
    vectors = bool(turn.text) and turn.retrieve is not False and reads.semantics.find() is not None
    result = None
    async with reads.database.reading(session, _walled_as(turn, session)) as reader:
        layer = await static_layer(reader, turn.principal, reads.settings.pending_max, turn.as_of)
        own = {**layer.settings, **turn.own}
        settings = reads.settings.of_agent(own) if own else reads.settings
        static = static_of(layer.scopes, settings, turn.layout, turn.max_tokens)
        plan = _decided(reads, turn, settings, static, vectors=vectors)
        if not plan.by_meaning:
            result = await _searched(reader, reads, turn, plan)
    result = result or await _searched_by_meaning(reads, turn, plan, session)
    _count_context(reads, turn, plan, result)
    return _composed(turn, plan, result, static)


async def digest(reads: Reads, turn: Turn, session: Session | None = None) -> Digest:
    """What `Memory.digest` returns; counted."""
    wanted = _wanted(reads, turn, searched=bool(_query_of(turn, reads.settings)))
    vectors = bool(turn.text) and reads.semantics.find() is not None
    result = None
    async with reads.database.reading(session, _walled_as(turn, session)) as reader:
        settings, candidates = await begin(reader, wanted, turn.as_of)
        plan = _digest_plan(turn, settings, vectors=vectors)
        if not plan.by_meaning:
            result = await _searched(reader, reads, turn, plan)
    result = result or await _searched_by_meaning(reads, turn, plan, session)
    if plan.query:
        _count(reads, turn, "digest", "asked", len(result.found.hits), result.seconds)
    return digests.compose(candidates, result.found.hits, settings)


# Decide


def _decided(reads: Reads, turn: Turn, settings: Settings, static: Static, *, vectors: bool) -> _Plan:
    """Of the static layer, which is in the prompt anyway, and the message."""
    has_digest = settings.assembly != "eden"
    reason = _reason(turn, settings, static) if settings.assembly != "digest" else None
    for_digest = has_digest and turn.retrieve is not False
    keywords = digests.keyword_limit(settings) if for_digest else 0
    top_k = settings.context_top_k if reason else 0
    query = Query()
    if reason or for_digest:  # of the conversation itself the host has the messages
        query = replace(_query_of(turn, settings), outside=turn.principal["conversation_id"])
    by_meaning = vectors and (reason is not None or settings.digest_semantic) and bool(query)
    return _Plan(
        settings,
        query,
        Sought(turn.now, max(top_k, keywords), top_k, settings.message_retention_days, turn.as_of),
        by_meaning=by_meaning,
        keywords=keywords,
        top_k=top_k,
        reason=reason,
        wanted=_wanted(reads, turn, searched=bool(query)) if has_digest else None,
    )


def _reason(turn: Turn, settings: Settings, static: Static) -> str | None:
    """Why single observations are retrieved; None: the texts are enough."""
    if turn.retrieve is not None:
        return "asked" if turn.retrieve else None
    if not turn.text:
        return None
    fired = should_retrieve(turn.text, static.words, static.names, settings.unknown_names)
    return fired.reason if fired else None


def _digest_plan(turn: Turn, settings: Settings, *, vectors: bool) -> _Plan:
    """Of a digest alone, which knows by now what it begins with."""
    keywords = digests.keyword_limit(settings)
    query = _query_of(turn, settings) if keywords else Query()
    by_meaning = vectors and bool(query) and settings.digest_semantic
    return _Plan(settings, query, Sought(turn.now, keywords, as_of=turn.as_of), by_meaning, keywords)


def _wanted(reads: Reads, turn: Turn, *, searched: bool) -> Wanted:
    return Wanted(turn.principal, reads.settings, reads.digest_defaults, turn.own, searched=searched)


def _query_of(turn: Turn, settings: Settings) -> Query:
    """What a turn's message asks for. It is no query: what looks like an operator in it isn't one."""
    return parse(turn.text, turn.as_of or turn.now, zone_of(settings.time_zone), settings.language, operators=False)


# Search


def _walled_as(turn: Turn, session: Session | None) -> Who | None:
    """Whom row-level policies have to know: the past is read from tables, the present by functions that ask who it is.

    Nor do these answer for anybody else where the host has entered its transaction as a user.
    """
    return None if turn.as_of is None and session is None else turn.principal


async def _searched(reader: Reader, reads: Reads, turn: Turn, plan: _Plan) -> _Result:
    """What the query finds, and what a digest begins with, if that is wanted: in one statement."""
    began = time.perf_counter()
    if plan.wanted is None:
        found = Found([], *await search(reader, turn.principal, plan.query, plan.sought, weights=reads.weights))
    else:
        found = await find(reader, plan.wanted, plan.settings, plan.query, plan.sought, weights=reads.weights)
    return _Result(found, time.perf_counter() - began)


async def _searched_by_meaning(reads: Reads, turn: Turn, plan: _Plan, session: Session | None) -> _Result:
    meant = await reads.semantics.vector(turn.text)  # no connection is held here
    sought = replace(plan.sought, vector=meant.vector, model=meant.model)
    async with reads.database.reading(session, _walled_as(turn, session)) as reader:
        result = await _searched(reader, reads, turn, replace(plan, sought=sought))
    return replace(result, notice=meant.notice)


def _count_context(reads: Reads, turn: Turn, plan: _Plan, result: _Result) -> None:
    """For the XML, also where the message asks for nothing, and for the digest."""
    found, seconds = result.found, result.seconds
    if plan.settings.assembly != "digest" and turn.text and turn.retrieve is not False:
        hits = len(found.hits[: plan.top_k]) + len(found.messages)
        _count(reads, turn, "context", plan.reason, hits, seconds)
    if plan.keywords and plan.query:
        _count(reads, turn, "digest", "asked", len(found.hits[: plan.keywords]), seconds)


def _count(reads: Reads, turn: Turn, surface: Surface, reason: str | None, hits: int, seconds: float) -> None:
    reads.counters.count(turn.principal["agent_id"], turn.now, surface, reason, hits=hits, seconds=seconds)


# Compose


def _composed(turn: Turn, plan: _Plan, result: _Result, static: Static) -> Context:
    """The XML, the digest, or both."""
    found, part = result.found, None
    if plan.wanted is not None:
        part = digests.compose(found.candidates, found.hits[: plan.keywords], plan.settings)
    if part is not None and plan.settings.assembly == "digest":
        whole = digests.alone(part, searched=bool(plan.keywords and plan.query))
    else:
        hits = found.hits[: plan.top_k]
        whole = render(
            static,
            hits,
            turn.as_of or turn.now,
            reason=plan.reason,
            messages=found.messages,
            conversation_id=turn.principal["conversation_id"],
        )
        whole = whole if part is None else digests.beside(whole, part)
    return whole.model_copy(update={"notice": result.notice}) if result.notice else whole
