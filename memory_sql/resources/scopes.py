"""Scopes: their settings, texts, versions of texts, and the work that writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from memory_sql.config import ScopeSettings
from memory_sql.config.scopes import stored
from memory_sql.config.templates import TEMPLATES, Template, TemplateName
from memory_sql.consolidation import diff
from memory_sql.db import Joinable, Session
from memory_sql.db.principals import service
from memory_sql.db.queries.visible_scopes import list_scopes
from memory_sql.db.repositories.agents import Agent, agent_key_of, ensure_agent, find_agent
from memory_sql.db.repositories.consolidations import ConsolidationRepository
from memory_sql.db.repositories.conversations import ConversationRepository
from memory_sql.db.repositories.events import record
from memory_sql.db.repositories.following import FollowingRepository
from memory_sql.db.repositories.groups import GroupRepository
from memory_sql.db.repositories.propagations import PropagationRepository
from memory_sql.db.repositories.scope_settings import ScopeSettingsRepository
from memory_sql.db.repositories.scopes import NewScope, ScopeRepository, ScopeState
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.arguments import (
    flags,
    id_of,
    moment_of,
    optional_id,
    optional_scope,
    principal_of,
    reason_of,
    scope_of,
    version_of,
    within,
)
from memory_sql.domain.ids import Id, OwnedKind, ScopeKind, parse_scope_id
from memory_sql.domain.results import ConsolidateResult, PropagateResult
from memory_sql.domain.scopes import Consolidation, Diff, Scope, ScopeDetails
from memory_sql.errors import InputError, NotFoundError
from memory_sql.lifecycle import corrections
from memory_sql.resources.resolving import details_of
from memory_sql.resources.runtime import Face, asked_of, locked_agent, settings_of


class Scopes(Face):
    """Scopes: their settings, texts, versions of texts, and the work that writes them."""

    async def create(
        self,
        kind: OwnedKind,
        *,
        agent_id: Id,
        owner_id: Id | None = None,
        name: str | None = None,
        display_name: str | None = None,
        settings: ScopeSettings | None = None,
        template: TemplateName | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> ScopeDetails:
        """Creates a scope with these settings and returns it; an existing scope is returned unchanged.

        `owner_id` is the id of the user, group or conversation; the other kinds have none. A scope with a `name` is a
        separate memory beside the owner's main scope, visible to whoever may see that. Its name, `display_name` and
        prompts (`memory.prompts`) say what it is for. A `template` brings a name, settings and prompts, and `name` and
        `settings` go before its own: `profile` is how somebody works and wants to be treated, `identity` what the assistant
        has learnt about itself; both are summed up once 8,000 characters wait. Raises `NotFoundError` for an unknown group
        (create it with `groups.create`) or conversation.
        """
        agent, now = id_of("agent_id", agent_id), self._now()
        ready = _template(template)
        owner, called, shown = scope_of(kind, owner_id, ready.name if name is None and ready else name, display_name)
        by, why, given = optional_id("actor", actor), reason_of(reason), settings or ScopeSettings()
        _check(given, kind)
        if ready is not None:
            given = ScopeSettings(
                **(ready.settings.model_dump(exclude_unset=True) | given.model_dump(exclude_unset=True))
            )

        async def make(unit: Session) -> ScopeDetails:
            known = await ensure_agent(unit, agent, now)
            own, scopes = self._settings.of_agent(known.settings), ScopeRepository(unit)
            if kind == "group" and await GroupRepository(unit, known.key).get(owner[2:]) is None:
                raise NotFoundError("group", owner[2:])
            if kind == "conversation":
                await ConversationRepository(unit).keep(known.key, owner[2:])
            existing = await scopes.lock(known.key, [(owner, called)])
            if not existing:
                wanted = NewScope(kind, owner, called, shown)
                (made,) = await scopes.lock_or_make(known.key, [wanted], (), own, now)
                await _change(unit, made, stored(given, own), epoch=False)
                for prompt, body in ready.prompts.items() if ready else ():
                    prompts = ScopeSettingsRepository(unit, known.key)
                    await prompts.add_prompt(made.scope_id, prompt, "guidance", body, now)
                detail = {"action": "create", "settings": sorted(given.model_fields_set)}
                detail |= {"template": template} if template else {}
                about = {"actor": by, "reason": why, "scope_id": made.scope_id, "detail": detail}
                await record(unit, known.key, "scope", now, **about)
                existing = [made]
            return await self._details(unit, known, existing[0].scope_id)

        return await self._database.write(make, session, service(agent))

    async def get(self, scope_id: str, *, agent_id: Id, session: Joinable | None = None) -> ScopeDetails:
        """The scope's effective settings, each with its source. Raises `NotFoundError`."""
        agent, key = id_of("agent_id", agent_id), parse_scope_id(scope_id)
        async with self._database.transaction(session, service(agent)) as unit:
            known = await find_agent(unit, agent)
            if known is None:
                raise NotFoundError("scope", scope_id)
            return await self._details(unit, known, key)

    async def set(
        self,
        scope_id: str,
        settings: ScopeSettings,
        *,
        agent_id: Id,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> ScopeDetails:
        """Changes the given settings; None removes the scope's own value, so that the agent's applies again.

        They apply from the next call on, in every process; what becomes due by them is due at once. Model work in progress
        on a scope that is switched on or off is discarded. The event contains the names of the settings. Raises
        `InputError` for `sharing` of a scope that isn't a group's, `NotFoundError`.
        """
        agent, key, now = id_of("agent_id", agent_id), parse_scope_id(scope_id), self._now()
        by, why = optional_id("actor", actor), reason_of(reason)

        async def change(unit: Session) -> ScopeDetails:
            known = await find_agent(unit, agent)
            locked = await ScopeRepository(unit).lock(known.key, scope_ids=[key]) if known else []
            if known is None or not locked:
                raise NotFoundError("scope", scope_id)
            (scope,) = locked
            _check(settings, scope.kind)
            values = stored(settings, self._settings.of_agent(known.settings))
            if values:
                switched = values.get("is_active", scope.is_active) != scope.is_active
                await _change(unit, scope, values, epoch=switched)
                threshold = self._settings.consolidation_threshold
                await ScopeRepository(unit).refresh_due(known.key, [key], threshold, now)
                detail = {"action": "set", "settings": sorted(values)}
                about = {"actor": by, "reason": why, "scope_id": key, "detail": detail}
                await record(unit, known.key, "scope", now, **about)
            return await self._details(unit, known, key)

        return await self._database.write(change, session, service(agent))

    async def _details(self, unit: Session, agent: Agent, scope_id: int) -> ScopeDetails:
        settings = ScopeSettingsRepository(unit, agent.key)
        found = await settings.of(scope_id)
        if found is None:
            raise NotFoundError("scope", f"s{scope_id}")
        return details_of(found, await settings.prompts(scope_id), self._settings, agent.settings)

    async def list(
        self, *, agent_id: Id, user_id: Id, conversation_id: Id | None = None, session: Joinable | None = None
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
        conversation_id: Id | None = None,
        scope_id: str | None = None,
        limit: int = 50,
        as_of: datetime | None = None,
        session: Joinable | None = None,
    ) -> Sequence[Consolidation]:
        """The versions of the texts that the user may see, newest first; `as_of`: as of that moment."""
        principal, past = principal_of(agent_id, user_id, conversation_id), moment_of("as_of", as_of)
        async with self._database.statement(session, principal) as unit:
            versions = ConsolidationRepository(unit)
            return await versions.versions(principal, optional_scope(scope_id), within("limit", limit, 1000), past)

    async def diff(
        self,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        scope_id: str,
        from_version: int | datetime | None = None,
        to_version: int | datetime | None = None,
    ) -> Diff:
        """The sentences that changed in a scope's text between two versions, and the observations that caused it.

        A datetime means the version at that moment. None: the newest version, and the one before it. Version 0 is the
        state before the first text. Raises `NotFoundError`, also if the text exists but this user may not see it.
        """
        principal, key = principal_of(agent_id, user_id, conversation_id), parse_scope_id(scope_id)
        async with self._database.transaction(principal=principal) as unit:
            return await diff.between(unit, principal, key, *map(version_of, (from_version, to_version)))

    async def consolidate(self, *, agent_id: Id, scope_id: str) -> ConsolidateResult:
        """Rewrites the scope's text with its pending observations, in several versions if they are more than one batch.

        Raises `LanguageModelError` if the model fails or its text fails the checks (the old text stays), `BusyError`,
        `NotFoundError`, `StaleError`.
        """
        return await self._jobs.consolidate(id_of("agent_id", agent_id), parse_scope_id(scope_id), "asked")

    async def undo(self, *, agent_id: Id, scope_id: str) -> ConsolidateResult:
        """Reverses the newest consolidation: the previous text is back, and what it absorbed is pending again.

        Observations that it superseded are active again, unless the same has been said since or somebody has changed them.
        Collective observations behind which too few people are left are erased. Adds a version and deletes none. The scope
        isn't due again before it learns something new. Raises `NotFoundError` for an unknown scope, and if nothing is left
        to undo.
        """
        agent = id_of("agent_id", agent_id)
        asked = asked_of(agent, None, None, self._settings, self._now())

        async def undo(unit: Session) -> ConsolidateResult:
            scopes, versions = ScopeRepository(unit), ConsolidationRepository(unit)
            agent_key = await locked_agent(unit, agent, "scope", scope_id)
            scope = await self._locked_scope(unit, agent, scope_id)
            newest = await versions.newest_absorbing(scope)
            if newest is None:
                raise NotFoundError("consolidation to undo in scope", scope_id)
            back = await versions.rewind(scope.agent_key, {scope.scope_id: newest}, "undo", self._now())
            version, text = back[scope.scope_id].version, back[scope.scope_id].text
            threshold, following = self._settings.consolidation_threshold, FollowingRepository(unit, scope.agent_key)
            await following.settle([scope.scope_id], threshold, self._now())
            propagations = PropagationRepository(unit, agent_key)
            least = (await settings_of(unit, agent, self._settings)).propagation_min_people
            few = partial(propagations.too_few_behind, least, scope_ids=[scope.scope_id])
            await corrections.retract_few(unit, asked, agent_key, few)
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

        It goes from an individual scope to the user's groups, and from a group to the collective scope. Without
        `scope_id`: every scope of the agent with something to judge, individual scopes first; what the groups gain is
        judged after their next text. A scope that fails is listed in `failed` and doesn't stop the others. Claims that were
        decided before aren't judged again. `dry_run`: ask the model and store only the cost. Raises `LanguageModelError`
        if the model fails (nothing is shared), `BusyError`, `NotFoundError`, `StaleError`.
        """
        flags(dry_run=dry_run)
        agent = id_of("agent_id", agent_id)
        if scope_id is None:
            return await self._jobs.propagate_all(agent, dry_run=dry_run)
        return await self._jobs.propagate(agent, parse_scope_id(scope_id), dry_run=dry_run)


def _template(name: TemplateName | None) -> Template | None:
    if name is not None and name not in TEMPLATES:
        raise InputError(f"template must be one of {', '.join(TEMPLATES)}")
    return None if name is None else TEMPLATES[name]


def _check(settings: ScopeSettings, kind: ScopeKind) -> None:
    if not isinstance(settings, ScopeSettings):
        raise InputError(f"settings must be ScopeSettings, not {type(settings).__name__}")
    if settings.sharing is not None and kind != "group":
        raise InputError("sharing is a setting of groups only")


async def _change(unit: Session, scope: ScopeState, values: Mapping[str, Any], *, epoch: bool) -> None:
    if values:
        await ScopeSettingsRepository(unit, scope.agent_key).change(scope.scope_id, values, epoch=epoch)
