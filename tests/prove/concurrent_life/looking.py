"""Who asks: analysts, operators, people who want to see what is known of them. What was forgotten is shown to nobody."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, get_args

from memory_sql.config.kinds import Sharing
from memory_sql.errors import NotFoundError
from tests.prove.concurrent_life.actor import Actor
from tests.prove.concurrent_life.world import NothingToDoError

VIEWS = (
    "v_observations",
    "v_events",
    "v_retrieved",
    "v_feedback",
    "v_episodes",
    "v_pending",
    "v_contradictions",
    "v_scope_timeline",
    "v_users",
)


class Looking(Actor):
    """Calls that change nothing that anybody has said."""

    looks: Sequence[str] = ()

    async def look(self) -> None:
        """A few of `LOOKS`, each as often as the others."""
        names = [*self.looks] or self.random.sample(sorted(LOOKS), len(LOOKS))
        agent, gone = self.agent(), self.ledger.gone()
        for name in names[:AT_ONCE]:
            with suppress(NothingToDoError, NotFoundError):  # there may be no such agent yet, or no longer
                self.none_of(gone, str(await LOOKS[name](self, agent)), name)
        self.looks = names[AT_ONCE:]

    async def export_view(self, agent: str) -> object:
        """Rows of the analysts."""
        view, to = self.random.choice(VIEWS), io.BytesIO()
        rows = await self.memory.admin.export(view, to, agent_id=self.random.choice((agent, None)))
        shown = to.getvalue().decode()
        if shown.count("\n") < rows:
            self.world.found(f"an export of {view} has less lines than the {rows} rows that it tells")
        return shown

    async def look_at_scope(self, agent: str) -> object:
        scope = await self.scope(agent)
        return await self.memory.scopes.get(scope, agent_id=agent), await self.memory.prompts.list(
            agent_id=agent, scope_id=scope
        )

    async def look_at_prompt(self, agent: str) -> object:
        known = await self.memory.prompts.list(agent_id=agent)
        if not known:
            raise NothingToDoError
        one = self.random.choice(known)
        return await self.memory.prompts.get(one.scope.id, one.name, agent_id=agent, version=one.version)

    async def look_at_observation(self, agent: str) -> object:
        user, known = await self.seen(agent)
        who: dict[str, Any] = {"agent_id": agent, "user_id": user}
        return [
            await self.memory.observations.get(known.id, **who),
            await self.memory.observations.sources(known.id, **who),
            await self.memory.observations.spread(known.id, **who),
        ]

    async def look_back(self, agent: str) -> object:
        """The texts that were, and what has changed."""
        user = self.name(agent, "user")
        then = self.memory.now() - timedelta(seconds=self.random.randrange(20))
        versions = await self.memory.scopes.history(
            agent_id=agent, user_id=user, as_of=self.random.choice((None, then))
        )
        if not versions:
            raise NothingToDoError
        return versions, await self.memory.scopes.diff(agent_id=agent, user_id=user, scope_id=versions[0].scope.id)

    async def look_at_group(self, agent: str) -> object:
        group = self.name(agent, "group")
        return await self.memory.groups.members(group, agent_id=agent), await self.memory.groups.list(agent_id=agent)

    async def look_at_person(self, agent: str) -> object:
        found = await self.memory.people.list(agent_id=agent)
        return found, await self.memory.people.aliases(agent_id=agent, user_id=self.name(agent, "user"))

    async def look_at_messages(self, agent: str) -> object:
        return await self.memory.conversations.messages(
            agent_id=agent, user_id=self.name(agent, "user"), conversation_id=self.place(agent)[0]
        ), await self.memory.conversations.unformed(agent_id=agent)

    async def look_at_episodes(self, agent: str) -> object:
        """What was talked about; now and then something else begins."""
        who: dict[str, Any] = {"agent_id": agent, "user_id": self.name(agent, "user")}
        if self.random.randrange(3) == 0:
            await self.memory.episodes.seal(agent_id=agent, conversation_id=self.place(agent)[0])
        found = await self.memory.episodes.list(**who)
        if not found:
            raise NothingToDoError
        return found, await self.memory.episodes.get(found[0].id, **who)

    async def number_messages(self, agent: str) -> object:
        texts = [f"{agent} {n}" for n in range(3)]
        numbers = [await self.memory.conversations.message_ids(texts) for _ in range(2)]
        if numbers[0] != numbers[1]:
            self.world.found(f"the ids of messages have changed: {numbers}")
        return numbers

    async def look_at_work(self, agent: str) -> object:
        work = self.memory.work
        return [
            await work.backlog(agent_id=self.random.choice((agent, None))),
            await work.failures(agent_id=agent),
            await work.costs(agent_id=agent),
            await work.waiting(agent_id=agent),
            await work.late(agent_id=agent, hours=0),
            await work.reviews(agent_id=agent),
            await work.embed(agent_id=agent),
        ]

    async def look_at_store(self, agent: str) -> object:
        admin = self.memory.admin
        await self.memory.models.set_price("fake", input_per_million=1, output_per_million=2, currency="EUR")
        return [
            await admin.stats(agent_id=agent),
            await admin.settings(agent_id=agent),
            await admin.agents(),
            await self.memory.models.prices(),
            await self.memory.holds.list(agent_id=agent, released=self.random.randrange(2) == 0),
        ]

    async def use_key(self, agent: str) -> object:
        made = await self.memory.keys.create("life", rights=["read"], agents=[agent])
        if await self.memory.keys.find(made.secret) is None:
            self.world.found(f"key {made.key_id} isn't found")
        await self.memory.keys.revoke(made.key_id)
        if await self.memory.keys.find(made.secret) is not None:
            self.world.found(f"key {made.key_id} is found though it was revoked")
        return await self.memory.keys.list()

    async def look_at_journal(self, _: str) -> object:
        """What is missing may be under way; whether it stays away is seen when the life rests."""
        return await self.memory.admin.journal_status()

    async def make_group(self, agent: str) -> object:
        """Or names one that there is, and says what may go into it and out of it."""
        group = await self.memory.groups.create(self.name(agent, "group"), agent_id=agent)
        await self.memory.groups.rename(group.group_id, f"The {self.random.randrange(99)}", agent_id=agent)
        sharing = self.random.choice(SHARING)
        return await self.memory.groups.share(group.group_id, sharing, agent_id=agent)

    async def open_conversation(self, agent: str) -> object:
        conversation, shared = self.place(agent)[0], self.random.randrange(2) == 0
        await self.memory.conversations.takes_part(agent_id=agent, user_id="nobody", conversation_id=conversation)
        await self.memory.conversations.share(agent_id=agent, conversation_id=conversation, shared=shared)
        return conversation


AT_ONCE = 3
SHARING: tuple[Sharing | None, ...] = (None, None, *get_args(Sharing))
LOOKS: dict[str, Callable[[Looking, str], Awaitable[object]]] = {
    name: getattr(Looking, name)
    for name in (
        "export_view", "look_at_scope", "look_at_prompt", "look_at_observation", "look_back", "look_at_group",
        "look_at_person", "look_at_messages", "look_at_episodes", "number_messages", "look_at_work", "look_at_store",
        "look_at_journal", "make_group", "open_conversation", "use_key",
    )
}  # fmt: skip
