"""Formation anew, as a job: of a conversation's messages that have been formed before."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.queries.ended import ended_in
from memory_sql.db.queries.requests import Requests
from memory_sql.db.repositories.conversations import ConversationState
from memory_sql.db.repositories.observations import Draft
from memory_sql.domain.results import FormResult
from memory_sql.formation import again, formation, requests
from memory_sql.formation.dialogue import Extracted
from memory_sql.formation.formation import ConversationKey
from memory_sql.formation.sieve import drafts_of
from memory_sql.formation.window import Loaded
from memory_sql.jobs.formation import Formation, told_of
from memory_sql.lifecycle import journal, retiring, spoken
from memory_sql.lifecycle.corrections import Asked
from memory_sql.llm import LanguageModel


@dataclass(frozen=True, slots=True)
class Reformed:
    """`superseded`: how many observations gave way."""

    applied: formation.Applied
    superseded: int


@dataclass(frozen=True)
class Reformation:
    """Nothing of it is stored before it is applied: what a crash interrupts is asked again, and stands as it was."""

    llm: LanguageModel

    applies_alone = False
    fail = staticmethod(again.fail)

    def load(
        self,
        session: Session,
        key: ConversationKey,
        settings: Settings,
        now: datetime,
        reason: str,
        so_far: Sequence[FormResult],
    ) -> Awaitable[tuple[ConversationState, Loaded | None]]:
        read = sum(result.messages for result in so_far)  # messages are numbered from 1 without gaps
        return again.load(session, key.agent_id, key.conversation_id, settings, now, read)

    def decide(self, loaded: Loaded, settings: Settings) -> Awaitable[Extracted]:
        return formation.decide(self.llm, loaded, settings)

    def keep(self, loaded: Loaded, decided: Extracted, settings: Settings) -> None:
        return None

    async def apply(
        self, session: Session, loaded: Loaded, decided: Extracted, settings: Settings, now: datetime
    ) -> Reformed:
        await again.lock(session, loaded)
        conversation, messages = loaded.conversation, loaded.window.messages
        requested = Requests(session, conversation.agent_key)
        ended = await ended_in(session, conversation.agent_key, conversation.conversation_id)
        stretch = retiring.Stretch(
            conversation.agent_key, conversation.conversation_id, messages[0].number - 1, messages[-1].number, ended
        )
        drafts, refused = drafts_of(decided.extraction, loaded, settings)
        await retiring.before(session, stretch, loaded.shown)  # all locks, in their order
        nobody = {"agent_id": conversation.agent_id, "user_id": None, "conversation_id": None}
        asked = Asked(nobody, None, None, settings, now)
        gone = await retiring.retire(session, asked, stretch, drafts, loaded.run.run_id)
        news, known, settled = (await retiring.before(session, stretch, ())).news(drafts)
        refused["settled"] += settled
        numbers = [message.number for message in messages]
        waiting = await requested.spoken_in(conversation.conversation_id, numbers)
        applied = await again.store(session, loaded, decided, news, known, refused, settings, now)
        if waiting:
            more = _saying_more(loaded, decided, drafts, settings, numbers)
            here = (conversation.agent_id, conversation.agent_key, conversation.conversation_id, loaded.run.run_id)
            entry = await spoken.ask_anew(session, *here, waiting, more, now)
            if entry is not None:
                await journal.keep(settings.forget_journal, session, entry, joined=False)
        return Reformed(applied, gone)

    def extend(self, session: Session, held: ConversationState, lease: timedelta) -> Awaitable[bool]:
        return Formation(self.llm).extend(session, held, lease)

    def result(self, loaded: Loaded, decided: Extracted, applied: Reformed) -> tuple[FormResult, bool]:
        result, more = Formation(self.llm).result(loaded, decided, applied.applied)
        return result.model_copy(update={"superseded": applied.superseded}), more

    def total(self, held: ConversationState, results: Sequence[FormResult]) -> FormResult:
        return Formation(self.llm).total(held, results)

    def key(self, held: ConversationState) -> ConversationKey:
        return Formation(self.llm).key(held)


def _saying_more(
    loaded: Loaded, decided: Extracted, drafts: Sequence[Draft], settings: Settings, numbers: Sequence[int]
) -> frozenset[int]:
    """The messages that say more than is stored now; also those of which the answer doesn't say that they ask."""
    asked, _ = requests.asked_in(decided.extraction, loaded, settings)
    told = told_of(loaded, drafts)
    for one in asked:
        for number in one.numbers:
            told[number].append(one.what)
    unheard = {*numbers}.difference(*(one.numbers for one in asked))
    return requests.saying_more(asked, told) | unheard
