"""Scopes: their texts, the versions of these, and the work that writes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memory_sql.arguments import id_of, moment_of, optional_scope, principal_of, version_of, within
from memory_sql.consolidation import diff
from memory_sql.db import Session
from memory_sql.db.principals import service
from memory_sql.db.queries.visible_scopes import list_scopes
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.consolidations import ConsolidationRepository
from memory_sql.db.repositories.following import FollowingRepository
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.ids import Id, parse_scope_id
from memory_sql.domain.results import ConsolidateResult, PropagateResult
from memory_sql.domain.scopes import Consolidation, Diff, Scope
from memory_sql.errors import NotFoundError
from memory_sql.resources.runtime import Face


class Scopes(Face):
    """Scopes: their texts, the versions of these, and the work that writes them."""

    async def list(
        self, *, agent_id: Id, user_id: Id, conversation_id: Id | None = None, session: Session | None = None
    ) -> list[Scope]:
        """The scopes that the user may see: collective, groups, the user's own."""
        principal = principal_of(agent_id, user_id, conversation_id)
        async with self._database.statement(session, principal) as unit:
            return await list_scopes(unit, principal)

    async def history(
        self,
        *,
        agent_id: Id,
        user_id: Id,
        scope_id: str | None = None,
        limit: int = 50,
        as_of: datetime | None = None,
        session: Session | None = None,
    ) -> Sequence[Consolidation]:
        """The versions of the texts that the user may see, newest first; `as_of`: as they were at that moment."""
        principal, past = principal_of(agent_id, user_id, None), moment_of("as_of", as_of)
        async with self._database.statement(session, principal) as unit:
            versions = ConsolidationRepository(unit)
            return await versions.versions(principal, optional_scope(scope_id), within("limit", limit, 1000), past)

    async def diff(
        self,
        *,
        agent_id: Id,
        user_id: Id,
        scope_id: str,
        from_version: int | datetime | None = None,
        to_version: int | datetime | None = None,
    ) -> Diff:
        """What changed in a scope's text between two versions, by sentences, and by which observations.

        A moment means the version that was the text then. None: the newest version, and the one before it. Version 0 is
        before there was a text. Raises `NotFoundError`, also if it exists and this user may not see it.
        """
        principal, key = principal_of(agent_id, user_id, None), parse_scope_id(scope_id)
        async with self._database.transaction(principal=principal) as unit:
            return await diff.between(unit, principal, key, *map(version_of, (from_version, to_version)))

    async def consolidate(self, *, agent_id: Id, scope_id: str, reason: str = "asked") -> ConsolidateResult:
        """Rewrites the scope's text with what is pending; several versions if that is more than one batch.

        Raises `LanguageModelError` if the model fails or its text fails the checks (the old text stays), `BusyError`,
        `NotFoundError`, `StaleError`.
        """
        return await self._jobs.consolidate(id_of("agent_id", agent_id), parse_scope_id(scope_id), reason)

    async def undo(self, *, agent_id: Id, scope_id: str) -> ConsolidateResult:
        """Reverses the newest consolidation: the previous text is back, and what it absorbed is pending again.

        What it had superseded is active again, unless the same has been said since or somebody has changed it. It adds
        a version and deletes none; the scope isn't due before it learns something new. Raises `NotFoundError` for an
        unknown scope and if nothing is left to undo.
        """
        agent = id_of("agent_id", agent_id)

        async def undo(unit: Session) -> ConsolidateResult:
            scopes, versions = ScopeRepository(unit), ConsolidationRepository(unit)
            scope = await self._locked_scope(unit, agent, scope_id)
            newest = await versions.newest_absorbing(scope)
            if newest is None:
                raise NotFoundError("consolidation to undo in scope", scope_id)
            version, text = await versions.rewind(scope, newest, "undo", self._now())
            threshold, following = self._settings.consolidation_threshold, FollowingRepository(unit, scope.agent_key)
            await following.settle([scope.scope_id], threshold, self._now())
            await scopes.refresh_due(scope.agent_key, [scope.scope_id], threshold, self._now())
            changed = await StateRepository(unit).changed_by_version(scope, version)
            return ConsolidateResult(
                scope=scope.ref,
                version=version,
                content=text,
                reinstated=changed.get("active", 0),
                left_superseded=changed.get("superseded", 0),
            )

        return await self._database.write(undo, principal=service(agent))

    async def _locked_scope(self, unit: Session, agent_id: Id, scope_id: str) -> ScopeState:
        key, agent_key = parse_scope_id(scope_id), await agent_key_of(unit, id_of("agent_id", agent_id))
        if agent_key is not None:
            await FollowingRepository(unit, agent_key).lock([key])
            for locked in await ScopeRepository(unit).lock(agent_key, scope_ids=[key]):
                return locked
        raise NotFoundError("scope", scope_id)

    async def propagate(self, *, agent_id: Id, scope_id: str | None = None, dry_run: bool = False) -> PropagateResult:
        """Judges what a scope's text has absorbed for the scopes one level up, and stores there what may be shared.

        From an individual scope to the user's groups, from a group to the collective scope. Without `scope_id`, for
        each scope of the agent with something to judge, individual ones first: what their groups gain waits for their
        next text. A scope that fails is in `failed` and doesn't stop the rest. What was decided before isn't judged
        again. `dry_run`: asks the model and stores only the cost. Raises `LanguageModelError` if the model fails
        (nothing is shared), `BusyError`, `NotFoundError`, `StaleError`.
        """
        agent = id_of("agent_id", agent_id)
        if scope_id is None:
            return await self._jobs.propagate_all(agent, dry_run=dry_run)
        return await self._jobs.propagate(agent, parse_scope_id(scope_id), dry_run=dry_run)
