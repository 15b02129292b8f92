"""A scope's own settings, and its instructions to its models, in numbered versions of which the newest applies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, case, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import SCOPE_SETTINGS
from memory_sql.config.kinds import PromptMode, PromptName
from memory_sql.db.models import PromptRow, ScopeRow, columns_of
from memory_sql.db.scope_rows import scope_ref
from memory_sql.domain.prompts import ScopePrompt
from memory_sql.domain.scopes import ScopeRef

_s, _p = ScopeRow, PromptRow
_DETAILS = (_s.scope_id, _s.kind, _s.owner, _s.name, _s.display_name, _s.created_at)
_SETTINGS = columns_of(_s, SCOPE_SETTINGS)
_SHOWN = columns_of(_p, ScopePrompt.model_fields)
_SCOPE = (ScopeRow.scope_id, ScopeRow.kind, ScopeRow.owner, ScopeRow.name.label("scope_name"))


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """`own`: the stored settings, by name; None for those that it doesn't have."""

    ref: ScopeRef
    display_name: str | None
    created_at: datetime
    own: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScopeSettingsRepository:
    """The caller holds the scope's row lock."""

    _session: AsyncSession
    _agent_key: int

    async def of(self, scope_id: int) -> OwnSettings | None:
        found = await self._session.execute(
            select(*_DETAILS, *_SETTINGS).where(_s.agent_key == self._agent_key, _s.scope_id == scope_id)
        )
        row = found.one_or_none()
        if row is None:
            return None
        own = {name: row._mapping[name] for name in SCOPE_SETTINGS}
        ref = scope_ref(row.scope_id, row.kind, row.owner, row.name)
        return OwnSettings(ref, row.display_name, row.created_at, own)

    async def change(self, scope_id: int, values: Mapping[str, Any], *, epoch: bool) -> None:
        """`epoch`: raise the epoch, so that the results of model calls begun before are refused.

        The language that it had is kept: what was said in it is searched in it.
        """
        raised: dict[str, Any] = {"epoch": _s.epoch + 1} if epoch else {}
        if "language" in values:
            before = func.array_append(func.array_remove(_s.former_languages, _s.language), _s.language)
            raised["former_languages"] = case(
                ((_s.last_seq > 0) & (_s.language != values["language"]), before), else_=_s.former_languages
            )
        await self._session.execute(
            update(_s).where(_s.agent_key == self._agent_key, _s.scope_id == scope_id).values(**values, **raised)
        )

    async def add_prompt(
        self, scope_id: int, name: PromptName, mode: PromptMode, body: str | None, now: datetime
    ) -> int:
        """The number of the new version."""
        newest = select(func.coalesce(func.max(_p.version), 0)).where(*self._of(scope_id, name)).scalar_subquery()
        values = {"agent_key": self._agent_key, "scope_id": scope_id, "name": name, "mode": mode, "body": body}
        added = insert(_p).values(**values, created_at=now, version=newest + 1).returning(_p.version)
        return int((await self._session.execute(added)).scalar_one())

    async def prompts(self, scope_id: int | None = None, name: PromptName | None = None) -> list[ScopePrompt]:
        """All versions, of one scope or of all, newest first within each name."""
        found = await self._session.execute(
            select(*_SCOPE, *_SHOWN)
            .join(ScopeRow, and_(ScopeRow.agent_key == _p.agent_key, ScopeRow.scope_id == _p.scope_id))
            .where(*self._of(scope_id, name))
            .order_by(_p.scope_id, _p.name, _p.version.desc())
        )
        return [_prompt(row) for row in found]

    def _of(self, scope_id: int | None, name: PromptName | None) -> list[Any]:
        wanted = [_p.agent_key == self._agent_key]
        if scope_id is not None:
            wanted.append(_p.scope_id == scope_id)
        if name is not None:
            wanted.append(_p.name == name)
        return wanted


def _prompt(row: Any) -> ScopePrompt:
    ref = scope_ref(row.scope_id, row.kind, row.owner, row.scope_name)
    return ScopePrompt(scope=ref, **{column.key: row._mapping[column.key] for column in _SHOWN})
