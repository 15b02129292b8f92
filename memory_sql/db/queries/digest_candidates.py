"""The observations with which a digest begins, and the settings of its agent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Boolean, Text, bindparam, cast, column, func, select, true
from sqlalchemy.dialects.postgresql import JSONB

from memory_sql.config import DIGEST_SETTINGS, Settings
from memory_sql.db.direct import Reader
from memory_sql.db.observation_rows import columns, read_from
from memory_sql.db.scope_rows import scope_ref
from memory_sql.domain.observations import Candidate
from memory_sql.later import later

if TYPE_CHECKING:
    from memory_sql.db.queries import past_candidates as past
else:
    past = later("memory_sql.db.queries.past_candidates")


class Wanted(NamedTuple):
    """Who asks for a digest, and with which settings: the process's, and those that this call overrides.

    `defaults`: the former, as `defaults_of` writes them; `searched`: the digest also searches for words.
    """

    principal: Mapping[str, Any]
    settings: Settings
    defaults: str
    asked: Mapping[str, Any]
    searched: bool

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            **self.principal,
            "defaults": self.defaults,
            "asked": json.dumps(dict(self.asked)),
            "searched": self.searched,
        }

    def of_agent(self, own: Mapping[str, Any]) -> Settings:
        """The settings that apply: those of the call, else of the agent, else of the process."""
        return self.settings.of_agent({**own, **self.asked})


def defaults_of(settings: Settings) -> str:
    """The settings of a digest as JSON; made once per process, since that takes as long as a quick statement."""
    return settings.model_dump_json(include=set(DIGEST_SETTINGS))


_SHOWN = columns(
    "scope_id",
    "seq",
    "content",
    "observed_at",
    "said_again_at",
    "source_kind",
    "conversation_id",
    "message_ids",
    "kind",
    "confidence",
    "importance",
    "sensitivity",
    "fact_key",
    "tags",
)
_ELSEWHERE = ("scope_kind", "owner", "name", "status", "verification")
_agent = bindparam("agent_id", type_=Text)
_own = func.memory.agent_settings(_agent).table_valued(column("own", JSONB), name="of_agent").render_derived()
CANDIDATES = func.memory.digest_candidates(
    _agent,
    *(bindparam(name, type_=Text) for name in ("user_id", "conversation_id")),
    cast(bindparam("defaults", type_=Text), JSONB),
    cast(bindparam("asked", type_=Text), JSONB),
    bindparam("searched", type_=Boolean),
).table_valued("observation", *_ELSEWHERE, name="candidates")
NAMED = [
    *read_from(CANDIDATES.c.observation, _SHOWN, "c_"),
    *(CANDIDATES.c[name].label(f"c_{name}") for name in _ELSEWHERE),
]
_OWN = select(_own.c.own)
_BEGIN = select(_own.c.own, *NAMED).select_from(_own).join(CANDIDATES, true(), isouter=True)
"""A row for each candidate; without candidates, one row with the settings alone."""


class Begun(NamedTuple):
    """The settings that apply, and what a digest begins with. `is_known` False: there is no such agent."""

    settings: Settings
    candidates: list[Candidate]
    is_known: bool


async def begin(reader: Reader, wanted: Wanted, as_of: datetime | None) -> Begun:
    """One statement; for a past moment, up to two."""
    if as_of is None:
        rows = list(await reader.execute(_BEGIN, wanted.parameters))
        own = rows[0].own
        return Begun(wanted.of_agent(own or {}), candidates_of(rows), own is not None)
    (row,) = await reader.execute(_OWN, wanted.parameters)
    settings = wanted.of_agent(row.own or {})
    return Begun(settings, await candidates_at(reader, wanted, settings, as_of), row.own is not None)


async def candidates_at(reader: Reader, wanted: Wanted, settings: Settings, as_of: datetime) -> list[Candidate]:
    """Of a past moment."""
    if settings.assembly == "eden" or not settings.digest_enabled:
        return []
    given = {**wanted.principal, "searched": wanted.searched, "as_of": as_of}
    return await past.candidates(reader, settings, given)


def candidates_of(rows: Iterable[Any]) -> list[Candidate]:
    return [
        Candidate(
            scope=scope_ref(row.c_scope_id, row.c_scope_kind, row.c_owner, row.c_name),
            seq=row.c_seq,
            content=row.c_content,
            observed_at=row.c_said_again_at or row.c_observed_at,
            source_kind=row.c_source_kind,
            conversation_id=row.c_conversation_id,
            message_ids=tuple(row.c_message_ids),
            kind=row.c_kind,
            confidence=row.c_confidence,
            importance=row.c_importance,
            sensitivity=row.c_sensitivity,
            verification=row.c_verification,
            status=row.c_status,
            fact_key=row.c_fact_key,
            tags=tuple(row.c_tags),
        )
        for row in rows
        if row.c_scope_id is not None
    ]
