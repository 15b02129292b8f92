"""What `Memory.search` does, and what every read goes by."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Joinable
from memory_sql.db.answering import Primary
from memory_sql.db.direct import Reader
from memory_sql.db.queries.digest_candidates import defaults_of
from memory_sql.db.queries.search import Matches, Sought, search, search_plan
from memory_sql.domain.asking import Question, Who
from memory_sql.domain.query import Query, Stages, Weights
from memory_sql.domain.reading import SearchResult
from memory_sql.languages.dates import zone_of
from memory_sql.retrieval.counters import Counters
from memory_sql.retrieval.query import parse
from memory_sql.retrieval.semantics import QueryVector, Semantics


def weights_of(settings: Settings) -> Weights:
    stages = Stages(hidden=settings.stale_hidden) if settings.lifecycle else None
    weights = Weights(stages=stages, hot_first=settings.tiering, graph=settings.graph)
    return weights if settings.search_cues else replace(weights, terms=0.0)


class LastSettings:
    """What the settings of agents were when they were last read; a guess, for the agents asked for most lately."""

    def __init__(self, agents: int = 1000) -> None:
        self._agents = agents
        self._known = dict[str, Mapping[str, Any]]()

    def get(self, agent_id: str) -> Mapping[str, Any]:
        known = self._known.pop(agent_id, None)
        if known is None:
            return {}
        self._known[agent_id] = known  # the last one again
        return known

    def put(self, agent_id: str, settings: Mapping[str, Any]) -> None:
        self._known.pop(agent_id, None)
        if settings:
            self._known[agent_id] = settings
        if len(self._known) > self._agents:
            del self._known[next(iter(self._known))]


class Reads:
    """The servers that answer, a replica perhaps; the process's settings; vectors; and who counts what is asked."""

    def __init__(self, servers: Primary, settings: Settings, semantics: Semantics, counters: Counters) -> None:
        self.servers = servers
        self.settings = settings
        self.semantics = semantics
        self.counters = counters
        self.weights = weights_of(settings)
        self.last_settings = LastSettings()
        self.digest_defaults = defaults_of(settings)


def notice(agent_id: str, is_known: bool, meant: QueryVector) -> str | None:
    """Why there is nothing, or less than there might be."""
    unknown = None if is_known else f"there is no agent {agent_id}"
    return "; ".join(filter(None, (unknown, meant.notice))) or None


async def answer(reads: Reads, question: Question, session: Joinable | None = None) -> SearchResult:
    """What the question finds; counted."""
    settings = reads.settings
    query = parse(question.text, question.as_of or question.now, zone_of(settings.time_zone), settings.language)
    query = query._replace(superseded=question.superseded)
    meant = await reads.semantics.vector(query.text if query else "", question.semantic)  # no connection is held here
    sought = _sought(question, settings, meant)

    async def found_by(reader: Reader) -> tuple[Matches, float]:
        began = time.perf_counter()
        found = await search(
            reader, question.principal, query, sought, weights=reads.weights, episodes=settings.episodes
        )
        return found, time.perf_counter() - began

    (hits, messages, is_known), seconds = await reads.servers.read(
        found_by, session, _walled_as(question, session), question.after
    )
    agent, found = question.principal["agent_id"], len(hits) + len(messages)
    shown = [hit.observation.id for hit in hits]
    reads.counters.count(agent, question.now, "search", "asked", hits=found, seconds=seconds, shown=shown)
    return SearchResult(
        results=tuple(hits),
        messages=tuple(messages),
        terms=query.words,
        left_out=dict(query.left_out) if question.explain else {},
        plan=tuple(await _plan(reads, question, query, sought, session)) if question.plan else (),
        notice=notice(agent, is_known, meant),
    )


def _walled_as(question: Question, session: Joinable | None) -> Who | None:
    """Whom row-level policies have to know: the past is read from tables, the present by functions that ask who it is.

    Nor do these answer for anybody else where the host has entered its transaction as a user.
    """
    return None if question.as_of is None and session is None else question.principal


def _sought(question: Question, settings: Settings, meant: QueryVector) -> Sought:
    return Sought(
        now=question.now,
        observations=question.observations,
        messages=question.messages,
        days=settings.message_retention_days,
        as_of=question.as_of,
        explain=question.explain,
        vector=meant.vector,
        model=meant.model,
    )


async def _plan(
    reads: Reads, question: Question, query: Query, sought: Sought, session: Joinable | None
) -> Sequence[str]:
    async with reads.servers.database.statement(session, _walled_as(question, session)) as unit:
        return await search_plan(unit, question.principal, query, sought)
