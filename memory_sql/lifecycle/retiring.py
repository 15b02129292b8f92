"""What a conversation's messages have come to before gives way to what they come to now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from memory_sql.db import Session
from memory_sql.db.queries.formed import Formed, formed_of
from memory_sql.db.repositories.following import FollowingRepository
from memory_sql.db.repositories.observations import Draft, ObservationKey
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.db.repositories.states import StateRepository
from memory_sql.languages.text import normal_form
from memory_sql.lifecycle.corrections import Asked
from memory_sql.lifecycle.corrections.texts import rebuild, rewind


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some messages of a conversation: those after `from_number` up to `to_number`. `ended`: messages without a text."""

    agent_key: int
    conversation_id: str
    from_number: int
    to_number: int
    ended: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Before:
    """What was formed of a stretch. `owners` are the owners of the scopes in which it lies.

    `ended`: messages that can't be formed again; what came of them stays.
    """

    formed: tuple[Formed, ...]
    owners: dict[int, str]
    ended: frozenset[int] = frozenset()

    @property
    def settled(self) -> frozenset[int]:
        """The messages about which a person has had a say: they confirmed or corrected what came of them, or it is held."""
        return frozenset(number for one in self.formed if one.settled for number in one.numbers)

    def going(self, drafts: Collection[Draft] = ()) -> list[ObservationKey]:
        """What gives way: not what the drafts say again in the same words, nor what rests on settled messages alone."""
        again = {(draft.scope.owner, normal_form(draft.content)) for draft in drafts}
        return [
            one.key
            for one in self.formed
            if one.in_use
            and not one.settled
            and self.ended.isdisjoint(one.numbers)
            and not (one.numbers and one.numbers <= self.settled)
            and (self.owners[one.key[0]], normal_form(one.content)) not in again
        ]

    def news(self, drafts: Sequence[Draft]) -> tuple[list[Draft], int, int]:
        """What the drafts add to what stays; how many say what is known already, how many rest on settled messages alone.

        What was overtaken, archived or evicted stays so, whoever says it again of the same messages.
        """
        known = (one for one in self.formed if one.settled or not one.lapsed)
        standing = {(self.owners[one.key[0]], normal_form(one.content)) for one in known}
        taken_from = [{one.number for one in draft.evidence} - draft.borrowed for draft in drafts]
        open_to_say = [draft for draft, numbers in zip(drafts, taken_from, strict=True) if not numbers <= self.settled]
        news = [d for d in open_to_say if (d.scope.owner, normal_form(d.content)) not in standing]
        return news, len(open_to_say) - len(news), len(drafts) - len(open_to_say)


async def before(session: Session, stretch: Stretch, scope_ids: Collection[int]) -> Before:
    """Locks the scopes in which it lies, these, and those in which something follows."""
    s = stretch
    named = (s.agent_key, s.conversation_id, s.from_number, s.to_number)
    touched = {one.key[0] for one in await formed_of(session, *named)} | {*scope_ids}
    await FollowingRepository(session, s.agent_key).lock(touched)
    formed = await formed_of(session, *named)  # again, under the locks
    scopes = await ScopeRepository(session).lock(s.agent_key, scope_ids=sorted(touched)) if touched else []
    return Before(tuple(formed), {scope.scope_id: scope.owner for scope in scopes}, s.ended)


async def retire(session: Session, asked: Asked, stretch: Stretch, drafts: Collection[Draft], run_id: int) -> int:
    """Supersedes what gives way to these drafts, and takes it out of texts; how many. `reinstate` brings each back.

    What a version had superseded for it is active again with that version, and looked at again.
    """
    gone, tainted, touched = 0, set[int](), set[int]()
    while going := (await before(session, stretch, ())).going(drafts):
        tainted |= set(await rewind(session, asked, stretch.agent_key, going, "retract"))
        by_scope = defaultdict[int, list[int]](list)
        for scope_id, seq in going:
            by_scope[scope_id].append(seq)
        for state in await ScopeRepository(session).lock(stretch.agent_key, scope_ids=sorted(by_scope)):
            await ScopeRepository(session).take_lease(state)
            seqs = by_scope[state.scope_id]
            gone += len(await StateRepository(session).retire(state, seqs, asked.now, run_id=run_id))
        touched |= {*by_scope}
    await rebuild(session, asked, stretch.agent_key, tainted, touched)
    return gone
