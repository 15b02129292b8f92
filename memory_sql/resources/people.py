"""People: their ids, and everything that is stored about them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Collection, Sequence
from functools import partial
from typing import Any

from memory_sql.db import Joinable, Session
from memory_sql.db.locks import Locks, lock_agent, under_locks
from memory_sql.db.principals import service
from memory_sql.db.queries.exports import export_of
from memory_sql.db.queries.naming import agents_knowing, named_elsewhere
from memory_sql.db.queries.reviews import HEARD_BY_ONE
from memory_sql.db.queries.users import list_users
from memory_sql.db.repositories.agents import agent_key_of, ensure_agent
from memory_sql.db.repositories.aliases import AliasRepository
from memory_sql.db.repositories.conversations import ConversationRepository
from memory_sql.db.repositories.events import record
from memory_sql.db.repositories.keys import end_keys_of
from memory_sql.db.repositories.propagations import PropagationRepository
from memory_sql.db.repositories.renames import RenameRepository
from memory_sql.db.repositories.supports import SupportRepository
from memory_sql.domain.arguments import flags, id_of, optional_id, reason_of, within
from memory_sql.domain.exports import ExportLine
from memory_sql.domain.ids import Id, as_written, observation_id, stored_id
from memory_sql.domain.people import RENAME_KINDS, Alias, Merged, Renamed, RenameKind, UserSummary
from memory_sql.domain.results import PersonReceipt, Receipt
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError
from memory_sql.lifecycle import corrections, forgetting, journal
from memory_sql.resources.runtime import Face, asked_of, locked_agent


class People(Face):
    """People: their ids, and everything that is stored about them."""

    async def list(self, *, agent_id: Id, after: Id | None = None, limit: int = 100) -> list[UserSummary]:
        """The agent's users after `after`, in the order of their ids. `limit` is at most 1,000.

        Every id is listed separately; a merged one says for whom it stands. Users who were forgotten aren't listed.
        """
        agent, behind = id_of("agent_id", agent_id), optional_id("after", after)
        most = within("limit", limit, 1000)
        async with self._database.statement(principal=service(agent)) as unit:
            return await list_users(unit, agent, behind, most)

    async def merge(
        self,
        *,
        agent_id: Id,
        user_id: Id,
        into_user_id: Id,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Merged:
        """Makes `user_id` an alias of `into_user_id`, who then sees what both may see, and returns the alias.

        Nothing is moved. It works one way: somebody who asks as `user_id` (for example an anonymous visitor who has logged
        in) sees no more than before. What is said under either id still belongs to that id. Collective observations that
        turn out to have the support of too few people are erased; what a group was told because both had spoken there waits
        in `work.reviews`. Conversations that are being formed are formed anew. Repeating the call changes nothing. Raises
        `InputError` if `user_id` is already an alias of somebody else, or if the aliases would form a circle.
        """
        agent, now = id_of("agent_id", agent_id), self._now()
        user, into = id_of("user_id", user_id), id_of("into_user_id", into_user_id)
        asked = asked_of(agent, actor, reason, self._settings, now)
        if user == into:
            raise InputError("a user can't be merged into themselves")

        async def merge(unit: Session) -> Merged:
            known = await ensure_agent(unit, agent, now)
            agent_key, settings = known.key, self._settings.of_agent(known.settings)
            await lock_agent(unit, agent_key)
            aliases, propagations = AliasRepository(unit, agent_key), PropagationRepository(unit, agent_key)
            alias, is_new = await aliases.open(user, into, now)
            gone, heard = tuple[str, ...](), tuple[str, ...]()
            if is_new:
                await ConversationRepository(unit).refuse_answers(agent_key)  # those who heard it may be one person now
                least = settings.propagation_min_people
                few = partial(propagations.too_few_behind, least, user_ids=await aliases.user_ids(user))
                gone = await corrections.retract_few(unit, asked, agent_key, few)
                detail: dict[str, Any] = {"action": "merge", "user_id": user, "into_user_id": into}
                detail |= {"retracted": list(gone)} if gone else {}
                if not settings.shared_conversations:
                    same = await aliases.ids_of_person(into)
                    keys = await SupportRepository(unit, agent_key).heard_by_one(same)
                    heard = tuple(observation_id(*key) for key in keys)
                    detail |= {HEARD_BY_ONE: keys} if keys else {}
                await record(unit, agent_key, "alias", now, actor=asked.actor, reason=asked.reason, detail=detail)
            return Merged(**alias.model_dump(), retracted=gone, heard_by_one=heard)

        return await self._database.write(merge, session, service(agent))

    async def unmerge(
        self,
        *,
        agent_id: Id,
        user_id: Id,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Alias:
        """Ends the alias of `user_id` and returns it. Raises `NotFoundError` if the user wasn't merged.

        What either of the two has given to a group to which it belonged by the other alone is archived, as when a member
        leaves. Conversations that are being formed are formed anew.
        """
        agent, user, now = id_of("agent_id", agent_id), id_of("user_id", user_id), self._now()
        asked = asked_of(agent, actor, reason, self._settings, now)

        async def unmerge(unit: Session) -> Alias:
            agent_key = await locked_agent(unit, agent, "merged user", user)
            await ConversationRepository(unit).refuse_answers(agent_key)  # who speaks may be no member now
            aliases = AliasRepository(unit, agent_key)
            alias = await aliases.close(user, now)
            if alias is None:
                raise NotFoundError("merged user", user)
            detail: dict[str, Any] = {"action": "unmerge", "user_id": user, "into_user_id": alias.into_user_id}
            people = [await aliases.ids_of_person(one) for one in (alias.user_id, alias.into_user_id)]
            waits = str(uuid.uuid4())
            detail |= (await corrections.leave_what_is_strange(unit, asked, agent_key, people, waits)).told_if_any(
                waits
            )
            await record(unit, agent_key, "alias", now, actor=asked.actor, reason=asked.reason, detail=detail)
            return alias

        return await self._database.write(unmerge, session, service(agent))

    async def aliases(self, *, agent_id: Id, user_id: Id) -> Sequence[Alias]:
        """The current aliases of the user, also indirect ones, oldest first."""
        agent, user = id_of("agent_id", agent_id), id_of("user_id", user_id)
        async with self._database.transaction(principal=service(agent)) as unit:
            agent_key = await agent_key_of(unit, agent)
            return [] if agent_key is None else await AliasRepository(unit, agent_key).into(user)

    async def forget(
        self,
        user_id: Id,
        *,
        about: bool = False,
        dry_run: bool = False,
        wait: bool = True,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> PersonReceipt:
        """Deletes all that any agent has of a user, as `forget(Selection(user_id=…))` does for one, in one transaction.

        One receipt says what went, by agent, and where others still name the user (`naming`), by any name that one of the
        agents knows. Agents that had nothing of the user are in it only if somebody names them there: all texts and
        observations are read for that. `dry_run` only reports what would be deleted. `about` and `wait` as there. Keys that
        stand for the user are revoked. Raises `InputError`.
        """
        flags(about=about, dry_run=dry_run, wait=wait)
        by, why = optional_id("actor", actor), reason_of(reason)
        chosen, now = Selection(user_id=user_id, about=about), self._now()
        assert chosen.user_id is not None  # checked by Selection
        user = chosen.user_id

        async def of(unit: Session, agent: str, names: Collection[str]) -> Receipt:
            asked = asked_of(agent, by, why, self._settings, now)
            if dry_run:
                return await forgetting.preview(unit, asked, chosen, names)
            journal.check(self._settings.forget_journal, unit)
            forgotten = await forgetting.forget(unit, asked, chosen, names=names)
            await journal.keep(self._settings.forget_journal, unit, forgotten.entry, joined=session is not None)
            return forgotten.receipt

        async def forget(unit: Session) -> PersonReceipt:
            knowing = await agents_knowing(unit, user)
            if not knowing and chosen.refused is not None:
                raise chosen.refused
            names = await forgetting.names_everywhere(unit, knowing.values(), user)
            elsewhere = await named_elsewhere(unit, knowing.values(), [user], names)  # before anything is locked
            agents = {agent: await of(unit, agent, names) for agent in knowing}
            for agent, naming in elsewhere.items():
                named = forgetting.only_named(chosen, naming, self._settings, now)
                agents[agent] = named.model_copy(update={"dry_run": dry_run})
            if not dry_run:
                await end_keys_of(unit, user, now)
            return PersonReceipt(id=str(uuid.uuid4()), at=now, user_id=user, dry_run=dry_run, agents=agents)

        receipt = await self._database.write(forget, session, service(None))
        if dry_run or not wait or session is not None:
            return receipt
        await self._runtime.replicated(receipt, wait)
        done = {agent: await self._jobs.rebuilt(agent, one) for agent, one in receipt.agents.items()}
        return receipt.model_copy(update={"agents": done})

    async def rename(
        self,
        *,
        agent_id: Id,
        kind: RenameKind,
        old: Id,
        new: Id,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Renamed:
        """Changes the host's id of a user, group or conversation everywhere, in one transaction.

        Model work in progress on the old id is discarded and repeated with the new one. The event contains the old id only as
        an HMAC. Stop using the old id first: later messages under it would create a new user, group or conversation. Raises
        `InputError` if anything is stored under the new id (users can be merged instead), `NotFoundError` if nothing is
        stored under the old one.
        """
        if kind not in RENAME_KINDS:
            raise InputError(f"kind must be one of {', '.join(RENAME_KINDS)}")
        agent, now = stored_id(agent_id, "agent_id"), self._now()
        before, after = as_written(old, "old"), id_of("new", new)
        by, why = optional_id("actor", actor), reason_of(reason)

        async def rename(unit: Session) -> Renamed:
            agent_key = await locked_agent(unit, agent, kind, before)
            renames = RenameRepository(unit, agent_key, kind, before, after, now)
            if not await renames.is_known(before):
                renames.old = stored_id(old, "old")
            changed = await under_locks(unit, agent_key, partial(_rewritten, renames), keys_change=True)
            detail = {"id": str(uuid.uuid4()), "what": kind, f"{kind}_id": after, "rows": changed}
            await record(unit, agent_key, "rename", now, actor=by, reason=why, detail=renames.told(detail))
            return Renamed(kind=kind, old=renames.old, new=after, rows=changed)

        return await self._database.write(rename, session, service(agent))

    async def export(self, *, agent_id: Id, user_id: Id) -> AsyncGenerator[ExportLine]:
        """Everything that is stored about a person, as of one moment: a header with counts, then line by line.

        Includes what is stored under the user's aliases. A transaction stays open until the last line has been read or the
        generator is closed (`contextlib.aclosing`). Raises `NotFoundError` for an unknown agent.
        """
        agent, user = stored_id(agent_id, "agent_id"), stored_id(user_id, "user_id")
        async with self._database.transaction(principal=service(agent), snapshot=True) as unit:
            async for line in export_of(unit, agent, user, self._now()):
                yield line


async def _rewritten(renames: RenameRepository, locks: Locks) -> dict[str, int]:
    """How many rows were changed, by table. Raises `NotFoundError`, `InputError`."""
    touched = await renames.touched()
    locks.need(touched.scopes, touched.conversations)
    if not await renames.is_known(renames.old):
        raise NotFoundError(renames.kind, renames.old)
    changed = None if await renames.is_known(renames.new) else await renames.rewrite()
    if changed is None:
        hint = "; people.merge() makes one an alias of the other" if renames.kind == "user" else ""
        raise InputError(f"{renames.kind} {renames.new} exists{hint}")
    return changed
