"""What still names a user who is forgotten: texts and observations of others. Which and how many, never what they say."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Text,
    all_,
    and_,
    any_,
    cast,
    exists,
    false,
    func,
    or_,
    select,
    true,
    union,
)
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import (
    AgentRow,
    ConsolidationRow,
    ConversationRow,
    EvidenceRow,
    MemberRow,
    MessageRow,
    ObservationRow,
    ObservationStateRow,
    ScopeRow,
    UserAliasRow,
)
from memory_sql.db.models.shards import is_here
from memory_sql.db.participants import took_part
from memory_sql.domain.ids import observation_id, owner_key
from memory_sql.domain.results import Naming

LEAST = 3  # characters of a name: a shorter one is a word of some language
_LETTER = re.compile(r"[^\W\d_]")


async def agents_knowing(session: AsyncSession, user_id: str) -> dict[str, int]:
    """The agents that have anything of the user or about them, with their keys, in the order in which they are locked."""
    a, m, o, s = AgentRow, MessageRow, ObservationRow, ScopeRow
    holding = exists().where(o.agent_key == s.agent_key, o.scope_id == s.scope_id)
    has_text = or_(m.content.is_not(None), m.content_hash.is_not(None), m.speaker.is_not(None))
    about = and_(o.subjects != cast([], ARRAY(Text)), o.subjects.op("&&")(cast([user_id], ARRAY(Text))))
    either = or_(UserAliasRow.user_id == user_id, UserAliasRow.into_user_id == user_id)
    known = union(
        select(s.agent_key).where(s.owner.in_(_owners([user_id])), or_(holding, s.display_name.is_not(None))),
        select(MemberRow.agent_key).where(MemberRow.user_id == user_id),
        select(m.agent_key).where(m.user_id == user_id, has_text),
        select(EvidenceRow.agent_key).where(EvidenceRow.user_id == user_id),
        select(UserAliasRow.agent_key).where(either, UserAliasRow.withdrawn_by.is_(None)),
        select(o.agent_key).where(about),
    )
    took = exists().where(took_part(a.agent_key, [user_id]))
    found = select(a.agent_id, a.agent_key).where(or_(a.agent_key.in_(known), took)).order_by(a.agent_key)
    return {row.agent_id: row.agent_key for row in await session.execute(found)}


async def names_of(session: AsyncSession, agent_key: int, users: Sequence[str]) -> set[str]:
    """The names by which they spoke or are listed, the first word of each, and their ids; not what is too short to tell."""
    c, m, s, e, o = ConversationRow, MessageRow, ScopeRow, EvidenceRow, ObservationRow
    given = cast(list(users), ARRAY(Text))
    theirs = and_(m.agent_key == agent_key, m.user_id == any_(given))
    spoken = (
        select(m.speaker)
        .join(c, and_(c.agent_key == m.agent_key, c.conversation_id == m.conversation_id))
        .where(theirs, took_part(agent_key, list(users)))
    )
    kept = select(m.speaker).where(theirs, m.withdrawn_by.is_not(None))
    listed = select(s.display_name).where(s.agent_key == agent_key, s.owner == any_(cast(_owners(users), ARRAY(Text))))
    said = (
        select(o.speaker)
        .join(e, and_(e.agent_key == o.agent_key, e.scope_id == o.scope_id, e.seq == o.seq))
        .where(e.agent_key == agent_key, e.user_id == any_(given), o.related_users.op("<@")(given))
    )
    return names_in_use([*users, *filter(None, await session.scalars(union(spoken, kept, listed, said)))])


def names_in_use(found: Sequence[str]) -> set[str]:
    """These and the first word of each, but what is too short to tell."""
    names = {*found, *(name.split()[0] for name in found if name.strip())}
    return {name for name in names if len(name) >= LEAST and _LETTER.search(name)}


async def still_naming(
    session: AsyncSession, agent_key: int, users: Sequence[str], names: Collection[str]
) -> tuple[Naming, ...]:
    """The scopes of others with a text or an observation that holds any of the names as a word, by scope."""
    if not names:
        return ()
    found = await session.execute(_holding(users, names, AgentRow.agent_key == agent_key))
    return _by_scope((row.scope_id, row.number, row.is_text) for row in found)


async def named_elsewhere(
    session: AsyncSession, known: Collection[int], users: Sequence[str], names: Collection[str]
) -> dict[str, tuple[Naming, ...]]:
    """The same of all agents that are here but these, by their ids: reads all their texts and observations once."""
    if not names:
        return {}
    others = and_(AgentRow.agent_key != all_(cast(list(known), ARRAY(BigInteger))), is_here(AgentRow.agent_key))
    found = (await session.execute(_holding(users, names, others))).all()
    by_agent = groupby(found, lambda row: row.agent_id)
    return {
        agent: _by_scope((row.scope_id, row.number, row.is_text) for row in of_agent) for agent, of_agent in by_agent
    }


def _holding(users: Sequence[str], names: Collection[str], of: ColumnElement[bool]) -> CompoundSelect[*tuple[Any, ...]]:
    """By agent and scope: the number of a version or an observation, and which it is."""
    pattern = rf"(^|\W)({'|'.join(map(_literal, sorted(names)))})(\W|$)"
    a, c, o, s, t = AgentRow, ConsolidationRow, ObservationRow, ScopeRow, ObservationStateRow
    others = s.owner.not_in(_owners(users))
    texts = (
        select(a.agent_key, a.agent_id, c.scope_id, c.version.label("number"), true().label("is_text"))
        .join(a, a.agent_key == c.agent_key)
        .join(s, and_(s.agent_key == c.agent_key, s.scope_id == c.scope_id))
        .where(of, others, c.content.op("~*")(pattern))
    )
    observations = (
        select(a.agent_key, a.agent_id, o.scope_id, o.seq, false())
        .join(a, a.agent_key == o.agent_key)
        .join(s, and_(s.agent_key == o.agent_key, s.scope_id == o.scope_id))
        .outerjoin(t, and_(t.agent_key == o.agent_key, t.scope_id == o.scope_id, t.seq == o.seq))
        .where(of, others, t.withdrawn_by.is_(None), _says(pattern))
    )
    return texts.union_all(observations).order_by("agent_key", "scope_id", "number")


def _says(pattern: str) -> ColumnElement[bool]:
    """Whether an observation does, in its text or in what the host has stored with it."""
    o = ObservationRow
    tags = and_(o.tags != cast([], ARRAY(Text)), func.array_to_string(o.tags, "\n").op("~*")(pattern))
    pairs = and_(o.metadata_ != cast({}, JSONB), or_(_finds(_VALUES, pattern), _finds(_KEYS, pattern)))
    return or_(*(column.op("~*")(pattern) for column in (o.content, o.speaker, o.fact_key)), tags, pairs)


def _finds(path: str, pattern: str) -> ColumnElement[bool]:
    """Whether any text at that path of the metadata does."""
    found = func.jsonb_path_query(ObservationRow.metadata_, cast(path, JSONPATH)).column_valued("found")
    return exists().where(found.op("#>>")(cast([], ARRAY(Text))).op("~*")(pattern)).correlate(ObservationRow)


_VALUES = '$.** ? (@.type() == "string")'
_KEYS = '$.** ? (@.type() == "object").keyvalue().key'


def _by_scope(found: Iterable[tuple[int, int, bool]]) -> tuple[Naming, ...]:
    scopes = defaultdict[int, tuple[list[int], list[str]]](lambda: ([], []))
    for scope_id, number, is_text in found:
        if is_text:
            scopes[scope_id][0].append(number)
        else:
            scopes[scope_id][1].append(observation_id(scope_id, number))
    return tuple(
        Naming(scope_id=f"s{scope_id}", versions=tuple(versions), observations=tuple(observations))
        for scope_id, (versions, observations) in scopes.items()
    )


def _owners(users: Sequence[str]) -> list[str]:
    return [owner_key(kind, user) for user in users for kind in ("individual", "entity")]


def _literal(name: str) -> str:
    """As Postgres's regular expressions take it; white space of any length."""
    return r"\s+".join(re.sub(r"([^\w])", r"\\\1", part) for part in name.split())
