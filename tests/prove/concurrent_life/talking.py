"""What is said, and what is made from it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any, get_args

from memory_sql.config import ScopeSettings
from memory_sql.config.kinds import PromptName
from memory_sql.db.principals import SERVICE
from memory_sql.domain.ids import OwnedKind
from memory_sql.errors import BusyError, LanguageModelError, NotFoundError, StaleError
from memory_sql.jobs import DUE_KINDS
from tests.prove.concurrent_life.actor import Actor, TakenBackError, databases_of
from tests.prove.concurrent_life.doors import Blocking
from tests.prove.concurrent_life.ledger import Utterance
from tests.prove.concurrent_life.liar import FOR_GROUP
from tests.prove.concurrent_life.world import CONVERSATIONS, NAMED, SETTINGS, NothingToDoError


class Talking(Actor):
    """What goes in, the work on it, and its upkeep."""

    def words(self, token: str) -> str:
        form = self.random.choice(
            ("Release {} is deployed to staging.",) * 2 + ("My note {} is kept.", FOR_GROUP + " {}.")
        )
        return form.format(token)

    def says(self, agent: str) -> tuple[list[dict[str, Any]], list[Utterance], dict[str, Any]]:
        conversation, groups = self.place(agent, CONVERSATIONS)
        user = self.name(agent, "user")
        messages, said = list[dict[str, Any]](), list[Utterance]()
        for _ in range(self.random.randrange(1, 4)):
            speaker = self.random.choice((user, user, self.name(agent, "user")))
            token, wording = self.again(agent, speaker)
            number = f"m{self.ledger.now()}"
            messages.append({"role": "user", "content": wording, "id": number, "user_id": speaker})
            said.append(
                self.ledger.begin(
                    token, agent, "message", speaker, conversation=conversation, groups=groups, message=number
                )
            )
        where = {"agent_id": agent, "user_id": user, "conversation_id": conversation, "group_ids": groups}
        return messages, said, where

    def again(self, agent: str, speaker: str) -> tuple[str, str]:
        """Something new, or what somebody else has said, in the same words, which goes where many say it."""
        if self.random.randrange(8) == 0:
            known = [u.token for u in self.ledger.of(agent) if u.via == "message" and speaker not in u.users]
            if known:
                token = self.random.choice(known)
                return token, f"Release {token} is deployed to staging."
        token = self.ledger.token()
        return token, self.words(token)

    async def add(self) -> None:
        """As clients do, it is sent again until it is acknowledged."""
        messages, said, where = self.says(self.agent())
        with self.saying(said):
            await self.again_until_it_returns(partial(self.add_once, messages, where))

    async def add_once(self, messages: list[dict[str, Any]], where: dict[str, Any]) -> None:
        try:
            await self.memory.add(messages, **where, wait=self.random.randrange(6) == 0)
        except (LanguageModelError, StaleError, BusyError) as error:
            if error.added is None:
                raise

    async def observe(self) -> None:
        agent, token = self.agent(), self.ledger.token()
        kinds: tuple[OwnedKind | None, ...] = (None,) * 6 + ("agent", "guideline", "conversation")
        user, kind = self.name(agent, "user"), self.random.choice(kinds)
        in_group = kind is None and self.random.randrange(3) == 0
        groups = [self.name(agent, "group")] if in_group else []
        where = self.place(agent)[0] if kind == "conversation" else None
        tag = self.random.choice((None, "red", "blue"))
        key = self.random.choice((None, None, "home", "work"))
        said = self.ledger.begin(
            token, agent, "observe", user, conversation=where, groups=groups, shared=in_group or kind is not None,
            tag=tag, fact_key=key,
        )  # fmt: skip
        said.doubtful |= kind == "conversation"  # it goes with whoever else was alone in it
        with self.saying([said]):
            await self.memory.observe(
                f"Release {token} is deployed to staging.",
                agent_id=agent,
                user_id=user,
                group_id=groups[0] if groups else None,
                scope_kind=kind,
                conversation_id=where,
                scope=self.random.choice((None, *NAMED)),
                tags=[tag] if tag else (),
                fact_key=key,
            )

    async def create_scope(self) -> None:
        """A kind of memory of its own, with lanes and limits by chance."""
        agent = self.agent()
        kinds: tuple[OwnedKind, ...] = ("individual", "individual", "group", "conversation", "agent")
        kind = self.random.choice(kinds)
        owners = {
            "individual": self.name(agent, "user"),
            "group": self.name(agent, "group"),
            "conversation": self.place(agent)[0],
        }
        owner = owners.get(kind)
        name = self.random.choice(NAMED) if kind != "conversation" else None
        await self.memory.scopes.create(kind, agent_id=agent, owner_id=owner, name=name, settings=self.limits())

    def limits(self) -> ScopeSettings:
        return ScopeSettings(
            lanes=self.random.choice(("absorb", "buffer", "both")),
            buffer_max=self.random.choice((0, 1, 3)),
            buffer_max_items=50,  # as many as a window has messages: none is left out
            consolidation_threshold=self.random.choice((1, 3, None)),
            extraction_mode=self.random.choice(("batch", "isolated")),
        )

    async def set_scope(self) -> None:
        """Of one that has no name only what stops nobody from saying something."""
        agent, chosen = self.agent(), self.limits()
        scope = await self.scope(agent)
        if (await self.memory.scopes.get(scope, agent_id=agent)).ref.name:
            chosen = chosen.model_copy(update={"is_active": self.random.randrange(3) > 0})
        await self.memory.scopes.set(scope, chosen, agent_id=agent)

    async def set_prompt(self) -> None:
        agent = self.agent()
        name = self.random.choice(get_args(PromptName))
        text = self.random.choice((None, "Boats and quays.", "What is shipped."))
        await self.memory.prompts.set(await self.scope(agent), name, text, agent_id=agent)

    async def host(self) -> None:
        """Several calls in a host's transaction, which it commits or takes back."""
        if isinstance(self.memory, Blocking):
            raise NothingToDoError
        agent, commits = self.agent(), self.random.randrange(3) > 0
        messages, said, where = self.says(agent)
        token, user = self.ledger.token(), self.name(agent, "user")
        said.append(self.ledger.begin(token, agent, "observe", user))
        with suppress(TakenBackError), self.saying(said):
            async with self.random.choice(databases_of(self.memory)).transaction(principal=SERVICE) as unit:
                await self.memory.add(messages, **where, session=unit)
                await self.memory.observe(f"Noted {token}.", agent_id=agent, user_id=user, session=unit)
                if not commits:
                    raise TakenBackError

    async def form(self) -> None:
        agent = self.agent()
        await self.memory.conversations.form(agent_id=agent, conversation_id=self.place(agent)[0])

    async def form_again(self) -> None:
        """The model says the same and lies otherwise: what it said before of its own goes, the rest stays as it is."""
        agent = self.agent()
        await self.memory.conversations.form(agent_id=agent, conversation_id=self.place(agent)[0], again=True)

    async def consolidate(self) -> None:
        agent = self.agent()
        await self.memory.scopes.consolidate(agent_id=agent, scope_id=await self.scope(agent))

    async def propagate(self) -> None:
        agent = self.agent()
        await self.memory.scopes.propagate(
            agent_id=agent, scope_id=await self.scope(agent), dry_run=self.random.randrange(5) == 0
        )

    async def run_due(self) -> None:
        await self.memory.run_due(agent_id=self.agent(), limit=1)

    async def claim(self) -> None:
        """As a host's own worker does it. What fails is in the result, and stays due."""
        if isinstance(self.memory, Blocking):
            raise NothingToDoError
        work = await self.memory.work.claim(self.random.choice(DUE_KINDS), agent_id=self.agent())
        if work is None:
            raise NothingToDoError
        await work()
        if self.memory.work.refusal is not None:
            self.world.found("the model is said to refuse its key")

    async def undo(self) -> None:
        agent = self.agent()
        await self.memory.scopes.undo(agent_id=agent, scope_id=await self.scope(agent))

    async def retry(self) -> None:
        await self.decide(discard=False)

    async def discard(self) -> None:
        await self.decide(discard=True)

    async def decide(self, *, discard: bool) -> None:
        dead = list(await self.memory.work.dead())
        if not dead:
            raise NothingToDoError
        one = self.random.choice(dead)
        if not discard:
            await self.memory.work.retry(agent_id=one.agent_id, run_id=one.run_id)
            return
        self.skip(one.agent_id, one.conversation_id)
        await self.memory.work.discard(agent_id=one.agent_id, run_id=one.run_id)
        self.skip(one.agent_id, one.conversation_id)

    async def exclude(self) -> None:
        agent = self.agent()
        conversation, _ = self.place(agent)
        self.skip(agent, conversation)
        try:
            await self.memory.conversations.exclude(agent_id=agent, conversation_id=conversation)
            await asyncio.sleep(self.random.uniform(0, 0.2))
            await self.memory.conversations.exclude(agent_id=agent, conversation_id=conversation, excluded=False)
        finally:
            self.skip(agent, conversation)

    async def configure(self) -> None:
        name = self.random.choice(list(SETTINGS))
        await self.memory.configure(agent_id=self.agent(), **{name: self.random.choice(SETTINGS[name])})

    async def trim(self) -> None:
        await self.memory.work.trim(agent_id=self.agent(), dry_run=self.random.randrange(4) == 0)

    async def maintain(self) -> None:
        await self.memory.work.maintain()
        await self.memory.work.catch_up()
        await self.memory.work.lifecycle(agent_id=self.agent(), days=28)

    async def review(self) -> None:
        agent = self.agent()
        held = await self.memory.work.reviews(agent_id=agent)
        if held:
            one = self.random.choice(held)
            with suppress(NotFoundError):  # decided, or overtaken meanwhile
                await self.memory.work.decide(one.id, agent_id=agent, accept=self.random.randrange(2) == 0)
