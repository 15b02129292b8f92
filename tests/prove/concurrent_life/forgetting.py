"""Forgetting in all forms, and holds."""

from __future__ import annotations

from typing import Any

from memory_sql.domain.selection import Selection
from memory_sql.errors import NotFoundError
from tests.prove.concurrent_life.actor import Actor
from tests.prove.concurrent_life.ledger import TOKEN, Choice, Hold, Utterance
from tests.prove.concurrent_life.world import NothingToDoError


class Forgetting(Actor):
    """Each forgetting with what it certainly takes, and what it may touch."""

    async def hold(self) -> None:
        agent = self.agent()
        kind = self.random.choice(("user", "conversation", "group", "observation"))
        if kind == "observation":
            _, known = await self.seen(agent)
            held = await self.memory.holds.place(agent_id=agent, observation_id=known.id)
            name, kept = known.id, list[Utterance]()
        else:
            name = self.name(agent, kind)
            place: Any = self.memory.holds.place
            held = await place(agent_id=agent, **{f"{kind}_id": name})
            kept = self.kept(agent, kind, name)
        self.world.holds.append(Hold(held.hold_id, agent, f"{kind} {name}", kept))

    def kept(self, agent: str, kind: str, name: str) -> list[Utterance]:
        """Messages that were certainly there when the hold was granted, and that it certainly covers."""
        return [
            said
            for said in self.ledger.of(agent)
            if said.via == "message" and said.acked and not said.gone and not said.doubtful
            if kind in ("user", "conversation") and said.ids[kind] == {name}  # type: ignore[index]
        ]

    async def release(self) -> None:
        if not self.world.holds:
            raise NothingToDoError
        await self.give_up(self.world.holds.pop(self.random.randrange(len(self.world.holds))))

    async def give_up(self, hold: Hold) -> None:
        """What it covered is there to the end. The same hold may have been granted twice: by then it may be open no more."""
        if not any(other.number == hold.number and other.agent == hold.agent for other in self.world.holds):
            wanted = [said.message for said in hold.kept]
            rows = await self.sql(
                "SELECT message_id FROM memory.messages JOIN memory.agents USING (agent_key)"
                " WHERE agent_id = :agent AND message_id = ANY (:wanted) AND content IS NOT NULL",
                agent=hold.agent,
                wanted=wanted,
            )
            there = {row[0] for row in rows}
            lost = [said for said in hold.kept if said.message not in there]
            if lost:
                self.world.found(f"hold {hold.number} of {hold.agent} of {hold.of} did not keep {lost[:5]}")
            try:
                await self.memory.holds.release(hold.number, agent_id=hold.agent)
            except NotFoundError:
                self.world.found(f"hold {hold.number} of {hold.agent} was open, and has vanished")

    async def forget(self, agent: str, selection: Selection, takes: Choice, touches: Choice) -> None:
        """Again until it has returned, as whoever has to see to it does."""
        with self.ledger.forgetting(agent, takes, touches) as asked:
            wait = self.random.randrange(2) == 0
            receipt = await self.again_until_it_returns(
                lambda: self.memory.forget(selection, agent_id=agent, wait=wait)
            )
        if any(receipt.held.values()):
            self.world.owed.append((agent, selection, takes, touches))
            return
        gone = {said.token for said in self.ledger.forgotten(asked)} & self.ledger.gone()
        self.world.did["words forgotten"] += len(gone)
        if gone and self.random.randrange(3) == 0:
            await self.read_without(agent, gone)

    async def forget_user(self) -> None:
        agent = self.agent()
        user = self.name(agent, "user")
        await self.forget(  # who stands for them may be more by the time that it is done, or asked again
            agent,
            Selection(user_id=user),
            lambda said: said.users == {user},
            lambda said: bool(said.users & self.ledger.standing_for(agent, user)),
        )

    async def forget_conversation(self) -> None:
        agent = self.agent()
        name, _ = self.place(agent)
        await self.forget(
            agent,
            Selection(conversation_id=name),
            lambda said: said.conversations == {name},
            lambda said: name in said.conversations,
        )

    async def forget_group(self) -> None:
        """With the messages that what it knew was made of, but not with what others knew of it."""
        agent = self.agent()
        name = self.name(agent, "group")
        await self.forget(
            agent,
            Selection(group_id=name),
            lambda said: said.shared and said.groups == {name} and said.via in ("observe", "update"),
            lambda said: name in said.groups,
        )

    async def forget_message(self) -> None:
        agent = self.agent()
        known = [said for said in self.ledger.of(agent) if said.via == "message" and said.acked and not said.gone]
        if not known:
            raise NothingToDoError
        chosen = self.random.choice(known)
        name = max(chosen.conversations)
        await self.forget(
            agent,
            Selection(message_id=chosen.message, conversation_id=name),
            lambda said: said is chosen and said.conversations == {name},  # not: it has another name alone since then
            lambda said: said.token == chosen.token,
        )

    async def forget_observation(self) -> None:
        agent = self.agent()
        _, known = await self.seen(agent, lambda o: bool(TOKEN.search(o.content)))
        token = TOKEN.findall(known.content)[0]
        await self.forget(
            agent,
            Selection(observation_id=known.id),
            lambda said: said.token == token and known.source.kind in ("formation", "observe") and self.is_single(said),
            lambda said: said.token == token,
        )

    async def forget_query(self) -> None:
        agent = self.agent()
        known = [said.token for said in self.ledger.of(agent) if said.acked and not said.gone]
        if not known:
            raise NothingToDoError
        token = self.random.choice(known)
        await self.forget(
            agent,
            Selection(query=f'"{token}"'),
            lambda said: said.token == token and said.via == "observe" and self.is_single(said),
            lambda said: said.token == token,
        )

    async def forget_tag(self) -> None:
        agent = self.agent()
        await self.forget(
            agent,
            Selection(tag="red"),
            lambda said: said.tag == "red" and self.is_single(said),
            lambda said: said.tag == "red",
        )

    async def forget_fact(self) -> None:
        agent, user = self.agent(), None
        user = self.name(agent, "user")
        await self.forget(
            agent,
            Selection(fact_key="home", user_id=user),
            lambda said: said.fact_key == "home" and said.users == {user} and not said.shared and self.is_single(said),
            lambda said: said.fact_key == "home" or said.via == "update",
        )

    async def forget_source(self) -> None:
        agent = self.agent()
        user = self.name(agent, "user")
        await self.forget(
            agent,
            Selection(source="observe", user_id=user),
            lambda said: said.via == "observe" and said.users == {user} and not said.shared and self.is_single(said),
            lambda said: said.via in ("observe", "update"),
        )

    async def forget_run(self) -> None:
        """With the messages behind it, and so with what else is made of them: a run after another may hold a lie alone."""
        agent = self.agent()
        rows = await self.sql(
            "SELECT o.run_id, array_agg(DISTINCT o.content), array_agg(DISTINCT m.content)"
            " FROM memory.observations o JOIN memory.agents USING (agent_key)"
            " LEFT JOIN memory.evidence e USING (agent_key, scope_id, seq)"
            " LEFT JOIN memory.messages m ON (m.agent_key, m.conversation_id, m.number)"
            " = (e.agent_key, e.conversation_id, e.number)"
            " WHERE agent_id = :agent AND o.run_id IS NOT NULL AND source_kind = 'formation'"
            " GROUP BY o.run_id ORDER BY o.run_id DESC LIMIT 20",
            agent=agent,
        )
        if not rows:
            raise NothingToDoError
        run, contents, messages = self.random.choice(rows)
        told = {token for content in contents for token in TOKEN.findall(content)}
        said_there = told | {token for content in messages for token in TOKEN.findall(content or "")}
        await self.forget(
            agent,
            Selection(run_id=run),
            lambda said: said.token in told and self.is_single(said),
            lambda said: said.token in said_there,
        )

    async def forget_everything(self) -> None:
        await self.forget("bob", Selection(everything=True), lambda _: True, lambda _: True)

    async def forget_dry(self) -> None:
        agent = self.agent()
        selection = Selection(user_id=self.name(agent, "user"))
        await self.memory.forget(selection, agent_id=agent, dry_run=True)
