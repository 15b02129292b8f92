"""What belongs in the prompt of a turn: read and search in one statement, decide, compose.

How much of what was found is shown is decided when it is there. The settings that an agent has of its own come with it: what
they were last time is a guess, and where they ask for another search than that, there is a second one. An embedding model is
asked before, without a connection. What is read here is counted in memory, and written by nobody's transaction.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from memory_sql.config import Settings
from memory_sql.context import digest as digests
from memory_sql.context.render import RETRIEVED, Static, render, static_of, told_in
from memory_sql.db import Joinable
from memory_sql.db.direct import Reader
from memory_sql.db.queries.context import Found, read_context
from memory_sql.db.queries.digest_candidates import Wanted, begin
from memory_sql.db.queries.search import Sought, search
from memory_sql.domain.asking import Turn, Who
from memory_sql.domain.query import Query
from memory_sql.domain.reading import Context, Decision, Digest, Hit, Surface
from memory_sql.languages.dates import zone_of
from memory_sql.retrieval.asking import Asking, read
from memory_sql.retrieval.decide import OVERTAKEN, Decided, decide
from memory_sql.retrieval.query import parse
from memory_sql.retrieval.search import Reads, notice
from memory_sql.retrieval.semantics import WORDS_ALONE, QueryVector

SPARE = 7  # hits beyond those that are shown at most, in the places of what stands in the context already


class _Plan(NamedTuple):
    """What is looked for, and by which settings.

    `top_k` and `keywords`: how many of the hits go into the XML and into the digest at most; both 0: nothing is looked for.
    `by_meaning`: vectors count. `digests`: there is a digest, and `asks_words`: of what it is asked for.
    """

    settings: Settings
    query: Query
    sought: Sought
    top_k: int
    keywords: int
    by_meaning: bool
    digests: bool
    asks_words: bool

    def finds_what(self, other: _Plan) -> bool:
        """Whether what was found for the other is what this looks for."""
        if self.digests and self.sought.as_of is not None:
            return self == other  # the past isn't read by a function that asks for the settings itself
        return self._replace(settings=other.settings, top_k=other.top_k, keywords=other.keywords) == other


class _Result(NamedTuple):
    """What was found, by which vector, and how long the database took."""

    found: Found
    meant: QueryVector
    seconds: float


async def context(reads: Reads, turn: Turn, session: Joinable | None = None) -> Context:
    """What `Memory.context` returns; counted."""
    asking, agent = read(turn.text), turn.principal["agent_id"]
    guess = reads.last_settings.get(agent)
    plan = _planned(turn, reads.settings.of_agent({**guess, **turn.own}), asking)
    result = await _looked(reads, turn, plan, session)
    own = result.found.layer.settings
    if own != guess:
        reads.last_settings.put(agent, own)
        guessed, plan = plan, _planned(turn, reads.settings.of_agent({**own, **turn.own}), asking)
        if not plan.finds_what(guessed):
            result = await _looked(reads, turn, plan, session)
    found, decided, past = result.found, None, asking.past or bool(plan.query.spans)
    static = static_of(found.layer.scopes, plan.settings, turn.layout, turn.max_tokens)
    if plan.top_k:
        hits, everything = _considered(_elsewhere(found.hits, turn), plan), bool(turn.retrieve)
        told = told_in(static, hits)
        decided = decide(asking, hits, found.messages, plan.top_k, past=past, everything=everything, told=told)
    composed = _composed(turn, plan, static, decided, result)
    _count_context(reads, turn, plan, decided and decided.decision, result, composed)
    return composed


async def digest(reads: Reads, turn: Turn, session: Joinable | None = None) -> Digest:
    """What `Memory.digest` returns; counted."""
    wanted, agent = _wanted(reads, turn, searched=bool(_query_of(turn, reads.settings))), turn.principal["agent_id"]
    whose = _walled_as(turn, session)
    settings, candidates, is_known = await reads.servers.read(
        lambda reader: begin(reader, wanted, turn.as_of), session, whose, turn.after
    )
    keywords = digests.keyword_limit(settings)
    query = _query_of(turn, settings) if keywords else Query()
    if not query or not is_known:
        return _noticed(digests.compose(candidates, [], settings), notice(agent, is_known, WORDS_ALONE))
    meant = await reads.semantics.vector(turn.text) if settings.digest_semantic else WORDS_ALONE
    sought = Sought(turn.now, keywords, as_of=turn.as_of, vector=meant.vector, model=meant.model)

    async def found_by(reader: Reader) -> tuple[list[Hit], float]:
        began = time.perf_counter()
        found = await search(reader, turn.principal, query, sought, weights=reads.weights)
        return found.hits, time.perf_counter() - began

    hits, seconds = await reads.servers.read(found_by, session, whose, turn.after)
    composed = digests.compose(candidates, hits, settings)
    _count(reads, turn, "digest", "asked", len(hits), seconds, _shown(hits, composed.included))
    return _noticed(composed, notice(agent, is_known, meant))


def _noticed(composed: Digest, told: str | None) -> Digest:
    return composed if told is None else composed.model_copy(update={"notice": told})


# Search


def _planned(turn: Turn, settings: Settings, asking: Asking) -> _Plan:
    """For every message that has something to look for, unless a setting or the call says otherwise."""
    has_xml, has_digest = settings.assembly != "digest", settings.assembly != "eden"
    searches = settings.context_search or bool(asking.recalls) if turn.retrieve is None else turn.retrieve
    top_k = settings.context_top_k if has_xml and searches else 0
    keywords = digests.keyword_limit(settings) if has_digest and turn.retrieve is not False else 0
    query = _query_of(turn, settings) if turn.retrieve is not False else Query()
    asks_words = bool(query)
    if not asks_words:
        top_k = keywords = 0
    if top_k or keywords:
        overtaken = OVERTAKEN if top_k else 0
        outside = turn.principal["conversation_id"]  # what was said there the host has; a digest may stand alone
        query = query._replace(outside=outside, elsewhere=not keywords, unformed=True, overtaken=overtaken)
    return _Plan(
        settings,
        query if top_k or keywords else Query(),
        Sought(turn.now, max(top_k and top_k + SPARE, keywords), top_k, settings.message_retention_days, turn.as_of),
        top_k=top_k,
        keywords=keywords,
        by_meaning=bool(top_k or (keywords and settings.digest_semantic)),
        digests=has_digest,
        asks_words=asks_words,
    )


def _wanted(reads: Reads, turn: Turn, *, searched: bool) -> Wanted:
    return Wanted(turn.principal, reads.settings, reads.digest_defaults, turn.own, searched=searched)


def _query_of(turn: Turn, settings: Settings) -> Query:
    """What a turn's message asks for. It is no query: what looks like an operator in it isn't one."""
    if not turn.text:
        return Query()
    return parse(turn.text, turn.as_of or turn.now, zone_of(settings.time_zone), settings.language, operators=False)


def _walled_as(turn: Turn, session: Joinable | None) -> Who | None:
    """Whom row-level policies have to know: the past is read from tables, the present by functions that ask who it is.

    Nor do these answer for anybody else where the host has entered its transaction as a user.
    """
    return None if turn.as_of is None and session is None else turn.principal


async def _looked(reads: Reads, turn: Turn, plan: _Plan, session: Joinable | None) -> _Result:
    """The static layer, what the query finds, and what a digest begins with: in one statement."""
    meant = WORDS_ALONE
    if plan.by_meaning:  # no connection is held meanwhile
        meant = await reads.semantics.vector(plan.query.text)
    sought = plan.sought._replace(vector=meant.vector, model=meant.model)
    wanted = _wanted(reads, turn, searched=plan.asks_words)

    async def look(reader: Reader) -> _Result:
        began = time.perf_counter()
        found = await read_context(
            reader, plan.settings, wanted, plan.query, sought, reads.weights, digests=plan.digests
        )
        return _Result(found, meant, time.perf_counter() - began)

    return await reads.servers.read(look, session, _walled_as(turn, session), turn.after)


# Decide


def _reason(turn: Turn, decision: Decision | None) -> str | None:
    """Why single observations are shown, or would be if they didn't stand there already; None: they aren't."""
    if turn.retrieve:
        return "asked"
    if decision is None or not decision.shown:
        return None
    return "recall phrase" if decision.recalls else "found"


def _count_context(
    reads: Reads, turn: Turn, plan: _Plan, decision: Decision | None, result: _Result, composed: Context
) -> None:
    """For the XML, also where nothing is shown, and for the digest."""
    found, seconds = result.found, result.seconds
    if plan.settings.assembly != "digest" and turn.text and turn.retrieve is not False:
        reason = _reason(turn, decision) or ("too little" if decision else None)
        hits = len(_elsewhere(found.hits, turn)) + len(found.messages)
        shown = [line.id for part in composed.parts if part.element == RETRIEVED for line in part.lines]
        _count(reads, turn, "context", reason, hits, seconds, shown)
    if plan.keywords:
        keywords, included = _of_digest(plan, found.hits), composed.digest.included if composed.digest else ()
        _count(reads, turn, "digest", "asked", len(keywords), seconds, _shown(keywords, included))


def _count(
    reads: Reads, turn: Turn, surface: Surface, reason: str | None, hits: int, seconds: float, shown: Sequence[str]
) -> None:
    reads.counters.count(turn.principal["agent_id"], turn.now, surface, reason, hits=hits, seconds=seconds, shown=shown)


def _shown(hits: Sequence[Hit], ids: Collection[str]) -> Sequence[str]:
    """Of what was found, the ids of what stands there."""
    return [hit.observation.id for hit in hits if hit.observation.id in ids]


# Compose


def _elsewhere(hits: Sequence[Hit], turn: Turn) -> list[Hit]:
    """What wasn't said in the conversation of the turn."""
    here = turn.principal["conversation_id"]
    return [hit for hit in hits if here is None or hit.observation.source.conversation_id != here]


def _considered(hits: Sequence[Hit], plan: _Plan) -> list[Hit]:
    """Those that the XML looks at, also where a digest looks at more; all that was superseded."""
    holding = [hit for hit in hits if hit.observation.status != "superseded"][: plan.top_k + SPARE]
    ids = {hit.observation.id for hit in holding}
    return [hit for hit in hits if hit.observation.status == "superseded" or hit.observation.id in ids]


def _of_digest(plan: _Plan, hits: Sequence[Hit]) -> list[Hit]:
    """What holds; of what is near in meaning alone nothing, unless the settings say so."""
    semantic = plan.settings.digest_semantic
    holding = [
        hit for hit in hits if hit.observation.status != "superseded" and (semantic or hit.covered or not hit.near)
    ]
    return holding[: plan.keywords]


def _composed(turn: Turn, plan: _Plan, static: Static, decided: Decided | None, result: _Result) -> Context:
    """The XML, the digest, or both."""
    found, part = result.found, None
    decision = None if decided is None else decided.decision
    if plan.digests:
        part = digests.compose(found.candidates, _of_digest(plan, found.hits), plan.settings)
    if part is not None and plan.settings.assembly == "digest":
        whole = digests.alone(part, searched=bool(plan.keywords))
    else:
        whole = render(
            static,
            decided.hits if decided else [],
            turn.as_of or turn.now,
            reason=_reason(turn, decision),
            messages=decided.messages if decided else [],
            conversation_id=turn.principal["conversation_id"],
            episodes=found.episodes,
        )
        whole = whole if part is None else digests.beside(whole, part)
    more = found.layer.more if whole.parts else 0
    told = notice(turn.principal["agent_id"], found.layer.is_known, result.meant)
    return whole.model_copy(update={"notice": told, "decision": decision, "scopes_left_out": more})
