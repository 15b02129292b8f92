"""What people say about what is known, and who they are."""

from __future__ import annotations

from typing import Any

from memory_sql.domain.observations import Observation
from memory_sql.domain.selection import Selection
from tests.prove.concurrent_life.actor import Actor
from tests.prove.concurrent_life.ledger import TOKEN
from tests.prove.concurrent_life.world import KINDS, NothingToDoError


class Correcting(Actor):
    """Corrections, quarantine, people and groups."""

    async def update(self) -> None:
        """Of what others may have made something: then it goes with what that was made of."""
        agent = self.agent()
        user, old = await self.seen(agent)
        shared = old.scope.kind != "individual"
        token, groups = self.ledger.token(), {old.scope.owner_id or ""} if shared else set[str]()
        tag = old.tags[0] if old.tags else None
        where = old.source.conversation_id  # with which it is forgotten; renamed, maybe, since it was seen
        said = self.ledger.begin(
            token, agent, "update", user, conversation=where, groups=groups, shared=shared, tag=tag
        )
        was_renamed = where is not None and where not in self.world.names[agent, "conversation"]
        said.doubtful = said.doubtful or shared or was_renamed or self.is_somebody_elses(old, user)
        with self.saying([said]):
            await self.memory.observations.update(
                old.id, agent_id=agent, user_id=user, text=f"Release {token} is deployed to staging."
            )
        self.world.superseded.append((agent, user, old.id))

    def is_somebody_elses(self, old: Observation, user: str) -> bool:
        """Who stands for somebody has what is theirs, and reads and corrects it."""
        return old.scope.owner_id != user

    async def supersede(self) -> None:
        agent = self.agent()
        user, old = await self.seen(agent)
        others = [
            o
            for o in await self.memory.observations.list(agent_id=agent, user_id=user, scope_id=old.scope.id)
            if o.created_at > old.created_at
        ]
        if not others:
            raise NothingToDoError
        await self.memory.observations.supersede(old.id, self.random.choice(others).id, agent_id=agent, user_id=user)
        self.world.superseded.append((agent, user, old.id))

    async def reinstate(self) -> None:
        agent, user, old = self.taken(self.world.superseded)
        await self.memory.observations.reinstate(old, agent_id=agent, user_id=user)

    async def resolve(self) -> None:
        """Half of what is over isn't, after all."""
        agent = self.agent()
        user, known = await self.seen(agent)
        mine: dict[str, Any] = {"agent_id": agent, "user_id": user}
        await self.memory.observations.resolve(known.id, self.random.choice(["fulfilled", "expired"]), **mine)
        if self.random.randrange(2):
            await self.memory.observations.resolve(known.id, None, **mine)

    async def confirm(self) -> None:
        """Another's word keeps what somebody has said."""
        agent = self.agent()
        user, known = await self.seen(agent, lambda o: bool(TOKEN.search(o.content)))
        token = TOKEN.findall(known.content)[0]
        said = self.ledger.begin(token, agent, "confirm", user, shared=True)
        said.doubtful = True
        with self.saying([said]):
            await self.memory.observations.confirm(known.id, agent_id=agent, user_id=user)

    async def dispute(self) -> None:
        agent = self.agent()
        user, known = await self.seen(agent)
        await self.memory.observations.dispute(known.id, agent_id=agent, user_id=user)

    async def feedback(self) -> None:
        agent = self.agent()
        user, known = await self.seen(agent)
        value = self.random.choice((-1, -0.5, 0, 1))
        await self.memory.observations.feedback(known.id, value, agent_id=agent, user_id=user)

    async def say_again(self) -> None:
        """What is known, in the same words: it is one more's word for it, or stands there once more."""
        agent = self.agent()
        user, known = await self.seen(
            agent, lambda o: bool(TOKEN.search(o.content)) and o.scope.kind in ("individual", "group")
        )
        shared = known.scope.kind == "group"
        group = known.scope.owner_id if shared else None
        said = self.ledger.begin(
            TOKEN.findall(known.content)[0], agent, "observe", user, groups={group} if group else (), shared=shared
        )
        said.doubtful = True
        with self.saying([said]):
            await self.memory.observe(
                known.content, agent_id=agent, user_id=user, group_id=group, scope=known.scope.name
            )

    async def quarantine(self) -> None:
        agent = self.agent()
        user, known = await self.seen(agent)
        await self.memory.observations.quarantine(known.id, agent_id=agent, user_id=user)
        self.world.quarantined.append((agent, user, known.id))

    async def quarantine_selected(self) -> None:
        agent = self.agent()
        chosen = Selection(tag="blue", user_id=self.name(agent, "user"))
        done = await self.memory.observations.quarantine(chosen, agent_id=agent)
        if not done.observations:
            raise NothingToDoError
        if self.random.randrange(2):
            await self.memory.observations.unquarantine(chosen, agent_id=agent)

    async def unquarantine(self) -> None:
        agent, user, known = self.taken(self.world.quarantined)
        await self.memory.observations.unquarantine(known, agent_id=agent, user_id=user)

    async def mark(self) -> None:
        """What is private is in no wider scope, unless it was said or confirmed there, by whomever."""
        agent = self.agent()
        user, known = await self.seen(agent, lambda o: o.scope.kind == "individual" and bool(TOKEN.search(o.content)))
        token = TOKEN.findall(known.content)[0]
        private = self.random.randrange(3) > 0
        await self.memory.observations.mark(
            known.id, agent_id=agent, user_id=user, private=private, sensitivity=None if private else "private"
        )
        for said in self.ledger.of(agent):
            if private and said.token == token and known.scope.owner_id in said.users and not said.shared:
                said.private = True

    async def merge(self) -> None:
        agent = self.agent()
        one, into = self.name(agent, "user"), self.name(agent, "user")
        self.ledger.aliases.add((agent, one, into))
        await self.memory.people.merge(agent_id=agent, user_id=one, into_user_id=into)
        self.world.merged.append((agent, one))

    async def unmerge(self) -> None:
        if not self.world.merged:
            raise NothingToDoError
        agent, one = self.world.merged.pop()
        await self.memory.people.unmerge(agent_id=agent, user_id=one)

    async def rename(self) -> None:
        agent, kind = self.agent(), self.random.choice(KINDS)
        names = self.world.names[agent, kind]
        n = self.random.randrange(len(names))
        old = names[n]
        self.world.renamed += 1
        new = f"{old.partition('.')[0]}.{self.world.renamed}"
        self.world.ever[agent, kind, n].add(new)
        with self.ledger.renaming(agent, kind, old, new):
            await self.memory.people.rename(agent_id=agent, kind=kind, old=old, new=new)
            names[n] = new  # whoever used it before would have made another of that name

    async def join(self) -> None:
        agent = self.agent()
        await self.memory.groups.add_member(self.name(agent, "group"), self.name(agent, "user"), agent_id=agent)

    async def leave(self) -> None:
        agent = self.agent()
        group, user = self.name(agent, "group"), self.name(agent, "user")
        await self.memory.groups.remove_member(group, user, agent_id=agent, keep=self.random.randrange(4) == 0)
