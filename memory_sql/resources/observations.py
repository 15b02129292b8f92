"""Single observations: reading, correcting, setting aside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from memory_sql.db import Joinable
from memory_sql.db.principals import service
from memory_sql.db.queries import listed
from memory_sql.db.queries.alive import lifecycle_of
from memory_sql.db.queries.owned import own_of
from memory_sql.db.queries.spread import made_of
from memory_sql.db.repositories.feedback import add_feedback
from memory_sql.db.repositories.messages import MessageRepository
from memory_sql.domain.arguments import (
    content_of,
    expected_version,
    feedback_of,
    flags,
    moment_of,
    observation_before,
    optional_flags,
    optional_id,
    optional_scope,
    policy_of,
    principal_of,
    reason_of,
    resolution_of,
    sensitivity_of,
    tags_of,
    within,
)
from memory_sql.domain.ids import Id, parse_observation_id
from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.observations import (
    Marked,
    Observation,
    Policy,
    Resolution,
    Sensitivity,
    SetAside,
    Verification,
    storable_metadata,
)
from memory_sql.domain.selection import Selection, observations_only, selection_of
from memory_sql.errors import InputError, NotFoundError
from memory_sql.lifecycle import corrections
from memory_sql.resources.runtime import Face, asked_of


class Observations(Face):
    """Single observations: reading, correcting, setting aside.

    The observations of a conversation's own scope can only be seen and changed with its `conversation_id`.
    """

    async def get(
        self,
        observation_id: str,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        own: bool = False,
        explain: bool = False,
        session: Joinable | None = None,
    ) -> Observation:
        """One observation. Raises `NotFoundError`, also if it exists but this user may not see it.

        `own`: only if it is the user's own, in their scope, or they alone have said it. Ask this before changing
        anything for somebody who may only change what is theirs, as a language model is. `explain`: with how alive it is
        (`lifecycle`).
        """
        flags(own=own, explain=explain)
        key = parse_observation_id(observation_id)
        principal = principal_of(agent_id, user_id, conversation_id)
        async with self._database.reading(session, None if session is None else principal) as reader:
            found = await listed.one(reader, principal, *key)
        if found is not None and own and not await self._is_own(principal, key, session):
            found = None
        if found is None:
            raise NotFoundError("observation", observation_id)
        return await self._explained(found, principal, key, session) if explain else found

    async def _explained(
        self, found: Observation, principal: Mapping[str, Any], key: tuple[int, int], session: Joinable | None
    ) -> Observation:
        agent = principal["agent_id"]
        async with self._database.statement(session, service(agent)) as unit:
            return found.model_copy(update={"lifecycle": await lifecycle_of(unit, agent, key, self._now())})

    async def _is_own(self, principal: Mapping[str, Any], key: tuple[int, int], session: Joinable | None) -> bool:
        whose = service(principal["agent_id"])
        async with self._database.statement(session, whose) as unit:
            return bool(await own_of(unit, principal["agent_id"], principal["user_id"], [key]))

    async def list(
        self,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        scope_id: str | None = None,
        limit: int = 50,
        before: Observation | str | None = None,
        as_of: datetime | None = None,
        session: Joinable | None = None,
    ) -> list[Observation]:
        """The observations that the user may see, newest first.

        `before` is the last one of the previous page, or its `position`, which works after that one was forgotten.
        `as_of`: the observations that were active at that moment of recorded time, with their status then.
        """
        past = moment_of("as_of", as_of)
        after = observation_before(before)
        principal, most = principal_of(agent_id, user_id, conversation_id), within("limit", limit, 1000)
        scope = optional_scope(scope_id)
        async with self._database.reading(session, None if session is None and past is None else principal) as reader:
            if past is None:
                return await listed.page(reader, principal, scope, most, after)
            return await listed.past_page(reader, principal, scope, most, after, past)

    async def sources(
        self,
        observation_id: str,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        limit: int = 50,
        session: Joinable | None = None,
    ) -> tuple[RetainedMessage, ...]:
        """The messages that support an observation and that this user may see, oldest first.

        If there are more than `limit`, the newest. For a propagated observation: the messages of its sources in scopes that
        the user may see, so their own, not another member's. Leaves out what `conversations.messages` leaves out. Raises
        `NotFoundError`, also if the observation exists but this user may not see it.
        """
        found = await self.get(
            observation_id, agent_id=agent_id, user_id=user_id, conversation_id=conversation_id, session=session
        )
        principal, most = principal_of(agent_id, user_id, conversation_id), within("limit", limit, 1000)
        async with self._database.statement(session, None if session is None else principal) as unit:
            behind = await MessageRepository(unit, self._settings.message_retention_days, self._now()).behind(
                principal, *parse_observation_id(found.id), most
            )
        return tuple(reversed(behind))

    async def spread(
        self,
        observation_id: str,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        limit: int = 50,
        session: Joinable | None = None,
    ) -> tuple[Observation, ...]:
        """Where it spread: the observations of wider scopes that were made of it, directly first, then of these.

        Only what this user may see, and not what was made of something that they don't. At most `limit`. Raises
        `NotFoundError`, also if the observation exists but this user may not see it.
        """
        found = await self.get(
            observation_id, agent_id=agent_id, user_id=user_id, conversation_id=conversation_id, session=session
        )
        principal, most = principal_of(agent_id, user_id, conversation_id), within("limit", limit, 1000)
        async with self._database.statement(session, service(principal["agent_id"])) as unit:
            return tuple(await made_of(unit, principal, *parse_observation_id(found.id), most))

    async def update(
        self,
        observation_id: str,
        *,
        agent_id: Id,
        user_id: Id,
        text: str,
        conversation_id: Id | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        if_version: int | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Observation:
        """Supersedes the observation with a new one, supported by `user_id`, and returns the new one.

        The new one inherits tags and metadata; the old one stays in history. `actor` is who did it, if not the user.
        `if_version`: only if the observation still has that `version`. Raises `VersionError` if it hasn't, or isn't active;
        `InputError`; `NotFoundError`, also if this user may not see it.
        """
        asked = self._asked(agent_id, user_id, conversation_id, actor, reason, if_version)
        content = content_of(text, self._settings.observation_max_characters)
        given = None if tags is None else tags_of(tags)
        extra = None if metadata is None else storable_metadata(metadata, self._settings.metadata_max_characters)
        wanted = asked, observation_id, content, given, extra, if_version
        if session is None:
            alone = await self._database.write(lambda unit: corrections.update_alone(unit, *wanted), direct=True)
            if alone is not None:
                return alone
        return await self._database.write(
            lambda unit: corrections.update(unit, *wanted),
            session,
            asked.service,
            locks=True,
        )

    async def supersede(
        self,
        old_id: str,
        new_id: str,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        if_version: int | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Observation:
        """Supersedes the old observation with an existing one and returns the old one. Raises the errors of `update`.

        The superseding one must be newer and of the same scope.
        """
        asked = self._asked(agent_id, user_id, conversation_id, actor, reason, if_version)
        return await self._database.write(
            lambda unit: corrections.supersede(unit, asked, old_id, new_id, if_version),
            session,
            asked.service,
            locks=True,
        )

    async def reinstate(
        self,
        observation_id: str,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        if_version: int | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Observation:
        """Makes a superseded observation active again, beside the one that superseded it, and returns it.

        In a buffer that is full of newer ones it is evicted at once, and returned so. Raises `InputError` if it isn't
        superseded, only follows its source in that, or an active one says the same; also the errors of `update`.
        """
        asked = self._asked(agent_id, user_id, conversation_id, actor, reason, if_version)
        return await self._database.write(
            lambda unit: corrections.reinstate(unit, asked, observation_id, if_version),
            session,
            asked.service,
            locks=True,
        )

    async def confirm(
        self,
        observation_id: str,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        if_version: int | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Observation:
        """Marks the observation as `confirmed` by `user_id` and returns it. Raises the errors of `update`."""
        asked = self._asked(agent_id, user_id, conversation_id, actor, reason, if_version)
        return await self._verify(observation_id, asked, "confirmed", if_version, session)

    async def dispute(
        self,
        observation_id: str,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        if_version: int | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Observation:
        """Marks the observation as `disputed` and returns it.

        The context shows that it is disputed. Saying it again adds a new observation. Raises the errors of `update`.
        """
        asked = self._asked(agent_id, user_id, conversation_id, actor, reason, if_version)
        return await self._verify(observation_id, asked, "disputed", if_version, session)

    async def resolve(
        self,
        observation_id: str,
        resolved: Resolution | None,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        if_version: int | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Observation:
        """Says that what the observation plans or promises is over, `fulfilled` or `expired`, and returns it, archived.

        Contexts no longer show it by themselves; a search finds it as past. If `commitment_days` is set, it is evicted so
        many later. None takes that back: it is active again, and its day (`until`) no longer ends it. Raises `InputError`
        if it isn't resolved, or an active observation says the same; also the errors of `update`.
        """
        asked = self._asked(agent_id, user_id, conversation_id, actor, reason, if_version)
        end = resolution_of(resolved)
        return await self._database.write(
            lambda unit: corrections.resolve(unit, asked, observation_id, end, if_version),
            session,
            asked.service,
            locks=True,
        )

    async def _verify(
        self,
        observation_id: str,
        asked: corrections.Asked,
        verification: Verification,
        if_version: int | None,
        session: Joinable | None,
    ) -> Observation:
        return await self._database.write(
            lambda unit: corrections.verify(unit, asked, observation_id, verification, if_version),
            session,
            asked.service,
            locks=True,
        )

    async def feedback(
        self,
        observation_id: str,
        value: float,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        session: Joinable | None = None,
    ) -> None:
        """Adds what somebody thinks of the observation to the sum of the day: from -1 (of no use) to 1 (useful).

        Who said it isn't stored; the days are kept for `count_days`. Whether it is true is said by `confirm` and `dispute`.
        Raises `NotFoundError`, also if it exists but this user may not see it, and `InputError`.
        """
        given, key = feedback_of(value), parse_observation_id(observation_id)
        principal, day = principal_of(agent_id, user_id, conversation_id), self._now().astimezone(UTC).date()
        there = await self._database.write(
            lambda unit: add_feedback(unit, principal, key, given, day), session, service(principal["agent_id"])
        )
        if not there:
            raise NotFoundError("observation", observation_id)

    async def mark(
        self,
        observation_id: str,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        private: bool | None = None,
        sensitivity: Sensitivity | None = None,
        policy: Policy | None = None,
        if_version: int | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Marked:
        """Changes how private the observation is, and its policy, and returns it; None leaves a value unchanged.

        `private`: it never leaves its scope. Observations that it has superseded are marked too, and so are copies: the same
        observation from the same message in another scope of its owner. If it becomes more private, everything derived from
        it is erased, and the texts that contained that go back to an earlier version until they are rewritten. What a legal
        hold covers of it is withdrawn until the hold ends. `policy` `protected`: no rule archives it or lets it expire,
        whatever its age and use; that is of this observation, and of what `update` puts in its place. Raises the errors of
        `update`.
        """
        asked = self._asked(agent_id, user_id, conversation_id, actor, reason, if_version)
        optional_flags(private=private)
        level, kept = sensitivity_of(sensitivity), policy_of(policy)
        return await self._database.write(
            lambda unit: corrections.mark(unit, asked, observation_id, private, level, kept, if_version),
            session,
            asked.service,
            locks=True,
        )

    async def quarantine(
        self,
        selection: Selection | str,
        *,
        agent_id: Id,
        user_id: Id | None = None,
        conversation_id: Id | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        request: str | None = None,
        session: Joinable | None = None,
    ) -> SetAside:
        """Sets aside one observation that `user_id` may see, or, without `user_id`, all that a selection names.

        `Selection(user_id=…, observation_id=…)` is one observation that is this user's or that they alone have said, and they
        ask; with `request`, in which words they asked to forget it: that waits as a review of kind `request`, and is
        forgotten when it is accepted, or by `work.maintain` after `spoken_erase_days`.

        Quarantined observations are neither shown nor absorbed. Duplicates in the same scope are quarantined too, and so is
        what was derived from them alone; what was merged from them and others is erased, and judged again without them.
        Texts go back to the version before they absorbed any of it. Saying it again adds no new observation. Raises
        `NotFoundError`, `InputError`.
        """
        why = reason if request is None else _words_of(request, reason)
        asked, chosen = self._chosen(selection, agent_id, user_id, conversation_id, actor, why)
        if request is not None and (chosen.user_id is None or chosen.observation_id is None):
            raise InputError("request= goes with Selection(user_id=…, observation_id=…)")
        return await self._database.write(
            lambda unit: corrections.quarantine(unit, asked, chosen, is_request=request is not None),
            session,
            asked.service,
        )

    async def unquarantine(
        self,
        selection: Selection | str,
        *,
        agent_id: Id,
        user_id: Id | None = None,
        conversation_id: Id | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> SetAside:
        """Ends a quarantine: the observations, and what was derived from them, have their earlier status and are pending.

        Takes the same selection as `quarantine`. Raises `InputError` if an observation isn't quarantined, is so only because
        its source is, or if an active one says the same by now; and if a user asks to end a quarantine of a selection.
        """
        asked, chosen = self._chosen(selection, agent_id, user_id, conversation_id, actor, reason)
        return await self._database.write(lambda unit: corrections.release(unit, asked, chosen), session, asked.service)

    def _asked(
        self,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None,
        actor: Id | None,
        reason: str | None,
        if_version: int | None = None,
    ) -> corrections.Asked:
        """Raises `InputError` also for an `if_version` that can't be one."""
        expected_version(if_version)
        who, why = optional_id("actor", actor), reason_of(reason)
        return corrections.Asked(
            principal_of(agent_id, user_id, conversation_id), who, why, self._settings, self._now()
        )

    def _chosen(
        self,
        selection: Selection | str,
        agent_id: Id,
        user_id: Id | None,
        conversation_id: Id | None,
        actor: Id | None,
        reason: str | None,
    ) -> tuple[corrections.Asked, Selection]:
        """One observation needs a user who may see it; a selection has none."""
        if isinstance(selection, str):
            if user_id is None:
                raise InputError("pass user_id=, the user who asks for the observation")
            return self._asked(agent_id, user_id, conversation_id, actor, reason), Selection(observation_id=selection)
        if user_id is not None or conversation_id is not None:
            raise InputError("user_id= and conversation_id= go with one observation; a selection names its own")
        chosen = selection_of(selection)
        if chosen.is_own_observation and chosen.user_id is not None:
            return self._asked(agent_id, chosen.user_id, None, actor, reason), chosen
        return asked_of(agent_id, actor, reason, self._settings, self._now()), observations_only(chosen)


def _words_of(request: str, reason: str | None) -> str:
    words = reason_of(request)
    if words is None or reason is not None:
        raise InputError("request: pass the words in which the user asked, and no reason=")
    return words
