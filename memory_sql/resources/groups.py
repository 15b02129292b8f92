"""An agent's groups, their members, and what happens to the contributions of a member who leaves. Calls no model."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import get_args

from memory_sql.config.kinds import Sharing
from memory_sql.db import Joinable, Session
from memory_sql.db.locks import lock_agent
from memory_sql.db.principals import service
from memory_sql.db.repositories.agents import agent_key_of, ensure_agent
from memory_sql.db.repositories.aliases import AliasRepository
from memory_sql.db.repositories.events import record
from memory_sql.db.repositories.groups import GroupRepository
from memory_sql.db.repositories.scopes import NewScope, ScopeRepository
from memory_sql.db.repositories.supports import SupportRepository
from memory_sql.domain.arguments import flags, id_of, moment_of, optional_id, reason_of, text_of
from memory_sql.domain.groups import Departure, Group, Member, MemberSource
from memory_sql.domain.ids import ID_MAX_CHARACTERS, Id, owner_key
from memory_sql.errors import InputError, NotFoundError, TooLargeError
from memory_sql.languages.text import one_line
from memory_sql.lifecycle import corrections
from memory_sql.resources.runtime import Face, asked_of


class Groups(Face):
    """An agent's groups and their members.

    Calls that change something take an `actor` and a `reason`, and are recorded as events. An unknown group raises
    `NotFoundError`. A call with `session=` joins the host's transaction, which the host commits.
    """

    async def create(
        self,
        group_id: Id,
        *,
        agent_id: Id,
        display_name: str | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Group:
        """Creates the group and returns it; an existing group is returned unchanged. `display_name` None: its id."""
        agent, group, now = id_of("agent_id", agent_id), id_of("group_id", group_id), self._now()
        called = group if display_name is None else _name_of(display_name)
        by, why = optional_id("actor", actor), reason_of(reason)

        async def make(unit: Session) -> Group:
            known = await ensure_agent(unit, agent, now)
            groups = GroupRepository(unit, known.key)
            if (existing := await groups.get(group)) is not None:
                return existing
            settings = self._settings.of_agent(known.settings)
            wanted = NewScope("group", owner_key("group", group), display_name=called)
            await ScopeRepository(unit).lock_or_make(known.key, [wanted], (), settings, now)
            made = await _found(groups, group)
            detail = {"action": "create", "group_id": group}
            await record(unit, known.key, "group", now, actor=by, reason=why, scope_id=made.scope_key, detail=detail)
            return made

        return await self._database.write(make, session, service(agent))

    async def rename(
        self,
        group_id: Id,
        display_name: str,
        *,
        agent_id: Id,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Group:
        """Changes the group's display name, also in the context, and returns the group. `people.rename` changes its id."""
        agent, group, now = id_of("agent_id", agent_id), id_of("group_id", group_id), self._now()
        called = _name_of(display_name)
        by, why = optional_id("actor", actor), reason_of(reason)

        async def name(unit: Session) -> Group:
            agent_key = await _agent_key(unit, agent, group)
            groups = GroupRepository(unit, agent_key)
            before = await _found(groups, group)
            if before.display_name == called:
                return before
            await groups.name(before.scope_key, called)
            detail = {"action": "name", "group_id": group}
            await record(unit, agent_key, "group", now, actor=by, reason=why, scope_id=before.scope_key, detail=detail)
            return before.model_copy(update={"display_name": called})

        return await self._database.write(name, session, service(agent))

    async def share(
        self,
        group_id: Id,
        sharing: Sharing | None,
        *,
        agent_id: Id,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Group:
        """Sets what is propagated into the group and out of it, and returns the group; None: as the agent's `sharing` says.

        `auto`: what the rules and the judge let through; `review`: only what a person has accepted (`work.decide`); `off`:
        nothing. When `off` ends, what was learnt during it is judged with the next consolidation or `scopes.propagate`;
        held claims stay held until somebody decides on them.
        """
        agent, group, now = id_of("agent_id", agent_id), id_of("group_id", group_id), self._now()
        if sharing is not None and sharing not in get_args(Sharing):
            raise InputError(f"sharing must be one of {', '.join(get_args(Sharing))}, or None")
        by, why = optional_id("actor", actor), reason_of(reason)

        async def share(unit: Session) -> Group:
            agent_key = await _agent_key(unit, agent, group)
            groups = GroupRepository(unit, agent_key)
            before = await _found(groups, group)
            if before.sharing == sharing:
                return before
            await groups.share(before.scope_key, sharing)
            detail = {"action": "share", "group_id": group, "from": before.sharing, "to": sharing}
            await record(unit, agent_key, "group", now, actor=by, reason=why, scope_id=before.scope_key, detail=detail)
            return before.model_copy(update={"sharing": sharing})

        return await self._database.write(share, session, service(agent))

    async def add_member(
        self,
        group_id: Id,
        user_id: Id,
        *,
        agent_id: Id,
        source: MemberSource = "host",
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Member:
        """Adds a member and returns the membership; an existing one is returned unchanged.

        A former member becomes a member again and sees everything that the group knows.
        """
        agent, group, user = id_of("agent_id", agent_id), id_of("group_id", group_id), id_of("user_id", user_id)
        if source not in get_args(MemberSource):
            raise InputError(f"source must be one of {', '.join(get_args(MemberSource))}")
        by, why, now = optional_id("actor", actor), reason_of(reason), self._now()

        async def join(unit: Session) -> Member:
            agent_key = await _agent_key(unit, agent, group)
            await lock_agent(unit, agent_key)
            groups = GroupRepository(unit, agent_key)
            scope_id = (await _found(groups, group)).scope_key
            if (existing := await groups.member(scope_id, user)) is not None:
                return existing
            await groups.join(scope_id, user, source, now)
            detail = {"action": "join", "group_id": group, "user_id": user}
            await record(unit, agent_key, "membership", now, actor=by, reason=why, scope_id=scope_id, detail=detail)
            member = await groups.member(scope_id, user)
            assert member is not None  # they have just joined, and who leaves waits for the agent's lock
            return member

        return await self._database.write(join, session, service(agent))

    async def remove_member(
        self,
        group_id: Id,
        user_id: Id,
        *,
        agent_id: Id,
        keep: bool = False,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Departure:
        """Ends the membership, for all ids of the user: from now on they see nothing of the group.

        What only they contributed is archived, unless `keep`: the group's text goes back to the version before it absorbed
        that and is due to be rewritten, and what was derived from it in wider scopes is erased. What others said too stays
        until these leave as well, or are forgotten. Model work in progress on the group is discarded and repeated. For a
        former member the same is done, which ends the keeping, and `left_at` is when they left. Raises `NotFoundError` for
        somebody who never was a member.
        """
        flags(keep=keep)
        agent, group, user = id_of("agent_id", agent_id), id_of("group_id", group_id), id_of("user_id", user_id)
        now = self._now()
        asked = asked_of(agent, actor, reason, self._settings, now)

        async def leave(unit: Session) -> Departure:
            agent_key = await _agent_key(unit, agent, group)
            await lock_agent(unit, agent_key)
            groups = GroupRepository(unit, agent_key)
            scope_ids = await groups.scope_ids(group)
            if not scope_ids:
                raise NotFoundError("group", group)
            aliases = AliasRepository(unit, agent_key)
            users = await aliases.user_ids(user)
            is_member = await groups.is_member(scope_ids[0], users)
            if not is_member and await groups.last_left(scope_ids[0], users) is None:
                raise NotFoundError(f"member of group {group}:", user)
            waits = str(uuid.uuid4())
            only_theirs = SupportRepository(unit, agent_key).only_of
            archived, choose = corrections.Archived(), partial(only_theirs, () if keep else scope_ids, users)
            ends_keeping = not keep and await groups.end_keeping(scope_ids[0], users)
            if is_member or ends_keeping or await choose():
                archived = await corrections.archive(unit, asked, agent_key, scope_ids, choose, waits)
                if is_member:
                    await groups.leave(scope_ids[0], users, now, keep=keep)
                if not keep:  # for whom they were the only way in
                    people = [await aliases.ids_of_person(user)]
                    archived |= await corrections.leave_what_is_strange(unit, asked, agent_key, people, waits)
                detail = {"action": "leave", "group_id": group, "user_id": user, **archived.told(waits)}
                about = {"actor": asked.actor, "reason": asked.reason, "scope_id": scope_ids[0], "detail": detail}
                await record(unit, agent_key, "membership", now, **about)
            left_at = await groups.last_left(scope_ids[0], users)
            assert left_at is not None  # they have left just now, or had before
            return Departure(
                group_id=group,
                user_id=user,
                user_ids=tuple(users),
                left_at=left_at,
                archived=archived.observations,
                retracted=archived.retracted,
                held=len(archived.withdrawn),
                withdrawn=archived.withdrawn,
                withheld=archived.withheld,
            )

        return await self._database.write(leave, session, service(agent))

    async def members(
        self, group_id: Id, *, agent_id: Id, as_of: datetime | None = None, session: Joinable | None = None
    ) -> Sequence[Member]:
        """The members, in the order of their ids; `as_of`: the members at that moment."""
        agent, group = id_of("agent_id", agent_id), id_of("group_id", group_id)
        past = moment_of("as_of", as_of)
        async with self._database.transaction(session, service(agent)) as unit:
            groups = GroupRepository(unit, await _agent_key(unit, agent, group))
            return await groups.members((await _found(groups, group)).scope_key, past)

    async def list(self, *, agent_id: Id, user_id: Id | None = None, session: Joinable | None = None) -> list[Group]:
        """The agent's groups, in the order of their ids. `user_id`: the groups to which any id of that user belongs."""
        agent, user = id_of("agent_id", agent_id), optional_id("user_id", user_id)
        async with self._database.transaction(session, service(agent)) as unit:
            agent_key = await agent_key_of(unit, agent)
            if agent_key is None:
                return []
            groups = GroupRepository(unit, agent_key)
            return await groups.list() if user is None else [*await groups.of_user(user)]


async def _agent_key(unit: Session, agent: str, group: str) -> int:
    agent_key = await agent_key_of(unit, agent)
    if agent_key is None:
        raise NotFoundError("group", group)
    return agent_key


async def _found(groups: GroupRepository, group: str) -> Group:
    found = await groups.get(group)
    if found is None:
        raise NotFoundError("group", group)
    return found


def _name_of(display_name: str) -> str:
    name = one_line(text_of("display_name", display_name))
    if not name:
        raise InputError("display_name needs some text")
    if len(name) > ID_MAX_CHARACTERS:
        raise TooLargeError("display_name", len(name), ID_MAX_CHARACTERS)
    return name
