"""What still names a user who is forgotten: texts and observations of others. Which and how many, never what they say."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import ARRAY, Text, and_, any_, cast, exists, false, or_, select, true, union
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
from memory_sql.db.participants import took_part
from memory_sql.domain.ids import observation_id, owner_key
from memory_sql.domain.results import Naming

LEAST = 3  # characters of a name: a shorter one is a word of some language
_LETTER = re.compile(r"[^\W\d_]")


async def agents_knowing(session: AsyncSession, user_id: str) -> list[str]:
    """The agents that have anything of the user or about them, in the order in which they are locked."""
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
    return list(
        await session.scalars(select(a.agent_id).where(or_(a.agent_key.in_(known), took)).order_by(a.agent_key))
    )


async def names_of(session: AsyncSession, agent_key: int, users: Sequence[str]) -> list[str]:
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
    found = [*users, *filter(None, await session.scalars(union(spoken, kept, listed, said)))]
    names = {*found, *(name.split()[0] for name in found if name.strip())}
    return sorted(name for name in names if len(name) >= LEAST and _LETTER.search(name))


async def still_naming(
    session: AsyncSession, agent_key: int, users: Sequence[str], names: Sequence[str]
) -> tuple[Naming, ...]:
    """The scopes of others with a text or an observation that holds any of the names as a word, by scope."""
    if not names:
        return ()
    pattern = rf"(^|\W)({'|'.join(map(_literal, names))})(\W|$)"
    c, o, s, t = ConsolidationRow, ObservationRow, ScopeRow, ObservationStateRow
    others = s.owner.not_in(_owners(users))
    texts = (
        select(c.scope_id, c.version.label("number"), true().label("is_text"))
        .join(s, and_(s.agent_key == c.agent_key, s.scope_id == c.scope_id))
        .where(c.agent_key == agent_key, others, c.content.op("~*")(pattern))
    )
    statements = (
        select(o.scope_id, o.seq, false())
        .join(s, and_(s.agent_key == o.agent_key, s.scope_id == o.scope_id))
        .outerjoin(t, and_(t.agent_key == o.agent_key, t.scope_id == o.scope_id, t.seq == o.seq))
        .where(o.agent_key == agent_key, others, t.withdrawn_by.is_(None), o.content.op("~*")(pattern))
    )
    found = defaultdict[int, tuple[list[int], list[str]]](lambda: ([], []))
    for scope_id, number, is_text in await session.execute(texts.union_all(statements).order_by("scope_id", "number")):
        if is_text:
            found[scope_id][0].append(number)
        else:
            found[scope_id][1].append(observation_id(scope_id, number))
    return tuple(
        Naming(scope_id=f"s{scope_id}", versions=tuple(versions), observations=tuple(observations))
        for scope_id, (versions, observations) in sorted(found.items())
    )


def _owners(users: Sequence[str]) -> list[str]:
    return [owner_key(kind, user) for user in users for kind in ("individual", "entity")]


def _literal(name: str) -> str:
    """As Postgres's regular expressions take it; white space of any length."""
    return r"\s+".join(re.sub(r"([^\w])", r"\\\1", part) for part in name.split())
